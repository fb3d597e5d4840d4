"""The line that the vertices of a calibrated graph stand on, and its blocks within blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

QUARTERS = 4
BRANCHING = 4


class Line:
    """A line of four quarters of one size (the last may be a little smaller), each cut into blocks from its begin.

    Args:
        n: places on the line.
        leaf_size: of the smallest blocks, about.
        community_leaves: leaves of a community.
    """

    def __init__(self, n: int, *, leaf_size: int, community_leaves: int) -> None:
        self.n = n
        self.quarter = -(-self.n // QUARTERS)
        sizes = [-(-self.quarter // max(1, round(self.quarter / leaf_size)))]
        self.community = sizes[0] * community_leaves
        while sizes[-1] * BRANCHING < self.quarter:
            sizes.append(sizes[-1] * BRANCHING)
        self.sizes = np.array([self.quarter, *reversed(sizes)])
        """Sizes of the blocks of each level, the quarters first."""
        self.quarter_of_vertex = (np.arange(self.n) // self.quarter).astype(np.int8)

    def block_at(
        self, place: NDArray[np.int64], size: int | NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Begin and width of the blocks of a size that hold places; the last block of a quarter is what is left."""
        quarter_begin = place // self.quarter * self.quarter
        begin = quarter_begin + (place - quarter_begin) // size * size
        return begin, np.minimum(begin + size, np.minimum(quarter_begin + self.quarter, self.n)) - begin

    def blocks(self, size: int) -> tuple[int, NDArray[np.int64]]:
        """Return how many blocks of a size a quarter has, and the block of each vertex [N]."""
        in_quarter, place = np.divmod(np.arange(self.n), self.quarter)
        number = -(-self.quarter // size)
        return number, in_quarter * number + place // size
