"""Tables in text and Parquet, read in chunks of rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.rounding import LARGEST, WHOLE
from gsplit.data.importers.checked import is_number
from gsplit.data.importers.tables.content import is_parquet
from gsplit.data.importers.tables.gaps import USUAL, Gaps
from gsplit.data.importers.tables.parquet_tables import ParquetTable
from gsplit.data.importers.tables.text_tables import TextTable
from gsplit.errors import InputError


class Table(Protocol):
    """A table in a file; columns are counted from 0."""

    path: Path
    names: list[str]
    """Names of the columns, in lower case, to find them by; empty where there is no header."""
    written_names: list[str]
    """The same as they are written."""
    num_columns: int
    gaps: Gaps
    """Words that stand for no number."""

    def read(self, columns: Sequence[int], kinds: Sequence[type]) -> Iterator[list[Any]]:
        """Read columns in chunks of rows.

        An array [n] is int64 for ``int``, float32 for ``float`` and float64 for ``np.float64`` (NaN where empty), and
        of pyarrow, as of :meth:`texts`, for ``str``.

        Raises:
            InputError: naming the line or row, where one does not parse.
        """

    def texts(self, columns: Sequence[int]) -> Iterator[list[Any]]:
        """Read columns as they are written, in chunks of rows: arrays of pyarrow, ``large_string``, "" where empty.

        Values of a Parquet file are written as pandas does: ``3``, ``3.0``, ``True``, ``['a', 'b']``.

        Raises:
            InputError: naming the line or row, where one is no text.
        """

    def ids(self, columns: Sequence[int]) -> Iterator[list[Any]]:
        """Read columns of ids, as :meth:`texts` does, but whole floats of a Parquet file become digits, too.

        Raises:
            InputError: naming the row, where a number is no whole one.
        """

    def is_text(self, column: int) -> bool:
        """Return whether a column may hold texts that are no numbers."""

    def holds_numbers(self, column: int) -> bool:
        """Return whether the file says that a column holds numbers, as text does of none."""

    def holds_truths(self, column: int) -> bool:
        """Return whether the first value of a column, among its first rows, is true or false."""

    def may_round(self, column: int) -> bool:
        """Return whether doubles may not hold the numbers of a column: whole ones of 64 bits, or texts."""

    def num_rows(self) -> int:
        """Number of rows; text is read from top to bottom for it."""

    def place(self, row: int) -> str:
        """Return what messages call a row, counted from 0."""


def open_table(
    path: Path,
    words: frozenset[str] = frozenset(),
    *,
    header: bool | None = None,
    gaps: Gaps = USUAL,
    bars: bool = True,
    alone: bool = False,
) -> Table:
    """Open ``path`` as Parquet if its first bytes say so, else as text.

    Args:
        words: texts that are data: a first line of nothing but these and numbers is no header.
        header: whether the first line of a text holds the names of its columns; None: it does if no number is in it.
        gaps: words that stand for no value.
        bars: whether ``|`` and ``::`` may stand between the fields of a text.
        alone: whether a line of a text is one field, unless it looks like several.

    Raises:
        InputError: where there is no such file, it is empty or damaged, or pyarrow is not installed.
    """
    if not path.is_file():
        raise InputError(f"{path} is a folder, not a file" if path.is_dir() else f"{path}: no such file")
    if is_parquet(path):
        return ParquetTable(path, gaps)
    return TextTable(path, words, header=header, gaps=gaps, bars=bars, alone=alone)


def read_exactly(table: Table, columns: Sequence[int], kinds: Sequence[type] | None = None) -> Iterator[list[Any]]:
    """Read columns as :meth:`Table.read` does, but whole numbers that doubles do not hold as long doubles.

    Args:
        table: where from; where there are such numbers, these columns are read a second time, as texts.
        columns: of it.
        kinds: of the columns; None: all are ``np.float64``.
    """
    kinds = kinds or [np.float64] * len(columns)
    doubles = [at for at, kind in enumerate(kinds) if kind is np.float64 and table.may_round(columns[at])]
    texts: Iterator[list[Any]] | None = None
    for number, chunk in enumerate(table.read(columns, kinds)):
        if texts is None and any(_are_large(chunk[at]) for at in doubles):
            texts = itertools.islice(table.texts([columns[at] for at in doubles]), number, None)
        if texts is not None:
            for at, words in zip(doubles, next(texts), strict=True):
                chunk[at] = _whole(chunk[at], words)
        yield chunk


def _are_large(values: NDArray[np.float64]) -> bool:
    return bool(np.fmax.reduce(values, initial=0) >= WHOLE or np.fmin.reduce(values, initial=0) <= -WHOLE)


def _whole(values: NDArray[np.float64], texts: Any) -> NDArray[Any]:
    """Numbers as long doubles where texts write them as whole ones that are too large for doubles."""
    import pyarrow as pa
    import pyarrow.compute as pc

    at = np.flatnonzero((np.abs(values) >= WHOLE) & (np.abs(values) <= LARGEST))
    words = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts.take(at)), r"\.0*$", "")
    whole = pc.match_substring_regex(words, "^-?[0-9]+$").to_numpy(zero_copy_only=False)
    if not whole.any():
        return values
    numbers = values.astype(np.longdouble)
    numbers[at[whole]] = np.array(words.filter(pa.array(whole)).to_pylist(), "U").astype(np.longdouble)
    return numbers


def is_numeric(table: Table, column: int) -> bool:
    """Return whether the first value of a column is a number, or it has none."""
    if not table.is_text(column):
        return table.holds_numbers(column)
    for (texts,) in table.texts([column]):
        for text in map(str.strip, texts.to_pylist()):
            if text not in table.gaps:
                return is_number(text)
    return True
