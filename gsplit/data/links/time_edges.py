"""Sets of pairs by time: edges before a bound are message edges, pairs that are new after it are predicted.

A pair is new when the first edge between its two vertices is, in either direction. Later edges of a pair that is
known are neither predicted nor messages, as these would come from the future.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.labels.vertex_sets import Times
from gsplit.data.links.edge_sets import Links
from gsplit.data.links.held_out import Outcome, first_of_pairs, unordered_keys
from gsplit.errors import InputError


class TimedEdges:
    """Validation and test pairs by the time of their first edge, taken out of the message edges.

    Args:
        times: of the edges, in the order of the source.
        bounds: edges before the first are message edges, as are those without a time; pairs that are new before the
            second validate, others are test pairs.
        written: the bounds as they were given.
        chunks: reads all edges once more, to tell pairs that are known.
    """

    def __init__(
        self,
        times: Times,
        bounds: tuple[float, float],
        written: tuple[float | str, ...],
        chunks: Callable[[], Iterator[Any]],
    ) -> None:
        self._times, self._bounds, self._written, self._chunks = times, bounds, written, chunks
        self._found = [(np.empty((0, 2), np.int64), np.empty(0))]
        self._seen = self._removed = 0

    def withhold(self, edges: NDArray[Any]) -> NDArray[np.bool_]:
        """As of :class:`gsplit.data.links.held_out.Withheld`."""
        when = self._next(self._seen, len(edges))
        self._seen += len(edges)
        out = when >= self._bounds[0]
        new = out & (edges[:, 0] != edges[:, 1])
        self._found.append((edges[new].astype(np.int64), when[new]))
        self._removed += int(out.sum())
        return out

    def _next(self, begin: int, count: int) -> NDArray[np.float64]:
        when = self._times.values[begin : begin + count]
        if len(when) != count:
            raise InputError(f"{self._times.called} has fewer rows than there are edges")
        return when

    def outcome(self, where: str) -> Outcome:
        """As of :class:`gsplit.data.links.held_out.Withheld`: each pair once, as its first edge has it."""
        pairs, when = (np.concatenate(pieces) for pieces in zip(*self._found, strict=True))
        keys = unordered_keys(pairs)
        order = first_of_pairs(keys, pairs[:, 0], when)
        pairs, when, keys = pairs[order], when[order], keys[order]
        known, begin = np.zeros(len(keys), np.bool_), 0
        for chunk in self._chunks() if len(keys) else ():
            edges = np.stack([chunk.source, chunk.destination], axis=1)
            before = unordered_keys(edges[~(self._next(begin, len(edges)) >= self._bounds[0])])
            known[np.searchsorted(keys, before[np.isin(before, keys)])] = True
            begin += len(edges)
        test = when >= self._bounds[1]
        if known.all() or self._removed == self._seen:
            lacks = "no pair is new" if known.all() else "all edges are"
            raise InputError(
                f"{where}: {lacks} from {self._written[0]} on, by {self._times.called}; give --edge-split other "
                "bounds"
            )
        return Outcome(
            links=Links(valid=pairs[~known & ~test], test=pairs[~known & test]).sorted(),
            facts={"split": {"by": "time", "bounds": list(self._written)}, "removed": self._removed},
            words=[f"took out {self._removed:,} edges from {self._written[0]} on (--edge-split)"],
        )
