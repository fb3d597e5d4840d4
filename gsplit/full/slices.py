"""Slices of columns: where memory is short, rows move and are summed a slice after another.

What a chain of moves has at once is then as wide as a slice: scaled rows, gathered rows, partial sums. Each column is
summed as before, so that results have the same bits, and as many words move, in more messages.
"""

from __future__ import annotations

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
