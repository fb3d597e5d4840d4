"""The edges that a store grows by: read once, and kept in a file until the store is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gsplit.data.edge_history import KEY, history_of
from gsplit.data.ids.kept_ids import FILE
from gsplit.data.ids.named_ids import IDS_AT_ONCE, NamedIds
from gsplit.data.ids.prefixes import prefixes_of
from gsplit.data.importers import edge_table, kind_of, load_source
from gsplit.data.importers.attached.unconnected import kept_edges
from gsplit.data.importers.formats.graph_store import store_edges
from gsplit.data.importers.named_edges import IdOptions, load_named_edges
from gsplit.data.importers.source import EdgeChunk, EdgeChunks, GraphSource
from gsplit.data.importers.tables.table_files import TableFile
from gsplit.data.repeats import joined
from gsplit.data.store import FILE as STORE_FILE
from gsplit.data.store import GraphStore
from gsplit.errors import InputError


def named_ids(store: GraphStore, folder: Path) -> NamedIds | None:
    """The ids of a store, to find its vertices by and to add others to; None where they are 0 .. N-1.

    Args:
        folder: for the ids; the caller removes it.

    Raises:
        InputError: where the file of ids is missing or damaged.
    """
    kept = store.ids()
    if kept is None:
        return None
    ids = NamedIds(folder, kept.names, prefixes_of(store.description["ids"], str(store.path)))
    for columns in kept.pieces(IDS_AT_ONCE):
        ids.add(columns)
    if ids.num_vertices != store.graph.num_vertices:
        raise InputError(f"{store.path / FILE} is damaged: two vertices have one id")
    return ids


def read_new_edges(
    add: str | TableFile, options: IdOptions, ids: NamedIds | None, folder: Path
) -> tuple[GraphSource, int]:
    """New edges as a source, and one more than the largest vertex in them, 0 where there are no edges.

    Args:
        add: the edge list, as a source is named, or a table that was in no file.
        options: which of its columns are what.
        ids: the ids of the store, to which those of new vertices are added; None: ids are whole numbers.
        folder: for the edges; the caller removes it.

    Raises:
        InputError: for what is no edge list, missing, damaged, or has ids below 0.
    """
    path = edge_table(add)
    if ids is not None:
        if path is None:
            raise InputError(f"--add takes an edge list in text or Parquet for a store with ids, and {add} is none")
        found, _ = load_named_edges(path, options, None, folder, ids)
        return found, ids.num_vertices
    kind, place = ("", "") if path is not None else kind_of(str(add))
    if path is None and (kind != "numpy" or Path(place).is_dir()):
        raise InputError(f"--add takes an edge list in text or Parquet, or an edge index in a .npy; {add} is neither")
    return kept_edges(load_source(add, ends=options.ends), folder)


def joined_edges(store: GraphStore, new: GraphSource, duplicates: str) -> EdgeChunks:
    """The edges of a store and after them the new ones, which come before edges that imports have added.

    Args:
        duplicates: as ``--duplicates``.

    Raises:
        InputError: where either has weights and the other has none, or repeated edges cannot be combined any more.
    """
    num_edges = store.graph.num_edges
    history = history_of(store.description, str(store.path / STORE_FILE))
    old, added = joined(store_edges(store), history, new.edges, duplicates, str(store.path))
    if history is None and old.weighted and KEY in store.description:
        raise InputError(
            f"{store.path} does not say which of its edges are reverse edges and self-loops that were added, as an "
            "earlier release wrote it; import all edges at once, without --add"
        )
    if old.weighted != added.weighted:
        if old.weighted:
            raise InputError(f"{store.path} has edge weights and {new.where} has none; add a column called weight")
        raise InputError(
            f"{new.where} has edge weights and {store.path} has none; remove the column, or import the graph anew"
        )

    def chunks() -> Iterator[EdgeChunk]:
        yield from old.chunks()
        yield from added.chunks()

    def place(edge: int) -> str:
        within = edge - num_edges
        return old.place(edge) if within < 0 else f"{new.where}, {new.edges.place(within)}"

    count = None if new.edges.count is None else num_edges + new.edges.count
    return EdgeChunks(chunks=chunks, weighted=old.weighted, counts=added.counts, count=count, place=place)
