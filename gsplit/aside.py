"""Folders that a process holds: the one that it works on, and those beside what is being written or replaced.

A folder is held by a lock on a file in it, which the kernel lets go of when the process ends, however.

Beside OUT lies ``.OUT.xxxxxxxx`` while a process is at work on OUT: a folder that this process holds locked, with
what becomes OUT in it, or what OUT was before. It is gone when the process has ended, and what OUT was before is back
in its place unless there is something new. Where the process was killed, :func:`put_right` does that, with which
every command begins that is given OUT.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gsplit.errors import InputError
from gsplit.files import real_path, spare_files
from gsplit.host import held_back

NEW = "new"
"""What becomes OUT."""
OLD = "old"
"""What was in the place before."""
GONE = "gone"
"""What was in the place before, and is not to come back."""
LOCK = ".lock"
"""File in a folder that the process that works on the folder holds locked."""
ASIDE = ".aside"
"""File that a process at work on a folder beside a place holds locked; no folder but ours has one."""
SUFFIX_LETTERS = 8
"""Number of random letters that end the name of such a folder, as tempfile makes it."""
Judge = Callable[[Path], bool]
"""A question about what is in a place."""

logger = logging.getLogger(__name__)


class InUse(InputError):
    """Another process holds a folder."""


def _nothing(_: Path) -> bool:
    return False


@contextmanager
def locked(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Hold a folder against a second run. The kernel lets go of the lock when this process ends, however.

    Args:
        folder: the folder to hold.
        name: the file in it that is locked.

    Raises:
        InUse: where another process holds it.
        InputError: where it cannot be written to, or not be locked.
    """
    try:
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"{folder} is in use by another run; wait for it, or choose another folder") from None
        except OSError as error:  # some network file systems know no locks
            raise InputError(f"cannot lock {folder}: {error.strerror}; choose a folder on another disk") from None
        if not _is_at(descriptor, folder / name):  # somebody put another folder in its place meanwhile
            raise InUse(f"{folder} is in use by another run; wait for it, or choose another folder")
        yield
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def sweep_files(folder: Path, names: str) -> None:
    """Remove the temporary files that processes left in a folder which were killed, and say so.

    Args:
        folder: a folder that this process has locked.
        names: a regular expression for the names of the files that they were to become.
    """
    temporary = re.compile(rf"\.({names})\.\d+")
    with suppress(OSError):
        for left in sorted(folder.iterdir()):
            if temporary.fullmatch(left.name) and left.is_file():
                left.unlink()
                logger.warning("removed %s, which a process that was killed had left", left)


@contextmanager
def swept(folder: Path, names: str) -> Iterator[None]:
    """Hold a folder, and have no temporary files in it when the block begins and when it ends.

    Args:
        folder: the folder to hold.
        names: as for :func:`sweep_files`.

    Raises:
        InputError: where :func:`locked` does.
    """
    with locked(folder):
        sweep_files(folder, names)
        try:
            yield
        finally:
            sweep_files(folder, names)  # of a process that was killed as it wrote


def place_of(out: Path) -> Path:
    """The absolute path of a place, whatever links lead there; one that it is itself is not followed."""
    return real_path(out) if out.name in ("", "..") else real_path(out.parent) / out.name


@contextmanager
def folder_beside(
    out: Path, done: Judge = os.path.lexists, worthless: Judge = _nothing, lock: str = ASIDE
) -> Iterator[Path]:
    """A new folder beside ``out``, on the same file system, to write ``NEW`` or to move what is there to ``OLD``.

    When the block ends, however, ``OLD`` goes if ``out`` is done; otherwise it is put back in its place.

    Args:
        out: the place.
        done: whether what is in the place has replaced what was there before.
        worthless: whether what is in the place, and not done, may be removed.
        lock: the file that is locked in the folder; callers with another name for it leave the folder alone.

    Raises:
        InputError: where it cannot be made, or what was there before cannot be put back; that is left where it is.
    """
    out = place_of(out)
    with ExitStack() as held:
        try:
            spare = held.enter_context(spare_files())
            folder = held_folder(out, held, lock)
        except OSError as error:
            raise InputError(f"cannot write to {out.parent}: {error.strerror}") from None
        try:
            yield folder
        finally:
            with held_back():
                spare.close()
                take_back(out, folder, done, worthless, lock)


