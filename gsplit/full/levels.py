"""Levels of the whole graph: which rows of each trainer are computed before which layer.

Level L are the training vertices; level l - 1 has the vertices of level l and all their in-neighbours. What no
training vertex depends on is in no level, and nobody computes it. Where batch normalisation takes its statistics over
all vertices, the levels below L are whole instead.

A trainer's rows stand in the order of their levels, those of level L first, and by layout id within a level: so the
rows of every level are a prefix, and destinations come first among the sources.

Legend: N vertices, P trainers, L layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data import GraphArrays
from gsplit.full.reading import edge_pieces, vertex_pieces

Room = Callable[..., NDArray[Any]]
"""Gives memory of a shape and type."""
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
        begin, end = int(self.bounds[trainer]), int(self.bounds[trainer + 1])
        ids = np.empty(self.sizes[trainer, 0], np.int64)
        for a, b in vertex_pieces(begin, end):
            rows = self.row_N[a:b]
            there = np.flatnonzero(rows >= 0)
            ids[rows[there]] = a + there
        return ids


def levels_of(
    graph: GraphArrays,
    bounds: NDArray[np.int64],
    layers: int,
    *,
    whole: bool,
    targets: NDArray[np.int64] | None = None,
    ours: Sequence[int] | None = None,
    room: Room = np.empty,
    wait: Callable[[], None] = lambda: None,
    total: Callable[[NDArray[np.int64]], None] = lambda _: None,
) -> Levels:
    """The levels of a graph, by one process; or by all trainers, in memory that all map, each for its own vertices.

    Args:
        graph: of a layout.
        bounds: [P + 1] as in :class:`Levels`.
        layers: L, at most :data:`MOST_LAYERS`.
        whole: have all vertices in the levels below L.
        targets: layout ids of level L, ascending; by default the training vertices.
        ours: trainers whose vertices this process looks at; None: all. In one memory each one has one process.
        room: gives memory of a shape and type: the same one to all trainers, asked for in one order.
        wait: waits for all trainers.
        total: replaces an array, zeros but for those of ``ours``, by that of all.
    """
    assert layers <= MOST_LAYERS
    n, trainers = graph.num_vertices, len(bounds) - 1
    # Each vertex's highest level and 1 more; 0 for none. Trainers write into one memory at a time what any of them
    # would write: a pass marks with one number, and leaves larger ones alone.
    row_N, mark_N = room((n,), np.int32), room((n,), np.uint8)
    ours = range(trainers) if ours is None else ours
    ranges = [(int(bounds[p]), int(bounds[p + 1])) for p in ours]
    targets = graph.train_idx if targets is None else targets
    for begin, end in ranges:
        mark_N[begin:end] = layers if whole else 0
        first, last = np.searchsorted(targets, [begin, end])  # they ascend, in a layout
        for a, b in vertex_pieces(int(first), int(last)):
            mark_N[targets[a:b]] = layers + 1
    wait()
    for level in range(layers, 0, -1) if not whole else ():
        for begin, end in ranges:
            _mark_sources(graph, mark_N, level, begin, end)
        wait()
    sizes = np.zeros((trainers, layers + 1), np.int64)
    for p in ours:
        sizes[p] = _number_rows(mark_N[bounds[p] : bounds[p + 1]], row_N[bounds[p] : bounds[p + 1]], layers)
    total(sizes)  # which waits until all have theirs
    return Levels(bounds=bounds, sizes=sizes, row_N=row_N)


def _number_rows(mark_V: NDArray[np.uint8], row_V: NDArray[np.int32], layers: int) -> NDArray[np.int64]:
    """Write the rows of a trainer's vertices, by level from L on, and then by id; returns its sizes, [L + 1]."""
    pieces = [slice(a, b) for a, b in vertex_pieces(0, len(mark_V))]
    of_marks = np.zeros(layers + 2, np.int64)
    for piece in pieces:
        of_marks += np.bincount(mark_V[piece], minlength=layers + 2)
    ends = np.cumsum(of_marks[:0:-1])[::-1]  # of level 0 .. L
    following = np.append(ends[1:], 0)
    for piece in pieces:
        mark, row = mark_V[piece], row_V[piece]
        row[mark == 0] = -1
        for level in np.unique(mark[mark > 0]).astype(np.int64) - 1:
            own = np.flatnonzero(mark == level + 1)
            row[own] = np.arange(following[level], following[level] + len(own))
            following[level] += len(own)
    return ends


def _mark_sources(graph: GraphArrays, mark_N: NDArray[np.uint8], level: int, begin: int, end: int) -> None:
    """Mark the in-neighbours of vertices whose highest level is ``level``; those of higher ones are marked."""
    for piece in edge_pieces(graph.indptr, begin, end):
        ours = mark_N[piece.vertices] == level + 1
        if ours.any():
            sources = graph.indices[piece.edges][np.repeat(ours, piece.counts)]
            mark_N[sources] = np.maximum(mark_N[sources], level)
