"""Arrays of an ``.npz``, read in pieces as they are stored."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.checked import printable_line
from gsplit.data.npy import DAMAGED_ARCHIVE
from gsplit.errors import InputError

BYTES_AT_ONCE = 1 << 26


@dataclass(frozen=True, kw_only=True)
class ZippedArray:
    """One array of an archive, known by its header."""

    path: Path
    key: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    column_major: bool

    def __str__(self) -> str:
        return f"{self.path}: {self.key}"

    def read(self) -> NDArray[Any]:
        """Read the whole array.

        Raises:
            InputError: where the archive is damaged.
        """
        flat = np.concatenate([np.empty(0, self.dtype), *self.flat(0, int(np.prod(self.shape)))])
        return flat.reshape(self.shape, order="F" if self.column_major else "C")

    def flat(self, begin: int, count: int, *, at_once: int | None = None) -> Iterator[NDArray[Any]]:
        """Read ``count`` numbers from ``begin`` on, as they are stored, in pieces of ``at_once`` and a rest.

        Raises:
            InputError: where the archive is damaged or ends too soon.
        """
        at_once = at_once or max(1, BYTES_AT_ONCE // self.dtype.itemsize)
        with reading(self.path, self.key), _member(self.path, self.key) as file:
            _header(file)
            file.seek(begin * self.dtype.itemsize, 1)
            end = begin + count
            while begin < end:
                wanted = min(at_once, end - begin)
                content = file.read(wanted * self.dtype.itemsize)
                if len(content) < wanted * self.dtype.itemsize:
                    missing = f"{end - begin} of {np.prod(self.shape)} numbers are missing"
                    raise InputError(f"{self} ends too soon: {missing}")
                begin += wanted
                yield np.frombuffer(content, self.dtype)


def zipped_arrays(path: Path) -> dict[str, ZippedArray]:
    """The arrays of an archive by their keys; only headers are read.

    Raises:
        InputError: where the file is missing, no archive, or holds anything but plain arrays.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing")
    with reading(path, "the archive"), zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
    arrays = {}
    for name in names:
        key = name.removesuffix(".npy")
        with reading(path, key), _member(path, key) as file:
            shape, column_major, dtype = _header(file)
        if dtype.kind not in "biuf":
            raise InputError(f"{path}: {printable_line(key)} holds {dtype}, not numbers")
        arrays[key] = ZippedArray(path=path, key=key, shape=shape, dtype=dtype, column_major=column_major)
    return arrays


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn the exceptions of a damaged archive into an InputError that names the file and ``what``."""
    try:
        yield
    except InputError:
        raise
    except DAMAGED_ARCHIVE as error:
        raise InputError(f"{path}: {printable_line(f'{what} is damaged or not of an .npz: {error}')}") from None


@contextmanager
def _member(path: Path, key: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as file:
        yield file


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)
