"""Covers: sums in the place of rows, where fewer of them travel between two trainers.

Each edge from a trainer's source to another's destination is covered by the row of the source, sent once for all of
its edges there, or by the sum of the destination over sources of that trainer. The fewest rows and sums are a minimum
vertex cover (``csrc/least_cover.hpp``). A sum is received like a row, and is one edge more.

Legend: E edges of a shard, R rows of its sums, S sources of other trainers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gsplit import _core
from gsplit.data import GraphArrays
from gsplit.full.levels import Levels
from gsplit.full.reading import edge_pieces, owners_of
from gsplit.full.shards import Shard
from gsplit.kernels import Edges, TwoWayEdges
from gsplit.nn import Route
from gsplit.parallel import Member
from gsplit.parallel.collectives import all_gather, all_to_all

BYTES_OF_EDGE, BYTES_OF_OTHER = 5, 16
"""Of each edge while covers are found: its row, whether it stays; and, from another trainer, its place and owner."""
BYTES_OF_PAIR = 58
"""Of each edge between two trainers while their cover is found: both ends, numbered, and what sorting them takes."""
BYTES_OF_SUMMED = 40
"""Of each edge that another trainer sums over while these are put in the order of their sums."""


def goes_as_row(source_E: NDArray[np.integer], destination_E: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Cover edges by as few sources and destinations as can be.

    Args:
        source_E: of edges between the vertices of two trainers, any numbers.
        destination_E: likewise.

    Returns:
        [E] True where the edge's source is in the cover; where it is not, the destination is.

    Examples:
        >>> goes_as_row(np.array([0, 1, 2, 2], np.int32), np.array([7, 7, 7, 8], np.int32))
        array([False, False,  True,  True])
    """
    sources, number_E = np.unique(source_E, return_inverse=True)
    destinations, end_E = np.unique(destination_E, return_inverse=True)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(number_E, minlength=len(sources)))])
    by_source = np.argsort(number_E, kind="stable")
    takes_source, takes_destination = np.zeros(len(sources), np.uint8), np.zeros(len(destinations), np.uint8)
    _core.least_cover(indptr, end_E[by_source].astype(np.int32), takes_source, takes_destination)
    return takes_source[number_E].astype(bool)


class Covers(NamedTuple):
    """What trainers are sent before a layer, counted."""

    sent_PP: NDArray[np.int64]
    """[P, P] rows and sums that each trainer is sent by each other."""
    spared_PP: NDArray[np.int64]
    """[P, P] edges of these sums, which the sender sums over, less the one that each sum is for the receiver."""


def covers_of(graph: GraphArrays, levels: Levels, layer: int) -> Covers:
    """Count what all trainers are sent before a layer.

    Args:
        graph: of a layout.
        levels: of all trainers.
        layer: 1 .. L.
    """
    trainers = len(levels.sizes)
    counts = Covers(*np.zeros((2, trainers, trainers), np.int64))
    for rank in range(trainers):
        destination_E, source_E = _edges_from_others(graph, levels, layer, rank)
        owner_E = owners_of(levels.bounds, source_E)
        for peer in np.unique(owner_E):
            source, destination = source_E[owner_E == peer], destination_E[owner_E == peer]
            as_row = goes_as_row(source, destination)
            sums = len(np.unique(destination[~as_row]))
            counts.sent_PP[rank, peer] = len(np.unique(source[as_row])) + sums
            counts.spared_PP[rank, peer] = int((~as_row).sum()) - sums
    return counts


def bytes_to_find(edges_P: NDArray[np.int64], rank: int) -> int:
    """Bytes that a trainer takes at most to find its covers, beside the edges: arrays of :class:`Covered`.

    Args:
        edges_P: [P] its edges from sources of each trainer.
        rank: of the trainer.
    """
    others = np.delete(edges_P, rank)
    of_others = int(others.sum())
    at_once = max(BYTES_OF_PAIR * int(others.max(initial=0)), BYTES_OF_SUMMED * of_others)
    return BYTES_OF_EDGE * int(edges_P.sum()) + BYTES_OF_OTHER * of_others + at_once


