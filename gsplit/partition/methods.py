"""Ways to assign every vertex to a part. An assigner maps (graph, parts, weights, seed) to int32 [N].

``metis`` is what one uses; ``streaming`` needs a fraction of its memory; ``random`` and ``range`` are ablations: a
perfect balance with local edges of 1/P, and whatever locality the store's ids happen to have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal

import numpy as np
import pymetis
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.data.graph import GraphArrays
from gsplit.partition.streaming import stream

Method = Literal["metis", "streaming", "random", "range"]
Weights = Literal["uniform", "degree"]
Assigner = Callable[[GraphArrays, int, Weights, int], NDArray[np.int32]]

logger = logging.getLogger(__name__)


def vertex_weights(graph: GraphArrays, weights: Weights) -> NDArray[np.int64] | None:
    """What a part should hold equal amounts of: vertices (None), or in-edges (degree + 1)."""
    return None if weights == "uniform" else np.diff(graph.indptr) + 1


def metis(graph: GraphArrays, parts: int, weights: Weights, seed: int) -> NDArray[np.int32]:
    """Minimum edge cut by METIS (Karypis and Kumar, SIAM J. Sci. Comput. 1998) on the symmetric graph."""
    xadj, adjncy = _core.symmetrize(graph.indptr, graph.indices)
    vweights = vertex_weights(graph, weights)
    # pymetis reads past the end of weights that are too short, without a word.
    assert vweights is None or len(vweights) == graph.num_vertices
    result = pymetis.part_graph(
        parts,
        pymetis.CSRAdjacency(xadj, adjncy),
        vweights=vweights,
        options=pymetis.Options(seed=seed),
    )
    assignment = np.asarray(result.vertex_part, dtype=np.int32)
    assert len(assignment) == graph.num_vertices
    return fill_empty_parts(assignment, parts, np.diff(xadj))


def streaming(graph: GraphArrays, parts: int, weights: Weights, seed: int) -> NDArray[np.int32]:
    """For graphs that METIS has no room for: :mod:`gsplit.partition.streaming`, with targets balanced as well."""
    weight = vertex_weights(graph, weights)
    assignment = stream(graph.indptr, graph.indices, parts, seed=seed, vertex_weight=weight, targets=graph.train_idx)
    return fill_empty_parts(assignment, parts, np.diff(graph.indptr))


def random(graph: GraphArrays, parts: int, weights: Weights, seed: int) -> NDArray[np.int32]:
    """Parts of equal size, drawn at random."""
    equal = np.arange(graph.num_vertices) * parts // graph.num_vertices
    return np.random.Generator(np.random.PCG64(seed)).permutation(equal).astype(np.int32)


def range_(graph: GraphArrays, parts: int, weights: Weights, seed: int) -> NDArray[np.int32]:
    """Consecutive ids, equal in weight."""
    weight = vertex_weights(graph, weights)
    before = np.arange(graph.num_vertices) if weight is None else np.cumsum(weight) - weight
    total = graph.num_vertices if weight is None else weight.sum()
    return fill_empty_parts((before * parts // total).astype(np.int32), parts, np.diff(graph.indptr))


ASSIGNERS: dict[Method, Assigner] = {"metis": metis, "streaming": streaming, "random": random, "range": range_}


def fill_empty_parts(assignment: NDArray[np.int32], parts: int, degrees: NDArray[np.int64]) -> NDArray[np.int32]:
    """Give each empty part the vertex of lowest degree of the largest part. Needs parts <= vertices."""
    sizes = np.bincount(assignment, minlength=parts)
    for part in np.flatnonzero(sizes == 0):
        largest = int(np.argmax(sizes))
        candidates = np.flatnonzero(assignment == largest)
        assignment[candidates[np.argmin(degrees[candidates])]] = part
        sizes[largest] -= 1
        sizes[part] += 1
        logger.warning("part %d came out empty and was given one vertex of part %d", part, largest)
    return assignment
