"""Files that are whole or not there, whenever the machine stops."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gsplit.errors import InputError

LOCK = ".lock"


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
        InputError: where another process holds it.
    """
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder} is in use by another run; wait for it, or choose another folder") from None
        yield
    finally:
        os.close(descriptor)


def read_json(path: Path) -> Any:
    """The value in a file.

    Raises:
        OSError: where it cannot be read.
        ValueError: where it is no JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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


def replace_file(path: Path, content: bytes) -> None:
    """Write ``content`` under a temporary name, make it durable, then rename it over ``path``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    make_durable(temporary)
    temporary.replace(path)
    make_durable(path.parent)
