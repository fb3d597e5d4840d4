"""The folder of a run: made, or put in the place of another; held while the run lasts."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

from gsplit.atomic_folder import OLD, Beside, locked, place_of, spare_files
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
TEMPORARY = re.compile(rf"\.({FILES})\.\d+")
"""Names of files that a run writes to and then renames (:func:`gsplit.files.replacing`)."""
BEGUN = re.compile(rf"{SAVED}|{TEMPORARY.pattern}|\.lock|\.trace-\d+\.json")
"""Names of files that a run may have written, beside its configuration, before it has saved anything."""
NOT_BEGUN = re.compile(rf"\.lock|\.{re.escape(CONFIG)}\.\d+")
"""Names of files that there may be before it has a configuration."""

logger = logging.getLogger(__name__)


def holds_results(folder: Path) -> bool:
    """Tell whether a run has saved anything."""
    return any((folder / name).is_file() and (folder / name).stat().st_size for name in RESULTS)


def standing(path: Path) -> Literal["nothing", "unsaved run", "run", "other"]:
    """Return what is in a place.

    A run is one that has saved something. An unsaved one ended before it did, and has no files but a run's.
    """
    if not os.path.lexists(path):
        return "nothing"
    if path.is_symlink() or not path.is_dir():
        return "other"
    saved = holds_results(path)
    names = [] if saved else os.listdir(path)
    if not saved and CONFIG not in names:
        return "unsaved run" if all(NOT_BEGUN.fullmatch(name) for name in names) else "other"
    if not _is_config(path / CONFIG):
        return "other"
    if saved:
        return "run"
    return "unsaved run" if all(BEGUN.fullmatch(name) for name in names) else "other"


def may_discard(path: Path) -> bool:
    """Tell whether that is a run that ended before it saved anything, with no files but a run's."""
    return standing(path) == "unsaved run"


def _is_config(path: Path) -> bool:
    """Return whether that is a configuration of ours; many programs call theirs config.json."""
    try:
        return "fan_out" in read_json(path)
    except (OSError, ValueError, TypeError):
        return False


RUNS = Beside(lock=".aside-run", done=holds_results, may_discard=may_discard)
"""The hidden folders beside runs; commands that write no run leave them alone."""


@contextmanager
def held_run(out: Path | None, *, resumes: bool = False, overwrite: bool = False) -> Iterator[Path]:
    """Hold the folder of a run until the block ends: a new one, or that of a run that goes on.

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
    with ExitStack() as held:
        if resumes:
            held.enter_context(locked(out))
            held.callback(_remove_temporary_files, out)
            _remove_temporary_files(out)
        else:
            RUNS.recover(out)
            _check_replaceable(out, overwrite=overwrite)
            place = place_of(out)
            if os.path.lexists(place):
                beside = held.enter_context(RUNS.folder(place))
                with locked(place):
                    _check_replaceable(out, overwrite=overwrite)  # another process may have filled it meanwhile
                    try:
                        place.rename(beside / OLD)
                    except OSError as error:
                        raise InputError(f"cannot replace {out}: {error.strerror}") from None
            held.enter_context(_made(place))
        for left in out.glob(".trace-*"):  # of trainers that were killed while they wrote their traces
            left.unlink()
        yield out


@contextmanager
def _made(place: Path) -> Iterator[None]:
    """Make the folder and hold it; where the block fails it is removed, unless something in it is to stay."""
    missing = [parent for parent in place.parents if not parent.exists()]
    try:
        try:
            spare = spare_files()
            place.mkdir(parents=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {place}: {error.strerror}") from None
        with spare, locked(place):
            try:
                yield
            except BaseException:
                spare.close()
                _remove_temporary_files(place)
                if may_discard(place):
                    shutil.rmtree(place, ignore_errors=True)
                raise
    except BaseException:
        for left in (place, *missing):
            with suppress(OSError):  # something is there
                left.rmdir()
        raise


def _remove_temporary_files(folder: Path) -> None:
    """Remove, and log, the temporary files of processes that were killed; this process holds the folder."""
    with suppress(OSError):
        for left in sorted(folder.iterdir()):
            if TEMPORARY.fullmatch(left.name) and left.is_file():
                left.unlink()
                logger.warning("removed %s, which a process that was killed had left", left)


def _check_replaceable(out: Path, *, overwrite: bool) -> None:
    there = standing(out)
    if there in ("nothing", "unsaved run"):
        return
    if not overwrite:
        raise InputError(f"{out} exists already; choose another --out, add --overwrite, or --resume it")
    if there != "run":
        raise InputError(f"{out} is no run, so --overwrite does not remove it")
