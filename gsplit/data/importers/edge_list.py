"""Edge lists: one edge a row, in text or Parquet."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.source import EdgeChunk, EdgeChunks, GraphSource
from gsplit.data.importers.tables import Table, open_table
from gsplit.errors import InputError

logger = logging.getLogger(__name__)

SOURCES = ("src", "source", "from", "src_id", "source_id", "u")
DESTINATIONS = ("dst", "destination", "dest", "target", "to", "dst_id", "target_id", "v")
WEIGHTS = ("weight", "edge_weight", "w")
NOT_WHOLE = ("is not a whole number", "not whole numbers", "a header has no numbers")
"""Advice in messages about ids that are no whole numbers."""
ANY_IDS = "; ids of any kind need --ids any"


class EndColumns(NamedTuple):
    """Names of the columns of sources and of destinations, with commas where there are several; None: the usual."""

    source: str | None = None
    destination: str | None = None


@dataclass(frozen=True, kw_only=True)
class EdgeColumns:
    """The roles of a table's columns, counted from 0."""

    sources: list[int]
    destinations: list[int]
    weight: int | None

    def things(self, table: Table) -> tuple[str, str] | None:
        """Return what sources and destinations are called, where a column of each is, by no usual name."""
        if not table.names or len(self.sources) != 1:
            return None
        source, destination = table.names[self.sources[0]], table.names[self.destinations[0]]
        if source in SOURCES or destination in DESTINATIONS:
            return None
        return printable_line(source), printable_line(destination)


def load_edge_list(path: Path, ends: EndColumns = EndColumns()) -> GraphSource:  # noqa: B008 (a tuple)
    """Open a table of edges.

    Source and destination are the columns of those names, or the only two; the weight is found by its name, or is the
    third column where none has a name.

    Raises:
        InputError: where the file is missing or damaged, or has no such columns.
    """
    with _telling_of_any_ids():
        table = open_table(path)
    found = ends_of(table, ends)
    weighted = found.weight is not None
    columns = [*found.sources, *found.destinations, *([] if found.weight is None else [found.weight])]

    def chunks() -> Iterator[EdgeChunk]:
        with _telling_of_any_ids():
            for source, destination, *weight in table.read(columns, [int, int, np.float64][: len(columns)]):
                yield EdgeChunk(source=source, destination=destination, weight=weight[0] if weighted else None)

    return GraphSource(
        name=path.name.split(".")[0],
        edges=EdgeChunks(chunks=chunks, weighted=weighted, place=table.place, things=found.things(table)),
        num_vertices=None,
        where=str(path),
        other_ids=ANY_IDS,
    )


@contextmanager
def _telling_of_any_ids() -> Iterator[None]:
    try:
        yield
    except InputError as error:
        if any(words in str(error) for words in NOT_WHOLE):
            raise InputError(f"{error}{ANY_IDS}") from None
        raise


def ends_of(table: Table, ends: EndColumns, *, named: bool = False) -> EdgeColumns:
    """Find the columns of source, destination and perhaps weight.

    Args:
        ends: names that the user gave.
        named: whether an id is any text, and may have several columns.

    Raises:
        InputError: where there are none, or not those.
    """
    if (ends.source is None) != (ends.destination is None):
        raise InputError("--source-column and --destination-column go together; give both or none")
    if ends.source is None or ends.destination is None:
        first, second, *weight = _usual(table, named)
        return EdgeColumns(sources=[first], destinations=[second], weight=weight[0] if weight else None)
    sources, destinations = _called(table, ends.source, "source"), _called(table, ends.destination, "destination")
    if len(sources) != len(destinations):
        raise InputError(
            f"--source-column {ends.source} has {len(sources)} columns and --destination-column {ends.destination} "
            f"has {len(destinations)}"
        )
    if sources == destinations:
        raise InputError(f"--source-column and --destination-column are both {ends.source}; name two")
    if len(sources) > 1 and not named:
        raise InputError(f"--source-column {ends.source}: ids of several columns need --ids any")
    ends_there = (*sources, *destinations)
    weights = (at for at, name in enumerate(table.names) if name in WEIGHTS and at not in ends_there)
    weight_at = next(weights, None)
    logger.info(
        "%s: edges go from %s to %s%s",
        table.path,
        printable_line(ends.source),
        printable_line(ends.destination),
        "" if weight_at is None else f", weights in {table.names[weight_at]}",
    )
    return EdgeColumns(sources=sources, destinations=destinations, weight=weight_at)


def _called(table: Table, names: str, which: str) -> list[int]:
    """Columns by name, or, where none is called so, by number, from 1 on: two may have one name."""
    found = []
    for name in names.split(","):
        number = int(name) if name.strip().isdecimal() and name.strip() not in table.names else 0
        if 1 <= number <= table.num_columns:
            found.append(number - 1)
            continue
        if name.strip().lower() not in table.names:
            there = ", ".join(printable_line(name) or "(nameless)" for name in table.names) or "no header"
            raise InputError(
                f"{table.path} has no column called {name.strip()}, the --{which}-column; it has {there}"
            )
        if table.names.count(name.strip().lower()) > 1:
            raise InputError(
                f"{table.path} has several columns called {name.strip()}, the --{which}-column; say which by its "
                f"number, 1 .. {table.num_columns}"
            )
        found.append(table.names.index(name.strip().lower()))
    return found


def _usual(table: Table, named: bool) -> list[int]:
    """Columns of source, destination and perhaps weight, by their usual names or their places."""
    if table.num_columns < 2:
        raise InputError(
            f"{table.path} has one column; an edge needs two, with a comma, semicolon, tab or space between"
        )
    found = [
        next((table.names.index(name) for name in names if name in table.names), None)
        for names in (SOURCES, DESTINATIONS, WEIGHTS)
    ]
    twice = [table.names[at] for at in found if at is not None and table.names.count(table.names[at]) > 1]
    if twice:
        raise InputError(f"{table.path} has several columns called {twice[0]}; rename all but one")
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
        if named and table.names:
            columns_there = ", ".join(printable_line(name) or "(nameless)" for name in table.names)
            raise InputError(
                f"{table.path} has no columns called src and dst in its first line, which reads {columns_there}; "
                "name them by --source-column and --destination-column, or give --no-header if that is an edge"
            )
        if table.num_columns > 2 and table.names:
            columns_there = ", ".join(name or "(nameless)" for name in table.names)
            raise InputError(
                f"{table.path} has the columns {columns_there}; name those of an edge by --source-column and "
                "--destination-column, or call them src and dst; its weight, if it has one, is called weight"
            )
        first, second = 0, 1
    columns = [first, second] if weight is None else [first, second, weight]
    ignored = [printable_line(name) or "(nameless)" for at, name in enumerate(table.names) if at not in columns]
    if ignored:
        logger.info("%s: ignored the columns %s", table.path, ", ".join(ignored))
    taken = [printable_line(table.names[at]) or "(nameless)" if table.names else f"column {at + 1}" for at in columns]
    logger.info(
        "%s: edges go from %s to %s%s", table.path, *taken[:2], f", weights in {taken[2]}" if taken[2:] else ""
    )
    return columns
