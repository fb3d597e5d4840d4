"""Only the last start of a run writes in its folder: of processes that are stopped and go on later, too."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.messages import line_with, says
from support.waiting import wait_until

from gsplit.atomic_folder import InUse
from gsplit.files import append_to_file
from gsplit.runs import folder, starts
from gsplit.runs.folder import held_run
from gsplit.runs.starts import Starter, last, started, writing

FIRST = """
import os, signal, sys
from pathlib import Path
from gsplit.files import append_to_file
from gsplit.runs.folder import held_run
from gsplit.runs.starts import Starter, writing

run, where = Path(sys.argv[1]), sys.argv[2]
with held_run(run, starter=Starter(jobs={"torchrun": "a"})):
    append_to_file(run / "config.json", b'{"fan_out": 1}')
    append_to_file(run / "metrics.jsonl", b"first ")
    if where == "between":
        os.kill(os.getpid(), signal.SIGSTOP)
    with writing(run):
        if where == "within":
            os.kill(os.getpid(), signal.SIGSTOP)
        append_to_file(run / "metrics.jsonl", b"first again ")
"""
"""A start of a run that is stopped, before it writes or while it does."""
AGAIN = Starter(jobs={"torchrun": "a"}, again=True)


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Starts a process that holds a run and is stopped; the run, and the process."""
    monkeypatch.setattr(folder, "BEYOND_SILENCE_S", 0.0)
    monkeypatch.setattr(starts, "PATIENCE_S", 0.2)
    begun = []

    def begin(where):
        process = subprocess.Popen(
            [sys.executable, "-c", FIRST, str(tmp_path / "run"), where], stderr=subprocess.PIPE, text=True
        )
        begun.append(process)
        state = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: state.read_text().split()[2] == "T", 20.0, state.read_text)
        return tmp_path / "run", process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def test_a_start_that_was_stopped_writes_nothing_more(stopped):
    run, first = stopped("between")
    with held_run(run, resumes=True, starter=AGAIN):
        with writing(run):
            append_to_file(run / "metrics.jsonl", b"second ")
        temporary = run / ".metrics.jsonl.1"
        temporary.touch()
        first.send_signal(signal.SIGCONT)
        _, said = first.communicate(timeout=20)
        assert temporary.exists()  # of the second start, which the first does not tidy up
        with pytest.raises(InUse, match=line_with("in use")), held_run(run, resumes=True):
            pass
    assert first.returncode == 1
    says(said.splitlines()[-1], "another process has gone on with, start 2, start 1")
    assert (run / "metrics.jsonl").read_text() == "first second "


def test_nobody_starts_in_the_middle_of_a_write(stopped):
    run, first = stopped("within")
    line = line_with(f"pid {first.pid}, in the middle of a write")
    with pytest.raises(InUse, match=line), held_run(run, resumes=True, starter=AGAIN):
        pass
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=20)
    assert first.returncode == 0
    assert (run / "metrics.jsonl").read_text() == "first first again "


def test_a_run_that_lives_stays_with_its_start(stopped):
    run, _ = stopped("between")
    for starter in (None, Starter(jobs={"torchrun": "a"}), Starter(jobs={"Slurm": "a"}, again=True)):
        with pytest.raises(InUse, match=line_with("in use")), held_run(run, resumes=True, starter=starter):
            pass
        assert last(run)["number"] == 1


def test_starts_are_numbered_where_somebody_may_start_again(tmp_path):
    with started(tmp_path, None):
        assert not (tmp_path / "start.json").exists()
    for number, starter in enumerate([AGAIN, AGAIN, None], 1):
        with started(tmp_path, starter):
            assert last(tmp_path)["number"] == number
    (tmp_path / "start.json").write_text(json.dumps([1]))
    assert last(tmp_path) == {}


@pytest.mark.parametrize(
    ("before", "now", "made"),
    [
        ({"torchrun": "a"}, {"torchrun": "a", "store": "x"}, True),
        ({"torchrun": "a", "store": "x"}, {"torchrun": "b", "store": "x"}, True),
        ({"torchrun": "a"}, {"torchrun": "b"}, False),
        ({"store": "x"}, {"Slurm": "7"}, None),
        ({}, {"Slurm": "7"}, False),
        ({"Slurm": "7"}, {}, None),
    ],
)
def test_a_job_knows_the_runs_that_it_made(tmp_path, before, now, made):
    with started(tmp_path, Starter(jobs=before)):
        pass
    assert Starter(jobs=now).made(tmp_path) is made