def held_folder(out: Path, held: ExitStack, lock: str = ASIDE) -> Path:
    """A new folder beside ``out`` that is locked while ``held`` is open, so that others know that it is in use."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            held.enter_context(locked(folder, lock))
        except InUse:
            continue  # somebody took it for left behind, and sweeps it away
        except InputError:
            if folder.exists():
                (folder / lock).unlink(missing_ok=True)
                folder.rmdir()
                raise
            continue  # somebody has
        return folder


def put_right(out: Path, done: Judge = os.path.lexists, worthless: Judge = _nothing, lock: str = ASIDE) -> None:
    """Take back what processes of this user that were killed have left beside ``out``, and say so.

    Args:
        out: a file or a folder, or its place.
        done, worthless, lock: as for :func:`folder_beside`.
    """
    out = place_of(out)
    beside = re.compile(re.escape(f".{out.name}.") + rf"[a-z0-9_]{{{SUFFIX_LETTERS}}}")
    with suppress(OSError):
        for left in sorted(out.parent.iterdir()):
            if not beside.fullmatch(left.name) or left.is_symlink() or left.lstat().st_uid != os.getuid():
                continue
            if (left / lock).is_file():
                try:
                    with locked(left, lock):
                        back = take_back(out, left, done, worthless, lock)
                except InUse:
                    continue  # a living process holds the folder or the place
                except InputError as error:
                    logger.warning("%s", error)
                    continue
                what = (
                    "put %s back: a process that was to replace it was killed"
                    if back
                    else "removed what a process that was killed had left beside %s"
                )
                logger.warning(what, out)
            elif left.is_dir() and not any(left.iterdir()):
                left.rmdir()  # as it is made, before it is locked


def take_back(
    out: Path, folder: Path, done: Judge = os.path.lexists, worthless: Judge = _nothing, lock: str = ASIDE
) -> bool:
    """Remove a folder beside ``out``; True where what was there before was put back first.

    Raises:
        InputError: where that cannot be done; the folder stays.
    """
    old = folder / OLD
    back = os.path.lexists(old) and not done(out)
    if back:
        try:
            if os.path.lexists(out) and worthless(out):
                with locked(out):
                    shutil.rmtree(out)
            if os.path.lexists(out):
                raise OSError(0, "something else is in its place")
            old.rename(out)
        except OSError as error:
            raise InputError(f"{out} could not be put back: {error.strerror}; it is kept as {old}") from None
    elif os.path.lexists(old):
        old.rename(folder / GONE)  # from here on it is nobody's, also where this is killed
    for inside in folder.iterdir():
        if inside.is_dir() and not inside.is_symlink():
            shutil.rmtree(inside, ignore_errors=True)
        elif inside.name != lock:
            inside.unlink()
    if os.listdir(folder) != [lock]:
        logger.warning("%s could not be removed whole; remove it by hand", folder)
        return back
    (folder / lock).unlink()  # last: who finds it can finish this
    with suppress(OSError):
        folder.rmdir()
    return back


@contextmanager
def new_folder(
    out: Path, check: Callable[[], None], names: str, *, done: Judge, worthless: Judge, lock: str
) -> Iterator[None]:
    """Make a folder, in the place of another where there is one, and hold it until the block ends.

    Where the block fails before the folder is done nothing is left of it, and what was in its place before is there
    again; otherwise that is gone when the block ends.

    Args:
        out: the place.
        check: raises InputError where what is in the place, once it is held, may not be replaced.
        names: as for :func:`sweep_files`.
        done, worthless, lock: as for :func:`folder_beside`.

    Raises:
        InputError: where the folder cannot be made or replaced, or another process uses it.
    """
    place = place_of(out)
    with ExitStack() as held:
        if os.path.lexists(place):
            beside = held.enter_context(folder_beside(place, done=done, worthless=worthless, lock=lock))
            with locked(place):
                check()  # somebody may have filled it meanwhile
                try:
                    place.rename(beside / OLD)
                except OSError as error:
                    raise InputError(f"cannot replace {out}: {error.strerror}") from None
        held.enter_context(_made(place, names, worthless))
        yield


@contextmanager
def _made(place: Path, names: str, worthless: Judge) -> Iterator[None]:
    """Make the folder and hold it; where the block fails and what is in it is worthless, it goes."""
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
                sweep_files(place, names)  # of a process that was killed as it wrote
                if worthless(place):
                    shutil.rmtree(place, ignore_errors=True)
                raise
    except BaseException:
        for left in (place, *missing):
            with suppress(OSError):  # something is there
                left.rmdir()
        raise
