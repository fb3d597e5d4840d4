"""Files of one array, ``.npy``: written from top to bottom, mapped to be read."""

from __future__ import annotations

import hashlib
import lzma
import mmap
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL_BYTES = 1 << 16
"""Bytes up to which arrays are read, not mapped: an empty file cannot be mapped at all."""
DAMAGE = (
    ValueError,
    EOFError,
    OSError,
    TypeError,
    SyntaxError,
    tokenize.TokenError,
    MemoryError,
    OverflowError,
    RecursionError,
)
"""Errors of reading a damaged file: its header is a Python literal, which fails in as many ways as Python's parser
has, and may tell of more numbers than memory holds."""


DAMAGED_ARCHIVE = (
    *DAMAGE,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    LookupError,
    AttributeError,
    RuntimeError,
)
"""Errors of reading one that is packed, or an archive of some: found by flipping each byte of them."""


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def map_array(path: Path) -> NDArray[Any]:
    """Read-only array of a ``.npy``: mapped, or read where it is small. Raises one of ``DAMAGE``."""
    with np.errstate(over="ignore"):  # of the size in a damaged header, which is refused
        array = np.load(path, mmap_mode="r" if path.stat().st_size > SMALL_BYTES else None, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError("it is an archive of arrays")
    return array


def forget(array: NDArray[Any]) -> None:
    """Let the pages of a mapped file that this process has touched go; they come back when they are read again.

    Nothing happens to an array in memory.
    """
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None:
        base.madvise(mmap.MADV_DONTNEED)


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
        """Write the header with the final length, and close the file."""
        self._file.seek(0)
        self._write_header()
        assert self._file.tell() == self._header_bytes
        self._file.close()

    def _write_header(self) -> None:
        shape = (self.rows,) if self._width is None else (self.rows, self._width)
        descr = np.lib.format.dtype_to_descr(self._dtype)
        np.lib.format.write_array_header_1_0(self._file, {"descr": descr, "fortran_order": False, "shape": shape})
