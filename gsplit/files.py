"""Files that are whole or not there, whenever the machine stops.

What is not whole yet has a hidden name beside its place: a file ``.NAME.PID`` (:func:`replace_file`), a folder
``.NAME.xxxxxxxx`` (:mod:`gsplit.aside`).
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gsplit.errors import InputError

LOCK = ".lock"

logger = logging.getLogger(__name__)


def make_durable(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder against a second run. The kernel lets go of the lock when this process ends, however.

    Raises:
        InputError: where another process holds it, or it cannot be written to.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is in use by another run; wait for it, or choose another folder") from None
        yield
    finally:
        os.close(descriptor)


def check_writable(path: Path, flag: str = "--json") -> None:
    """Before minutes of work, whether a file can be written afterwards; ``flag`` is what named it.

    Raises:
        InputError: where it cannot.
    """
    try:
        if path.is_dir():
            raise InputError(f"{flag} {path} is a folder")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"{flag} {path}: cannot write to {path.parent}: {error.strerror}") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name to write to; when the block ends the file is made durable and renamed over ``path``.

    Raises:
        InputError: where it cannot be written, such as on a full disk; ``path`` is what it was then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        make_durable(temporary)
        temporary.replace(path)
        make_durable(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"cannot write {path}: {error.strerror or error}") from None
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Write ``content`` over ``path``, as :func:`replacing` does; raises what that does."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def append_to_file(path: Path, content: bytes) -> None:
    """Write ``content`` behind what is in a file; make the file where there is none.

    Raises:
        InputError: where that cannot be done; the file is what it was then.
    """
    try:
        with path.open("ab", buffering=0) as file:
            before = file.seek(0, os.SEEK_END)
            try:
                written = 0
                while written < len(content):  # a disk that fills up takes a part first
                    written += file.write(content[written:])
            except BaseException:
                file.truncate(before)
                raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def sweep_files(folder: Path, name: str | None = None) -> None:
    """Remove the temporary files that processes left in a folder which were killed, and say so.

    Args:
        folder: where to look.
        name: of the file that they were to become; by default any, in a folder that this process has locked.
    """
    temporary = re.compile(r"\..+\.(\d+)" if name is None else re.escape(f".{name}.") + r"(\d+)")
    with contextlib.suppress(OSError):
        for left in sorted(folder.iterdir()):
            found = temporary.fullmatch(left.name)
            if found and left.is_file() and (name is None or not _alive(int(found[1]))):
                left.unlink()
                logger.warning("removed %s, which a process that was killed had left", left)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
