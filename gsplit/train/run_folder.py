"""The folder of a run: made, or put in the place of another; held while the run is at work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gsplit.aside import OLD, folder_beside, put_right
from gsplit.errors import InputError
from gsplit.files import LOCK, locked, sweep_files

CONFIG = "config.json"
RESULTS = ("checkpoint.json", "model.json", "metrics.jsonl", "summary.json")
"""A run that has one of these has saved something."""


def holds_results(folder: Path) -> bool:
    """Whether a run has saved anything."""
    return any((folder / name).exists() for name in RESULTS)


def stays(path: Path) -> bool:
    """Whether anything is there but a run that ended before it saved anything, which is nobody's loss."""
    if not os.path.lexists(path):
        return False
    if path.is_symlink() or not path.is_dir():
        return True
    return any(name not in (CONFIG, LOCK) and not name.startswith(f".{CONFIG}.") for name in os.listdir(path))


def put_run_right(folder: Path) -> None:
    """Take back what a run that was killed left hidden beside a run, or its place."""
    put_right(folder, holds=stays)


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
    missing = [parent for parent in out.parents if not parent.exists()]
    with ExitStack() as held:
        old = _moved_aside(out, held)
        try:
            _make(out)
            with locked(out):
                yield out
        except BaseException:
            if not holds_results(out):
                shutil.rmtree(out, ignore_errors=True)
                if old is not None:
                    old.rename(out)
                with suppress(OSError):  # somebody else put something there
                    for parent in missing:
                        parent.rmdir()
            raise


@contextmanager
def resumed_run(folder: Path) -> Iterator[Path]:
    """The folder of a run that goes on, held until the block ends.

    Raises:
        InputError: where another process uses it.
    """
    with locked(folder):
        sweep_files(folder)
        yield folder


def _check_replaceable(out: Path, *, overwrite: bool) -> None:
    if not os.path.lexists(out):
        return
    ours = out.is_dir() and not out.is_symlink()
    ours = ours and (not any(out.iterdir()) or (out / CONFIG).is_file())
    if not overwrite and not (ours and not holds_results(out)):
        raise InputError(f"{out} exists already; choose another --out, add --overwrite, or --resume it")
    if not ours:
        raise InputError(f"{out} is no run, so --overwrite does not remove it")


def _moved_aside(out: Path, held: ExitStack) -> Path | None:
    """Where that is now what was in the place of a run; it goes when ``held`` is closed."""
    if not os.path.lexists(out):
        return None
    with locked(out):
        old = held.enter_context(folder_beside(out)) / OLD
        out.rename(old)
    return old


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {out}: {error.strerror}") from None
