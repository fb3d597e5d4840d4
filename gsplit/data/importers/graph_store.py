"""A graph store of our own, as a source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gsplit.data.edge_history import history_of
from gsplit.data.ids.kept_ids import KeptIds, copy_ids
from gsplit.data.importers.source import GraphSource, graph_source
from gsplit.data.importers.table_rules import TableRules
from gsplit.data.store import FILE, GraphStore, open_store


class CopiedIds:
    """Ids of the vertices of a store, for a copy of it."""

    def __init__(self, store: GraphStore, kept: KeptIds) -> None:
        self._store, self._kept = store, kept

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""
        return self._kept.shown(vertex)

    def write(self, path: Path) -> dict[str, Any]:
        """Copy the ids; what the description of the folder says of them."""
        copy_ids(self._store.path, path.parent)
        return dict(self._store.description["ids"])


def load_store(path: Path) -> GraphSource:
    """Open a graph store, with what its vertices are called.

    Raises:
        InputError: where anything is missing, damaged or out of range.
    """
    return store_source(open_store(path))


def store_source(store: GraphStore) -> GraphSource:
    """An open graph store as a source; its double edges stay, as in a finished adjacency."""
    kept = store.ids()
    ids = None if kept is None else CopiedIds(store, kept)
    columns = tuple(store.description.get("columns", ()))
    rules = TableRules.of(store.description, str(store.path / FILE))
    history = history_of(store.description, str(store.path / FILE))
    source = graph_source(store.name, store.graph, str(store.path))
    if history is not None and history.duplicates == "count":
        source = replace(source, edges=replace(source.edges, counts=True))
    return replace(source, ids=ids, columns=columns, table_rules=rules, edge_history=history)
