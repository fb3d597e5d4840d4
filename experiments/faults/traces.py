"""What a training run may have left behind, and whether two runs are the same bit for bit."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import psutil

SHARED = Path("/dev/shm")
SHARED_LIMIT_S = 2.0
"""Others' memory comes and goes meanwhile."""
OF_A_RUN = re.compile(
    r"config\.json|metrics\.jsonl|summary\.json|\.lock|(checkpoint|model)\.json|(checkpoint|model)-[0-9a-f]{16}\.pt"
)
OF_PYTORCH = "torchinductor_"
"""Begins the name of an empty folder that PyTorch makes, one a user, in every program that has an optimizer."""
SAME_KEYS = ("test_accuracy", "valid_accuracy", "best_epoch", "loss", "traffic")


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


def difference(run: Path, wanted: Path) -> str:
    """Where two finished runs differ in weights, optimizer, best model or counts; empty where nowhere."""
    from gsplit.runs import checkpoint

    states = [checkpoint.load_state(folder, checkpoint.CHECKPOINT) for folder in (run, wanted)]
    for part in ("model", "optimizer", "best"):
        if not same(states[0][part], states[1][part]):
            return f"{part} of the checkpoint"
    models = [checkpoint.load_state(folder, checkpoint.MODEL) for folder in (run, wanted)]
    if not same(*models):
        return "the saved model"
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (run, wanted)]
    for key in SAME_KEYS:
        if summaries[0][key] != summaries[1][key]:
            return f"{key} of the summary"
    return "" if counted(run) == counted(wanted) else "the counts of mini-batches"


def counted(run: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl`` of mini-batches, without times, whatever the order."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    found = [{**line, "stages": None} for line in lines if line["kind"] == "mini-batch"]
    return sorted(found, key=lambda line: (line["epoch"], line["batch"], line["trainer"]))


def same(first: Any, second: Any) -> bool:
    """Bit for bit."""
    import torch

    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)
