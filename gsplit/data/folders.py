"""Folders of ``.npy`` arrays with a JSON description: written whole or not at all.

Graph stores and layouts are both such folders. The description lists every array with dtype, shape, size in
bytes and the SHA-256 of its file, so ``sha256sum`` can check a folder as well (gsplit.data.description reads it).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.atomic_folder import NEW, OUTPUTS, SUFFIX_LETTERS, place_of, publish, refuse_existing
from gsplit.data.npy import NpyStream, map_array, sha256_of_file
from gsplit.errors import InputError
from gsplit.host import ending_tidily

DESCRIPTIONS = ("graph.json", "layout.json")
"""Descriptions that show that a folder was written by us."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk that has no more room for us."""
NUMPYS_FULL = " requested and "
"""Part of NumPy's message for it: bytes requested and written, without a number of the error."""


class FolderWriter:
    """Collects arrays in a temporary folder beside the final one; see :func:`writing_folder`."""

    def __init__(self, temporary: Path, suffix: str = "", arrays: list[str] | None = None) -> None:
        self.path = temporary
        self._suffix = suffix
        self._arrays: list[str] = [] if arrays is None else arrays

    def numbered(self, number: int | None) -> FolderWriter:
        """The same folder for the arrays of a type or relation: ``name`` stands for the file ``name.NUMBER.npy``.

        None is for those of a graph of one type, whose files have no number.
        """
        return self if number is None else FolderWriter(self.path, f".{number}", self._arrays)

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Write a whole array as ``name``.npy."""
        np.save(self._new(name), np.ascontiguousarray(array), allow_pickle=False)

    def create(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Writable map of ``name``.npy, for arrays that are filled piece by piece."""
        path = self._new(name)
        if 0 in shape:
            np.save(path, np.zeros(shape, dtype), allow_pickle=False)
            return np.zeros(shape, dtype)
        array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        with path.open("r+b") as file:  # a full disk is an error here, not a signal while the map is written
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        return array

    @contextmanager
    def stream(self, name: str, dtype: Any, width: int | None = None) -> Iterator[NpyStream]:
        """Stream that writes ``name``.npy from top to bottom: [n], or [n, width], for an n known at the end."""
        stream = NpyStream(self._new(name), np.dtype(dtype), width)
        try:
            yield stream
        finally:
            stream.close()

    def mapped(self, name: str) -> NDArray[Any]:
        """An array that has been written, read-only."""
        return map_array(self.path / f"{name}{self._suffix}.npy")

    def _new(self, name: str) -> Path:
        """Take down an array that is to be written, and return its file."""
        self._arrays.append(f"{name}{self._suffix}")
        return self.path / f"{self._arrays[-1]}.npy"

    def describe(self, file_name: str, description: dict[str, Any]) -> None:
        """Write the JSON description, with the arrays' checksums and one over all of them. Comes last."""
        arrays: dict[str, Any] = {}
        for name in sorted(self._arrays):
            path = self.path / f"{name}.npy"
            array = map_array(path)
            arrays[name] = {
                "dtype": str(array.dtype),
                "shape": list(array.shape),
                "bytes": path.stat().st_size,
                "sha256": sha256_of_file(path),
            }
        over_all = "".join(f"{name} {entry['sha256']}\n" for name, entry in arrays.items())
        checksum = hashlib.sha256(over_all.encode()).hexdigest()
        (self.path / file_name).write_text(
            json.dumps({**description, "checksum": checksum, "arrays": arrays}, indent=2) + "\n"
        )


def check_free(out: Path, *, overwrite: bool) -> None:
    """Raise InputError unless ``out`` is free: nothing is there, or an empty folder, or one of ours to replace."""
    OUTPUTS.recover(out)
    if not os.path.lexists(out):
        _check_place(out)
        return
    refuse_existing(out, overwrite=overwrite)
    ours = out.is_dir() and (not any(out.iterdir()) or any((out / name).is_file() for name in DESCRIPTIONS))
    if out.is_symlink() or not ours:
        raise InputError(f"{out} is neither a graph store nor a layout, so --overwrite does not remove it")


def _check_place(out: Path) -> None:
    """Check, before minutes of work, that the folder can be made afterwards."""
    there = next(parent for parent in out.absolute().parents if os.path.lexists(parent))
    names = out.absolute().relative_to(there).parts
    try:
        with tempfile.TemporaryFile(dir=there):
            longest = os.pathconf(there, "PC_NAME_MAX")
        if max(len(os.fsencode(name)) for name in (*names, f".{out.name}.{'x' * SUFFIX_LETTERS}")) > longest:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    except OSError as error:
        raise InputError(f"cannot write to {out.parent}: {error.strerror}") from None


@contextmanager
def writing_folder(out: Path, *, overwrite: bool = False) -> Iterator[FolderWriter]:
    """A folder that appears under its name only when the block ends without an exception.

    Raises:
        InputError: where :func:`check_free` does, the parent of ``out`` cannot be written, or memory or the disk has
            too little room for what the block does.
    """
    check_free(out, overwrite=overwrite)
    out = place_of(out)
    missing = [parent for parent in out.parents if not parent.exists()]
    with ending_tidily():
        try:
            _make_parent(out)
            with OUTPUTS.folder(out) as beside:
                (beside / NEW).mkdir()
                yield FolderWriter(beside / NEW)
                check_free(out, overwrite=overwrite)  # another process may have been faster
                publish(beside / NEW, out, overwrite=overwrite)
        except BaseException as error:
            with suppress(OSError):  # another process put something there
                for parent in missing:
                    parent.rmdir()
            if isinstance(error, MemoryError):
                words = " ".join(str(error).split())
                in_brackets = f" ({words})" if words else ""
                raise InputError(f"{out} cannot be made: there is too little memory{in_brackets}") from None
            if isinstance(error, OSError) and (error.errno in FULL or NUMPYS_FULL in str(error)):
                why = os.strerror(error.errno or errno.ENOSPC)
                raise InputError(f"cannot write to {out.parent}: {why}") from None
            raise


def _make_parent(out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {out.parent}: {error.strerror}") from None