def bytes_of_route(sent: int, edges: int, own: int, weight_bytes: int, *, returns: bool) -> int:
    """Bytes of the route that sends rows and sums, and of its sums turned round, for gradients that come back.

    Args:
        sent: rows and sums.
        edges: of how many rows of its own it makes them.
        own: rows of the trainer.
        weight_bytes: of an edge's weight; 0 where edges have none.
        returns: whether gradients come back.
    """
    order = 4 if weight_bytes else 0
    return 4 * sent + (4 + weight_bytes) * edges + ((4 + order) * edges + 4 * own) * returns


def _edges_from_others(
    graph: GraphArrays, levels: Levels, layer: int, rank: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Layout ids of destinations and sources of a trainer's edges from others' vertices."""
    begin, end = int(levels.bounds[rank]), int(levels.bounds[rank + 1])
    found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for piece in edge_pieces(graph.indptr, begin, end):
        row = levels.row_N[piece.vertices]
        ours = (row >= 0) & (row < levels.sizes[rank, layer])
        source = np.asarray(graph.indices[piece.edges], np.int64)
        kept = np.repeat(ours, piece.counts) & ((source < begin) | (source >= end))
        vertex = np.arange(piece.vertices.start, piece.vertices.stop)
        found.append((np.repeat(vertex, piece.counts)[kept], source[kept]))
    destinations, sources = zip(*found, strict=True)
    return np.concatenate(destinations), np.concatenate(sources)


class Covered:
    """What other trainers send before a layer, as one trainer's edges have it.

    Args:
        shard: edges from own sources, which have the places below ``own``, and from others'.
        others: int64 [S] layout ids of others' sources, ascending; number i has the place ``own + i``.
        own: number of own sources.
        levels: of all trainers.
    """

    def __init__(self, shard: Shard, others: NDArray[np.int64], own: int, levels: Levels) -> None:
        self._shard, self._others, self._own, self._levels = shard, others, own, levels
        self._owner_S = owners_of(levels.bounds, others)
        place_E, indptr = shard.edges.indices.numpy(), shard.edges.indptr.numpy()
        row_E = np.repeat(np.arange(shard.edges.num_rows, dtype=np.int32), np.diff(indptr))
        remote = np.flatnonzero(place_E >= own)
        owner = self._owner_S[place_E[remote] - own]
        self._stays_E = np.ones(len(place_E), bool)
        for peer in np.unique(owner):
            between = remote[owner == peer]
            self._stays_E[between] = goes_as_row(place_E[between], row_E[between])
        self._taken_S = np.zeros(len(others), bool)
        self._taken_S[place_E[remote[self._stays_E[remote]]] - own] = True
        # Sums by who sends them, then by destination; each has its edges in the order of the layout.
        summed = np.flatnonzero(~self._stays_E)
        owner_and_row = self._owner_S[place_E[summed] - own] * np.int64(shard.edges.num_rows) + row_E[summed]
        self._summed = summed[np.argsort(owner_and_row, kind="stable")]
        sums, self._edges_of_sum = np.unique(owner_and_row, return_counts=True)
        self._sum_owner, self._sum_row = np.divmod(sums, max(1, shard.edges.num_rows))
        trainers = len(levels.sizes)
        self._rows_P = np.bincount(self._owner_S[self._taken_S], minlength=trainers)
        self._sums_P = np.bincount(self._sum_owner, minlength=trainers)

    def left(self) -> Shard:
        """The edges from own sources and received rows, and one from each received sum, of weight 1."""
        (edges, weight), received_P = self._shard, self._rows_P + self._sums_P
        first_P = self._own + before(received_P)
        place_S = np.cumsum(self._taken_S) - 1 + (first_P - before(self._rows_P))[self._owner_S]
        first_sum_P = first_P + self._rows_P - before(self._sums_P)
        place_sum = np.arange(len(self._sum_row)) + first_sum_P[self._sum_owner]
        place = edges.indices.numpy()[self._stays_E]
        remote = place >= self._own
        place[remote] = place_S[place[remote] - self._own]
        row_E = np.repeat(np.arange(edges.num_rows), np.diff(edges.indptr.numpy()))[self._stays_E]
        edges_R = np.bincount(row_E, minlength=edges.num_rows)
        all_R = edges_R + np.bincount(self._sum_row, minlength=edges.num_rows)
        by_row = np.argsort(self._sum_row, kind="stable")
        at = np.cumsum(edges_R)[self._sum_row[by_row]]  # sums come last in their row
        indptr = np.concatenate([[0], np.cumsum(all_R)]).astype(np.int32)
        indices = np.insert(place, at, place_sum[by_row])
        return Shard(
            Edges(indptr=torch.from_numpy(indptr), indices=torch.from_numpy(indices)),
            None if weight is None else torch.from_numpy(np.insert(weight.numpy()[self._stays_E], at, np.float32(1))),
        )

    def route(self, layer: int, member: Member) -> tuple[Route, Tensor | None]:
        """Agree with the other trainers on what is sent before a layer; all make the call.

        Args:
            layer: 1 .. L.
            member: of this trainer.

        Returns:
            The route of rows and sums, and the weight of each of its ``send_rows``; None where edges have none.
        """
        place_E = self._shard.edges.indices.numpy()
        taken, owners = self._others[self._taken_S], self._owner_S[self._taken_S]
        source = place_E[self._summed] - self._own
        # Of each trainer its rows, each alone, then its sums.
        vertices = np.concatenate([taken, self._others[source]])
        in_turn = np.argsort(np.concatenate([owners, self._owner_S[source]]), kind="stable")
        asked_P = self._rows_P + np.bincount(self._owner_S[source], minlength=member.world)
        by_owner = np.argsort(np.concatenate([owners, self._sum_owner]), kind="stable")
        lengths = np.concatenate([np.ones(len(taken), np.int64), self._edges_of_sum])[by_owner]
        receive_P = self._rows_P + self._sums_P
        told = torch.stack(all_gather(torch.from_numpy(np.stack([receive_P, asked_P])), member.group)).numpy()
        send_P, summed_P = told[:, 0, member.rank], told[:, 1, member.rank]

        def passed(values: Tensor, given_P: NDArray[np.int64], own_P: NDArray[np.int64]) -> Tensor:
            out = values.new_empty(int(given_P.sum()))
            all_to_all(out, values, given_P.tolist(), own_P.tolist(), member.group)
            return out

        ends = passed(torch.from_numpy(lengths), send_P, receive_P).cumsum(0)
        rows = passed(torch.from_numpy(self._levels.row_N[vertices[in_turn]]), summed_P, asked_P).to(member.device)
        indptr = F.pad(ends, (1, 0)).to(member.device, torch.int32)
        weight = None
        if self._shard.weight is not None:
            of_edges = np.concatenate([np.ones(len(taken), np.float32), self._shard.weight.numpy()[self._summed]])
            weight = passed(torch.from_numpy(of_edges[in_turn]), summed_P, asked_P).to(member.device)
        route = Route(
            send_rows=rows,
            send_counts=tuple(send_P.tolist()),
            receive_counts=tuple(receive_P.tolist()),
            layer=layer,
            always_returns=layer > 1,
            sums=TwoWayEdges(Edges(indptr=indptr, indices=rows), self._own),
        )
        return route, weight


def before(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of all counts before each."""
    return np.cumsum(counts) - counts


def edges_of_sums(route: Route) -> int:
    """Number of edges that a trainer sums over in what it sends."""
    assert route.sums is not None
    lengths = route.sums.edges.indptr.diff()
    return int(lengths[lengths > 1].sum())
