"""How many vertices a chunk of exact evaluation has at most."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray


def most_together(indptr: NDArray[np.int64], bounds: NDArray[np.int64], edges: int) -> int:
    """Vertices of the chunk that has most, where those of each trainer are cut into chunks of so many edges."""
    most = 0
    for begin, end in itertools.pairwise(bounds):
        cost = indptr[begin : end + 1] + np.arange(begin, end + 1)
        at = 0
        while at < len(cost) - 1:
            after = max(at + 1, int(np.searchsorted(cost, cost[at] + edges, side="right")) - 1)
            most, at = max(most, after - at), after
    return most
