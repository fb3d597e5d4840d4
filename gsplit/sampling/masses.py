"""Masses of vertices as sources, and darts that hit in proportion: what draws out of the whole graph are made of.

Masses are whole numbers, so that their sums have no order, and vertices lie side by side in the order of their global
ids: which of them are drawn does not depend on the partition (law 1).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.data import GraphArrays, Layout
from gsplit.data.graph import row_ranges
from gsplit.sampling.plan import hashed

Importance = Literal["squares", "counts", "norms"]
"""What a source's mass is: the sum of the squares of p_iv = w_iv / (weight of i's in-edges) over its out-edges to the
destinations i; the square of their number; or the square root of that sum, the norm of its column, which is what
makes the variance of a product least (Drineas, Kannan, Mahoney, SIAM J. Comput. 36(1), 2006)."""
UNIT_BITS = 40
"""A mass of 1 is 2 to this power, or to a lower one where so many could not be added."""
PIECE_EDGES = 1 << 22
"""Edges whose masses are summed, or numbers that are drawn, at a time."""


class MassLine:
    """A line on which each vertex is as long as its mass, in the order of the global ids; 16 bytes a vertex.

    Args:
        layout: whose vertices lie there.
        masses: uint64 [N] by layout id.
    """

    def __init__(self, layout: Layout, masses: NDArray[np.uint64]) -> None:
        self._layout = layout
        self._layout_ids = np.argsort(layout.permutation)
        self._ends = np.cumsum(masses[self._layout_ids])
        self.total = int(self._ends[-1]) if len(masses) else 0
        """Length of the line."""

    def hit(self, places: NDArray[np.number]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The vertices at places from 0 to below ``total``: distinct layout ids, and how often each is hit."""
        hit, hits = np.unique(np.searchsorted(self._ends, places, side="right"), return_counts=True)
        return self._layout_ids[hit], hits

    def shares(self, vertices: NDArray[np.int64]) -> NDArray[np.float64]:
        """The share of the line that each of some vertices takes."""
        places = self._layout.permutation[vertices]
        before = np.where(places > 0, self._ends[places - 1], np.uint64(0))
        shares: NDArray[np.float64] = (self._ends[places] - before).astype(np.float64) / self.total
        return shares


def uniform_below(key: int, bound: int, count: int) -> NDArray[np.uint64]:
    """Draw uint64 [count] numbers below ``bound``, each as likely: hashes of 0, 1, ..., those too large left out."""
    assert bound > 0
    mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
    kept: list[NDArray[np.uint64]] = []
    first, missing = 0, count
    while missing > 0:
        some = min(2 * missing + 16, PIECE_EDGES)
        numbers = hashed(key, np.arange(first, first + some, dtype=np.uint64)) & mask
        first += len(numbers)
        kept.append(numbers[numbers < bound][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept) if kept else np.empty(0, np.uint64)


def source_masses(
    graph: GraphArrays, importance: Importance, weights: NDArray[np.float32] | None = None, *, own: bool = False
) -> NDArray[np.uint64]:
    """The mass of every vertex as a source of all vertices, uint64 [N]; read piece by piece.

    Args:
        graph: whose in-edges are summed over.
        importance: what masses are.
        weights: float32 [E], at least 0; None: each edge weighs 1.
        own: let each vertex be a source of itself, too, by one more edge, so that none has no mass.
    """
    n = graph.num_vertices
    masses = np.zeros(n, np.uint64)
    bits = min(UNIT_BITS, 62 - n.bit_length())
    unit = 1 << bits
    for begin, end in row_ranges(graph.indptr, PIECE_EDGES):
        indptr = graph.indptr[begin : end + 1]
        degrees = np.diff(indptr)
        sources = graph.indices[indptr[0] : indptr[-1]]
        if importance == "counts":
            np.add.at(masses, sources, np.uint64(1))
            continue
        if weights is None:
            squares = np.maximum(degrees, 1) ** 2
            each = np.repeat(np.maximum(1, (unit + squares // 2) // squares), degrees)
        else:
            here = np.asarray(weights[indptr[0] : indptr[-1]], np.float64)
            rows = np.repeat(np.arange(len(degrees)), degrees)
            totals = np.bincount(rows, here, minlength=len(degrees))[rows]
            # Weights are 0 or more (gsplit.engine.sampled.edge_weights): where all are 0 there is nothing to share.
            shares = np.divide(here, totals, out=np.zeros_like(here), where=totals > 0)
            each = np.where(shares > 0, np.maximum(1, np.rint(unit * shares**2)), 0)
        np.add.at(masses, sources, each.astype(np.uint64))
    if own:
        squares = (np.diff(graph.indptr) + 1) ** 2
        masses += (
            np.uint64(1)
            if importance == "counts"
            else np.maximum(1, (unit + squares // 2) // squares).astype(np.uint64)
        )
    if importance == "norms":
        # At most sqrt(unit) each on average, so that all can be added.
        root_bits = min(UNIT_BITS // 2, 62 - n.bit_length() - (bits + 1) // 2)
        return np.rint(np.ldexp(np.sqrt(masses.astype(np.float64)), root_bits)).astype(np.uint64)
    return masses * masses if importance == "counts" else masses
