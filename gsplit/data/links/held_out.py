"""Edges that are withheld from the message edges while these are read: pairs that are to be predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gsplit.data.links.edge_sets import Links
from gsplit.errors import InputError

Leaks = Literal["refuse", "drop", "keep"]


class Withheld(Protocol):
    """Which edges of a source are no message edges, and the links that come of it."""

    def withhold(self, edges: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which edges [n, 2], the next of the source, are to be taken out."""

    def links(self, where: str) -> Links:
        """The links, in the order of stores, when all edges were seen.

        Raises:
            InputError: naming ``where``, where the edges do not go with them.
        """

    def described(self) -> dict[str, Any]:
        """Return what a description says beside the numbers of pairs."""

    def words(self) -> str:
        """Return what was taken out, or left in, for the log; nothing where it is nothing."""


class HeldOut:
    """Pairs that a source names, which must not be among its message edges, in neither direction.

    Args:
        links: the pairs, in any order.
        leaks: what becomes of message edges that are validation or test pairs, or their reverses. ``drop`` takes them
            out of the training pairs, too.
    """

    def __init__(self, links: Links, leaks: Leaks) -> None:
        self._links, self._leaks = links, leaks
        self._keys = np.unique(unordered_keys(np.concatenate([links.valid, links.test])))
        self._found = 0

    def _among(self, edges: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which edges [n, 2] are one of the pairs or its reverse."""
        if not len(self._keys):
            return np.zeros(len(edges), np.bool_)
        keys = unordered_keys(edges)
        return self._keys[np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)] == keys

    def withhold(self, edges: NDArray[Any]) -> NDArray[np.bool_]:
        """As of :class:`Withheld`."""
        found = self._among(edges)
        self._found += int(found.sum())
        return found & (self._leaks == "drop")

    def links(self, where: str) -> Links:
        """As of :class:`Withheld`."""
        if self._found and self._leaks == "refuse":
            raise InputError(
                f"{where}: {self._found:,} message edges are validation or test pairs or their reverses, and would "
                "give them away; --leaks drop takes these edges out, --leaks keep leaves them"
            )
        links = self._links
        if self._leaks == "drop" and links.train is not None:
            kept, hard = ~self._among(links.train), links.hard_negatives
            if hard is not None and len(hard) == len(kept):
                hard = hard[kept]
            links = replace(links, train=links.train[kept], hard_negatives=hard)
        return links.sorted()

    def described(self) -> dict[str, Any]:
        """As of :class:`Withheld`."""
        return {"removed": self._found} if self._leaks == "drop" else {}

    def words(self) -> str:
        """As of :class:`Withheld`."""
        done = "dropped" if self._leaks == "drop" else "kept"
        edges = f"{self._found:,} message edges that are validation or test pairs or their reverses"
        return f"{done} {edges} (--leaks {self._leaks})" if self._found else ""


def unordered_keys(pairs: NDArray[Any]) -> NDArray[np.uint64]:
    """A number [n] for each pair [n, 2] of ids below 2^32, the same for its reverse."""
    ends = pairs.astype(np.uint64)
    return np.minimum(ends[:, 0], ends[:, 1]) << np.uint64(32) | np.maximum(ends[:, 0], ends[:, 1])
