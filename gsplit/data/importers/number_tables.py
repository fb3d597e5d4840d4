"""Tables of numbers in text, ``.csv`` or ``.csv.gz``, without a header, read in chunks of rows."""

from __future__ import annotations

import gzip
import itertools
import re
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gsplit.errors import InputError

ROWS_AT_ONCE = 1 << 18
LONGEST_LINE = 1 << 24
"""Characters; something longer is no table, and would be read into memory whole."""


def read_rows(
    path: Path, dtype: Any, *, columns: int | None = None, rows_at_once: int = ROWS_AT_ONCE
) -> Iterator[NDArray[Any]]:
    """Chunks [n, columns] from top to bottom, n >= 1.

    Args:
        columns: how many there must be; by default as many as in the first row.

    Raises:
        InputError: naming the line, for text that is no number of ``dtype`` and rows of another length; and for
            files that are missing, truncated or not text.
    """
    done = 0
    try:
        with _open(path) as file:
            while lines := list(itertools.islice(_lines(file, path, done), rows_at_once)):
                chunk = _parse(lines, dtype, path, done)
                done += len(lines)
                columns = columns or chunk.shape[1]
                if chunk.shape[1] != columns:
                    line = done - len(lines) + 1
                    raise InputError(f"{path}, from line {line}: {chunk.shape[1]} columns in a row, not {columns}")
                yield chunk
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text, after line {done}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read after line {done}: {error}") from None


def read_table(path: Path, dtype: Any, *, columns: int | None = None) -> NDArray[Any]:
    """The whole table [n, columns]; [0, columns or 0] for an empty file.

    Raises:
        InputError: as :func:`read_rows`.
    """
    chunks = list(read_rows(path, dtype, columns=columns))
    return np.concatenate(chunks) if chunks else np.empty((0, columns or 0), dtype)


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="ascii")
    return path.open(encoding="ascii")


def _lines(file: IO[str], path: Path, done: int) -> Iterator[str]:
    while line := file.readline(LONGEST_LINE):
        done += 1
        if len(line) == LONGEST_LINE:
            raise InputError(f"{path}: line {done} is longer than {LONGEST_LINE} characters; this is no table")
        if not line.strip():
            raise InputError(f"{path}: line {done} is empty")
        yield line


def _parse(lines: list[str], dtype: Any, path: Path, done: int) -> NDArray[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.loadtxt(lines, dtype=dtype, delimiter=",", comments=None, ndmin=2)
    except (ValueError, OverflowError) as error:
        message = str(error).split(";")[0]
        row = re.search(r" at row (\d+)(?:, column (\d+))?", message)
        if row is None:
            raise InputError(f"{path}, after line {done}: {message}") from None
        # NumPy counts from 0 where a number is wrong, and from 1 where a row has another length.
        line = done + int(row[1]) + (row[2] is not None)
        column = f", column {row[2]}" if row[2] else ""
        raise InputError(f"{path}, line {line}{column}: {message[: row.start()]}") from None
