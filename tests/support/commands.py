"""Training commands as processes of their own, for tests that hurt them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import psutil

from experiments.shared.same_run import difference
from support.forked import WHO, Popen
from support.waiting import wait_until

PATIENCE_S = 90.0
LIMIT_S = 10.0
"""Within which a run must have ended after one of its processes died."""
BATCHES = 20
"""Of an epoch: 400 training vertices."""
_COMMON = "--device cpu --lr 0.01 --threads 1"
_SAMPLED = f"{_COMMON} --fan-out 5,5 --batch-size 20 --epochs 3 --checkpoint-every-batches 2 --samplers 2"
OWN = _SAMPLED.split()
"""Of a model of one's own, which has a width of its own."""
FLAGS = f"{_SAMPLED} --hidden 8".split()
WHOLE = f"{_COMMON} --strategy full --num-layers 2 --hidden 8".split()
"""A run on the whole graph: a step an epoch."""
FOR_EVER = ["--epochs", "100000"]


def python(*words, code=0, **options) -> subprocess.CompletedProcess[str]:
    """What a process of its own said, started as ``python WORDS``: it ends, with this exit code."""
    given = {"capture_output": True, "text": True, "timeout": 300, **options}
    limit_s = given.pop("timeout")
    if given.pop("capture_output"):
        given |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen([sys.executable, *map(str, words)], **given) as process:
        try:
            out, err = process.communicate(timeout=limit_s)
        except BaseException:
            process.kill()
            raise
    assert process.returncode == code, out[-6000:] + err
    return subprocess.CompletedProcess(process.args, code, out, err)


class Command:
    """``python -m gsplit.train ARGUMENTS``, or another module, with a folder of its own for temporary files."""

    def __init__(
        self, temporary: Path, arguments: list, python_path: Path | None = None, module: str = "gsplit.train"
    ):
        temporary.mkdir()
        self.temporary = temporary
        self.shared_before = set(os.listdir("/dev/shm"))
        environment = {**os.environ, "TMPDIR": str(temporary)}
        if python_path is not None:
            environment["PYTHONPATH"] = str(python_path)
        self.process = Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def wait_until(self, condition):
        """Poll for something the run does; fails when it ends before, or never does it."""

        def alive_and_met():
            value = condition()
            assert value or self.process.poll() is None, self.process.communicate()
            return value

        return wait_until(alive_and_met, PATIENCE_S, lambda: "the run never does it")

    def wait_for_error(self, words: str) -> None:
        """Until they stand in what the run writes to stderr; what was read is not read again."""
        deadline_s = time.monotonic() + PATIENCE_S
        text = ""
        while words not in text:
            ready, _, _ = select.select([self.process.stderr], [], [], max(0.0, deadline_s - time.monotonic()))
            assert ready, text
            more = os.read(self.process.stderr.fileno(), 4096).decode()
            assert more, text
            text += more

    def wait_for_checkpoint(self, run: Path, epoch: int, batch: int) -> None:
        def reached() -> bool:
            try:
                at = json.loads((run / "checkpoint.json").read_text())
            except FileNotFoundError:
                return False
            return (at["epoch"], at["batch"]) >= (epoch, batch)

        self.wait_until(reached)

    @property
    def children(self) -> list[psutil.Process]:
        """Oldest first."""
        return sorted(children_of(self.process.pid), key=lambda p: (p.create_time(), p.pid))

    @property
    def trainers(self) -> list[psutil.Process]:
        """By rank: they are started one after the other."""
        return [p for p in self.children if "multiprocessing.spawn" in words_of(p)]

    @property
    def samplers(self) -> list[psutil.Process]:
        return [p for p in self.children if "gsplit.supply.sampler_process" in words_of(p)]

    def ends(self, timeout_s: float = PATIENCE_S) -> tuple[int, str, str]:
        """Exit code, output and errors; fails where it does not end in time."""
        out, err = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, out, err

    def assert_nothing_left(self, processes: list[psutil.Process]) -> None:
        """Of these processes, in shared memory, and among temporary files."""
        _, alive = psutil.wait_procs(processes, timeout=LIMIT_S)
        assert all(p.status() == psutil.STATUS_ZOMBIE for p in alive)
        # PyTorch's profiler makes an empty folder for a compiler's cache, one a user.
        left = [p for p in self.temporary.rglob("*") if not p.name.startswith("torchinductor_")]
        assert left == []
        assert_no_new_shared_memory(self.shared_before)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def assert_no_new_shared_memory(before: set[str]) -> None:
    """Beside what was there before; what other tests have there at the same time goes in a moment."""

    def new():
        return set(os.listdir("/dev/shm")) - before

    wait_until(lambda: not new(), LIMIT_S, new)


def listening(process: psutil.Process) -> list:
    """Sockets of a process that wait to be connected to."""
    connections = getattr(process, "net_connections", None) or process.connections  # before psutil 6
    return [each for each in connections("inet") if each.status == psutil.CONN_LISTEN]


def children_here() -> set[psutil.Process]:
    """The children of this process, such as a pool that an earlier test has started."""
    return set(children_of(os.getpid(), recursive=False))


def children_of(pid: int, recursive: bool = True) -> list[psutil.Process]:
    """What a process of ours has started, but for what Python and tests have at work beside it."""
    children = psutil.Process(pid).children(recursive)
    return [child for child in children if not any(name in words_of(child) for name in ("resource_tracker", WHO))]


def words_of(process: psutil.Process) -> str:
    """How a process was called; nothing of one that has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def assert_same_run(first: Path, second: Path) -> None:
    """Bit for bit: weights, optimizer, best model; and what was counted."""
    assert difference(first, second) == ""
