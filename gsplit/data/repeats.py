"""Repeated edges: the rules by which they become one, and the words for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.edge_history import WEIGHED, EdgeHistory
from gsplit.data.importers.source import EdgeChunk, EdgeChunks, GraphSource
from gsplit.errors import InputError

OF_UNWEIGHTED = {"sum": "count", "mean": "first", "max": "first", "last": "first"}
"""Rules that come to the same where each edge counts 1."""
OUTCOMES = {
    "first": "the first of each stays (--duplicates first; sum adds weights up, keep keeps all)",
    "sum": "their weights are added up (--duplicates sum)",
    "mean": "one edge has the mean of their weights (--duplicates mean)",
    "max": "one edge has the greatest of their weights (--duplicates max)",
    "last": "one edge has the weight of the last (--duplicates last)",
    "count": "the weight is how many they are (--duplicates count)",
    "keep": "all are kept (--duplicates keep)",
}
"""What became of repeated edges, for messages."""


def resolved(rule: str, *, weighted: bool) -> str:
    """The rule that is applied, for edges with weights or without."""
    rule = "first" if rule == "drop" else rule
    return rule if weighted else OF_UNWEIGHTED.get(rule, rule)


def counted(edges: EdgeChunks) -> EdgeChunks:
    """The same edges, each with the weight 1, whatever it was."""

    def chunks() -> Iterator[EdgeChunk]:
        for chunk in edges.chunks():
            yield replace(chunk, weight=np.ones(len(chunk.source)))

    return replace(edges, chunks=chunks, weighted=True, counts=True)


def joined(old: EdgeChunks, history: EdgeHistory | None, new: EdgeChunks, rule: str, where: str) -> list[EdgeChunks]:
    """Edges of a store and those that are added to it, as the rule takes them.

    Args:
        history: of the store.
        rule: as the user gave it.
        where: the store, for messages.

    Raises:
        InputError: where the result would be another than that of all edges at once.
    """
    rule = resolved(rule, weighted=new.weighted)
    if history is None and rule in WEIGHED:
        raise InputError(
            f"{where} does not say whether edges of it were repeated, and --duplicates {rule} has to know; import "
            "all edges at once, without --add"
        )
    history = history or EdgeHistory()
    history.check_next(rule, where)
    if rule != "count":
        return [old, new]
    return [replace(old, counts=True) if history.duplicates == "count" else counted(old), counted(new)]


def first_repeated(pairs: NDArray[Any]) -> tuple[int, int]:
    """The first of the pairs [n, 2] that repeats another."""
    order = np.lexsort((pairs[:, 0], pairs[:, 1]))
    equal = (pairs[order[1:]] == pairs[order[:-1]]).all(axis=1)
    first, second = pairs[order[1:][equal].min()].tolist()
    return first, second


def refusal(source: GraphSource, pair: tuple[int, int], repeated: int) -> str:
    """Return what a message says of an edge that is there twice: where, and how many others are."""
    places: list[int] = []
    begin = 0
    for chunk in source.edges.chunks():
        at = np.flatnonzero((np.asarray(chunk.source) == pair[0]) & (np.asarray(chunk.destination) == pair[1]))
        places += (begin + at[:2]).tolist()
        begin += len(chunk.source)
        if len(places) > 1:
            break
    first, second = map(source.edges.place, places[:2])
    others = "" if repeated == 1 else f", and {repeated - 1:,} more repeat others"
    return (
        f"{source.where}: {second}: the edge {shown_edge(source, pair)} was in {first} already{others}; remove "
        "repeated edges, or say by --duplicates what becomes of them: first, sum, mean, max, "
        "last, count or keep"
    )


def shown_edge(source: GraphSource, pair: tuple[int, int]) -> str:
    """Return what messages call an edge."""
    shown = str if source.ids is None else source.ids.shown
    return " -> ".join(map(shown, pair))
