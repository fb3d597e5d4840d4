"""Which rows of a level are held: those that something depends on, and where each of them lies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IN_A_PIECE = 256
"""Vertices whose rows are numbered by a byte."""


class LevelRows:
    """The vertices of a level in ascending order, and the row of each.

    A vertex takes a byte and a few bits, whichever have rows: the rows before its piece, and those in it before.

    Args:
        mask_N: bool [N] vertices of the level; None: all N, each at the row of its own number.
        num_vertices: N.
    """

    def __init__(self, mask_N: NDArray[np.bool_] | None, num_vertices: int) -> None:
        self.num_rows = num_vertices
        """Number of rows."""
        self._before: NDArray[np.int64] | None = None
        if mask_N is None:
            return
        pieces = -(-num_vertices // IN_A_PIECE)
        padded = np.zeros(pieces * IN_A_PIECE, np.uint8)
        padded[:num_vertices] = mask_N
        of_piece = padded.reshape(pieces, IN_A_PIECE)
        counts = of_piece.sum(axis=1, dtype=np.int64)
        self.num_rows = int(counts.sum())
        self._before = np.cumsum(counts) - counts
        within = np.cumsum(of_piece, axis=1, dtype=np.uint8)  # of a whole piece 256 wraps to 0, and 0 - 1 to 255
        self._within = (within - of_piece).reshape(-1)

    def places(self, vertices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of some vertices of the level, int64 [n]."""
        if self._before is None:
            return vertices
        return self._before[vertices // IN_A_PIECE] + self._within[vertices]
