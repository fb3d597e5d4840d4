"""A command as a process whose processes can be found, hurt and ended, and what it may have left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

SHARED = Path("/dev/shm")
SHARED_LIMIT_S = 2.0
"""Others' memory comes and goes meanwhile."""
OF_A_RUN = re.compile(
    r"config\.json|metrics\.jsonl|summary\.json|\.lock|(checkpoint|model)\.json|(checkpoint|model)-[0-9a-f]{16}\.pt|model\.pt"
)
OF_PYTORCH = "torchinductor_"
"""Begins the name of an empty folder that PyTorch makes, one a user, where a run is profiled."""
SAVED = "checkpoint.json"
READERS_S = 5.0
"""Limit for reading what the command wrote."""


TRAIN = ("-m", "gsplit.train")
"""What Python is started with, to train."""


class Running:
    """A command with folders of its own; its processes are known by their TMPDIR.

    Args:
        folder: the working folder, in which one for temporary files is made.
        arguments: of the command.
        start: what Python is started with.
    """

    def __init__(self, folder: Path, *arguments: object, start: Sequence[str] = TRAIN) -> None:
        self.temporary = folder / f"tmp-{time.monotonic_ns()}"
        self.temporary.mkdir(parents=True)
        self.shared_before = set(os.listdir("/dev/shm"))
        self.begin = time.monotonic()
        # Pipes: a file of its own would be full when the disk is.
        self.process = subprocess.Popen(
            [sys.executable, *start, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            text=True,
            errors="backslashreplace",
            env={**os.environ, "TMPDIR": str(self.temporary)},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        )
        self._said: dict[str, str] = {}
        self._readers = [threading.Thread(target=self._read, args=(name,)) for name in ("stdout", "stderr")]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        self._said[name] = getattr(self.process, name).read()

    @property
    def stderr(self) -> str:
        """All of it, once its processes have ended."""
        for reader in self._readers:
            reader.join(READERS_S)
        return self._said.get("stderr", "")

    def processes(self) -> list[psutil.Process]:
        return processes_of(self.temporary)

    def victim(self, who: str) -> psutil.Process | None:
        """The process of this role; None where it is not there."""
        role, _, rank = who.partition(" ")
        if who == "launcher":
            return psutil.Process(self.process.pid) if self.process.poll() is None else None
        mark = {
            "trainer": "multiprocessing.spawn",
            "sampler": "gsplit.supply.sampler_process",
            "resource": "resource_tracker",
        }[role]
        found = [process for process in self.processes() if mark in " ".join(_command_line(process))]
        found.sort(key=lambda process: (process.create_time(), process.pid))
        at = int(rank) if rank.isdigit() else 0
        return found[at] if at < len(found) else None

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None where it does not end in time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def wait_gone(self, seconds: float) -> list[psutil.Process]:
        """Processes that are still there when the time is over."""
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def kill(self) -> None:
        every: list[psutil.Process | subprocess.Popen[str]] = [*self.processes(), self.process]
        for process in every:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()


def _command_line(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


@contextlib.contextmanager
def running(folder: Path, *arguments: object, start: Sequence[str] = TRAIN) -> Iterator[Running]:
    """A command that does not outlive the block."""
    command = Running(folder, *arguments, start=start)
    try:
        yield command
    finally:
        command.kill()


def position_of(run: Path) -> tuple[int, int] | None:
    """(epoch, batch) of the checkpoint."""
    try:
        at = json.loads((run / SAVED).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    return at["epoch"], at["batch"]


def processes_of(temporary: Path) -> list[psutil.Process]:
    """Those that were started with this TMPDIR, however they were orphaned since; zombies are gone."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR") == str(temporary) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def shared_left(before: set[str]) -> list[str]:
    """Named shared memory that is new and that nobody has open or mapped: of a process that has gone."""
    deadline = time.monotonic() + SHARED_LIMIT_S
    while new := set(os.listdir(SHARED)) - before:
        left = sorted(name for name in new if not _in_use(str(SHARED / name)))
        if not left or time.monotonic() > deadline:
            return [str(SHARED / name) for name in left]
        time.sleep(0.1)
    return []


def _in_use(path: str) -> bool:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if path in Path(f"/proc/{process.pid}/maps").read_text():
                return True
            if any(os.readlink(entry.path) == path for entry in os.scandir(f"/proc/{process.pid}/fd")):
                return True
    return False


def temporary_left(temporary: Path) -> list[str]:
    return sorted(path.name for path in temporary.rglob("*") if not path.name.startswith(OF_PYTORCH))


def files_left(folder: Path, *, finished: bool) -> list[str]:
    """Hidden files beside the run, and in it what belongs to none.

    Args:
        folder: that holds the run, called ``run``, and our own files, whose names start with ``tmp-``.
        finished: the states that its descriptions name must be there, no others.
    """
    left = [path.name for path in folder.iterdir() if path.name != "run" and not path.name.startswith("tmp-")]
    run = folder / "run"
    if not finished:
        return sorted(left) + sorted(path.name for path in run.glob(".*") if path.name != ".lock")
    left += [path.name for path in run.iterdir() if not OF_A_RUN.fullmatch(path.name)]
    for state in ("checkpoint", "model"):
        named = json.loads((run / f"{state}.json").read_text())["file"]
        left += [path.name for path in run.glob(f"{state}-*.pt") if path.name != named]
    return sorted(left)
