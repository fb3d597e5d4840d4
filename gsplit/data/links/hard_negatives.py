"""Hard negatives: from pairs that do not belong together to a row of destinations for each training pair."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.folders import FolderWriter
from gsplit.data.links.edge_sets import PAIRS_AT_ONCE, pair_keys


def matched_rows(rows: NDArray[np.int64], of: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows [M, H] of pairs [M, 2], out of rows [n, H] of others [n, 2]: -1 where a pair is none of these.

    The k-th of equal pairs has the row of the k-th of those, or of the last.
    """
    known, keys = pair_keys(of), pair_keys(pairs)
    order, at = np.argsort(known, kind="stable"), np.argsort(keys, kind="stable")
    known, keys = known[order], keys[at]
    copy = np.arange(len(keys)) - np.searchsorted(keys, keys)
    first, end = np.searchsorted(known, keys), np.searchsorted(known, keys, side="right")
    there = first < end
    matched = np.full((len(pairs), rows.shape[1]), -1)
    matched[at[there]] = rows[order[np.minimum(first + copy, end - 1)[there]]]
    return matched


def write_hard_negatives(
    writer: FolderWriter, pairs: NDArray[np.int64], sources: NDArray[Any], num_vertices: int
) -> None:
    """Write ``hard_negatives`` [M, H]: for each training pair the destinations that its source has in pairs [n, 2].

    Args:
        pairs: in any order; a source has its destinations in that order.
        sources: [M] of the training pairs; int64 or int32.
    """
    destinations = pairs[np.argsort(pairs[:, 0], kind="stable"), 1]
    counts = np.bincount(pairs[:, 0], minlength=num_vertices)
    begins = np.cumsum(counts) - counts
    width = int(counts.max(initial=0))
    rows = writer.create("hard_negatives", (len(sources), width), np.int64)
    at_once = max(1, PAIRS_AT_ONCE // max(1, width))
    for begin in range(0, len(sources), at_once):
        of = sources[begin : begin + at_once]
        there = np.arange(width) < counts[of, None]
        piece = np.full(there.shape, -1)
        piece[there] = destinations[(begins[of, None] + np.arange(width))[there]]
        rows[begin : begin + at_once] = piece
