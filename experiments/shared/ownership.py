"""Who owns which vertex: a layout's own parts, or others drawn at random, with the same samples (law 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.data.graph import GraphArrays
from gsplit.partition.methods import random
from gsplit.partition.problem import Problem
from gsplit.partition.relabel import inverse, layout_order, places, reordered_indptr
from gsplit.partition.weights import heat


@dataclass(frozen=True, kw_only=True)
class Ownership:
    """A graph relabelled by a partition; ids are its own."""

    indptr: NDArray[np.int64]
    """[N + 1]"""
    indices: NDArray[Any]
    """[E]"""
    offsets: NDArray[np.int64]
    """[P + 1]"""
    permutation: NDArray[np.int64]
    """[N] own id -> global id."""
    train_idx: NDArray[np.int64]
    """[T]"""


def of_layout(layout: Layout) -> Ownership:
    """The layout as it is."""
    graph = layout.graph
    return Ownership(
        indptr=graph.indptr,
        indices=graph.indices,
        offsets=layout.offsets,
        permutation=layout.permutation,
        train_idx=graph.train_idx,
    )


def at_random(layout: Layout, seed: int) -> Ownership:
    """The same graph in as many parts of equal size, drawn at random; neighbours keep their order, so draws stay."""
    drawn = relabelled(layout.graph, random(Problem(graph=layout.graph, parts=layout.parts, seed=seed)), layout.parts)
    return replace(drawn, permutation=layout.permutation[drawn.permutation])


def relabelled(graph: GraphArrays, assignment: NDArray[np.int32], parts: int) -> Ownership:
    """A graph relabelled in memory by the part of each vertex, int32 [N]; neighbours keep their order."""
    order = layout_order(assignment, heat(graph, "degree", None))
    new_of_old = inverse(order)
    indptr = reordered_indptr(graph.indptr, order)
    indices = np.empty_like(graph.indices)
    for first, last, place in places(graph.indptr, indptr, order):
        indices[first:last] = new_of_old[graph.indices[place]]
    return Ownership(
        indptr=indptr,
        indices=indices,
        offsets=np.concatenate([[0], np.cumsum(np.bincount(assignment, minlength=parts))]),
        permutation=order,
        train_idx=np.sort(new_of_old[graph.train_idx]),
    )
