"""Rows of a block, some at a time, and what messages call a feature of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import FeatureBlock, FeatureColumn
from gsplit.data.columns.rounding import unrounded
from gsplit.errors import InputError

VALUES_AT_ONCE = 1 << 22
"""Features looked at at once, in float64; an array may have thousands of columns."""
ROWS_AT_ONCE = 1 << 16


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
