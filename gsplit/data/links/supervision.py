"""A share of the training pairs that are no message edges, and alone are trained on (PyG's ``disjoint_train_ratio``).

A pair is drawn by a hash of the seed and of what its two vertices are called, as of
:mod:`gsplit.data.links.random_edges`, and both directions and all copies with it. So the same are drawn again of a
graph that has grown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.data.links.edge_sets import EDGE_SETS, pair_keys
from gsplit.data.links.hard_negatives import matched_rows
from gsplit.data.links.held_out import Outcome, Withheld, are_among, unordered_keys
from gsplit.data.links.random_edges import Hashes, mix64, pair_hashes, places_of
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Share:
    """Which training pairs are drawn, as ``graph.json`` has it."""

    share: float
    seed: int
    of: Literal["edges", "pairs"]
    """Whether the training pairs are message edges, or were given."""


def link_facts(description: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return what the description of a store says of its links beside the numbers of pairs.

    InputError where it is damaged; ``where`` is what messages call it.
    """
    facts = {key: value for key, value in description.get("links", {}).items() if key not in EDGE_SETS}
    drawn = facts.get("supervision")
    whole = drawn is None or (isinstance(drawn, dict) and {*drawn} == {field.name for field in fields(Share)})
    if not whole or not isinstance(facts.get("removed", 0), int):
        raise InputError(f"{where} is damaged where it says how links came about")
    return facts


class Supervised:
    """Training pairs of a share, taken out of the message edges beside others.

    Args:
        others: what is withheld beside them.
        train: training pairs, of which some are drawn; of edges those that an import before has taken out.
        undirected: take reverses of drawn edges for training pairs, as they would be message edges.
    """

    def __init__(
        self, others: Withheld, drawn: Share, hashes: Hashes, train: NDArray[np.int64] | None, *, undirected: bool
    ) -> None:
        self._others, self._share, self._hashes, self._undirected = others, drawn, hashes, undirected
        self._removed = 0
        self._found: list[NDArray[np.int64]] = []
        self._keys: NDArray[np.uint64] | None = None
        if drawn.of == "pairs":
            assert train is not None
            self._keys = np.unique(unordered_keys(train[self._are_drawn(train)]))

    def _are_drawn(self, pairs: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which pairs [n, 2] are drawn; loops are not."""
        drawn = pair_hashes(self._hashes(pairs[:, 0]), self._hashes(pairs[:, 1]), self._share.seed)
        return (places_of(mix64(drawn)) < self._share.share) & (pairs[:, 0] != pairs[:, 1])

    def withhold(self, edges: NDArray[Any]) -> NDArray[np.bool_]:
        """As of :class:`gsplit.data.links.held_out.Withheld`."""
        out = self._others.withhold(edges)
        drawn = self._are_drawn(edges) if self._keys is None else are_among(unordered_keys(edges), self._keys)
        drawn &= ~out
        if self._keys is None:
            self._found.append(edges[drawn].astype(np.int64))
        self._removed += int(drawn.sum())
        return out | drawn

    def outcome(self, where: str) -> Outcome:
        """As of :class:`gsplit.data.links.held_out.Withheld`."""
        others = self._others.outcome(where)
        links = others.links
        if self._keys is not None:
            assert links.train is not None
            links = links.taken("train", self._are_drawn(links.train))
        else:
            found = [*self._found, np.empty((0, 2), np.int64)] + ([] if links.train is None else [links.train])
            train = np.concatenate([*found, *(pairs[:, ::-1] for pairs in found if self._undirected)])
            train = train[np.unique(pair_keys(train), return_index=True)[1]]
            if links.train is not None and links.hard_negatives is not None:
                links = replace(links, hard_negatives=matched_rows(links.hard_negatives, links.train, train))
            links = replace(links, train=train)
        if not links.described(0)["train"]:
            raise InputError(
                f"{where}: --supervision {self._share.share:g} drew none of the few training pairs; choose a larger "
                "share or another --seed"
            )
        removed = others.facts.get("removed", 0) + self._removed
        return Outcome(
            links=links,
            facts={**others.facts, "supervision": asdict(self._share), "removed": removed},
            words=[*others.words, f"took out {self._removed:,} edges that are trained on (--supervision)"],
        )
