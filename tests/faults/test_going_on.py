"""The same command line again, by who starts trainers: it goes on, and what a start before left behind stays out."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.commands import FLAGS, PATIENCE_S, assert_same_run, python
from support.forked import Popen
from support.hosts import free_port, places
from support.messages import says
from support.waiting import wait_until
from torch.distributed import TCPStore

from experiments.hosts.namespaces import children_of
from gsplit.runs import checkpoint

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
ON_S = 240.0
"""Seconds that a crowded machine may take to go on with a run that lost a host; otherwise it is 25."""


@pytest.fixture
def start(tmp_path):
    """Starts a process in a group of its own; what still runs when the test is over is killed."""
    started = []

    def begin(name, command, environment):
        with (tmp_path / name).open("w") as out:
            process = Popen(
                [*map(str, command)],
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        started.append(process)
        return process

    yield begin
    for process in started:
        for pid in [*children_of(process.pid), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def is_at(run, epoch, batch=0):
    """Whether the checkpoint of a run has come so far."""
    try:
        about = checkpoint.describe_state(run, checkpoint.CHECKPOINT)
    except Exception:
        return False
    return (about["epoch"], about["batch"]) >= (epoch, batch)


def is_stopped_between_writes(process, run):
    """Stop a process; where it was in the middle of a write it goes on."""
    process.send_signal(signal.SIGSTOP)
    state = Path(f"/proc/{process.pid}/stat")
    wait_until(lambda: state.read_text().split()[2] == "T", PATIENCE_S, state.read_text)
    with (run / ".start").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            process.send_signal(signal.SIGCONT)
            return False
    return True


def test_a_start_that_was_stopped_does_not_write_over_the_one_that_went_on(layout, tmp_path, start, train_here):
    """A trainer 0 that is stopped, as one that is cut off, loses its folder to the next start of its job."""
    run, whole = tmp_path / "run", tmp_path / "whole"
    command = [sys.executable, "-m", "gsplit.train", layout.path, "--out", run, *FLAGS]
    (place,) = places(1, 1)
    place |= {"TORCHELASTIC_RUN_ID": "job"}
    first = start("first", [*command, "--silence", "1"], place)
    wait_until(lambda: is_at(run, 1, 2), PATIENCE_S, (tmp_path / "first").read_text)
    wait_until(lambda: is_stopped_between_writes(first, run), PATIENCE_S, (tmp_path / "first").read_text)
    again = {"TORCHELASTIC_RESTART_COUNT": "1", "MASTER_PORT": str(free_port())}
    second = start("second", [*command, "--silence", "1"], place | again)
    assert second.wait(PATIENCE_S) == 0, (tmp_path / "second").read_text()
    said = (tmp_path / "second").read_text()
    says(said, f"{run}, held by pid {first.pid}, can write no more there")
    says(said, "started again, going on, from its checkpoint after mini-batch, of epoch 2")

    written = {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
    first.send_signal(signal.SIGCONT)
    assert first.wait(PATIENCE_S) == 2
    said = (tmp_path / "first").read_text().splitlines()[-1]
    says(said, f"error, another process has gone on with {run}, start 2, this is start 1")
    assert {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()} == written
    train_here(layout.path, "--out", whole, *FLAGS, "--gpus", "1")
    assert_same_run(run, whole)


def test_the_same_command_line_begins_goes_on_and_ends(layout, tmp_path, train_here, capfd):
    run, whole = tmp_path / "run", tmp_path / "whole"
    command = [layout.path, "--out", run, *FLAGS, "--continue", "--log-every", "0"]
    train_here(*command, "--epochs", "1")
    train_here(*command)
    done = (run / "summary.json").read_bytes()
    train_here(*command)
    says(capfd.readouterr().out, "nothing to train, --epochs is 3")
    assert (run / "summary.json").read_bytes() == done
    assert not (run / "start.json").exists()  # of trainers that it starts itself, which nobody starts again
    train_here(layout.path, "--out", whole, *FLAGS)
    assert_same_run(run, whole)


@pytest.mark.slow
def test_torchrun_goes_on_after_a_trainer_was_killed(layout, tmp_path, start, train_here):
    run, whole = tmp_path / "run", tmp_path / "whole"
    flags = [*FLAGS, "--epochs", "8", "--log-every", "0"]
    starter = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", "--max-restarts", "3", "-m", "gsplit.train"]
    torchrun = start("out", [*starter, layout.path, "--out", run, *flags], {})
    said = (tmp_path / "out").read_text
    wait_until(lambda: is_at(run, 1, 2), PATIENCE_S, said)
    first = (run / "start.json").read_bytes()
    os.kill(children_of(torchrun.pid)[1], signal.SIGKILL)
    killed_s = time.monotonic()
    wait_until(lambda: (run / "start.json").read_bytes() != first, ON_S, said)
    assert torchrun.wait(PATIENCE_S) == 0, said()
    assert time.monotonic() - killed_s < ON_S
    says(said(), "started again, going on, from its checkpoint after")
    train_here(layout.path, "--out", whole, *flags)
    assert_same_run(run, whole)


@pytest.mark.slow
def test_a_mistake_is_said_once_by_all_starts(layout, tmp_path):
    starter = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]
    command = ["-m", "gsplit.train", layout.path, "--out", tmp_path / "run", "--gpus", "3"]
    said = python(*starter, *command, code=1).stderr
    assert len([line for line in said.splitlines() if line.startswith("error: ")]) == 1
    root = said.partition("Root Cause")[2]
    says(root, "exitcode, 2")
    says(root, "--gpus is 3")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_hosts_go_and_come(layout, tmp_path, start):
    """Three hosts, of which that of trainer 0 is killed; two go on; then there are three again."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # torchrun's, which stays
    run, endpoint = tmp_path / "run", f"127.0.0.1:{store.port}"
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "job"]
    rendezvous += ["--local-addr", "127.0.0.1", "--rdzv-conf", "last_call_timeout=5"]
    starter = [*TORCHRUN, "--nnodes", "1:3", "--nproc-per-node", "1", "--max-restarts", "5", *rendezvous]
    flags = [*FLAGS, "--epochs", "100000", "--log-every", "0", "--evaluate", "none", "--continue"]
    command = [*starter, "-m", "gsplit.train", layout.path, "--out", run, *flags]

    def host(number):
        return start(f"host{number}", command, {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"})

    def said():
        return "\n".join(file.read_text() for file in sorted(tmp_path.glob("host*")))

    def hosts_at(number):
        """Number of hosts of a start that has written a checkpoint."""
        with contextlib.suppress(OSError, ValueError):
            about = json.loads((run / "checkpoint.json").read_text())
            begun = json.loads((run / "start.json").read_text())["number"] >= number
            return about.get("hosts", 1) if begun else 0
        return 0

    first, second, third = host(1), host(2), host(3)  # in the sequence of their ranks, on one machine
    wait_until(lambda: hosts_at(1) == 3 and is_at(run, 1), ON_S, said)
    assert json.loads((run / "start.json").read_text())["pid"] in children_of(first.pid)
    for pid in [first.pid, *children_of(first.pid)]:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: hosts_at(2) == 2, ON_S, said)
    host(4)
    wait_until(lambda: hosts_at(3) == 3, ON_S, said)
    says(said(), "resuming with 2 trainers instead of 3, mini-batches are cut into other micro-batches")
    says(said(), "resuming with 3 trainers instead of 2, mini-batches are cut into other micro-batches")
    targets = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "mini-batch":
            targets.setdefault(record["batch"], set()).add(record["targets"])
    assert all(len(numbers) == 1 for numbers in targets.values())  # as many targets, by whatever hosts
    for process in (second, third):
        process.terminate()
        process.wait(PATIENCE_S)
