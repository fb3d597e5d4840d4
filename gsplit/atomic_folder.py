"""Results that appear under their name at once: written beside it, and put in place by one call of the kernel.

While a process writes OUT, a hidden folder ``.OUT.xxxxxxxx`` lies beside it, on the same file system. The process
holds a file in it locked, and the kernel drops that lock when the process ends, however. In the folder are ``NEW``,
which becomes OUT, and ``OLD``, which was OUT and comes back unless something has replaced it.

:func:`publish` exchanges the new OUT with what was there by renameat2(2). Where the kernel or the file system cannot
exchange two names, it renames one after the other. A process that is killed in between leaves ``OLD`` beside an empty
place; :meth:`Beside.recover`, with which every command begins that is given OUT, puts it back.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gsplit.errors import InputError
from gsplit.files import make_durable, real_path
from gsplit.host import held_back

NEW = "new"
"""What becomes OUT, and after an exchange what was OUT; it is always discarded with its folder."""
OLD = "old"
"""What was moved away from OUT, and is put back unless OUT is done."""
LOCK = ".lock"
"""File in a folder that the process locks which works on the folder."""
SUFFIX_LETTERS = 8
"""Number of random letters that end the name of a hidden folder, as tempfile makes it."""
SPARE_FILES = 8
"""Number of :func:`spare_files`: to remove a folder takes a few."""
AT_FDCWD, RENAME_NOREPLACE, RENAME_EXCHANGE = -100, 1, 2
"""Constants of renameat2(2)."""
UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
"""Errors of a file system, a kernel or a sandbox that does not know these flags."""

logger = logging.getLogger(__name__)


class InUse(InputError):
    """Another process holds a folder."""


@contextmanager
def locked(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Hold a folder against other processes; the kernel drops the lock when this process ends, however.

    Args:
        folder: the folder to hold.
        name: the file in it that is locked.

    Raises:
        InUse: where another process holds it.
        InputError: where it cannot be written to, or not be locked.
    """
    in_use = f"{folder} is in use by another run; wait for it, or choose another folder"
    try:
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(in_use) from None
        except OSError as error:  # some network file systems know no locks
            raise InputError(f"cannot lock {folder}: {error.strerror}; choose a folder on another disk") from None
        if not _is_at(descriptor, folder / name):  # another process put another folder in its place meanwhile
            raise InUse(in_use)
        yield
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def place_of(out: Path) -> Path:
    """Return the absolute path of a place, through links on the way; one that is the place is not followed."""
    return real_path(out) if out.name in ("", "..") else real_path(out.parent) / out.name


def refuse_existing(out: Path, *, overwrite: bool) -> None:
    """Raise InputError where something is in a place and may not be replaced."""
    if os.path.lexists(out) and not overwrite:
        raise _exists_already(out)


def _exists_already(out: Path) -> InputError:
    return InputError(f"{out} exists already; choose another --out or add --overwrite")


def publish(new: Path, out: Path, *, overwrite: bool) -> None:
    """Make a file or folder durable and give it its name, at once; what had the name goes with the folder beside.

    Args:
        new: the file or folder, in a folder beside ``out`` (:meth:`Beside.folder`).
        out: its name.
        overwrite: whether it may replace what is there.

    Raises:
        InputError: where something is there and may not be replaced, or the disk refuses.
    """
    try:
        for path in [*(new.iterdir() if new.is_dir() else ()), new]:
            make_durable(path)
        if not overwrite:
            _rename_new(new, out)
        elif not out.is_dir():
            new.replace(out)
        elif not _renameat2(new, out, RENAME_EXCHANGE):
            out.rename(new.parent / OLD)
            _rename_new(new, out)
        make_durable(out.parent)
    except FileExistsError:
        if overwrite:
            raise InputError(f"another process has put {out} there meanwhile; start again") from None
        raise _exists_already(out) from None
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}") from None


def _rename_new(source: Path, target: Path) -> None:
    """Rename, and raise FileExistsError where something has the name."""
    if not _renameat2(source, target, RENAME_NOREPLACE):
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        source.rename(target)


