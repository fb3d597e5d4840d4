"""Files and folders are whole or not there, also where writing fails or a process is killed half-way."""

from __future__ import annotations

import errno
import logging
import os
import resource
import signal
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import pytest
import torch

from gsplit import aside, files
from gsplit.errors import InputError
from gsplit.files import LOCK, append_to_file, locked, replace_file, replacing, sweep_files
from gsplit.predict.output import check_out
from gsplit.train import checkpoint
from gsplit.train.metrics import RunLog
from gsplit.train.run_folder import new_run, put_run_right, resumed_run


@contextmanager
def largest_file(num_bytes):
    """As on a disk that takes no more: a write ends short of it, and then fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_cannot_be_written_is_what_it_was(tmp_path):
    replace_file(tmp_path / "file", b"before")
    with largest_file(1000), pytest.raises(InputError, match=r"cannot write .*file: File too large"):
        replace_file(tmp_path / "file", bytes(5000))
    assert (tmp_path / "file").read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["file"]


def test_what_fails_while_a_file_is_written_leaves_nothing(tmp_path):
    def write_half():
        with replacing(tmp_path / "file") as temporary:
            temporary.write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert os.listdir(tmp_path) == []


def test_lines_that_cannot_be_written_are_not_there_by_half(tmp_path):
    append_to_file(tmp_path / "lines", b"a" * 900)
    with largest_file(1000), pytest.raises(InputError, match=r"cannot write .*lines: File too large"):
        append_to_file(tmp_path / "lines", b"b" * 900)
    assert (tmp_path / "lines").read_bytes() == b"a" * 900


def test_a_log_that_cannot_be_written_keeps_its_last_whole_line(tmp_path):
    log = RunLog(tmp_path)
    log.append([{"kind": "epoch", "epoch": 1}])
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with largest_file(len(before) + 5), pytest.raises(InputError, match=r"metrics\.jsonl"):
        log.append([{"kind": "epoch", "epoch": 2}])
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def save(run, size, epoch):
    about = {"epoch": epoch, "batch": 0, "ahead": [], "trainers": 2, "store_checksum": "", "layout_checksum": "",
             "signature": {}}  # fmt: skip
    checkpoint.save_state(run, "checkpoint", {"w": torch.arange(float(size))}, about)


@pytest.mark.parametrize("fails", ["weights", "description"])
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path, fails, monkeypatch):
    save(tmp_path, 100, epoch=1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    if fails == "weights":
        with largest_file(10_000), pytest.raises(InputError, match=r"cannot write .*\.pt: File too large"):
            save(tmp_path, 100_000, epoch=2)
    else:
        write = files.replace_file
        monkeypatch.setattr(checkpoint, "replace_file", lambda path, content: write(path, content)
                            if path.suffix == ".pt" else fail())  # fmt: skip
        with pytest.raises(InputError, match="no space"):
            save(tmp_path, 100_000, epoch=2)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert "after mini-batch 0 of epoch 2, is whole" in checkpoint.whole(tmp_path)


def fail():
    raise InputError("no space")


DEAD = 2**22 + 1  # larger than any pid


def test_temporary_files_of_the_dead_are_swept_and_those_of_the_living_stay(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    others = {f".other.json.{DEAD}", f".summary.json.{os.getppid()}", LOCK, ".summary.json"}
    for name in (f".summary.json.{DEAD}", *others):
        (tmp_path / name).touch()
    sweep_files(tmp_path, "summary.json")
    assert set(os.listdir(tmp_path)) == others
    assert caplog.text.count("which a process that was killed had left") == 1


def test_a_run_that_goes_on_sweeps_its_folder(tmp_path):
    for name in (f".summary.json.{DEAD}", f".config.json.{os.getppid()}", "config.json"):
        (tmp_path / name).touch()
    with resumed_run(tmp_path):
        assert sorted(os.listdir(tmp_path)) == [LOCK, "config.json"]


KILLED = """
import os, signal, sys
from pathlib import Path
{work}
"""


def killed(work, *words):
    """Run a script until it kills itself."""
    script = KILLED.format(work=textwrap.dedent(work))
    done = subprocess.run([sys.executable, "-c", script, *map(str, words)], check=False)
    assert done.returncode == -signal.SIGKILL


def a_run(folder, *files):
    folder.mkdir()
    for name in ("config.json", *files):
        (folder / name).write_text(name)
    return folder


REPLACED = """
from gsplit.train.run_folder import new_run
with new_run(Path(sys.argv[1]), overwrite=True) as run:
    for name in sys.argv[2:]:
        (run / name).write_text("new")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("saved", "comes_back"), [((), True), (("config.json",), True), (("config.json", "metrics.jsonl"), False)]
)
def test_a_run_whose_successor_was_killed_comes_back_unless_that_had_saved_something(
    tmp_path, caplog, saved, comes_back
):
    caplog.set_level(logging.INFO)
    run = a_run(tmp_path / "run", "summary.json")
    killed(REPLACED, run, *saved)
    assert len(os.listdir(tmp_path)) == 2  # the run, and what it was before
    assert not (run / "summary.json").exists()
    put_run_right(run)
    assert os.listdir(tmp_path) == ["run"]
    assert (run / "summary.json").exists() == comes_back
    assert len([r for r in caplog.records if "was killed" in r.message]) == 1


def test_what_a_living_process_has_beside_its_place_is_left_alone(tmp_path):
    run = a_run(tmp_path / "run", "summary.json")
    with new_run(run, overwrite=True):
        before = sorted(os.listdir(tmp_path))
        put_run_right(run)
        assert sorted(os.listdir(tmp_path)) == before
        with pytest.raises(InputError, match="in use by another run"), locked(run):
            pass
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_run_that_fails_with_nothing_saved_gives_its_place_back(tmp_path, error):
    run = a_run(tmp_path / "run", "summary.json")

    def fail_in(folder):
        with new_run(folder, overwrite=True):
            assert os.listdir(folder) == [LOCK]
            raise error

    for folder in (run, tmp_path / "new" / "run"):
        with pytest.raises(error):
            fail_in(folder)
        assert os.listdir(tmp_path) == ["run"]
        assert (run / "summary.json").exists()


def test_a_folder_that_cannot_be_made_gives_the_place_back(tmp_path, monkeypatch):
    run = a_run(tmp_path / "run", "summary.json")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("gsplit.train.run_folder.Path.mkdir", full)
    with pytest.raises(InputError, match="cannot make the folder"), new_run(run, overwrite=True):
        pass
    assert os.listdir(tmp_path) == ["run"]
    assert (run / "summary.json").exists()


BESIDE = """
from gsplit.aside import folder_beside
with folder_beside(Path(sys.argv[1])) as folder:
    (folder / "values.npy").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_prediction_left_goes_with_the_next_one(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    out = tmp_path / "o.npy"
    killed(BESIDE, out)
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".o.npy.")
    (tmp_path / ".o.npy.other").mkdir()  # not ours: it has no lock
    check_out(out, overwrite=False)
    assert os.listdir(tmp_path) == [".o.npy.other"]
    assert len([r for r in caplog.records if "was killed" in r.message]) == 1


def test_a_folder_beside_goes_when_the_block_ends(tmp_path):
    with aside.folder_beside(tmp_path / "out") as folder:
        (folder / "half").mkdir()
    assert os.listdir(tmp_path) == []
