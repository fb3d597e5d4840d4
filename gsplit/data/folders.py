"""Folders of ``.npy`` arrays with a JSON description: written whole or not at all.

Graph stores and layouts are both such folders. The description lists every array with dtype, shape, size in
bytes and the SHA-256 of its file, so ``sha256sum`` can check a folder as well (gsplit.data.description reads it).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.npy import NpyStream, map_array, sha256_of_file
from gsplit.errors import InputError
from gsplit.files import LOCK, locked, make_durable
from gsplit.host import ending_tidily

DESCRIPTIONS = ("graph.json", "layout.json")
"""A folder with one of these was written by us."""
SUFFIX_LETTERS = 8
"""Of the name of a temporary folder, as tempfile makes it."""


class FolderWriter:
    """Collects arrays in a temporary folder beside the final one; see :func:`writing_folder`."""

    def __init__(self, temporary: Path) -> None:
        self.path = temporary
        self._arrays: list[str] = []

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Write a whole array as ``name``.npy."""
        np.save(self.path / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)
        self._arrays.append(name)

    def create(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """A writable map of ``name``.npy, for arrays that are filled piece by piece."""
        self._arrays.append(name)
        if 0 in shape:
            np.save(self.path / f"{name}.npy", np.zeros(shape, dtype), allow_pickle=False)
            return np.zeros(shape, dtype)
        return np.lib.format.open_memmap(self.path / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)

    @contextmanager
    def stream(self, name: str, dtype: Any, width: int | None = None) -> Iterator[NpyStream]:
        """``name``.npy, written from top to bottom: [n], or [n, width], for an n known at the end."""
        stream = NpyStream(self.path / f"{name}.npy", np.dtype(dtype), width)
        try:
            yield stream
        finally:
            stream.close()
        self._arrays.append(name)

    def mapped(self, name: str) -> NDArray[Any]:
        """An array that has been written, read-only."""
        return map_array(self.path / f"{name}.npy")

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
    """Whether ``out`` may be written: nothing is there, or a store or layout (or nothing in it) to replace.

    Raises:
        InputError: where it may not, or could not.
    """
    if not os.path.lexists(out):
        _check_place(out)
        return
    if not overwrite:
        raise InputError(f"{out} exists already; choose another --out or add --overwrite")
    ours = out.is_dir() and (not any(out.iterdir()) or any((out / name).is_file() for name in DESCRIPTIONS))
    if out.is_symlink() or not ours:
        raise InputError(f"{out} is neither a graph store nor a layout, so --overwrite does not remove it")


def _check_place(out: Path) -> None:
    """Before minutes of work, whether the folder can be made afterwards."""
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
        InputError: where :func:`check_free` does, or the parent of ``out`` cannot be written.
    """
    check_free(out, overwrite=overwrite)
    missing = [parent for parent in out.parents if not parent.exists()]
    with ExitStack() as held:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            _sweep(out)
            temporary = _temporary_folder(out, held)
        except OSError as error:
            raise InputError(f"cannot write to {out.parent}: {error.strerror}") from None
        held.enter_context(ending_tidily())
        yield from _fill(out, temporary, missing, overwrite)


def _fill(out: Path, temporary: Path, missing: list[Path], overwrite: bool) -> Iterator[FolderWriter]:
    """:func:`writing_folder`, with a temporary folder to fill."""
    try:
        yield FolderWriter(temporary)
        check_free(out, overwrite=overwrite)  # somebody else may have been faster
        (temporary / LOCK).unlink()
        for file in temporary.iterdir():
            make_durable(file)
        mask = os.umask(0o077)
        os.umask(mask)
        temporary.chmod(0o777 & ~mask)  # as mkdir would have made it
        make_durable(temporary)
        retired = None
        if out.exists():
            retired = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
            out.rename(retired / "old")
        temporary.rename(out)
        make_durable(out.parent)
        if retired is not None:
            shutil.rmtree(retired)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):  # somebody else put something there
            for parent in missing:
                parent.rmdir()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise InputError(f"cannot write to {out.parent}: {error.strerror}") from None
        raise


def _temporary_folder(out: Path, held: ExitStack) -> Path:
    """A folder beside ``out``, locked for as long as ``held`` is open, so that others know that it is in use."""
    while True:
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        # Between the two somebody may have taken it for left behind, and swept it away.
        with suppress(FileNotFoundError, InputError):
            held.enter_context(locked(temporary))
            if (temporary / LOCK).exists():
                return temporary


def _sweep(out: Path) -> None:
    """Remove what writers of ``out`` left behind that were killed."""
    temporary_name = re.compile(re.escape(f".{out.name}.") + rf"[a-z0-9_]{{{SUFFIX_LETTERS}}}")
    for left in out.parent.iterdir():
        if temporary_name.fullmatch(left.name) and (left / LOCK).is_file():
            with suppress(OSError, InputError), locked(left):
                shutil.rmtree(left)
