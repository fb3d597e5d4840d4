"""Places of vertices among the rows of a trainer or of several, looked up for a piece of them at a time.

Nothing as long as the graph is made for that: where rows stand in the order of their owners, a place is the first
of the owner's and the row.

Legend: P trainers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.full.reading.edge_pieces import vertex_pieces

Places = Callable[[NDArray[Any]], NDArray[np.int32]]
"""Gives the places, int32, of layout ids; -1 for vertices that have none."""


def places_among(
    bounds: NDArray[np.int64], sizes: NDArray[np.int64], row_N: NDArray[np.int32], trainers: Sequence[int]
) -> Places:
    """Places in the rows of some trainers, one after another.

    Args:
        bounds: [P + 1] layout ids: trainer p owns ``bounds[p] .. bounds[p + 1]``.
        sizes: [P] number of rows of each trainer that count.
        row_N: row of each vertex on its owner; -1 where it has none.
        trainers: whose rows are meant, in this order.
    """
    most_P, first_P = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
    first = 0
    for p in trainers:
        most_P[p], first_P[p] = sizes[p], first
        first += int(sizes[p])
    assert first < 1 << 31
    most_P, first_P = most_P.astype(np.int32), first_P.astype(np.int32)

    def places(ids: NDArray[Any]) -> NDArray[np.int32]:
        owner = owners_of(bounds, ids)
        row = row_N[ids]
        return np.where((row >= 0) & (row < most_P[owner]), row + first_P[owner], np.int32(-1))

    return places


def places_in_list(own: Places, others: NDArray[np.int64], first: int) -> Places:
    """Places of own vertices as ``own`` says; of the listed others, ascending, from ``first`` on."""

    def places(ids: NDArray[Any]) -> NDArray[np.int32]:
        place = own(ids)
        if len(others):
            at = np.minimum(np.searchsorted(others, ids), len(others) - 1).astype(np.int32)
            np.copyto(place, at + np.int32(first), where=others[at] == ids)
        return place

    return places


def places_in_ranges(ranges: Sequence[tuple[int, int]]) -> Places:
    """Places of vertices in ranges of ids, distinct, one after another."""
    order = sorted(range(len(ranges)), key=lambda i: ranges[i])
    firsts = np.cumsum([0, *(end - begin for begin, end in ranges)])
    begins = np.array([ranges[i][0] for i in order], np.int64)
    ends = np.array([ranges[i][1] for i in order], np.int64)
    shift = np.array([firsts[i] for i in order], np.int64) - begins

    def places(ids: NDArray[Any]) -> NDArray[np.int32]:
        at = np.searchsorted(begins, ids, side="right") - 1
        inside = (at >= 0) & (ids < ends[at])
        return np.where(inside, ids + shift[at], -1).astype(np.int32)

    return places


def owners_of(bounds: NDArray[np.int64], ids: NDArray[Any]) -> NDArray[np.int32]:
    """int32 owner of each vertex: how many ranges end at or before it."""
    owner = np.zeros(len(ids), np.int32)
    for bound in bounds[1:-1]:
        owner += ids >= bound
    return owner


def accumulate(counts: NDArray[np.int32]) -> None:
    """Replace counts by their running sums, in place."""
    total = 0
    for a, b in vertex_pieces(0, len(counts)):
        counts[a] += total
        np.cumsum(counts[a:b], out=counts[a:b])
        total = int(counts[b - 1])
