"""Folders beside the place of something that is being written or replaced.

Beside OUT lies ``.OUT.xxxxxxxx`` while a process is at work on OUT: a folder that this process holds locked, with
what becomes OUT in it, or what OUT was before. It is gone when the process has ended, unless that was killed; then
:func:`put_right`, with which every command begins that is given OUT, brings back what was there before, or removes
what nobody will finish.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gsplit.errors import InputError
from gsplit.files import LOCK, locked

OLD = "old"
"""What was in the place before."""
SUFFIX_LETTERS = 8
"""Of the name of a folder, as tempfile makes it."""

logger = logging.getLogger(__name__)


@contextmanager
def folder_beside(out: Path) -> Iterator[Path]:
    """A new folder beside ``out``, on the same file system; gone when the block ends, however.

    Raises:
        InputError: where it cannot be made.
    """
    with ExitStack() as held:
        try:
            folder = _held_folder(out, held)
        except OSError as error:
            raise InputError(f"cannot write to {out.parent}: {error.strerror}") from None
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _held_folder(out: Path, held: ExitStack) -> Path:
    """A folder that is locked for as long as ``held`` is open, so that others know that it is in use."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        # Between the two somebody may have taken it for left behind, and swept it away.
        with suppress(FileNotFoundError, InputError):
            held.enter_context(locked(folder))
            if (folder / LOCK).exists():
                return folder


def put_right(out: Path, holds: Callable[[Path], bool] = os.path.lexists) -> None:
    """Take back what processes that were killed have left beside ``out``, and say so.

    Args:
        out: a file or a folder, or its place.
        holds: whether what is in the place is to stay; what was there before comes back otherwise.
    """
    beside = re.compile(re.escape(f".{out.name}.") + rf"[a-z0-9_]{{{SUFFIX_LETTERS}}}")
    with suppress(OSError):
        for left in sorted(out.absolute().parent.iterdir()):
            if beside.fullmatch(left.name) and (left / LOCK).is_file():
                with suppress(InputError), locked(left):
                    _take_back(out, left, holds)


def _take_back(out: Path, left: Path, holds: Callable[[Path], bool]) -> None:
    old = left / OLD
    if os.path.lexists(old) and not holds(out):
        if os.path.lexists(out):
            shutil.rmtree(out)
        old.rename(out)
        logger.warning("put %s back: a process that was to replace it was killed", out)
    else:
        logger.warning("removed %s, which a process that was killed had left", left)
    shutil.rmtree(left)
