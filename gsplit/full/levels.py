"""Levels of the whole graph: which rows of each trainer are computed before which layer.

Level L are the training vertices; level l - 1 has the vertices of level l and all their in-neighbours. What no
training vertex depends on is in no level, and nobody computes it. Where batch normalisation takes its statistics over
all vertices, the levels below L are whole instead.

A trainer's rows stand in the order of their levels, those of level L first, and by layout id within a level: so the
rows of every level are a prefix, and destinations come first among the sources.

Legend: N vertices, P trainers, L layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.data import GraphArrays
from gsplit.data.graph import row_ranges

PIECE_EDGES = 1 << 20
"""Edges that are read at a time."""
MOST_LAYERS = 250
"""The largest L: the level of a vertex is kept in a byte."""


@dataclass(frozen=True, kw_only=True)
class Levels:
    """Rows and levels of all trainers."""

    bounds: NDArray[np.int64]
    """[P + 1] layout ids: trainer p owns ``bounds[p] .. bounds[p + 1]``."""
    sizes: NDArray[np.int64]
    """[P, L + 1] number of rows of each level: those of level l are the first ``sizes[p, l]`` of trainer p."""
    row_N: NDArray[np.int32]
    """[N] row of each vertex on its owner; -1 where it is in no level."""

    @property
    def num_layers(self) -> int:
        """L."""
        return self.sizes.shape[1] - 1

    def vertices(self, trainer: int) -> NDArray[np.int64]:
        """Layout ids of a trainer's rows, int64 [sizes[trainer, 0]]."""
        begin, end = self.bounds[trainer], self.bounds[trainer + 1]
        rows = self.row_N[begin:end]
        there = np.flatnonzero(rows >= 0)
        ids = np.empty(len(there), np.int64)
        ids[rows[there]] = begin + there
        return ids


def levels_of(
    graph: GraphArrays,
    bounds: NDArray[np.int64],
    layers: int,
    *,
    whole: bool,
    begin: int = 0,
    end: int | None = None,
    combine: Callable[[NDArray[np.uint8]], None] = lambda _: None,
) -> Levels:
    """The levels of a graph; several processes may look at a range of vertices each.

    Args:
        graph: of a layout.
        bounds: [P + 1] as in :class:`Levels`.
        layers: L, at most :data:`MOST_LAYERS`.
        whole: have all vertices in the levels below L.
        begin, end: range of vertices whose in-edges this process reads; by default all.
        combine: replaces uint8 [N] by the maximum over all processes.
    """
    assert layers <= MOST_LAYERS
    n = graph.num_vertices
    # Each vertex's highest level and 1 more; 0 for none.
    mark_N = np.full(n, layers if whole else 0, np.uint8)
    mark_N[graph.train_idx] = layers + 1
    for level in range(layers, 0, -1) if not whole else ():
        _mark_sources(graph, mark_N, level, begin, n if end is None else end)
        combine(mark_N)
    trainers = len(bounds) - 1
    sizes = np.zeros((trainers, layers + 1), np.int64)
    row_N = np.full(n, -1, np.int32)
    for p in range(trainers):
        mark, row = mark_N[bounds[p] : bounds[p + 1]], row_N[bounds[p] : bounds[p + 1]]
        count = 0
        for level in range(layers, -1, -1):
            own = np.flatnonzero(mark == level + 1)
            row[own] = np.arange(count, count + len(own))
            count += len(own)
            sizes[p, level] = count
    return Levels(bounds=bounds, sizes=sizes, row_N=row_N)


def _mark_sources(graph: GraphArrays, mark_N: NDArray[np.uint8], level: int, begin: int, end: int) -> None:
    """Mark the in-neighbours of vertices whose highest level is ``level``; those of higher ones are marked."""
    for first, last in row_ranges(graph.indptr[begin : end + 1], PIECE_EDGES):
        a, b = begin + first, begin + last
        ours = mark_N[a:b] == level + 1
        if ours.any():
            edges = np.repeat(ours, np.diff(graph.indptr[a : b + 1]))
            sources = graph.indices[graph.indptr[a] : graph.indptr[b]][edges]
            mark_N[sources] = np.maximum(mark_N[sources], level)
