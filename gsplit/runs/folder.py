"""The folder of a run: made, or put in the place of another; held while the run is at work."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from gsplit.aside import OLD, folder_beside, place_of, put_right
from gsplit.errors import InputError
from gsplit.files import locked, read_json, sweep_files

CONFIG = "config.json"
RESOLVED = "resolved.json"
PREDICTIONS = "predictions.npy"
RESULTS = ("checkpoint.json", "model.json", "metrics.jsonl", "summary.json")
"""A run that has one of these, with something in it, has saved something."""
SAVED = "|".join(
    (*map(re.escape, (CONFIG, RESOLVED, *RESULTS, "trace.json")), r"(checkpoint|model)-[0-9a-f]{16}\.pt")
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


def is_worthless(path: Path) -> bool:
    """Whether that is a run that ended before it saved anything, with nothing of anybody else's in it."""
    if path.is_symlink() or not path.is_dir() or holds_results(path):
        return False
    names = os.listdir(path)
    if CONFIG not in names:
        return all(NOT_BEGUN.fullmatch(name) for name in names)
    return _is_config(path / CONFIG) and all(BEGUN.fullmatch(name) for name in names)


def _is_config(path: Path) -> bool:
    """Whether that is a configuration of ours; many programs call theirs config.json."""
    try:
        return "fan_out" in read_json(path)
    except (OSError, ValueError, TypeError):
        return False


put_run_right = partial(put_right, done=holds_results, worthless=is_worthless, lock=ASIDE)
"""Take back what a run that was killed left hidden beside a run, or its place."""


@contextmanager
def new_run(out: Path | None, *, overwrite: bool) -> Iterator[Path]:
    """A new folder for a run, held until the block ends.

    Where the block fails before the run has saved anything nothing is left of it, and what was in its place before is
    there again; otherwise that is gone when the block ends.

    Raises:
        InputError: where the folder may not be made or replaced, or another process uses it.
    """
    if out is None:
        raise InputError("no --out given: name the folder for the run")
    put_run_right(out)
    _check_replaceable(out, overwrite=overwrite)
    place = place_of(out)
    if not os.path.lexists(place):
        with _made(place):
            yield out
        return
    with folder_beside(place, done=holds_results, worthless=is_worthless, lock=ASIDE) as beside:
        with locked(place):
            _check_replaceable(out, overwrite=overwrite)  # somebody may have filled it meanwhile
            try:
                place.rename(beside / OLD)
            except OSError as error:
                raise InputError(f"cannot replace {out}: {error.strerror}") from None
        with _made(place):
            yield out


@contextmanager
def resumed_run(folder: Path) -> Iterator[Path]:
    """The folder of a run that goes on, held until the block ends.

    Raises:
        InputError: where another process uses it.
    """
    with locked(folder):
        sweep_files(folder, FILES)
        try:
            yield folder
        finally:
            sweep_files(folder, FILES)  # of a trainer that was killed as it wrote


@contextmanager
def _made(place: Path) -> Iterator[None]:
    """Make the folder and hold it; where the block fails and nothing was saved, it goes."""
    missing = [parent for parent in place.parents if not parent.exists()]
    try:
        try:
            place.mkdir(parents=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {place}: {error.strerror}") from None
        with locked(place):
            try:
                yield
            except BaseException:
                sweep_files(place, FILES)  # of a trainer that was killed as it wrote
                if is_worthless(place):
                    shutil.rmtree(place, ignore_errors=True)
                raise
    except BaseException:
        with suppress(OSError):  # something is there
            for parent in missing:
                parent.rmdir()
        raise


def _check_replaceable(out: Path, *, overwrite: bool) -> None:
    if not os.path.lexists(out) or is_worthless(out):
        return
    if not overwrite:
        raise InputError(f"{out} exists already; choose another --out, add --overwrite, or --resume it")
    if out.is_symlink() or not _is_config(out / CONFIG) or not holds_results(out):
        raise InputError(f"{out} is no run, so --overwrite does not remove it")
