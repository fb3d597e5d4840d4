"""Where feature rows are read from: the cache of one trainer or another, or the host; and the ranges that say so.

Legend: N vertices, P parts, n vertices that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.data import first_parts
from gsplit.features.host_rows import pieces


@dataclass(frozen=True, kw_only=True)
class Found:
    """Some of the vertices that were asked for, all in the same place."""

    rows: NDArray[np.int64]
    """Where they lie there, [m]: rows of a cache, or layout ids on the host."""
    positions: NDArray[np.int64] | None
    """Where they stood in the list, [m], distinct and ascending; None where they are all of it, in the same order."""

    def __len__(self) -> int:
        return len(self.rows)


NOTHING = Found(rows=np.empty(0, np.int64), positions=np.empty(0, np.int64))


@dataclass(frozen=True, kw_only=True)
class Places:
    """The places that n vertices are read from, each from exactly one."""

    own: Found
    """The vertices that are read from the trainer's own cache."""
    host: Found
    """The vertices that are read from the host."""
    peers: Mapping[int, Found] = field(default_factory=dict)
    """The vertices that are read from each other trainer's cache, by rank; trainers with none may be missing."""

    def validate(self, n: int) -> None:
        """Assert that every position is in one place; for tests."""
        parts = [found.positions for found in (self.own, self.host, *self.peers.values())]
        listed = np.concatenate([np.arange(n) if part is None else part for part in parts])
        assert np.array_equal(np.sort(listed), np.arange(n))


class Prefixes:
    """The prefixes that each trainer holds, and the row of its cache at which each begins.

    Args:
        offsets: int64 [P + 1] of the layout.
        cache_rows: int64 [P] of :func:`gsplit.features.placement.prefixes`.
        holders: trainers; each has the parts that :func:`gsplit.data.first_parts` says.
    """

    def __init__(self, offsets: NDArray[np.int64], cache_rows: NDArray[np.int64], holders: int) -> None:
        self.holders = holders
        first = first_parts(len(cache_rows), holders)
        before = np.concatenate([[0], np.cumsum(cache_rows)])
        self._ranges = [
            np.array(
                [
                    (offsets[p], offsets[p] + cache_rows[p], before[p] - before[a])
                    for p in range(a, b)
                    if cache_rows[p]
                ],
                np.int64,
            ).reshape(-1, 3)
            for a, b in pairwise(first.tolist())
        ]
        """The prefixes of each holder as (first vertex, vertex after the last, row of the first)."""
        self.num_rows: list[int] = np.diff(before[first]).tolist()
        """Number of rows that each holder caches."""

    def ids(self, holder: int, row_bytes: int) -> Iterator[NDArray[np.int64]]:
        """The vertices that a holder caches, row by row: int64 layout ids, piece by piece."""
        for begin, end, _ in self._ranges[holder].tolist():
            for first, last in pieces(begin, end, row_bytes):
                yield np.arange(first, last)

    def find(self, vertices: NDArray[np.int64], holders: Sequence[int]) -> tuple[dict[int, Found], Found]:
        """Return what some holders have of a list of vertices, by holder; and what none of them has, as layout ids.

        Args:
            vertices: int64 [n] layout ids.
            holders: to look at, ascending.
        """
        ranges = [np.insert(self._ranges[holder], 3, place, axis=1) for place, holder in enumerate(holders)]
        rows, positions = np.empty(len(vertices), np.int64), np.empty(len(vertices), np.int64)
        counts = np.empty(len(ranges) + 1, np.int64)
        _core.find_rows(vertices, np.concatenate(ranges), rows, positions, counts)
        *found, left = sorted_by_place(rows, positions, counts)
        return dict(zip(holders, found, strict=True)), left


def sorted_by_place(
    rows: NDArray[np.int64], positions: NDArray[np.int64], counts: Sequence[int] | NDArray[np.int64]
) -> Iterator[Found]:
    """Find what each place has of a list of vertices, for rows and positions that are sorted by place.

    Args:
        rows: int64 [n].
        positions: int64 [n].
        counts: number of rows of each place.
    """
    for begin, end in pairwise(np.concatenate([[0], np.cumsum(counts)]).tolist()):
        whole = end - begin == len(rows) > 0
        yield Found(rows=rows[begin:end], positions=None if whole else positions[begin:end])
