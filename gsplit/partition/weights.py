"""Weights that parts should share evenly, costs of cuts, and the hottest vertices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsplit.config.partition import Hotness, Weights
from gsplit.data.graph import GraphArrays
from gsplit.data.npy import forget
from gsplit.data.typed_graph import TypedGraph
from gsplit.partition.presample import Counts

DRAW = 64
"""The weight of an edge that was drawn once."""
MAX_WEIGHT = (1 << 30) - 1
"""Largest weight of an edge: both directions together fit in 32 bits, signed."""
ENTRIES_AT_ONCE = 1 << 24


def vertex_weights(graph: GraphArrays, weights: Weights, counts: Counts | None) -> NDArray[np.int64] | None:
    """Weights of the vertices, int64 [N]: in-edges, or edges drawn for the vertex, and 1 more; None: 1 each."""
    if weights == "uniform":
        return None
    if weights == "degree":
        return np.diff(graph.indptr) + 1
    assert counts is not None
    return counts.computed + 1


def edge_weights(graph: GraphArrays, weights: Weights, counts: Counts | None) -> NDArray[np.uint32] | None:
    """Weights of the edges, uint32 [E]: how often each is drawn, in units of 1 / DRAW; None: 1 each.

    A weight is at least 1, but 0 for edges into vertices that are never computed. Draws are uniform, so all in-edges
    of a vertex are drawn equally often in expectation: as often as edges were drawn for it, over its in-degree. That
    says more than which of them the dice chose (docs/development/log.md). Of several types they stand in the order of
    the joint graph.
    """
    if weights != "presample":
        return None
    assert counts is not None
    of_relations = zip(graph.adjacencies, counts.by_relation, strict=True)
    found = [_drawn_weights(edges.indptr, drawn) for edges, drawn in of_relations]
    return graph.joint_edges(found, np.uint32) if isinstance(graph, TypedGraph) else found[0]


def _drawn_weights(indptr: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Weights [E] of the edges of a relation, by how many were drawn for each destination."""
    degrees = np.diff(indptr)
    rate_N = DRAW * drawn / np.maximum(degrees, 1)
    weight_N = np.where(drawn > 0, np.clip(np.rint(rate_N), 1, MAX_WEIGHT), 0).astype(np.uint32)
    return np.repeat(weight_N, degrees)


def heat(graph: GraphArrays, hotness: Hotness, counts: Counts | None) -> NDArray[np.int64]:
    """Heat of the vertices, int64 [N]: what those of a part are ordered by, the largest first.

    With ``degree`` it is how often the vertex stands in others' in-neighbour lists, its out-degree. With
    ``presample`` it is how often it was loaded; of those loaded as often, the one with the larger out-degree is the
    more likely next time.
    """
    out_degrees = np.zeros(graph.num_vertices, np.int64)
    for begin in range(0, graph.num_edges, ENTRIES_AT_ONCE):  # NumPy counts a copy in int64
        out_degrees += np.bincount(graph.indices[begin : begin + ENTRIES_AT_ONCE], minlength=graph.num_vertices)
        forget(graph.indices)
    if hotness == "degree":
        return out_degrees
    assert counts is not None
    return counts.loaded * (out_degrees.max(initial=0) + 1) + out_degrees
