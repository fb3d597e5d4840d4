"""What a training run may have left behind: processes, shared memory, files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
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
