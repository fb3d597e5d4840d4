"""Shards: the edges of the whole graph that one trainer sums over, read from the layout in pieces.

An edge is kept where both its ends have a place: its destination among the rows of the sums, its source among the
rows that are summed. What these places are is the caller's to say, so that every algorithm reads with one function.
It goes over the edges twice: to count them, and to place them.

Legend: N vertices, R rows of the sums, E edges kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import GraphArrays
from gsplit.data.graph import slots
from gsplit.errors import InputError
from gsplit.full.moves import shares
from gsplit.full.reading import EdgePiece, Places, accumulate, edge_pieces
from gsplit.kernels import Edges

MOST_EDGES = (1 << 31) - 1
"""Edges of a shard at most: positions are int32."""


class Shard(NamedTuple):
    """Edges and what they weigh."""

    edges: Edges
    """Edges of R rows."""
    weight: Tensor | None
    """[E] weights, in the order of the edges; None where the model takes none or the graph has none."""


def read_shard(
    graph: GraphArrays,
    ranges: Sequence[tuple[int, int]],
    into: Places,
    num_rows: int,
    sources: Places,
    weights: NDArray[np.float32] | None = None,
) -> Shard:
    """The edges into some vertices from vertices that have a place, each row's in the order of the layout.

    Args:
        graph: of a layout.
        ranges: of the vertices whose edges are read.
        into: gives the row of each of them, distinct; -1 to leave it out.
        num_rows: R.
        sources: gives the place of each source; -1 to leave its edges out.
        weights: [edges of the graph] to bring along; None for none.

    Raises:
        InputError: for more edges than int32 can count.
    """
    pieces = [(begin, end) for begin, end in ranges if end > begin]
    indptr = np.zeros(num_rows + 1, np.int32)
    total = _count(indptr[1:], graph, pieces, into, sources)
    accumulate(indptr)
    indices = np.empty(total, np.int32)
    weight = None if weights is None else np.empty(total, np.float32)
    placed = 0  # edges of a vertex that lies in more than one piece, in the pieces before
    for piece, row, kept, counts in _kept_pieces(graph, pieces, into, sources):
        begins = indptr[row].astype(np.int64)
        if len(row) and piece.begun and kept.first_is_row:
            begins[0] += placed
        at = slots(begins, counts)
        indices[at] = kept.places
        if weight is not None and weights is not None:
            weight[at] = weights[piece.edges][kept.mask]
        if kept.last_is_row:
            placed = int(counts[-1]) + (placed if piece.begun and len(piece.counts) == 1 else 0)
    return Shard(
        Edges(indptr=torch.from_numpy(indptr), indices=torch.from_numpy(indices)),
        None if weight is None else torch.from_numpy(weight),
    )


def ends_of_rows(
    graph: GraphArrays,
    ranges: Sequence[tuple[int, int]],
    into: Places,
    num_rows: int,
    sources: Places,
    *,
    turned: bool,
) -> NDArray[np.int32]:
    """Position behind the last edge of each row, int32 [R], among the edges that :func:`read_shard` gives.

    Args:
        graph, ranges, into, sources: as of that.
        num_rows: R.
        turned: whether rows are the places of the sources.

    Raises:
        InputError: for more edges than int32 can count.
    """
    ends = np.zeros(num_rows, np.int32)
    _count(ends, graph, [(begin, end) for begin, end in ranges if end > begin], into, sources, turned=turned)
    accumulate(ends)
    return ends


def with_loops(shard: Shard, place_R: NDArray[np.int32], weight_R: NDArray[np.float64] | None = None) -> Shard:
    """The same edges, and one into each row whose own vertex is among the sources, after the others.

    Args:
        shard: edges of R rows.
        place_R: int32 [R] place of each row's vertex among the sources; -1 where it is not there.
        weight_R: [R] weights of the loops, beside which those of the others are float64, too; None: 1.
    """
    (edges, weight), looped = shard, np.flatnonzero(place_R >= 0)
    indptr, indices = edges.indptr.numpy(), edges.indices.numpy()
    ends = indptr[1:][looped]
    added = np.concatenate([[0], np.cumsum(place_R >= 0)]).astype(np.int32)
    indices = np.insert(indices, ends, place_R[looped])
    weights = None
    if weight_R is not None:
        others = np.ones(len(edges.indices)) if weight is None else weight.numpy().astype(np.float64)
        weights = torch.from_numpy(np.insert(others, ends, weight_R[looped]))
    elif weight is not None:
        weights = torch.from_numpy(np.insert(weight.numpy(), ends, np.float32(1)))
    return Shard(Edges(indptr=torch.from_numpy(indptr + added), indices=torch.from_numpy(indices)), weights)


def in_rows(shard: Shard, blocks: int) -> list[Shard]:
    """The same edges in blocks of rows that are as even as can be, at least one and none empty where there are rows.

    Args:
        shard: of the host; of a device it would be asked where each begins.
        blocks: at most so many.
    """
    edges, weight = shard
    pieces, first = [], 0
    for rows in shares(edges.num_rows, max(1, min(blocks, edges.num_rows))):
        begin, end = int(edges.indptr[first]), int(edges.indptr[first + rows])
        piece = edges.from_row(first, first + rows)
        pieces.append(Shard(piece, None if weight is None else weight[begin:end]))
        first += rows
    return pieces


class _Kept(NamedTuple):
    """The edges of a piece that are kept."""

    mask: NDArray[np.bool_]
    """[edges of the piece] whether each is."""
    places: NDArray[np.int32]
    """Places of the sources of those that are."""
    first_is_row: bool
    """Whether the first destination has a row."""
    last_is_row: bool
    """Whether the last one has."""


def _count(
    count_R: NDArray[np.int32],
    graph: GraphArrays,
    ranges: Sequence[tuple[int, int]],
    into: Places,
    sources: Places,
    *,
    turned: bool = False,
) -> int:
    """Count the edges of each row, and of all; refuses more than int32 can count."""
    total = 0
    for _, row, kept, counts in _kept_pieces(graph, ranges, into, sources):
        total += int(counts.sum())
        if total > MOST_EDGES:
            raise InputError(f"a trainer would sum over more than the {MOST_EDGES:,} edges that fit; use more --gpus")
        if turned:
            row, counts = np.unique(kept.places, return_counts=True)
        count_R[row] += counts.astype(np.int32)
    return total


def _kept_pieces(
    graph: GraphArrays, ranges: Sequence[tuple[int, int]], into: Places, sources: Places
) -> Iterator[tuple[EdgePiece, NDArray[np.int32], _Kept, NDArray[np.int64]]]:
    """Pieces of edges: their destinations' rows, which edges are kept, and how many of each row."""
    for begin, end in ranges:
        for piece in edge_pieces(graph.indptr, begin, end):
            row = into(np.arange(piece.vertices.start, piece.vertices.stop))
            ours = row >= 0
            vertex = np.repeat(np.arange(len(row), dtype=np.int32), piece.counts)
            place = sources(graph.indices[piece.edges])
            mask = (place >= 0) & ours[vertex]
            counts = np.bincount(vertex[mask], minlength=len(row))[ours]
            ends = (bool(ours[0]), bool(ours[-1])) if len(row) else (False, False)
            yield piece, row[ours], _Kept(mask, place[mask], *ends), counts
