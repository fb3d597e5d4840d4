"""Files that are whole or not there, whenever the machine stops.

What is not whole yet has a hidden name beside its place: a file ``.NAME.PID`` (:func:`replace_file`), a folder
``.NAME.xxxxxxxx`` (:mod:`gsplit.atomic_folder`).
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gsplit.errors import InputError

FORMS = (
    *(".html", ".htm", ".json", ".jsonl", ".png", ".svg", ".pdf", ".jpg", ".csv", ".tsv", ".txt", ".md", ".parquet"),
    *(".npy", ".npz", ".pt", ".pth", ".pkl", ".bin", ".mtx", ".gz", ".zip"),
)
"""Endings of names that say what is in a file."""


def as_path(value: Any, where: str, wanted: str) -> Path:
    """The path that something is, or stands for.

    Args:
        value: a string, or whatever ``os.fspath`` takes.
        where: what was called, for messages.
        wanted: what it takes there.

    Raises:
        InputError: for anything else.
    """
    try:
        return Path(value)
    except TypeError:
        raise InputError(f"{where} takes {wanted}, not {repr(value)[:60]}") from None


def real_path(path: Path) -> Path:
    """The absolute path without symbolic links; one that leads into a loop of them is no file or folder."""
    return Path(os.path.realpath(path))


def make_durable(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


def check_form(path: Path, takes: Collection[str], what: str, flag: str = "--out") -> None:
    """Check that a file's name does not say that it is of another form than what is written.

    Args:
        path: of the file; any ending that names no form will do.
        takes: endings that name the form.
        what: is written.
        flag: what named it.

    Raises:
        InputError: where it does.
    """
    form = path.suffix.lower()
    if form in FORMS and form not in takes:
        raise InputError(
            f"{flag} {path} ends in {path.suffix}, and what is written is {what}; end it in {' or '.join(takes)}"
        )


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
