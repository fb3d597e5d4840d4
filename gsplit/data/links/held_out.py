"""Edges that are withheld from the message edges while these are read: pairs that are to be predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gsplit.data.links.edge_sets import Links, check_beside, pairs_in_two
from gsplit.errors import InputError

Leaks = Literal["refuse", "drop", "keep"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of edges that were withheld."""

    links: Links
    """In the order of stores."""
    facts: dict[str, Any]
    """What a description says beside the numbers of pairs."""
    words: list[str]
    """What was taken out, and what was left in, for the log."""


class Withheld(Protocol):
    """Which edges of a source are no message edges."""

    def withhold(self, edges: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which edges [n, 2], the next of the source, are to be taken out."""

    def outcome(self, where: str) -> Outcome:
        """Return what came of it, when all edges were seen; InputError where they do not go with the pairs."""


class HeldOut:
    """Pairs that a source names, which must not be among its message edges, in neither direction.

    Args:
        links: the pairs, in any order.
        leaks: what becomes of message edges that are validation or test pairs, or their reverses, and of pairs in two
            sets. ``drop`` takes them out of the training pairs, too, and test pairs out of the validation set.
        train_alone: take out all edges but training pairs and their reverses.
    """

    def __init__(
        self, links: Links, leaks: Leaks, *, train_alone: bool = False, shown: Callable[[int], str] = str
    ) -> None:
        self._links, self._leaks, self._shown = links, leaks, shown
        self._keys = np.unique(unordered_keys(np.concatenate([links.valid, links.test])))
        self._trained = np.unique(unordered_keys(links.train)) if train_alone and links.train is not None else None
        self._seen = self._found = self._others = 0

    def withhold(self, edges: NDArray[Any]) -> NDArray[np.bool_]:
        """As of :class:`Withheld`."""
        if self._trained is None and not len(self._keys):
            return np.zeros(len(edges), np.bool_)
        keys = unordered_keys(edges)
        others = np.zeros(len(edges), np.bool_) if self._trained is None else ~are_among(keys, self._trained)
        found = are_among(keys, self._keys) & ~others
        self._seen += len(edges)
        self._others += int(others.sum())
        self._found += int(found.sum())
        return others | (found & (self._leaks == "drop"))

    def outcome(self, where: str) -> Outcome:
        """As of :class:`Withheld`."""
        if self._found and self._leaks == "refuse":
            raise InputError(
                f"{where}: {self._found:,} message edges are validation or test pairs or their reverses, and would "
                "give them away; --leaks drop takes these edges out, --leaks keep leaves them"
            )
        if self._others and self._others == self._seen:
            raise InputError(
                f"{where}: none of its {self._seen:,} edges is a training pair, so --message-edges train would leave "
                "none; give other --train-edges or drop it"
            )
        check_beside(self._links, None, where)  # before pairs are taken out
        links, drops = self._links.sorted(), self._leaks == "drop"
        leaks = []
        if self._found:
            leaks.append(f"{self._found:,} message edges that are validation or test pairs or their reverses")
        if drops and links.train is not None:
            leaking = are_among(unordered_keys(links.train), self._keys)
            links = links.taken("train", ~leaking)
            if leaking.any():
                leaks.append(f"{leaking.sum():,} training pairs that are likewise")
        for first, second, both in pairs_in_two(links):
            if self._leaks == "refuse":
                pair = " -> ".join(self._shown(int(vertex)) for vertex in getattr(links, first)[both[0]])
                others = f", and {len(both) - 1:,} others" if len(both) > 1 else ""
                raise InputError(
                    f"{where}: a pair is in both the {first} and the {second} set, {pair}{others}; take it out of "
                    f"one (--leaks drop: out of {'train' if second == 'train' else first}), or --leaks keep leaves it"
                )
            leaks.append(f"{len(both):,} {first} pairs that are in the {second} set, too")
            if drops:
                links = links.taken(first, np.delete(np.arange(len(getattr(links, first))), both))
        words = [f"{'dropped' if drops else 'kept'} {', '.join(leaks)} (--leaks {self._leaks})"] if leaks else []
        removed = self._found * drops + self._others
        facts: dict[str, Any] = {"removed": removed} if removed or drops else {}
        if self._trained is not None:
            facts["message"] = "train"
            words.append(f"took out {self._others:,} edges that are no training pairs (--message-edges train)")
        return Outcome(links=links, facts=facts, words=words)


def first_of_pairs(keys: NDArray[np.uint64], *order: NDArray[Any]) -> NDArray[np.int64]:
    """Places of the first of equal keys [n], ascending; ``order`` tells which is first, its last array most."""
    places = np.lexsort((*order, keys))
    return places[np.diff(keys[places], prepend=keys[places][:1] + np.uint64(1)) != 0]


def are_among(keys: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which keys [n] are among known ones, which ascend."""
    if not len(known):
        return np.zeros(len(keys), np.bool_)
    return known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys


def unordered_keys(pairs: NDArray[Any]) -> NDArray[np.uint64]:
    """A number [n] for each pair [n, 2] of ids below 2^32, the same for its reverse."""
    ends = pairs.astype(np.uint64)
    return np.minimum(ends[:, 0], ends[:, 1]) << np.uint64(32) | np.maximum(ends[:, 0], ends[:, 1])
