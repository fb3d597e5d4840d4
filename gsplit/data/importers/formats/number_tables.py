"""Tables in which every column is a number of the same kind, as in the files of OGB and GraphBolt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.source import EdgeChunk, EdgeChunks
from gsplit.data.importers.tables.table import Table, open_table
from gsplit.errors import InputError


def read_matrix(path: Path, kind: type, *, columns: int | None = None) -> NDArray[Any]:
    """Read a whole table, int64 or float32 [n, columns]; by default it may have any number of columns.

    Raises:
        InputError: where the file is missing, damaged, empty, of another width, or has anything but numbers.
    """
    chunks = list(chunks_of(_open(path, columns), kind))
    if not chunks:
        raise InputError(f"{path} has no row below its header")
    return np.concatenate(chunks)


def _open(path: Path, columns: int | None) -> Table:
    table = open_table(path)
    if columns is not None and table.num_columns != columns:
        raise InputError(f"{path} has {table.num_columns} columns, not {columns}")
    return table


def chunks_of(table: Table, kind: type) -> Iterator[NDArray[Any]]:
    """Chunks of a table, int64 or float32 [n, columns], from top to bottom.

    Raises:
        InputError: naming the line of anything that is no number.
    """
    for columns in table.read(range(table.num_columns), [kind] * table.num_columns):
        yield np.stack(columns, axis=1)


def table_edges(path: Path) -> EdgeChunks:
    """Edges from a table of two columns, source and destination.

    Raises:
        InputError: where the file is missing, damaged, empty or of another width; as :func:`chunks_of` when the edges
            are read.
    """
    table = _open(path, 2)

    def chunks() -> Iterator[EdgeChunk]:
        for source, destination in table.read([0, 1], [int, int]):
            yield EdgeChunk(source=source, destination=destination)

    return EdgeChunks(chunks=chunks, place=lambda edge: f"{path.name}, {table.place(edge)}")
