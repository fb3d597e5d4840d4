"""Vertices that are in no edge: those of ``--vertices``, and with ``--unknown add`` those of rows of tables."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gsplit.data.adjacency import check_num_vertices
from gsplit.data.ids.named_ids import NamedIds
from gsplit.data.importers.attached.matching import bound_of_ids, id_columns, number_column, texts_of_ids
from gsplit.data.importers.attached.row_rules import RowRules
from gsplit.data.importers.attached.set_files import SPLIT_WORDS, ids_table, set_of_file
from gsplit.data.importers.attached.vertex_files import VertexFiles
from gsplit.data.importers.named_edges import check_texts
from gsplit.data.importers.source import EdgeChunk, GraphSource
from gsplit.data.importers.tables.table import Table, open_table
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.data.spill import EdgeSpill
from gsplit.errors import InputError

logger = logging.getLogger(__name__)


def add_by_id(ids: NamedIds, files: VertexFiles) -> None:
    """Make vertices of the ids in the files that are none yet, in the order of the files and of their rows.

    Args:
        ids: of the vertices so far, in the order of first appearance.
        files: ``--vertices``, and with ``--unknown add`` tables of features, labels and vertex sets, in this order.

    Raises:
        InputError: for a file that cannot be read or has no ids, and an id that is empty.
    """
    if files.vertices is not None:
        if files.vertices.suffix == ".npy":
            raise InputError(f"{files.vertices} is an array, and ids of any kind are texts; give a line for each")
        table = ids_table(files.vertices, ids)
        _add(table, range(len(ids.names)), ids)
    for path in files.tables if files.unknown == "add" else ():
        table = open_table(path, header=TextRules.current().header_with(files.id_column))
        _add(table, id_columns(table, files.id_column, ids), ids)


def _add(table: Table, columns: Sequence[int], ids: NamedIds) -> None:
    before = ids.num_vertices
    rows = 0
    for texts in texts_of_ids(table, columns, ids):
        for column in texts:
            check_texts(column, table, rows, alone=len(columns) == 1)
        ids.add(texts)
        rows += len(texts[0])
    say_added(table.path, ids.num_vertices - before)


def with_unconnected(source: GraphSource, files: VertexFiles, folder: Path) -> GraphSource:
    """The source with as many vertices as the files name, where these are whole numbers.

    Args:
        source: the graph.
        files: as of :func:`add_by_id`.
        folder: for the edges, where their vertices have to be known first; the caller removes it.

    Raises:
        InputError: for a file that cannot be read, ids below 0, and more vertices than fit in memory.
    """
    reaches = list(reaches_of(files))
    if not reaches:
        return source
    n = source.num_vertices
    if n is None:
        source, n = kept_edges(source, folder)
    return replace(source, num_vertices=reach(n, reaches))


def reaches_of(files: VertexFiles) -> Iterator[tuple[Path, int]]:
    """Files that name vertices by whole numbers, each with one more than the largest.

    Raises:
        InputError: for a file that cannot be read, and an id in ``--vertices`` that is below 0.
    """
    if files.vertices is not None:
        vertices, place = set_of_file(files.vertices, RowRules())
        if len(vertices) and vertices.min() < 0:
            at = int(np.argmin(vertices))
            where = f"entry {at}" if place is None else place(at)
            raise InputError(f"{files.vertices}, {where}: {vertices[at]} is below 0; ids count from 0")
        yield files.vertices, int(vertices.max(initial=-1)) + 1
    for path in files.tables if files.unknown == "add" else ():
        table = open_table(path, SPLIT_WORDS if path == files.split_file else frozenset())
        column = number_column(table, files.id_column)
        if column is not None:
            yield path, bound_of_ids(table, column)


def reach(num_vertices: int, reaches: Sequence[tuple[Path, int]]) -> int:
    """Return how many vertices there are by the files, and say how many of them are new.

    Raises:
        InputError: for more than fit in memory.
    """
    for path, bound in reaches:
        check_num_vertices(bound, str(path))
        say_added(path, max(0, bound - num_vertices))
        num_vertices = max(num_vertices, bound)
    return num_vertices


def say_added(path: Path, count: int) -> None:
    """Say how many vertices without edges a file adds."""
    if count:
        logger.info("%s: added %s vertices without edges", path, f"{count:,}")


def kept_edges(found: GraphSource, folder: Path) -> tuple[GraphSource, int]:
    """The source with its edges in a file, and one more than the largest vertex in them, 0 where there are no edges.

    Args:
        found: whose vertices are whole numbers.
        folder: for the file; the caller removes it.

    Raises:
        InputError: for ids below 0.
    """
    spill = EdgeSpill(folder)
    count, bound = 0, 0
    try:
        for chunk in found.edges.chunks():
            pairs = np.stack([chunk.source, chunk.destination], axis=1).astype(np.int64, copy=False)
            if not len(pairs):
                continue
            if pairs.min() < 0:
                at = int(np.argmax((pairs < 0).any(axis=1)))
                raise InputError(
                    f"{found.where}, {found.edges.place(count + at)}: {pairs[at, 0]} -> {pairs[at, 1]} names a "
                    "vertex below 0; ids count from 0"
                )
            largest = int(pairs.max())
            spill.add(pairs, chunk.weight, largest)
            bound = max(bound, largest + 1)
            count += len(pairs)
    finally:
        spill.close()

    def chunks() -> Iterator[EdgeChunk]:
        for pairs, weight in spill.pieces():
            yield EdgeChunk(source=pairs[:, 0], destination=pairs[:, 1], weight=weight)

    return replace(found, edges=replace(found.edges, chunks=chunks, count=count)), bound
