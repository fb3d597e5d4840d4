"""Edge weights below 0: where they are, and what they leave of the sums that normalisations divide by.

Weights of 0 or more ask nothing of a formula: their sums are above 0, or 0 where nothing is summed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import GraphArrays, row_ranges

PIECE_EDGES = 1 << 20
"""Weights that are looked at at a time, or those of one vertex."""
VANISHES = 2.0**-16
"""A sum this small beside the weights that it is of is rounding: float32 has 24 bits, and 8 of them would be left."""


@dataclass(frozen=True, kw_only=True)
class WeightSigns:
    """The edge weights of a graph that are not above 0; K vertices have in-edges of which some are negative."""

    negative: int
    """Number of edges of negative weight."""
    all_zero: bool
    """True where there are edges, and all weigh 0."""
    weightless: NDArray[np.int64]
    """Vertices that have in-edges, all of weight 0, ascending."""
    vertices: NDArray[np.int64]
    """[K] vertices with an in-edge of negative weight, ascending."""
    sums: NDArray[np.float64]
    """[K] sums of the weights of their in-edges."""
    sizes: NDArray[np.float64]
    """[K] sums of the absolute values of the same."""
    loops: NDArray[np.bool_]
    """[K] whether they have an edge to themselves."""

    def not_positive(self, loop: float = 0.0, *, where_none: bool = False) -> NDArray[np.int64]:
        """The vertices whose weights leave a sum of 0 or less, or 0 but for rounding.

        Args:
            loop: weight of a loop that counts as well.
            where_none: that loop is for vertices without one of their own.
        """
        added = loop * ~self.loops if where_none else loop
        return self.vertices[self.sums + added <= VANISHES * (self.sizes + added)]


def weight_signs(graph: GraphArrays) -> WeightSigns:
    """Look at the edge weights of a graph that has some; reads them once, piece by piece."""
    assert graph.edge_weight is not None
    negative, largest = 0, 0.0
    weightless = [np.empty(0, np.int64)]
    none = np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.bool_)
    pieces: list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]] = [none]
    for begin, end in row_ranges(graph.indptr, PIECE_EDGES):
        bounds = np.asarray(graph.indptr[begin : end + 1])
        weights = np.asarray(graph.edge_weight[bounds[0] : bounds[-1]])
        if not len(weights):
            continue
        low = weights.min()
        largest = max(largest, weights.max())
        if low > 0:
            continue
        heard = np.flatnonzero(np.diff(bounds))  # reduceat has no empty sums
        at = bounds[heard] - bounds[0]
        sizes = np.add.reduceat(np.abs(weights), at, dtype=np.float64)
        weightless.append(begin + heard[sizes == 0])
        below = np.logical_or.reduceat(weights < 0, at)
        if not below.any():
            continue
        negative += int(np.count_nonzero(weights < 0))
        own = np.repeat(np.arange(begin, end), np.diff(bounds)) == graph.indices[bounds[0] : bounds[-1]]
        sums, loops = np.add.reduceat(weights, at, dtype=np.float64), np.logical_or.reduceat(own, at)
        pieces.append((begin + heard[below], sums[below], sizes[below], loops[below]))
    vertices, sums, sizes, loops = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return WeightSigns(
        negative=negative,
        all_zero=graph.num_edges > 0 and negative == 0 and largest == 0,
        weightless=np.concatenate(weightless),
        vertices=vertices,
        sums=sums,
        sizes=sizes,
        loops=loops,
    )
