"""Where feature rows are read from: the cache of one trainer or another, or the host; and the ranges that say so.

Legend: N vertices, P parts, n vertices that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

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
    """Where each of n vertices is read from: in exactly one of these."""

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
    """Which trainer holds which prefixes, and at which row of its cache each one begins.

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
            [
                (int(offsets[p]), int(offsets[p] + cache_rows[p]), int(before[p] - before[a]))
                for p in range(a, b)
                if cache_rows[p]
            ]
            for a, b in pairwise(first.tolist())
        ]
        """The prefixes of each holder as (first vertex, vertex after the last, row of the first)."""
        self.num_rows: list[int] = np.diff(before[first]).tolist()
        """Number of rows that each holder caches."""

    def ids(self, holder: int, row_bytes: int) -> Iterator[NDArray[np.int64]]:
        """The vertices that a holder caches, row by row: int64 layout ids, piece by piece."""
        for begin, end, _ in self._ranges[holder]:
            for first, last in pieces(begin, end, row_bytes):
                yield np.arange(first, last)

    def find(self, vertices: NDArray[np.int64], holders: Iterable[int]) -> tuple[dict[int, Found], Found]:
        """What some holders have of a list of vertices, by holder; and what none of them has, as layout ids.

        Args:
            vertices: int64 [n] layout ids.
            holders: to look at.
        """
        # Two comparisons for each part take a third of the time of a search, with up to 8 parts.
        missed = np.ones(len(vertices), bool)
        found = {}
        for holder in holders:
            rows, positions = [], []
            for begin, end, first in self._ranges[holder]:
                inside = (vertices >= begin) & (vertices < end)
                missed[inside] = False
                positions.append(np.flatnonzero(inside))
                rows.append(vertices[positions[-1]] - (begin - first))
            if rows:
                found[holder] = Found(rows=np.concatenate(rows), positions=np.concatenate(positions))
        left = np.flatnonzero(missed)
        return found, Found(rows=vertices[left], positions=left)
