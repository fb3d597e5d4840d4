"""A graph store of our own, as a source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from gsplit.data.description import open_array
from gsplit.data.edge_history import ADDED, history_of
from gsplit.data.importers.source import EdgeChunk, EdgeChunks, GraphSource, csc_edges, graph_source
from gsplit.data.importers.tables.text_rules import TableRules
from gsplit.data.links.supervision import link_facts
from gsplit.data.store import FILE, GraphStore, open_store
from gsplit.errors import InputError


def load_store(path: Path) -> GraphSource:
    """Open a graph store, with what its vertices are called.

    Raises:
        InputError: where anything is missing, damaged or out of range.
    """
    return store_source(open_store(path))


def store_source(store: GraphStore) -> GraphSource:
    """An open graph store as a source; its double edges stay, as in a finished adjacency."""
    columns = tuple(store.description.get("columns", ()))
    rules = TableRules.of(store.description, str(store.path / FILE))
    history = history_of(store.description, str(store.path / FILE))
    source = graph_source(store.name, store.graph, str(store.path))
    counts = history is not None and history.duplicates == "count"
    return replace(
        source,
        edges=replace(store_edges(store), counts=counts),
        row_edges=source.edges,
        link_facts=link_facts(store.description, str(store.path / FILE)),
        ids=store.ids(),
        columns=columns,
        table_rules=rules,
        edge_history=history,
    )


def store_edges(store: GraphStore) -> EdgeChunks:
    """The edges of an open store, row after row: those of its sources, and after them all that imports added.

    Raises:
        InputError: where the array of these is missing, damaged or out of range.
    """
    graph = store.graph
    edges = csc_edges(graph.indptr, graph.indices, graph.edge_weight)
    if ADDED not in store.description["arrays"]:
        return edges
    degrees = np.diff(graph.indptr)
    added = open_array(store.path, ADDED, store.description, ("uint8", "uint16", "uint32"), degrees.shape)
    if (added > degrees).any():
        raise InputError(f"{store.path / ADDED}.npy is damaged: a vertex has more in-edges that were added than all")
    first_added = graph.indptr[1:] - added

    def chunks() -> Iterator[EdgeChunk]:
        for are_added in (False, True):
            begin = 0
            for chunk in edges.chunks():
                at = np.arange(begin, begin + len(chunk.source))
                kept = (at >= first_added[chunk.destination]) == are_added
                begin += len(kept)
                if kept.any():
                    weight = None if chunk.weight is None else chunk.weight[kept]
                    yield EdgeChunk(
                        source=chunk.source[kept], destination=chunk.destination[kept], weight=weight, added=are_added
                    )

    def place(edge: int) -> str:
        at = np.argsort(np.arange(graph.num_edges) >= np.repeat(first_added, degrees), kind="stable")
        return f"edge {at[edge]}"

    return replace(edges, chunks=chunks, place=place)
