"""Edges turned round among trainers: those into each trainer's rows become those out of each trainer's rows.

Every trainer sends its edges to the owners of their sources in rounds of a bounded piece each, twice: to count them,
and to place them. So nobody holds more than a piece beside what stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.full.reading.edge_pieces import edge_pieces
from gsplit.full.reading.vertex_places import accumulate
from gsplit.kernels import Edges
from gsplit.parallel import Member
from gsplit.parallel.collectives import all_gather, all_to_all


def turned_edges(
    edges: Edges, weight: Tensor | None, member: Member, sources: Sequence[int], first: int
) -> tuple[Edges, Tensor | None]:
    """The edges out of this trainer's sources, of the edges that all trainers hold into their destinations.

    The edges of a source come by round, then by trainer, then by destination.

    Args:
        edges: into the own destinations from the places of all trainers' sources.
        weight: [E] of the edges; None for none, on all trainers.
        member: of this trainer; all make the call.
        sources: numbers of sources of all trainers, by rank.
        first: place of this trainer's first destination among all trainers'.
    """
    bounds = np.cumsum([0, *sources])
    own = int(sources[member.rank])
    # Where the next edge of source s goes stands in at[s + 1], and in the end where those of source s end.
    at = np.zeros(own + 2, np.int32)
    for source, _, _ in _rounds(edges, None, member, bounds, first, counts_only=True):
        here, counts = np.unique(source, return_counts=True)
        at[here + 2] += counts.astype(np.int32)
    accumulate(at)
    places = np.empty(int(at[-1]), np.int32)
    weights = None if weight is None else torch.empty(len(places), dtype=weight.dtype)
    for source, place, values in _rounds(edges, weight, member, bounds, first):
        order = np.argsort(source, kind="stable")
        here, begins, counts = np.unique(source[order], return_index=True, return_counts=True)
        to = np.repeat(at[here + 1] - begins, counts) + np.arange(len(order))
        places[to] = place[order]
        if weights is not None and values is not None:
            weights.numpy()[to] = values[order]
        at[here + 1] += counts.astype(np.int32)
    return Edges(indptr=torch.from_numpy(at[: own + 1]), indices=torch.from_numpy(places)), weights


def _rounds(
    edges: Edges,
    weight: Tensor | None,
    member: Member,
    bounds: NDArray[np.int64],
    first: int,
    *,
    counts_only: bool = False,
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.floating] | None]]:
    """Yield what arrives here in each round: own sources, places of destinations, weights."""
    indptr, indices = edges.indptr.numpy(), edges.indices.numpy()
    pieces = edge_pieces(indptr, 0, len(indptr) - 1)
    nothing = np.empty(0, np.int32)
    done = False
    while not done:
        piece = next(pieces, None)
        source, place, values = nothing, nothing, None if weight is None else weight.numpy()[:0]
        sent = np.zeros(member.world, np.int64)
        if piece is not None:
            of_edges = indices[piece.edges]
            owner = np.searchsorted(bounds, of_edges, side="right") - 1
            order = np.argsort(owner, kind="stable")
            sent = np.bincount(owner, minlength=member.world)
            source = (of_edges - bounds[owner]).astype(np.int32)[order]
            rows = np.arange(piece.vertices.start, piece.vertices.stop, dtype=np.int32) + np.int32(first)
            place = np.repeat(rows, piece.counts)[order]
            values = None if weight is None else weight.numpy()[piece.edges][order]
        counts = torch.tensor([*sent.tolist(), int(piece is not None)])
        table = torch.stack(all_gather(counts, member.group))
        done = not bool(table[:, -1].any())
        receive, send = table[:, member.rank].tolist(), sent.tolist()
        if not done:
            of_source = _exchanged(source, receive, send, member)
            if counts_only:
                yield of_source, nothing, None
            else:
                of_values = None if values is None else _exchanged(values, receive, send, member)
                yield of_source, _exchanged(place, receive, send, member), of_values


def _exchanged(values: NDArray[Any], receive: Sequence[int], send: Sequence[int], member: Member) -> NDArray[Any]:
    out = np.empty(sum(receive), values.dtype)
    all_to_all(torch.from_numpy(out), torch.from_numpy(values), receive, send, member.group)
    return out
