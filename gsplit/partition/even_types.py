"""Parts that are even in each type: the pass after a partitioner that balances all vertices together.

A *cell* is what a part has of a type. Partitioners even out weights of all vertices, and leave one part with twice
the mean of a type: its features, trained rows and caches, that is. Here cells above a bound give vertices away, those
that lose least first: the weight of their edges within the part, less that of their edges to the best part that has
room. When a part is full, those that are left choose again. Rooms are in vertices of the type and, while that lets
them, in the weight of all vertices, so that what parts compute stays even.

Legend: N vertices, V of them with edges that count, P parts.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from math import floor

import numpy as np
from numpy.typing import NDArray

from gsplit.partition.problem import Problem, Undirected

ROUNDS = 2
LEAST = 100
"""Vertices of a type for each part from which it is evened out."""
WORK = 0.05
"""Share of the mean weight by which a part may exceed the partitioner's own bound."""

logger = logging.getLogger(__name__)


def even_types(problem: Problem, part_N: NDArray[np.int32], bound: float, names: Sequence[str]) -> NDArray[np.int32]:
    """Part of each vertex, int32 [N], with no cell above ``bound`` times the mean of its type, rounded up.

    Args:
        problem: that was solved, with the begins of its types.
        part_N: its solution, which stays as it is.
        bound: 1 or more.
        names: of the types, for messages.
    """
    assert problem.type_begins is not None
    parts, part_N = problem.parts, part_N.copy()
    begins = problem.type_begins.tolist()
    small = [name for name, n in zip(names, np.diff(problem.type_begins).tolist(), strict=True) if n < LEAST * parts]
    if small and parts > 1:
        logger.info("types of fewer than %d vertices a part are left as they are: %s", LEAST, ", ".join(small))
    ranges = [(begin, end) for begin, end in itertools.pairwise(begins) if end - begin >= LEAST * parts]
    if not any(_above(part_N[begin:end], parts, bound).any() for begin, end in ranges):
        return part_N
    mover = _Mover(problem, part_N)
    for round_ in range(ROUNDS):
        for begin, end in ranges:
            above = _above(part_N[begin:end], parts, bound)
            for part in np.flatnonzero(above):
                # In the last round cells come first, then work.
                mover.move(begin, end, int(part), int(above[part]), bound, watch_work=round_ < ROUNDS - 1)
    return part_N


def _most(n: int, parts: int, bound: float) -> int:
    """The most vertices that a cell of a type of n may have."""
    return max(floor(bound * n / parts), -(-n // parts))


def _above(part: NDArray[np.int32], parts: int, bound: float) -> NDArray[np.int64]:
    """By how many vertices each cell of a type is above the bound [P]."""
    return np.maximum(np.bincount(part, minlength=parts) - _most(len(part), parts, bound), 0)


class _Mover:
    """Moves vertices out of cells; ``part_N`` changes."""

    def __init__(self, problem: Problem, part_N: NDArray[np.int32]) -> None:
        self._parts = problem.parts
        self._part_N = part_N
        graph = Undirected.of(problem, wide=False)
        n = len(part_N)
        self._row_N = np.arange(n) if graph.vertices is None else np.full(n, -1)
        if graph.vertices is not None:
            self._row_N[graph.vertices] = np.arange(graph.num_vertices)
        self._vertices = graph.vertices
        self._graph = graph
        self._work_N = np.ones(n, np.int64) if problem.vertex_weight is None else problem.vertex_weight
        work = np.bincount(part_N, weights=self._work_N, minlength=self._parts)
        self._room = (1 + problem.imbalance + WORK) * work.mean() - work
        """Weight that each part still takes [P]."""

    def move(self, begin: int, end: int, part: int, surplus: int, bound: float, *, watch_work: bool) -> None:
        """Move a surplus of the vertices ``begin .. end``, a type, out of a part."""
        own = begin + np.flatnonzero(self._part_N[begin:end] == part)
        weight = self._weight_to_parts(own)
        within = weight[:, part].copy()
        left = np.ones(len(own), np.bool_)
        cells = np.bincount(self._part_N[begin:end], minlength=self._parts)
        free = np.maximum(_most(end - begin, self._parts, bound) - cells, 0)
        free[part] = 0
        while surplus:
            usable = (free > 0) & ((self._room > 0) | (not watch_work))
            if not usable.any() or not left.any():
                return
            rows = np.flatnonzero(left)
            reach = np.where(usable, weight[rows], -1)
            best = np.argmax(reach, axis=1)
            loss = within[rows] - reach[np.arange(len(rows)), best]
            order = np.lexsort((self._work_N[own[rows]], loss))[:surplus]
            moved = 0
            for to in np.flatnonzero(usable):
                chosen = rows[order[best[order] == to]][: free[to]]
                if watch_work:
                    fits = np.cumsum(self._work_N[own[chosen]]) <= self._room[to]
                    if not fits.all():
                        free[to] = 0  # what is left chooses another part
                    chosen = chosen[fits]
                work = self._work_N[own[chosen]].sum()
                self._part_N[own[chosen]] = to
                self._room[to] -= work
                self._room[part] += work
                left[chosen] = False
                free[to] = max(0, free[to] - len(chosen))
                moved += len(chosen)
            surplus -= moved

    def _weight_to_parts(self, vertices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Weight of the edges of each vertex to each part, [n, P]."""
        found = np.zeros((len(vertices), self._parts))
        rows = self._row_N[vertices]
        there = np.flatnonzero(rows >= 0)
        if not len(there):
            return found
        indptr, indices = self._graph.indptr, self._graph.indices
        first = indptr[rows[there]]
        degrees = indptr[rows[there] + 1] - first
        at = np.arange(degrees.sum()) + np.repeat(first - np.cumsum(degrees) + degrees, degrees)
        others = indices[at] if self._vertices is None else self._vertices[indices[at]]
        weights = None if self._graph.edge_weight is None else self._graph.edge_weight[at]
        cell = np.repeat(np.arange(len(there)), degrees) * self._parts + self._part_N[others]
        found[there] = np.bincount(cell, weights=weights, minlength=len(there) * self._parts).reshape(len(there), -1)
        return found
