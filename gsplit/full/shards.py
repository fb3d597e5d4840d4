"""Shards: the edges of the whole graph that one trainer sums over, read from the layout in pieces.

An edge is kept where both its ends have a place: its destination among the rows of the sums, its source among the
rows that are summed. What these places are is the caller's to say, so that every algorithm reads with one function.
It goes over the edges twice: to count them, and to place them.

Legend: N vertices, R rows of the sums, E edges kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import GraphArrays
from gsplit.data.graph import row_ranges
from gsplit.errors import InputError
from gsplit.full.levels import PIECE_EDGES, Levels
from gsplit.kernels import Edges

MOST_EDGES = (1 << 31) - 1
"""Edges of a shard at most: positions are int32."""


class Shard(NamedTuple):
    """Edges and what they weigh."""

    edges: Edges
    """Edges of R rows."""
    weight: Tensor | None
    """[E] weights, in the order of the edges; None where the model takes none or the graph has none."""


def places_of(levels: Levels, level: int, trainers: Sequence[int]) -> NDArray[np.int32]:
    """int32 [N] places of the level's vertices in the rows of some trainers, one after another; -1 for others.

    Args:
        levels: of all trainers.
        level: whose rows are meant.
        trainers: whose rows are meant, in this order.
    """
    place_N = np.full(len(levels.row_N), -1, np.int32)
    first = 0
    for p in trainers:
        size = int(levels.sizes[p, level])
        own = slice(levels.bounds[p], levels.bounds[p + 1])
        rows = levels.row_N[own]
        np.copyto(place_N[own], rows + np.int32(first), where=(rows >= 0) & (rows < size))
        first += size
    return place_N


def read_shard(
    graph: GraphArrays,
    begin: int,
    end: int,
    row_V: NDArray[np.int32],
    num_rows: int,
    place_N: NDArray[np.int32],
    weights: NDArray[np.float32] | None = None,
) -> Shard:
    """The edges into some vertices from vertices that have a place, each row's in the order of the layout.

    Args:
        graph: of a layout.
        begin, end: range of the vertices, V of them.
        row_V: int32 [V] row of each, distinct; -1 to leave it out.
        num_rows: R.
        place_N: int32 [N] place of each source; -1 to leave its edges out.
        weights: [edges of the graph] to bring along; None for none.

    Raises:
        InputError: for more edges than int32 can count.
    """
    pieces = [(begin + a, begin + b) for a, b in row_ranges(graph.indptr[begin : end + 1], PIECE_EDGES)]
    counts = np.zeros(num_rows, np.int64)
    for a, b in pieces:
        vertex, keep, _ = _kept(graph, a, b, row_V[a - begin : b - begin], place_N)
        ours = row_V[a - begin : b - begin] >= 0
        counts[row_V[a - begin : b - begin][ours]] = np.bincount(vertex[keep], minlength=b - a)[ours]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    if indptr[-1] > MOST_EDGES:
        raise InputError(
            f"a trainer would sum over {indptr[-1]:,} edges, more than the {MOST_EDGES:,} that fit; use more --gpus"
        )
    indices = np.empty(indptr[-1], np.int32)
    weight = None if weights is None else np.empty(indptr[-1], np.float32)
    for a, b in pieces:
        row = row_V[a - begin : b - begin]
        vertex, keep, place = _kept(graph, a, b, row, place_N)
        at = slots(indptr[row], np.bincount(vertex[keep], minlength=b - a))
        indices[at] = place[keep]
        if weight is not None and weights is not None:
            weight[at] = weights[graph.indptr[a] : graph.indptr[b]][keep]
    return Shard(
        Edges(indptr=torch.from_numpy(indptr.astype(np.int32)), indices=torch.from_numpy(indices)),
        None if weight is None else torch.from_numpy(weight),
    )


def with_loops(shard: Shard, place_R: NDArray[np.int32]) -> Shard:
    """The same edges, and one of weight 1 into each row whose own vertex is among the sources, after the others.

    Args:
        shard: edges of R rows.
        place_R: int32 [R] place of each row's vertex among the sources; -1 where it is not there.
    """
    (edges, weight), looped = shard, np.flatnonzero(place_R >= 0)
    indptr, indices = edges.indptr.numpy(), edges.indices.numpy()
    ends = indptr[1:][looped]
    added = np.concatenate([[0], np.cumsum(place_R >= 0)]).astype(np.int32)
    indices = np.insert(indices, ends, place_R[looped])
    weights = None if weight is None else torch.from_numpy(np.insert(weight.numpy(), ends, np.float32(1)))
    return Shard(Edges(indptr=torch.from_numpy(indptr + added), indices=torch.from_numpy(indices)), weights)


def slots(begins: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``begins[i], begins[i] + 1, ...`` of ``counts[i]`` numbers each, one run after another."""
    firsts = np.cumsum(counts) - counts
    return np.repeat(begins - firsts, counts) + np.arange(int(counts.sum()))


def _kept(
    graph: GraphArrays, a: int, b: int, row: NDArray[np.int32], place_N: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int32]]:
    """The edges into the vertices a .. b: which of these, whether it is kept, and the place of its source."""
    vertex = np.repeat(np.arange(b - a), np.diff(graph.indptr[a : b + 1]))
    place = place_N[graph.indices[graph.indptr[a] : graph.indptr[b]]]
    return vertex, (place >= 0) & (row[vertex] >= 0), place
