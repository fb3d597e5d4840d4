"""Which feature rows are cached on which trainer: the choice that trainers cache by and experiments count with.

Legend: N vertices, P parts of the layout, ``holders`` trainers that hold the parts between them.

- *Partitioned*: a prefix of each part, on the trainer that holds the part. A layout's parts stand hottest first, so a
  prefix is the best cache of its size and needs no index: v is cached if and only if it lies less than ``cache_rows``
  behind the begin of its part.
- *Replicated* (PaGraph, Lin et al., SoCC 2020): the hottest rows of the neighbourhood of a trainer's own training
  vertices, whatever the others have.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data import first_parts

PIECE_EDGES = 1 << 24
"""Edges that are read at a time."""


def prefixes(
    offsets: NDArray[np.int64], holders: int, *, rows: int | None = None, share: Fraction | None = None
) -> NDArray[np.int64]:
    """Return how many rows of each part its holder caches: ``cache_rows``, int64 [P].

    Each holder has the parts that :func:`gsplit.data.first_parts` says.

    Args:
        offsets: int64 [P + 1] of the layout.
        holders: trainers, at most P.
        rows: that a holder has room for, shared out over its parts by their sizes.
        share: of all rows that an average holder caches; a larger part gets more.
    """
    sizes_P = np.diff(offsets)
    if share is not None:
        held = share * holders
        ceilings = [-(-int(size) * held.numerator // held.denominator) for size in sizes_P]
        return np.minimum(sizes_P, np.array(ceilings, np.int64))
    assert rows is not None
    first = first_parts(len(sizes_P), holders)
    total_P = np.maximum(1, np.diff(offsets[first])).repeat(np.diff(first))  # of the part's holder
    return np.minimum(sizes_P, sizes_P * min(rows, int(offsets[-1])) // total_P)


def hottest(
    indptr: NDArray[np.int64], indices: NDArray[Any], targets: NDArray[np.int64], hops: int, rows: int
) -> NDArray[np.int64]:
    """The hottest vertices in the neighbourhood of some targets, int64 [at most ``rows``] layout ids, hottest first.

    The heat of a vertex is the number of edges that an L-hop sample of the targets could draw it by; a vertex without
    such an edge, a target say, comes after all others. Reads the graph L times.

    Args:
        indptr, indices: of the graph, CSC.
        targets: int64 [T], of one trainer.
        hops: L.
        rows: that fit.
    """
    n = len(indptr) - 1
    reached_N = np.zeros(n, bool)
    reached_N[targets] = True
    heat_N = np.zeros(n, np.int64)
    for hop in range(1, hops + 1):
        destinations_N = reached_N.copy()
        for begin, end in _pieces(indptr):
            drawn = np.repeat(destinations_N[begin:end], np.diff(indptr[begin : end + 1]))
            sources = indices[indptr[begin] : indptr[end]][drawn]
            reached_N[sources] = True
            if hop == hops:
                heat_N += np.bincount(sources, minlength=n)
    ids = np.flatnonzero(reached_N)
    return ids[np.argsort(-heat_N[ids], kind="stable")][:rows].astype(np.int64)


def _pieces(indptr: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges (begin, end) of destinations with at most ``PIECE_EDGES`` edges, or a single destination."""
    begin, n = 0, len(indptr) - 1
    while begin < n:
        end = int(np.searchsorted(indptr, indptr[begin] + PIECE_EDGES, side="right")) - 1
        end = min(n, max(begin + 1, end))
        yield begin, end
        begin = end
