"""Law 6, and what of law 5 the main path needs: killed runs resume bit for bit; a dead trainer ends the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from support.graphs import lay_out, random_graph

from gsplit.train import checkpoint

PATIENCE_S = 90.0
FLAGS = [
    "--device", "cpu", "--fan-out", "5,5", "--batch-size", "20", "--hidden", "8", "--epochs", "3", "--lr", "0.01",
    "--checkpoint-every-batches", "2", "--threads", "1",
]  # fmt: skip
BATCHES = 20  # of an epoch: 400 training vertices


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(800, 8, seed=6), tmp_path_factory.mktemp("faults"), parts=3)


@pytest.fixture
def train():
    """Starts a training command; whatever still runs when the test is over, passed or failed, is killed."""
    started = []

    def start(*arguments) -> subprocess.Popen:
        # A shell's background jobs ignore SIGINT, and so would what they start; here it means Ctrl-C again.
        process = subprocess.Popen(
            [sys.executable, "-m", "gsplit.train", *map(str, arguments)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_until(condition, process: subprocess.Popen):
    """Poll for something another process does; fails when that process ends before, or never does it."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    return value


def reached(run: Path, epoch: int, batch: int) -> bool:
    try:
        at = json.loads((run / "checkpoint.json").read_text())
    except FileNotFoundError:
        return False
    return (at["epoch"], at["batch"]) >= (epoch, batch)


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def final_state(run: Path) -> dict:
    return checkpoint.load_state(run, checkpoint.CHECKPOINT)


def same(first, second) -> bool:
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


def test_killed_in_mid_epoch_and_resumed_is_bit_identical(layout, tmp_path, train):
    undisturbed = train(layout.path, "--out", tmp_path / "whole", *FLAGS)
    _, err = undisturbed.communicate(timeout=PATIENCE_S)
    assert undisturbed.returncode == 0, err

    killed = train(layout.path, "--out", tmp_path / "killed", *FLAGS)
    wait_until(lambda: reached(tmp_path / "killed", 1, 4), killed)
    processes = psutil.Process(killed.pid).children(recursive=True)
    killed.kill()
    killed.wait()
    psutil.wait_procs(processes, timeout=10)
    assert all(gone(p) for p in processes)  # children go with their parent
    at = checkpoint.describe_state(tmp_path / "killed", checkpoint.CHECKPOINT)
    assert (at["epoch"], at["batch"]) < (2, BATCHES)
    assert at["batch"] % BATCHES != 0, "killed between epochs; the test wants the middle of one"
    assert not (tmp_path / "killed" / "summary.json").exists()

    resumed = train("--resume", tmp_path / "killed")
    _, err = resumed.communicate(timeout=PATIENCE_S)
    assert resumed.returncode == 0, err
    whole, rest = final_state(tmp_path / "whole"), final_state(tmp_path / "killed")
    for part in ("model", "optimizer", "best"):
        assert same(whole[part], rest[part]), part
    summaries = [json.loads((tmp_path / run / "summary.json").read_text()) for run in ("whole", "killed")]
    for key in ("test_accuracy", "valid_accuracy", "best_epoch", "loss", "traffic"):
        assert summaries[0][key] == summaries[1][key], key


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
def test_a_trainer_that_dies_ends_the_run(layout, tmp_path, how, train):
    process = train(layout.path, "--out", tmp_path / "run", *FLAGS, "--epochs", "100000")
    wait_until(lambda: reached(tmp_path / "run", 0, 2), process)
    trainers = [p for p in psutil.Process(process.pid).children() if "multiprocessing.spawn" in " ".join(p.cmdline())]
    assert len(trainers) == 3
    os.kill(trainers[1].pid, how)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"was ended by {how.name}" in err.strip().splitlines()[-1]
    assert all(gone(p) for p in trainers)


def test_ctrl_c_ends_with_130_and_leaves_no_process(layout, tmp_path, train):
    process = train(layout.path, "--out", tmp_path / "run", *FLAGS, "--epochs", "100000")
    wait_until(lambda: reached(tmp_path / "run", 0, 2), process)
    processes = psutil.Process(process.pid).children(recursive=True)
    listening = [c for p in processes for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert listening, "gloo's own sockets should be seen here"
    assert {c.laddr.ip for c in listening} <= {"127.0.0.1", "::1"}  # nothing that others could reach
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    psutil.wait_procs(processes, timeout=10)
    assert all(gone(p) for p in processes)


class FailsLater(torch.nn.Module):
    """A user's model with a mistake that only one trainer makes, in its third mini-batch."""

    def __init__(self, width, classes):
        super().__init__()
        self.linear = torch.nn.Linear(width, classes)
        self.calls = 0

    def forward(self, blocks, x):
        import torch.distributed as dist

        self.calls += 1
        if self.calls == 3 and dist.get_rank() == 1:
            raise RuntimeError("the mistake in the user's model")
        for block in blocks.values():
            x = block.exchange(x)[: block.num_destinations]
        return self.linear(x)


def test_the_first_traceback_is_the_last_word(layout, tmp_path):
    from gsplit.parallel import ProcessDied
    from gsplit.train.api import train as train_here
    from gsplit.train.config import TrainConfig

    config = TrainConfig(out=tmp_path / "run", fan_out=(3, 3), batch_size=20, device="cpu", threads=1)
    model = FailsLater(layout.graph.num_features, layout.graph.num_classes)
    with pytest.raises(ProcessDied) as failure:
        train_here(layout.path, config, model=model)
    assert "trainer 1 failed" in str(failure.value)
    assert str(failure.value).strip().endswith("RuntimeError: the mistake in the user's model")