def _renameat2(source: Path, target: Path, flag: int) -> bool:
    """Call renameat2(2); False where the flag is not supported, and nothing was renamed."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:  # an old C library
        return False
    if call(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(source), None, str(target))


def spare_files() -> ExitStack:
    """Open files that are closed where others have to be opened and no more may be, such as to remove a folder.

    Raises:
        OSError: where there are not so many.
    """
    with ExitStack() as opened:
        for _ in range(SPARE_FILES):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        return opened.pop_all()


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The hidden folders beside places of one kind."""

    lock: str = ".aside"
    """File that is locked in such a folder; those with another lock are left alone."""
    done: Callable[[Path], bool] = os.path.lexists
    """Tell whether what is in a place has replaced what was there before."""
    may_discard: Callable[[Path], bool] = lambda _: False
    """Tell whether what is in a place, and not done, may be removed."""

    @contextmanager
    def folder(self, out: Path) -> Iterator[Path]:
        """Make a folder beside ``out`` to write ``NEW`` or to move what is there to ``OLD``; roll back at the end.

        Raises:
            InputError: where it cannot be made, or :meth:`roll_back` fails.
        """
        out = place_of(out)
        with ExitStack() as held:
            try:
                spare = held.enter_context(spare_files())
                folder = self.held_folder(out, held)
            except OSError as error:
                raise InputError(f"cannot write to {out.parent}: {error.strerror}") from None
            try:
                yield folder
            finally:
                with held_back():
                    spare.close()
                    self.roll_back(out, folder)

    def held_folder(self, out: Path, held: ExitStack) -> Path:
        """Make a folder beside ``out`` that is locked while ``held`` is open, so that others leave it alone."""
        while True:
            folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
            try:
                held.enter_context(locked(folder, self.lock))
            except InputError as error:
                if folder.exists() and not isinstance(error, InUse):
                    (folder / self.lock).unlink(missing_ok=True)
                    folder.rmdir()
                    raise
                continue  # another process found it before it was locked, and removes it
            return folder

    def recover(self, out: Path) -> None:
        """Roll back, and log, what processes of this user that were killed have left beside ``out``."""
        out = place_of(out)
        beside = re.compile(re.escape(f".{out.name}.") + rf"[a-z0-9_]{{{SUFFIX_LETTERS}}}")
        with suppress(OSError):
            for left in sorted(out.parent.iterdir()):
                if not beside.fullmatch(left.name) or left.is_symlink() or left.lstat().st_uid != os.getuid():
                    continue
                if (left / self.lock).is_file():
                    self._recover_from(left, out)
                elif left.is_dir() and not any(left.iterdir()):
                    left.rmdir()  # as it is made, before it is locked

    def _recover_from(self, left: Path, out: Path) -> None:
        try:
            with locked(left, self.lock):
                back = self.roll_back(out, left)
        except InUse:
            return  # a living process works on the folder, or in the place
        except InputError as error:
            logger.warning("%s", error)
            return
        if back:
            logger.warning("put %s back: a process that was to replace it was killed", out)
        else:
            logger.warning("removed what a process that was killed had left beside %s", out)

    def roll_back(self, out: Path, folder: Path) -> bool:
        """Remove a folder beside ``out``; True where what was there before was put back first.

        Raises:
            InputError: where that cannot be done; the folder stays.
        """
        old = folder / OLD
        back = os.path.lexists(old) and not self.done(out)
        if back:
            try:
                if os.path.lexists(out) and self.may_discard(out):
                    with locked(out):
                        shutil.rmtree(out)
                _rename_new(old, out)
            except OSError as error:
                why = "something else is in its place" if isinstance(error, FileExistsError) else error.strerror
                raise InputError(f"{out} could not be put back: {why}; it is kept as {old}") from None
        elif os.path.lexists(old):
            old.rename(folder / "gone")  # so that nobody puts it back, also where this process is killed
        for inside in folder.iterdir():
            if inside.is_dir() and not inside.is_symlink():
                shutil.rmtree(inside, ignore_errors=True)
            elif inside.name != self.lock:
                inside.unlink()
        if os.listdir(folder) != [self.lock]:
            logger.warning("%s could not be removed whole; remove it by hand", folder)
            return back
        (folder / self.lock).unlink()  # last: the process that finds it can finish this
        with suppress(OSError):
            folder.rmdir()
        return back


OUTPUTS = Beside()
"""The hidden folders beside stores, layouts and files."""
