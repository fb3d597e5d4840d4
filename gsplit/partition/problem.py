"""The problem that a partitioner solves, and the undirected graph that METIS and KaMinPar take.

Legend: N vertices, E directed edges of the store, P parts; the undirected graph has V vertices and A adjacencies, two
for each edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.data.graph import GraphArrays

LEFT_OUT = -1
"""The part of a vertex that a partitioner left to be placed."""
SAMPLED_EDGES = 10_000


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A graph to be cut in parts of equal weight, so that the edges between them weigh little."""

    graph: GraphArrays
    parts: int
    vertex_weight: NDArray[np.int64] | None = None
    """[N] at least 1; None: 1 each."""
    edge_weight: NDArray[np.uint32] | None = None
    """[E] in the order of ``graph.indices``; an edge of weight 0 counts for nothing. None: 1 each."""
    targets: NDArray[np.int64] | None = None
    """Vertices to balance as well, for partitioners that can."""
    type_begins: NDArray[np.int64] | None = None
    """[T + 1] from 0 to N: type t has the vertices ``type_begins[t] .. type_begins[t + 1]``. None: one type."""
    given: NDArray[np.int32] | None = None
    """[N] parts that were made elsewhere."""
    imbalance: float = 0.03
    """Share by which a part may be heavier than the mean."""
    seed: int = 0
    cuts: int = 1
    """Number of cuts, of which the best is kept, by partitioners whose outcome depends much on chance."""
    threads: int = 1
    """Threads for partitioners that can use several; what they find may then differ from run to run."""

    def __post_init__(self) -> None:
        # A partitioner that is given weights of another length reads past the end of them, without a word.
        assert self.vertex_weight is None or self.vertex_weight.shape == (self.graph.num_vertices,)
        assert self.edge_weight is None or self.edge_weight.shape == self.graph.indices.shape


@dataclass(frozen=True, kw_only=True)
class Undirected:
    """Both directions of every edge that counts, once each, without self-loops."""

    indptr: NDArray[np.int64]
    """[V + 1] where the rows begin in ``indices``."""
    indices: NDArray[Any]
    """[A] ascending within a row: int64, or int32 where it was not asked for wide ones."""
    vertex_weight: NDArray[np.int64] | None
    """[V]; None: 1 each."""
    edge_weight: NDArray[Any] | None
    """[A] of the type of ``indices``; None: 1 each."""
    vertices: NDArray[np.int64] | None
    """[V] ids in the problem's graph; None where they are the same."""

    @classmethod
    def of(cls, problem: Problem, *, wide: bool) -> Undirected:
        """The undirected graph of a problem; vertices that no edge of weight above 0 reaches are left out.

        Args:
            wide: give indices and edge weights as int64.
        """
        graph = problem.graph
        symmetrize = _core.symmetrize_wide if wide else _core.symmetrize
        indptr, indices, edge_weight = symmetrize(graph.indptr, graph.indices, problem.edge_weight)
        vertex_weight, vertices = problem.vertex_weight, None
        degrees = np.diff(indptr)
        if edge_weight is not None and not degrees.all():
            vertices = np.flatnonzero(degrees)
            number = np.cumsum(degrees > 0, dtype=indices.dtype) - 1
            np.take(number, indices, out=indices, mode="clip")
            indptr = np.concatenate([indptr[vertices], indptr[-1:]])
            vertex_weight = None if vertex_weight is None else vertex_weight[vertices]
        return cls(
            indptr=indptr, indices=indices, vertex_weight=vertex_weight, edge_weight=edge_weight, vertices=vertices
        )

    @property
    def num_vertices(self) -> int:
        """V."""
        return len(self.indptr) - 1

    def assignment(self, part_V: NDArray[np.int32], num_vertices: int) -> NDArray[np.int32]:
        """Parts of all vertices, int32 [N], from those of these vertices [V]; ``LEFT_OUT`` for the others."""
        # Some partitioners check no length and number parts as they like, so every answer is checked here.
        assert part_V.shape == (self.num_vertices,)
        if self.vertices is None:
            return part_V
        whole = np.full(num_vertices, LEFT_OUT, np.int32)
        whole[self.vertices] = part_V
        return whole


@dataclass(frozen=True, kw_only=True)
class Size:
    """Numbers that the memory of a partitioner depends on."""

    vertices: int
    adjacencies: int
    """Adjacencies of the undirected graph: two for each edge."""
    edge_weights: bool


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Memory of a partitioner at its peak, beside the mapped store, in bytes as measured (docs/results/)."""

    per_adjacency: int
    per_weighted_adjacency: int
    per_vertex: int

    def of(self, size: Size) -> int:
        """Bytes for a graph of this size."""
        per_adjacency = self.per_weighted_adjacency if size.edge_weights else self.per_adjacency
        return size.adjacencies * per_adjacency + size.vertices * self.per_vertex


def problem_size(
    graph: GraphArrays, edge_weight: NDArray[np.uint32] | None, *, edge_weights: bool | None = None
) -> Size:
    """The size of the undirected graph, without making it.

    The share of edges whose reverse counts as well is estimated from some of them.

    Args:
        graph: the directed graph.
        edge_weight: uint32 [E], 0 for edges that do not count; None where they have no weights, or none yet.
        edge_weights: whether there will be weights, where they are not known yet.
    """
    kept = graph.num_edges if edge_weight is None else int(np.count_nonzero(edge_weight))
    random = np.random.Generator(np.random.PCG64(0))
    edges = np.sort(random.integers(0, max(1, graph.num_edges), min(SAMPLED_EDGES, graph.num_edges)))
    if edge_weight is not None:
        edges = edges[edge_weight[edges] > 0]
    destinations = np.searchsorted(graph.indptr, edges, side="right") - 1
    one_way = 0
    for edge, destination in zip(edges.tolist(), destinations.tolist(), strict=True):
        row = slice(*graph.indptr[graph.indices[edge] : graph.indices[edge] + 2].tolist())
        back = graph.indices[row] == destination
        one_way += not (back if edge_weight is None else back & (edge_weight[row] > 0)).any()
    adjacencies = kept * (1 + one_way / max(1, len(edges)))
    return Size(
        vertices=graph.num_vertices,
        adjacencies=int(adjacencies),
        edge_weights=edge_weight is not None if edge_weights is None else edge_weights,
    )
