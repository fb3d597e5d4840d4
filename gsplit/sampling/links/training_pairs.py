"""The pairs that are trained on, by their numbers. Nothing of their size is held in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.data import Layout

AT_ONCE = 1 << 20
"""Pairs that are looked at together."""
Ends = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Sources and destinations, int64 [n] layout ids each."""


class TrainingPairs:
    """Pairs of vertices by number, which no partition changes.

    Where all edges are trained on, pair i is edge i of the *store*: its destination is found among the store's own
    runs of in-edges, whose order layouts keep. Else it is line i of the training pairs.

    Args:
        layout: of the graph.
        edges: take all edges, also where there are training pairs.
    """

    def __init__(self, layout: Layout, *, edges: bool = False) -> None:
        links = layout.graph.links
        self._layout, self._graph = layout, layout.graph
        self._given = None if edges or links is None else links.train
        self.number = self._graph.num_edges if self._given is None else len(self._given)
        """M, the number of pairs."""

    def ends(self, rows: NDArray[np.int64]) -> Ends:
        """The ends of pairs by their numbers, int64 [n]."""
        if self._given is not None:
            pairs = self._layout.positions[self._given[rows]]
            return pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)
        indptr = self._layout.store_indptr
        destinations = np.searchsorted(indptr, rows, side="right") - 1
        places = rows - indptr[destinations]
        local = self._layout.positions[destinations].astype(np.int64)
        return self._graph.indices[self._graph.indptr[local] + places].astype(np.int64), local

    def in_degrees(self, vertices: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many pairs have each of some vertices as their destination, [n]."""
        if self._given is None:
            return self._graph.indptr[vertices + 1] - self._graph.indptr[vertices]
        ids = self._layout.permutation[vertices]
        ends = (_first(self._given, np.zeros_like(ids), each) for each in (ids + 1, ids))
        return next(ends) - next(ends)

    def distinct(self, end: int) -> NDArray[np.int64] | None:
        """The vertices that are the source (0) or the destination (1) of some pair: [n] layout ids; None: all are.

        They stand in the order of their global ids.
        """
        if self._given is not None:
            met = np.zeros(self._graph.num_vertices, np.bool_)
            for begin in range(0, len(self._given), AT_ONCE):
                met[self._given[begin : begin + AT_ONCE, end]] = True
        elif end == 1:
            met = np.diff(self._layout.store_indptr) > 0
        else:
            met = np.zeros(self._graph.num_vertices, np.bool_)
            for begin in range(0, self.number, AT_ONCE):
                met[self._layout.permutation[self._graph.indices[begin : begin + AT_ONCE]]] = True
        return None if met.all() else self._layout.positions[np.flatnonzero(met)]

    def known(self, sources: NDArray[np.int64], destinations: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether pairs are edges or training pairs, bool [n]; of validation and test nothing is looked at."""
        found = _core.are_edges(self._graph.indptr, self._graph.indices, sources, destinations)
        if self._given is not None:
            found |= _listed(self._given, *(self._layout.permutation[ends] for ends in (sources, destinations)))
        return found

    def known_to_all(self, sources: NDArray[np.int64], candidates: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each source [G] has each candidate [C] as a known destination, bool [G, C]."""
        found = _core.edges_from(self._graph.indptr, self._graph.indices, candidates, sources)
        if self._given is not None:
            found |= _listed_to_all(self._given, *(self._layout.permutation[ends] for ends in (sources, candidates)))
        return found


def _listed(pairs: NDArray[Any], sources: NDArray[np.int64], destinations: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether pairs stand in a list [M, 2] that is sorted by (destination, source)."""
    if not len(pairs):
        return np.zeros(len(sources), np.bool_)
    at = pairs[np.minimum(_first(pairs, sources, destinations), len(pairs) - 1)]
    return (at[:, 0] == sources) & (at[:, 1] == destinations)


def _listed_to_all(
    pairs: NDArray[Any], sources: NDArray[np.int64], candidates: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether each source [G] has each candidate [C] as a destination in such a list, bool [G, C]."""
    (distinct, of_source), (ends, of_candidate) = (
        np.unique(each, return_inverse=True) for each in (sources, candidates)
    )
    begin, end = (_first(pairs, np.zeros_like(ends), each) for each in (ends, ends + 1))
    counts = end - begin
    column = np.repeat(np.arange(len(ends)), counts)
    listed = pairs[np.arange(counts.sum()) + np.repeat(begin - np.cumsum(counts) + counts, counts), 0]
    found = np.zeros((len(distinct), len(ends)), np.bool_)
    row = np.searchsorted(distinct, listed)
    here = np.append(distinct, -1)[row] == listed
    found[row[here], column[here]] = True
    return found[of_source][:, of_candidate]


def _first(pairs: NDArray[Any], sources: NDArray[np.int64], destinations: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places [n] of the first pairs that are not before those asked for, by bisection."""
    low, high = np.zeros(len(sources), np.int64), np.full(len(sources), len(pairs), np.int64)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        at = pairs[np.minimum(middle, len(pairs) - 1)]
        below = (at[:, 1] < destinations) | ((at[:, 1] == destinations) & (at[:, 0] < sources))
        low = np.where(open_ & below, middle + 1, low)
        high = np.where(open_ & ~below, middle, high)
    return low
