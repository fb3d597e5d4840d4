"""Edge lists whose vertices have ids of any kind: names, hashes, numbers of 64 bits, in one column or several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.config.fields import Accepted, Checked
from gsplit.data.ids.kept_ids import SEPARATOR
from gsplit.data.ids.named_ids import NamedIds, Order
from gsplit.data.importers.edge_list import EndColumns, ends_of
from gsplit.data.importers.source import EdgeChunk, EdgeChunks, GraphSource
from gsplit.data.importers.tables import Table, open_table
from gsplit.data.spill import EdgeSpill
from gsplit.errors import InputError


def _check_columns(names: str | None) -> None:
    if names is not None and not all(name.strip() for name in names.split(",")):
        raise InputError(f"{names!r} leaves a column without a name; several columns stand as a,b")


@dataclass(frozen=True, kw_only=True)
class IdOptions(Checked):
    """Rules by which the tables of a graph name its vertices."""

    # The docstrings are the help of the command.

    ids: Literal["whole", "any"] = "whole"
    """Kind of ids: whole numbers that count from 0, or any texts and numbers, compared as they are written. With any
    the tables have headers, rows are matched by ids, and the store keeps them: predictions speak them."""
    id_order: Order = "appearance"
    """Order of the vertices with --ids any: as their ids first appear in the edges, or in the order of the ids."""
    source_column: Annotated[str | None, Accepted(_check_columns)] = None
    """The column of an edge list with the sources, by its name or its number, from 1 on; by default the one called
    src, source, from or the like. With --ids any also several, as bank,account: together they are an id."""
    destination_column: Annotated[str | None, Accepted(_check_columns)] = None
    """The column, or columns, with the destinations."""
    header: bool = True
    """With --ids any, read names of columns from the first line of an edge list; without this flag the first two
    columns are the ids, a third the weight."""

    @property
    def ends(self) -> EndColumns:
        """The columns of sources and destinations, where they are named."""
        return EndColumns(self.source_column, self.destination_column)


def load_named_edges(
    path: Path, options: IdOptions, id_column: str | None, folder: Path, known: NamedIds | None = None
) -> tuple[GraphSource, NamedIds]:
    """Read a table of edges once, map its ids, and keep the edges as vertices in a folder.

    Args:
        options: which columns are what.
        id_column: what the tables of vertices call the columns of an id, as ``--id-column``.
        folder: for the ids and the edges; the caller removes it.
        known: ids that are vertices already; those of the table are added to them.

    Raises:
        InputError: where the file is missing or damaged, has no such columns, or an id is empty.
    """
    table = open_table(path, header=options.header)
    columns = ends_of(table, options.ends, named=True)
    width = len(columns.sources)
    names = [name.strip() for name in id_column.split(",")] if id_column not in (None, "none") else []
    if names and len(names) != width:
        raise InputError(f"--id-column {id_column} has {len(names)} columns, but an id of {path} has {width}")
    names = names or (["id"] if width == 1 else [_shared(table, column) for column in columns.sources])
    if len(set(names)) < width:
        raise InputError(f"{path}: the columns of an id must have different names, not {', '.join(names)}")
    if known is not None and width != len(known.names):
        raise InputError(
            f"{path}: --source-column has {width} columns, but an id of the store has {len(known.names)}: "
            f"{', '.join(known.names)}"
        )
    ids = NamedIds(folder, names) if known is None else known
    weighted = columns.weight is not None
    spill = EdgeSpill(folder, weights=np.float64 if weighted else None)
    begin = 0
    with closing(spill):
        for sources, destinations, weight in _chunks(table, columns.sources, columns.destinations, columns.weight):
            pairs = np.empty((len(sources[0]), 2), np.int64)
            # An edge's source appears before its destination, and both before the next edge's.
            both = [_interleaved(a, b) for a, b in zip(sources, destinations, strict=True)]
            for column in both:
                _check_texts(column, table, begin, alone=width == 1)
            pairs[:] = ids.add(both).reshape(-1, 2)
            spill.add(pairs, weight, ids.num_vertices)
            begin += len(pairs)
    if options.id_order == "sorted":
        ids.sort()

    def chunks() -> Iterator[EdgeChunk]:
        for pairs, weight in spill.pieces():
            pairs = ids.rank(pairs)
            yield EdgeChunk(source=pairs[:, 0], destination=pairs[:, 1], weight=weight)

    source = GraphSource(
        name=path.name.split(".")[0],
        edges=EdgeChunks(
            chunks=chunks, weighted=weighted, count=begin, place=table.place, things=columns.things(table)
        ),
        num_vertices=ids.num_vertices,
        where=str(path),
        ids=ids,
    )
    return source, ids


def _chunks(
    table: Table, sources: list[int], destinations: list[int], weight: int | None
) -> Iterator[tuple[list[Any], list[Any], NDArray[np.float64] | None]]:
    """Texts of the sources, of the destinations, and weights or None, some rows at a time."""
    texts = table.texts([*sources, *destinations])
    weights = table.read([weight], [np.float64]) if weight is not None else None
    left = np.empty(0)
    for columns in texts:
        rows = len(columns[0])
        while weights is not None and len(left) < rows and (piece := next(weights, None)) is not None:
            left = np.concatenate([left, piece[0]])
        yield columns[: len(sources)], columns[len(sources) :], left[:rows] if weights is not None else None
        left = left[rows:]


def _interleaved(first: Any, second: Any) -> Any:
    """Two columns of pyarrow [n] as one [2 n], by turns."""
    import pyarrow as pa

    both = pa.concat_arrays([first, second])
    return both.take(pa.array(np.arange(len(both)).reshape(2, -1).T.ravel()))


def _check_texts(column: Any, table: Table, begin: int, *, alone: bool) -> None:
    """Check one column of the ids of some edges, by turns their sources and destinations.

    Raises:
        InputError: naming the line, where one is empty, or no text that could be read back.
    """
    import pyarrow.compute as pc

    lengths = pc.binary_length(column).to_numpy()
    if len(lengths) and lengths.min() == 0:
        row = begin + int(np.argmin(lengths)) // 2
        raise InputError(f"{table.path}, {table.place(row)}: an id is empty; remove the line or give it one")
    # NumPy's texts lose a NUL at the end.
    marks = {"\0": "a NUL character"} | ({} if alone else {SEPARATOR: "the control character U+001F"})
    for mark, called in marks.items():
        if (found := pc.match_substring(column, mark)).true_count:
            row = begin + int(np.argmax(found.to_numpy(zero_copy_only=False))) // 2
            raise InputError(f"{table.path}, {table.place(row)}: an id holds {called}; remove it")


def _shared(table: Table, column: int) -> str:
    return table.names[column] if table.names else f"id_{column + 1}"
