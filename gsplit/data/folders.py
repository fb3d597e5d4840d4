"""Folders of ``.npy`` arrays with a JSON description: written whole or not at all, checked when opened.

Graph stores and layouts are both such folders. The description lists every array with dtype, shape, size in
bytes and the SHA-256 of its file, so ``sha256sum`` can check a folder as well.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import re
import shutil
import tempfile
import tokenize
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.errors import InputError
from gsplit.files import LOCK, locked, make_durable
from gsplit.host import ending_tidily

DESCRIPTIONS = ("graph.json", "layout.json")
"""A folder with one of these was written by us."""
SUFFIX_LETTERS = 8
"""Of the name of a temporary folder, as tempfile makes it."""
SMALL_BYTES = 1 << 16
"""Arrays up to this size are read, not mapped: an empty file cannot be mapped at all."""


def sha256_of_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


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
        return _map(self.path / f"{name}.npy")

    def describe(self, file_name: str, description: dict[str, Any]) -> None:
        """Write the JSON description, with the arrays' checksums and one over all of them. Comes last."""
        arrays: dict[str, Any] = {}
        for name in sorted(self._arrays):
            path = self.path / f"{name}.npy"
            array = _map(path)
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


class NpyStream:
    """An array that grows at the end; its header, of a fixed size, is written again when the length is known.

    Unlike a writable map it keeps nothing of what was written in memory.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], width: int | None) -> None:
        self.rows = 0
        self._dtype = dtype
        self._width = width
        self._file = path.open("wb")
        self._write_header()
        self._header_bytes = self._file.tell()

    def write(self, rows: NDArray[Any]) -> None:
        """Append rows of the array's width; other dtypes are converted."""
        assert rows.shape[1:] == (() if self._width is None else (self._width,))
        self._file.write(np.ascontiguousarray(rows, self._dtype).data)
        self.rows += len(rows)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        assert self._file.tell() == self._header_bytes
        self._file.close()

    def _write_header(self) -> None:
        shape = (self.rows,) if self._width is None else (self.rows, self._width)
        descr = np.lib.format.dtype_to_descr(self._dtype)
        np.lib.format.write_array_header_1_0(self._file, {"descr": descr, "fortran_order": False, "shape": shape})


def forget(array: NDArray[Any]) -> None:
    """Let the pages of a mapped file that this process has touched go; they come back when they are read again.

    Nothing happens to an array in memory.
    """
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None:
        base.madvise(mmap.MADV_DONTNEED)


def _map(path: Path) -> NDArray[Any]:
    return np.load(path, mmap_mode="r" if path.stat().st_size > SMALL_BYTES else None, allow_pickle=False)


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
        if out.exists():
            retired = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
            out.rename(retired / "old")
            temporary.rename(out)
            shutil.rmtree(retired)
        else:
            temporary.rename(out)
        make_durable(out.parent)
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


def read_description(folder: Path, file_name: str, format_name: str, version: int) -> dict[str, Any]:
    """The JSON description of a folder.

    Raises:
        InputError: where it is missing, damaged, of another format or version.
    """
    path = folder / file_name
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder" + (", it is a file" if folder.exists() else ": no such path"))
    if not path.is_file():
        raise InputError(f"{folder} is no {format_name}: it has no {file_name}{_hint(folder)}")
    try:
        description = json.loads(path.read_text())
        found, found_version = description["format"], description["version"]
        arrays = description["arrays"]
        if not isinstance(arrays, dict) or not isinstance(description["checksum"], str):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is damaged: no valid description of a {format_name}") from None
    if found != format_name or found_version != version:
        raise InputError(
            f"{path} says {found!r} version {found_version!r}; this release reads {format_name!r} version {version}"
        )
    return description


def _hint(folder: Path) -> str:
    if (folder / "graph.json").is_file():
        return "; it is a graph store: make a layout of it with python -m gsplit.partition"
    if (folder / "layout.json").is_file():
        return "; it is a layout"
    return ""


def open_array(
    folder: Path,
    name: str,
    description: dict[str, Any],
    dtypes: tuple[str, ...],
    shape: tuple[int | None, ...],
) -> NDArray[Any]:
    """A read-only map of ``name``.npy, checked against its description, the dtypes allowed and the shape.

    ``None`` in ``shape`` admits any size.

    Raises:
        InputError: where the file is missing, truncated or of another dtype or shape.
    """
    path = folder / f"{name}.npy"
    entry = _entry(folder, name, description)
    try:
        size_bytes = path.stat().st_size
        if size_bytes != entry["bytes"]:
            raise InputError(f"{path} is truncated or changed: {size_bytes} bytes, {entry['bytes']} expected")
        array = np.load(path, mmap_mode="r" if size_bytes > SMALL_BYTES else None, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except InputError:
        raise
    except (ValueError, EOFError, OSError, TypeError, SyntaxError, tokenize.TokenError) as error:
        # A .npy header is a Python literal; a damaged one fails in as many ways as Python's parser has.
        raise InputError(f"{path} is not a readable .npy file: {error}") from None
    if str(array.dtype) != entry["dtype"] or list(array.shape) != entry["shape"]:
        raise InputError(
            f"{path} is damaged or changed: {array.dtype} of shape {array.shape}, "
            f"described as {entry['dtype']} of shape {tuple(entry['shape'])}"
        )
    array.setflags(write=False)
    if str(array.dtype) not in dtypes:
        raise InputError(f"{path} has dtype {array.dtype}; expected {' or '.join(dtypes)}")
    fits = len(shape) == array.ndim and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise InputError(f"{path} has shape {array.shape}; expected ({wanted})")
    return array


def _entry(folder: Path, name: str, description: dict[str, Any]) -> dict[str, Any]:
    """What the description says of one array."""
    entry = description["arrays"].get(name)
    if entry is None:
        raise InputError(f"{folder}: the description lists no array {name!r}")
    types = {"dtype": str, "shape": list, "bytes": int, "sha256": str}
    if not isinstance(entry, dict) or any(not isinstance(entry.get(key), kind) for key, kind in types.items()):
        raise InputError(f"{folder}: the description is damaged where it lists the array {name!r}")
    return entry


def verify_checksums(folder: Path, description: dict[str, Any]) -> None:
    """Read every array once and compare its SHA-256.

    Raises:
        InputError: for the first file that differs.
    """
    for name in description["arrays"]:
        entry = _entry(folder, name, description)
        path = folder / f"{name}.npy"
        if not path.is_file():
            raise InputError(f"{path} is missing")
        if sha256_of_file(path) != entry["sha256"]:
            raise InputError(f"{path} is damaged: its SHA-256 is not the one in the description")
