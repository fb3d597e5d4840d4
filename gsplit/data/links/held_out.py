"""Validation and test pairs that must not be among the message edges, looked for while these are read."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.data.links.edge_sets import Links
from gsplit.errors import InputError

Leaks = Literal["refuse", "drop", "keep"]


class HeldOut:
    """Pairs by their two ends, in either direction.

    Args:
        pairs: [m, 2].
    """

    def __init__(self, pairs: NDArray[np.int64]) -> None:
        self._keys = np.unique(unordered_keys(pairs))

    def among(self, edges: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which edges [n, 2] are one of the pairs or its reverse."""
        if not len(self._keys):
            return np.zeros(len(edges), np.bool_)
        keys = unordered_keys(edges)
        return self._keys[np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)] == keys


def unordered_keys(pairs: NDArray[Any]) -> NDArray[np.uint64]:
    """A number [n] for each pair [n, 2], the same for its reverse."""
    ends = pairs.astype(np.uint64)
    return np.minimum(ends[:, 0], ends[:, 1]) << np.uint64(32) | np.maximum(ends[:, 0], ends[:, 1])


def held_out(links: Links) -> HeldOut:
    """The validation and test pairs of some links."""
    return HeldOut(np.concatenate([links.valid, links.test]))


def refuse_leaks(leaks: int, where: str) -> None:
    """Refuse message edges that give validation or test pairs away.

    Raises:
        InputError: where there are any.
    """
    if leaks:
        raise InputError(
            f"{where}: {leaks:,} message edges are validation or test pairs or their reverses, and would give them "
            "away; --leaks drop takes these edges out, --leaks keep leaves them"
        )
