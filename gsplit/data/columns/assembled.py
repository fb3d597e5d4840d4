"""A matrix of features put together from the columns of tables and arrays, before it is written.

N vertices, D features. Values that are not there are NaN until they are filled (:mod:`gsplit.data.columns.filled`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.rounding import unrounded
from gsplit.data.spill import ArraySpill
from gsplit.errors import InputError

Kind = Literal["number", "category", "code", "bool", "time"]
"""Kind of a column of a table: numbers; texts that become a feature each, or one number, from 1 on; true and
false; times, which become days since 1970-01-01 UTC."""
Missing = Literal["refuse", "zero", "mean"]


@dataclass(frozen=True, kw_only=True)
class FeatureColumn:
    """One column of a table and the features that it becomes; or a whole array."""

    table: str
    """The file."""
    name: str = ""
    """Name of the column: its number, from 1 on, without a header; empty for an array."""
    kind: Kind | Literal["array"] = "number"
    form: str = ""
    """Form of times: a unit of numbers since 1970, such as ms, or words of ``strptime``; empty: ISO 8601."""
    categories: tuple[str, ...] = ()
    """Texts of the categories: of a category, one a feature; of codes, those of 1, 2, ... ."""
    columns: int = 1
    """Number of columns of an array."""

    reject_unknown: bool = False
    """True where texts that are no category are refused; else no value stands there."""

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.categories) if self.kind == "category" else self.columns

    @property
    def is_scaled(self) -> bool:
        """True where standardising changes the column: categories, codes and truth values stay."""
        return self.kind in ("number", "time", "array")


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Numbers that the features of a block are filled with and scaled by, each float64 [width]."""

    fill: NDArray[Any]
    """Value in place of a missing one, before it is scaled; of long doubles where doubles do not hold it."""
    mean: NDArray[np.float64]
    """Number that is subtracted from each feature; 0 where none is."""
    rest: NDArray[np.float64]
    """Number that is subtracted then: what a double does not hold of the mean of whole numbers of 64 bits."""
    deviation: NDArray[np.float64]
    """Number that divides it then; 1 where none does."""


@dataclass(frozen=True, kw_only=True)
class FeatureBlock:
    """The features out of one file."""

    path: str
    """Name in messages."""
    columns: tuple[FeatureColumn, ...]
    chunks: Callable[[], Iterator[NDArray[Any]]]
    """Function that reads the rows from the beginning, [n, width] at a time, NaN where there is no value."""
    vertices: NDArray[np.int64] | None = None
    """[rows], the vertex of each row, none twice; -1: the row is left out. None: rows are those of all vertices, in
    order."""
    place: Callable[[int], str] = "row {}".format
    """Name of the i-th row in messages, counted from 0."""
    statistics: Statistics | None = None
    """Numbers that are known beforehand; None: they are computed from the values."""

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(column.width for column in self.columns)


@dataclass(frozen=True, kw_only=True)
class KeptFeatures:
    """Features of a store that grows."""

    rows: NDArray[Any]
    """[N0, D], of the first vertices, which need no row: one of theirs replaces what they had."""
    columns: tuple[dict[str, Any], ...]
    """Columns that they were made of, as the description of the store has them; it may have none."""
    called: str
    """Name of the store in messages."""


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """Features out of several files, side by side."""

    num_vertices: int
    """N."""
    blocks: tuple[FeatureBlock, ...]
    missing: Missing = "refuse"
    """Value in place of a missing one, also of a vertex without a row: none, zero, or the mean."""
    standardize: bool = False
    """True where numbers and times get mean 0 and standard deviation 1 over the training vertices."""
    kept: KeptFeatures | None = None
    """Features that there were; None where no store grows."""
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))

    @property
    def may_be_scaled(self) -> bool:
        """True where ``--standardize`` is not given and may be: a store that grows has chosen."""
        return not self.standardize and self.kept is None

    @property
    def takes_moments(self) -> bool:
        """True where means and deviations are needed."""
        return self.standardize or self.missing == "mean"

    @property
    def shape(self) -> tuple[int, int]:
        """N and D."""
        return self.num_vertices, sum(block.width for block in self.blocks)


VALUES_AT_ONCE = 1 << 22
"""Features looked at at once, in float64; an array may have thousands of columns."""
ROWS_AT_ONCE = 1 << 16
WIDEST = 2
"""Features a column, on average, whose numbers are kept in a file: some twice the bytes of their text."""


def rows_of(block: FeatureBlock) -> Iterator[tuple[int, NDArray[np.int64], NDArray[Any]]]:
    """The number of the first row, the vertices [n], -1 where a row is left out, and the values [n, width].

    Raises:
        InputError: naming the first value of a row that is kept that is infinite.
    """
    begin, at_once = 0, rows_at_once(block)
    for chunk in block.chunks():
        for at in range(0, len(chunk), at_once):
            piece = unrounded(chunk[at : at + at_once])
            rows = np.arange(begin, begin + len(piece))
            vertices = rows if block.vertices is None else block.vertices[rows]
            _check_infinite(block, begin, vertices, piece)
            yield begin, vertices, piece
            begin += len(piece)


def parsed_once(block: FeatureBlock, path: Path) -> FeatureBlock:
    """A block whose file is parsed when it is read first; after that its numbers come from a file that holds them.

    Many categories are wider than their texts, and arrays are not parsed: such blocks stay as they are.

    Args:
        block: which is read from the first chunk to the last.
        path: for its numbers; the caller removes it.
    """
    if block.width > WIDEST * len(block.columns) or any(column.kind == "array" for column in block.columns):
        return block
    spill: ArraySpill | None = None

    def chunks() -> Iterator[NDArray[Any]]:
        nonlocal spill
        if spill is not None:
            yield from spill.arrays()
            return
        with closing(ArraySpill(path)) as parsed:
            for chunk in block.chunks():
                parsed.add(chunk)
                yield chunk
        spill = parsed

    return replace(block, chunks=chunks)


def rows_at_once(block: FeatureBlock) -> int:
    """Rows that are looked at at once."""
    return max(1, min(ROWS_AT_ONCE, VALUES_AT_ONCE // max(1, block.width)))


def _check_infinite(block: FeatureBlock, begin: int, vertices: NDArray[np.int64], piece: NDArray[Any]) -> None:
    if piece.dtype.kind == "f" and (infinite := np.isinf(piece)).any():
        infinite &= (vertices >= 0)[:, None]
        if infinite.any():
            raise InputError(
                f"{first_place(block, begin, infinite)} is infinite, or too large for any number; replace it first"
            )


def first_place(block: FeatureBlock, begin: int, marked: NDArray[np.bool_]) -> str:
    """File, row and column of the first feature that is marked, of the rows from ``begin`` on."""
    row, at = (int(each[0]) for each in np.nonzero(marked))
    return f"{block.path}, {block.place(begin + row)}: {column_of_feature(block, at)}"


def column_of_feature(block: FeatureBlock, feature: int) -> str:
    """What messages call the column that a feature is of: of an array its number, from 1 on."""
    name = next(column.name for column, at in columns_of(block) if at <= feature < at + column.width)
    return f"column {name or feature + 1}"


def columns_of(block: FeatureBlock) -> Iterator[tuple[FeatureColumn, int]]:
    """Each column and its first feature."""
    first = 0
    for column in block.columns:
        yield column, first
        first += column.width
