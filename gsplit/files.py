"""Files that are whole or not there, whenever the machine stops.

What is not whole yet has a hidden name beside its place: a file ``.NAME.PID`` (:func:`replace_file`), a folder
``.NAME.xxxxxxxx`` (:mod:`gsplit.aside`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gsplit.errors import InputError

LOCK = ".lock"
"""File in a folder that whoever works on the folder holds locked."""

logger = logging.getLogger(__name__)


class InUse(InputError):
    """Another process holds a folder."""


def make_durable(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def read_json(path: Path) -> Any:
    """The value in a JSON file.

    Raises:
        OSError: where it cannot be read.
        ValueError: where it is no JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_writable(path: Path, flag: str = "--json") -> None:
    """Check, before minutes of work, that a file can be written afterwards; ``flag`` is what named it.

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
        InputError: where it cannot be written, such as on a full disk. ``path`` is whole then: what it was, or, where
            only the names in its folder could not be made durable, the new file.
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


def sweep_files(folder: Path, names: str) -> None:
    """Remove the temporary files that processes left in a folder which were killed, and say so.

    Args:
        folder: a folder that this process has locked.
        names: a regular expression for the names of the files that they were to become.
    """
    temporary = re.compile(rf"\.({names})\.\d+")
    with contextlib.suppress(OSError):
        for left in sorted(folder.iterdir()):
            if temporary.fullmatch(left.name) and left.is_file():
                left.unlink()
                logger.warning("removed %s, which a process that was killed had left", left)
