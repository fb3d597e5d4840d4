"""Slices of columns: where memory is short, rows move and are summed a slice after another.

What a chain of moves has at once is then as wide as a slice: scaled rows, gathered rows, partial sums. Each column is
summed as before, so that results have the same bits, and as many words move, in more messages.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from torch import Tensor

T = TypeVar("T")
MOST, FEWEST_COLUMNS = 4, 16
"""Slices of rows at most, and columns of a slice at least."""


def slices(width: int, members: int) -> list[int]:
    """Numbers of columns of each slice of rows; ``[width]`` of narrow ones.

    Args:
        width: columns of the rows.
        members: that the columns of a slice are dealt out to: evenly but for the last slice, so that each member has
            as many of all columns as without slices.

    Examples:
        >>> slices(50, 2)  # 9, 9 and 7 for each of two members
        [18, 18, 14]
    """
    count = max(1, min(MOST, width // FEWEST_COLUMNS))
    if count == 1:
        return [width]
    each = -(-width // (count * members)) * members
    return [min(each, width - first) for first in range(0, width, each)]


class Columns(Protocol):
    """Takes some columns of rows."""

    @overload
    def __call__(self, rows: Tensor) -> Tensor: ...

    @overload
    def __call__(self, rows: None) -> None: ...


def in_columns(part: Callable[[Columns], tuple[Tensor, T]], width: int, in_slices: bool) -> tuple[Tensor, T]:
    """Rows [n, D] that are made all at once, or slice after slice of their columns, with what came with the last.

    Args:
        part: makes the columns of the rows for those of others, [n, d]; what it is given takes these.
        width: D.
        in_slices: whether they are made in slices.
    """
    widths = slices(width, 1) if in_slices else [width]
    if len(widths) == 1:
        return part(lambda rows: rows)
    made, rest = part(_taking(0, widths[0]))
    out = made.new_empty((len(made), width))
    out[:, : widths[0]] = made
    for begin, end in itertools.pairwise(itertools.accumulate(widths)):
        del made
        made, rest = part(_taking(begin, end))
        out[:, begin:end] = made
    return out, rest


def _taking(begin: int, end: int) -> Columns:
    def columns(rows: Any) -> Any:
        return None if rows is None else rows[:, begin:end]

    return columns
