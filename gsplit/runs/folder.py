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

from gsplit.atomic_folder import OLD, Beside, InUse, locked, place_of, spare_files
from gsplit.errors import InputError
from gsplit.files import read_json
from gsplit.runs.starts import START, START_LOCK, Starter, is_last, last, started, take_over
from gsplit.waiting import until

CONFIG = "config.json"
RESOLVED = "resolved.json"
PLANS = "plans.json"
PREDICTIONS = "predictions.npy"
RESULTS = ("checkpoint.json", "model.json", "metrics.jsonl", "summary.json")
"""A run that has one of these, with something in it, has saved something."""
SAVED = "|".join(
    (
        *map(re.escape, (CONFIG, RESOLVED, PLANS, START, *RESULTS, "trace.json")),
        r"(checkpoint|model)-[0-9a-f]{16}\.pt",
        r"model\.pt",
    )
)
FILES = rf"{SAVED}|predictions\.npy"
"""A regular expression of what a run writes."""
TEMPORARY = re.compile(rf"\.({FILES})\.\d+")
"""Names of files that a run writes to and then renames (:func:`gsplit.files.replacing`)."""
BEGUN = re.compile(rf"{SAVED}|{TEMPORARY.pattern}|\.lock|\{START_LOCK}|\.trace-\d+\.json")
"""Names of files that a run may have written, beside its configuration, before it has saved anything."""
NOT_BEGUN = re.compile(
    rf"\.lock|\{START_LOCK}|\.?{re.escape(START)}(\.\d+)?|\.{re.escape(CONFIG)}\.\d+|\.?{re.escape(PLANS)}(\.\d+)?"
)
"""Names of files that there may be before it has a configuration."""

BEYOND_SILENCE_S = 5.0
"""Seconds more that a former start has to end."""

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
def held_run(
    out: Path | None, *, resumes: bool = False, overwrite: bool = False, starter: Starter | None = None
) -> Iterator[Path]:
    """Hold the folder of a run until the block ends: a new one, or that of a run that goes on.

    Where the block fails before a new run has saved anything nothing is left of it, and what was in its place before
    is there again; otherwise that is gone when the block ends.

    Args:
        out: the folder.
        resumes: whether it is that of a run that goes on.
        overwrite: whether a new run may replace another.
        starter: who starts the run, where this process does not start its trainers.

    Raises:
        InputError: where the folder may not be made or replaced, or another process uses it.
    """
    if out is None:
        raise InputError("no --out given: name the folder for the run")
    with ExitStack() as held:
        if resumes:
            _lock_to_go_on(out, starter, held)
            held.enter_context(started(out, starter))
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
            held.enter_context(_made(place, starter))
        for left in out.glob(".trace-*"):  # of trainers that were killed while they wrote their traces
            left.unlink()
        yield out


def _lock_to_go_on(out: Path, starter: Starter | None, held: ExitStack) -> None:
    """Hold the folder of a run that goes on; a start of the same job before loses it if it does not end in time."""
    again = starter if starter is not None and starter.again else None

    def is_ours() -> bool:
        with suppress(InUse):
            held.enter_context(locked(out))
            return True
        return False

    if until(is_ours, again.silence_s + BEYOND_SILENCE_S if again else 0.0):
        return
    if again and again.made(out):
        who = last(out)
        logger.warning(
            "%s is held by pid %s on %s, of a start before this one; it can write no more there",
            *(out, who.get("pid"), who.get("host")),
        )
        take_over(out)
    held.enter_context(locked(out))


@contextmanager
def _made(place: Path, starter: Starter | None) -> Iterator[None]:
    """Make the folder and hold it; where the block fails it is removed, unless something in it is to stay."""
    missing = [parent for parent in place.parents if not parent.exists()]
    try:
        try:
            spare = spare_files()
            place.mkdir(parents=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {place}: {error.strerror}") from None
        with spare, locked(place), started(place, starter):
            try:
                yield
            except BaseException:
                spare.close()
                if not is_last(place):
                    raise
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
    if not is_last(folder):
        return
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
