"""Pairs of a graph by set, and those that are known already: leaks, candidates that are positives, reverses.

m pairs, K candidates, E edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import GraphArrays, row_ranges
from gsplit.data.layout import Layout
from gsplit.data.links.edge_sets import EDGE_SETS, PAIRS_AT_ONCE, Links, pair_keys, pairs_in_two
from gsplit.data.opened import OpenFolder


@dataclass(frozen=True, kw_only=True)
class LinkCounts:
    """Pairs in numbers."""

    pairs: dict[str, int]
    """Pairs by set."""
    leaks: dict[str, int]
    """Validation and test pairs that are message edges, or whose reverses are."""
    candidates: dict[str, int]
    """Candidates, and pairs that all of a set are compared with, by set."""
    positives: dict[str, int]
    """Those of them that are a message edge, or a pair of any set."""
    reversed: dict[tuple[str, str], int]
    """Pairs of the first set whose reverse is in the second."""
    shared: dict[tuple[str, str], int]
    """Pairs of the first set that are in the second, too."""


def link_counts(opened: OpenFolder) -> LinkCounts | None:
    """Count the pairs of a store or layout, whose edges are read once; None where there are none."""
    graph, links = opened.graph, opened.graph.links
    if links is None:
        return None
    pairs = {name: of_set for name in EDGE_SETS if (of_set := links.edge_set(name)) is not None}
    sets = {name: pair_keys(of_set) for name, of_set in pairs.items()}
    turned = {name: pair_keys(of_set[:, ::-1]) for name, of_set in pairs.items()}
    candidates = {name: _candidates(links, name) for name in EDGE_SETS[1:]}
    asked = np.unique(np.concatenate([*sets.values(), *turned.values(), *candidates.values()]))
    edges = _among_edges(asked, graph, opened.permutation if isinstance(opened, Layout) else None)
    positive = edges | np.isin(asked, np.concatenate([*sets.values()]))

    def of(keys: NDArray[np.uint64], marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return marks[np.searchsorted(asked, keys)]

    return LinkCounts(
        pairs=links.described(graph.num_edges),
        leaks={name: int((of(sets[name], edges) | of(turned[name], edges)).sum()) for name in EDGE_SETS[1:]},
        candidates={name: len(keys) for name, keys in candidates.items()},
        positives={name: int(of(keys, positive).sum()) for name, keys in candidates.items()},
        reversed={
            (first, second): int(np.isin(turned[first], sets[second]).sum())
            for first, second in (("valid", "train"), ("test", "train"), ("valid", "test"))
            if second in sets
        },
        shared={(first, second): len(both) for first, second, both in pairs_in_two(links)},
    )


def _candidates(links: Links, name: str) -> NDArray[np.uint64]:
    """Keys of all pairs that those of a set are compared with: of their own candidates, and of one list for all."""
    rows, negatives = getattr(links, f"{name}_candidates"), getattr(links, f"{name}_negatives")
    found = [np.empty(0, np.uint64)]
    if rows is not None:
        sources = np.broadcast_to(getattr(links, name)[:, :1], rows.shape)
        found.append(pair_keys(np.stack([sources.ravel(), rows.ravel()], axis=1)))
    if negatives is not None:
        found.append(pair_keys(negatives))
    return np.concatenate(found)


def _among_edges(
    keys: NDArray[np.uint64], graph: GraphArrays, permutation: NDArray[np.int64] | None
) -> NDArray[np.bool_]:
    """Return which keys [n], ascending, are those of message edges; the permutation leads to global ids."""
    found = np.zeros(len(keys), np.bool_)
    for pairs in _edges(graph) if len(keys) else ():
        piece = pair_keys(pairs if permutation is None else permutation[pairs])
        at = np.minimum(np.searchsorted(keys, piece), len(keys) - 1)
        found[at[keys[at] == piece]] = True
    return found


def _edges(graph: GraphArrays) -> Iterator[NDArray[np.int64]]:
    """Message edges [n, 2], source and destination, some at a time."""
    for begin, end in row_ranges(graph.indptr, PAIRS_AT_ONCE):
        destinations = np.repeat(np.arange(begin, end), np.diff(graph.indptr[begin : end + 1]))
        yield np.stack([graph.indices[graph.indptr[begin] : graph.indptr[end]], destinations], axis=1)
