"""Raw files of the Open Graph Benchmark's datasets in ``.csv.gz``: edges, features and vertex sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.arrays import as_labels
from gsplit.data.importers.checked import as_vertex_set
from gsplit.data.importers.formats.number_tables import chunks_of, read_matrix, table_edges
from gsplit.data.importers.formats.torch_files import dense_array, load_torch
from gsplit.data.importers.source import NO_EDGES, EdgeChunk, EdgeChunks, GraphSource, Rows
from gsplit.data.importers.tables.table import open_table
from gsplit.errors import InputError

SET_FILES = ("train", "valid", "test")
Pairs = Callable[[], Iterator[tuple[NDArray[Any], NDArray[Any]]]]


def text_edges(folder: Path, *, both_ways: bool = False) -> EdgeChunks:
    """The edges of ``edge.csv.gz`` in a folder, as many as ``num-edge-list.csv.gz`` says, where that is there.

    Raises:
        InputError: as :func:`gsplit.data.importers.formats.ogb.load_ogb`.
    """
    edge, edge_counts = folder / "edge.csv.gz", folder / "num-edge-list.csv.gz"
    count = single(read_matrix(edge_counts, int, columns=1), edge_counts) if edge_counts.is_file() else None
    table = table_edges(edge)

    def pairs() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        done = 0
        for chunk in table.chunks():
            done += len(chunk.source)
            yield chunk.source, chunk.destination
        if count is not None and done != count:
            raise InputError(f"{edge} has {done} edges; {edge_counts.name} says {count}")

    return edge_chunks(pairs, count, table.place, both_ways=both_ways)


def edge_chunks(pairs: Pairs, count: int | None, place: Callable[[int], str], *, both_ways: bool) -> EdgeChunks:
    """The edges that pairs of sources and destinations [n] are.

    Args:
        pairs: begins to read them.
        count: number of pairs, where that is known.
        place: what messages call pair i.
        both_ways: whether each is followed by its inverse.
    """
    each = 2 if both_ways else 1

    def chunks() -> Iterator[EdgeChunk]:
        for source, destination in pairs():
            if both_ways:  # each edge, then its inverse, as OGB orders them
                source, destination = (
                    np.stack(pair, axis=1).reshape(-1) for pair in ((source, destination), (destination, source))
                )
            yield EdgeChunk(source=source, destination=destination)

    return EdgeChunks(chunks=chunks, count=None if count is None else each * count, place=lambda i: place(i // each))


def text_rows(path: Path, n: int) -> Rows:
    """The features of the ``n`` vertices in a table."""
    table = open_table(path)

    def chunks() -> Iterator[NDArray[Any]]:
        done = 0
        for chunk in chunks_of(table, np.float64):
            done += len(chunk)
            if done > n:
                raise InputError(f"{path} has more than {n} rows; the graph has {n} vertices")
            yield chunk
        if done != n:
            raise InputError(f"{path} has {done} rows; the graph has {n} vertices")

    return Rows(shape=(n, table.num_columns), dtype=np.dtype(np.float32), chunks=chunks)


def vertex_sets_in(folder: Path, n: int) -> dict[str, NDArray[np.int64]]:
    """The vertex sets of a folder of a split, of ``n`` vertices; empty ones are left out."""
    together = folder / "split_dict.pt"
    if together.is_file():
        lists = load_torch(together)
        if not isinstance(lists, dict) or any(name not in lists for name in SET_FILES):
            raise InputError(f"{together} must hold a dict of {', '.join(SET_FILES)}")
        what = {name: f"{together}: {name}" for name in SET_FILES}
        vertex_sets = {
            name: as_vertex_set(dense_array(lists[name], what[name]), n, what[name], mask=False) for name in what
        }
    else:
        paths = {name: folder / f"{name}.csv.gz" for name in SET_FILES}
        vertex_sets = {
            name: as_vertex_set(read_matrix(path, int, columns=1), n, str(path), mask=False)
            for name, path in paths.items()
        }
    return {name: ids for name, ids in vertex_sets.items() if len(ids)}


def single(values: NDArray[Any], what: object) -> int:
    """The one count in a list with an entry for each graph."""
    if values.size != 1 or values.dtype.kind not in "iu" or values.item() < 1:
        raise InputError(f"{what} must hold one count of 1 or more, not {values.reshape(-1)[:5].tolist()}")
    return int(values.item())


def text_vertices(
    features: Path, labels: Path | None, split: Path | None, n: int, num_classes: int | None, *, name: str, where: str
) -> GraphSource:
    """The ``n`` vertices of a graph, or of one of its types, without edges.

    Args:
        features: a table, where it is there.
        labels: a table; None: there are none.
        split: the folder of the vertex sets; None: there are none.
        num_classes: of the labels.
        name: of the graph.
        where: what messages call it.
    """
    what = f"{labels}: the table"
    return GraphSource(
        name=name,
        edges=NO_EDGES,
        num_vertices=n,
        features=text_rows(features, n) if features.is_file() else None,
        labels=None if labels is None else as_labels(read_matrix(labels, float), n, what),
        num_classes=None if labels is None else num_classes,
        vertex_sets={} if split is None else vertex_sets_in(split, n),
        where=where,
        called={"features": str(features)} | ({} if labels is None else {"labels": what}),
    )
