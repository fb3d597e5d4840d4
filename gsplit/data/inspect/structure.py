"""Vertices and edges counted: in-degrees, weak components, self-loops, repeated edges, edges without reverse.

Memory: some 24 bytes a vertex while edges are walked. N vertices, E edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit._core import walk_edges
from gsplit.bars import progress_bar
from gsplit.data.graph import GraphArrays, row_ranges
from gsplit.data.inspect.negative_weights import WeightSigns, weight_signs

EDGES_AT_ONCE = 1 << 24


@dataclass(frozen=True, kw_only=True)
class DegreeRange:
    """Number of vertices with an in-degree of ``least`` to ``most``."""

    least: int
    most: int
    vertices: int

    def __str__(self) -> str:
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,} - {self.most:,}"


@dataclass(frozen=True, kw_only=True)
class Structure:
    """The vertices and edges of a graph in numbers."""

    mean_degree: float
    """Mean in-degree."""
    median_degree: float
    largest_degree: int
    largest_at: int
    """The vertex with the largest in-degree, the first of several."""
    degrees: Sequence[DegreeRange]
    """Histogram of in-degrees by powers of 2: 0, 1, 2 - 3, 4 - 7, ... up to the largest."""
    without_in_edges: int
    self_loops: int
    repeated: int
    """Edges beyond the first from one vertex to another."""
    both_ways: bool
    """True where every edge has its reverse, self-loops aside."""
    components: int
    """Number of weak components: what is connected when directions are left aside."""
    largest_component: int
    """Vertices of the largest component."""
    isolated: NDArray[np.int64]
    """Vertices without an edge to or from another, ascending."""
    train_without_in_edges: NDArray[np.int64]
    """Training vertices without in-edges, ascending."""
    signs: WeightSigns | None
    """The edge weights that are not above 0; None where edges have no weights."""


def structure_of(graph: GraphArrays) -> Structure:
    """Count the vertices and edges of a graph of one vertex at least; reads the edges and their weights once."""
    degrees = np.diff(graph.indptr)
    alone, sizes, self_loops, repeated, both_ways = _walk(graph)
    train = np.sort(graph.train_idx)
    return Structure(
        mean_degree=graph.num_edges / graph.num_vertices,
        median_degree=float(np.median(degrees)),
        largest_degree=int(degrees.max()),
        largest_at=int(degrees.argmax()),
        degrees=_histogram(degrees),
        without_in_edges=int(np.count_nonzero(degrees == 0)),
        self_loops=self_loops,
        repeated=repeated,
        both_ways=both_ways,
        components=len(sizes),
        largest_component=int(sizes.max()),
        isolated=alone,
        train_without_in_edges=train[degrees[train] == 0],
        signs=None if graph.edge_weight is None else weight_signs(graph),
    )


def _histogram(degrees: NDArray[np.int64]) -> list[DegreeRange]:
    """Vertices by the number of binary digits of their in-degree, which ``frexp`` tells exactly below 2^53."""
    counts = np.bincount(np.frexp(degrees)[1])
    return [
        DegreeRange(least=(1 << digits) >> 1, most=(1 << digits) - 1, vertices=int(count))
        for digits, count in enumerate(counts)
    ]


def _walk(graph: GraphArrays) -> tuple[NDArray[np.int64], NDArray[np.int64], int, int, bool]:
    """Isolated vertices, sizes of the components, self-loops, repeated edges, whether all edges have a reverse."""
    kind = graph.indices.dtype
    component: NDArray[Any] = np.arange(graph.num_vertices, dtype=kind)
    last = np.full(graph.num_vertices, -1, kind)
    sums = (0, 0, 0)
    with progress_bar(graph.num_edges, "look at edges") as bar:
        for begin, end in row_ranges(graph.indptr, EDGES_AT_ONCE):
            found = walk_edges(graph.indptr, graph.indices, begin, end, component, last)
            sums = (sums[0] + found[0], sums[1] + found[1], sums[2] + found[2])
            bar.update(int(graph.indptr[end] - graph.indptr[begin]))
    del last
    while not np.array_equal(above := component[component], component):
        component = above
    sizes = np.bincount(component, minlength=graph.num_vertices)
    alone = np.flatnonzero(sizes == 1)  # a component is called by its smallest vertex, here its only one
    self_loops, repeated, one_way = sums
    return alone, sizes[sizes > 0], self_loops, repeated, one_way % (1 << 64) == 0
