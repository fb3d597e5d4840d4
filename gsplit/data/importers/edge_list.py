"""Edge lists: one edge a row, in text or Parquet."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from gsplit.data.importers.checked import one_line
from gsplit.data.importers.source import EdgeChunk, Edges, Source
from gsplit.data.importers.tables import Table, open_table
from gsplit.errors import InputError

logger = logging.getLogger(__name__)

SOURCES = ("src", "source", "from", "src_id", "source_id", "u")
DESTINATIONS = ("dst", "destination", "dest", "target", "to", "dst_id", "target_id", "v")
WEIGHTS = ("weight", "edge_weight", "w")


def load_edge_list(path: Path) -> Source:
    """Open a table of edges.

    Source and destination are the columns of those names, or the only two; the weight is found by its name, or is the
    third column where none has a name.

    Raises:
        InputError: where the file is missing or damaged, or has no such columns.
    """
    table = open_table(path)
    columns = _columns(table)
    weighted = len(columns) == 3

    def chunks() -> Iterator[EdgeChunk]:
        for source, destination, *weight in table.read(columns, [int, int, float][: len(columns)]):
            yield EdgeChunk(source=source, destination=destination, weight=weight[0] if weighted else None)

    return Source(
        name=path.name.split(".")[0],
        edges=Edges(chunks=chunks, weighted=weighted, place=table.place),
        num_vertices=None,
        where=str(path),
    )


def _columns(table: Table) -> list[int]:
    """Columns of source, destination and perhaps weight."""
    if table.num_columns < 2:
        raise InputError(
            f"{table.path} has one column; an edge needs two, with a comma, semicolon, tab or space between"
        )
    found = [
        next((table.names.index(name) for name in names if name in table.names), None)
        for names in (SOURCES, DESTINATIONS, WEIGHTS)
    ]
    if (found[0] is None) != (found[1] is None):
        here, lacking = ("a source", DESTINATIONS) if found[1] is None else ("a destination", SOURCES)
        raise InputError(f"{table.path} has {here} but no column called {', '.join(lacking)}")
    if not table.names and table.num_columns > 3:
        raise InputError(
            f"{table.path} has {table.num_columns} columns and no header; add a first line such as src,dst,weight,x"
        )
    if not table.names and table.num_columns == 3:
        found[2] = 2
        logger.info("%s has no header: the third of its columns is taken for the weight", table.path)
    first, second, weight = found
    if first is None or second is None:
        if table.num_columns > 2 and table.names:
            columns_there = ", ".join(name or "(nameless)" for name in table.names)
            raise InputError(
                f"{table.path} has the columns {columns_there}; call those of an edge src and dst, and that of its "
                "weight, if it has one, weight"
            )
        first, second = 0, 1
    columns = [first, second] if weight is None else [first, second, weight]
    ignored = [one_line(name) or "(nameless)" for at, name in enumerate(table.names) if at not in columns]
    if ignored:
        logger.info("%s: ignored the columns %s", table.path, ", ".join(ignored))
    taken = [one_line(table.names[at]) or "(nameless)" if table.names else f"column {at + 1}" for at in columns]
    logger.info(
        "%s: edges go from %s to %s%s", table.path, *taken[:2], f", weights in {taken[2]}" if taken[2:] else ""
    )
    return columns
