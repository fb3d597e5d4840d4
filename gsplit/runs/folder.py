"""The folder of a run: made, or put in the place of another; held while the run is at work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from gsplit.aside import new_folder, put_right, swept
from gsplit.errors import InputError
from gsplit.files import read_json

CONFIG = "config.json"
RESOLVED = "resolved.json"
PREDICTIONS = "predictions.npy"
RESULTS = ("checkpoint.json", "model.json", "metrics.jsonl", "summary.json")
"""A run that has one of these, with something in it, has saved something."""
SAVED = "|".join(
    (
        *map(re.escape, (CONFIG, RESOLVED, *RESULTS, "trace.json")),
        r"(checkpoint|model)-[0-9a-f]{16}\.pt",
        r"model\.pt",
    )
)
FILES = rf"{SAVED}|predictions\.npy"
"""A regular expression of what a run writes."""
BEGUN = re.compile(rf"{SAVED}|\.({FILES})\.\d+|\.lock|\.trace-\d+\.json")
"""What a run may have written, beside its configuration, before it has saved anything."""
NOT_BEGUN = re.compile(rf"\.lock|\.{re.escape(CONFIG)}\.\d+")
"""What there may be before it has a configuration."""
ASIDE = ".aside-run"
"""The lock of folders beside runs; other commands leave those alone."""


def holds_results(folder: Path) -> bool:
    """Whether a run has saved anything."""
    return any((folder / name).is_file() and (folder / name).stat().st_size for name in RESULTS)


def standing(path: Path) -> Literal["nothing", "worthless run", "run", "other"]:
    """What is in a place.

    A run is one that has saved something. A worthless one ended before it did, and has nothing of anybody else's in
    it.
    """
    if not os.path.lexists(path):
        return "nothing"
    if path.is_symlink() or not path.is_dir():
        return "other"
    saved = holds_results(path)
    names = [] if saved else os.listdir(path)
    if not saved and CONFIG not in names:
        return "worthless run" if all(NOT_BEGUN.fullmatch(name) for name in names) else "other"
    if not _is_config(path / CONFIG):
        return "other"
    if saved:
        return "run"
    return "worthless run" if all(BEGUN.fullmatch(name) for name in names) else "other"


def is_worthless(path: Path) -> bool:
    """Whether that is a run that ended before it saved anything, with nothing of anybody else's in it."""
    return standing(path) == "worthless run"


def _is_config(path: Path) -> bool:
    """Whether that is a configuration of ours; many programs call theirs config.json."""
    try:
        return "fan_out" in read_json(path)
    except (OSError, ValueError, TypeError):
        return False


put_run_right = partial(put_right, done=holds_results, worthless=is_worthless, lock=ASIDE)
"""Take back what a run that was killed left hidden beside a run, or its place."""


@contextmanager
def held_run(out: Path | None, *, resumes: bool = False, overwrite: bool = False) -> Iterator[Path]:
    """The folder of a run, held until the block ends: a new one, or that of a run that goes on.

    Where the block fails before a new run has saved anything nothing is left of it, and what was in its place before
    is there again; otherwise that is gone when the block ends.

    Args:
        out: the folder.
        resumes: whether it is that of a run that goes on.
        overwrite: whether a new run may replace another.

    Raises:
        InputError: where the folder may not be made or replaced, or another process uses it.
    """
    if out is None:
        raise InputError("no --out given: name the folder for the run")
    if not resumes:
        put_run_right(out)
        _check_replaceable(out, overwrite=overwrite)
    again = partial(_check_replaceable, out, overwrite=overwrite)
    held = (
        swept(out, FILES)
        if resumes
        else new_folder(out, again, FILES, done=holds_results, worthless=is_worthless, lock=ASIDE)
    )
    with held:
        for left in out.glob(".trace-*"):  # of trainers that were killed while they wrote their traces
            left.unlink()
        yield out


def _check_replaceable(out: Path, *, overwrite: bool) -> None:
    there = standing(out)
    if there in ("nothing", "worthless run"):
        return
    if not overwrite:
        raise InputError(f"{out} exists already; choose another --out, add --overwrite, or --resume it")
    if there != "run":
        raise InputError(f"{out} is no run, so --overwrite does not remove it")
