"""Edge lists: one edge a row, in text or Parquet."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gsplit.data.importers.source import EdgeChunk, EdgeChunks, GraphSource
from gsplit.data.importers.tables.column_kinds import column_of_times, times_in
from gsplit.data.importers.tables.column_names import named_column, named_columns, shown_column, shown_names
from gsplit.data.importers.tables.table import Table, open_table, read_exactly
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.data.labels.vertex_sets import Times
from gsplit.errors import InputError

logger = logging.getLogger(__name__)

SOURCES = ("src", "source", "from", "src_id", "source_id", "u", "fromnodeid")
DESTINATIONS = ("dst", "destination", "dest", "target", "to", "dst_id", "target_id", "v", "tonodeid")
WEIGHTS = ("weight", "edge_weight", "w")
NOT_WHOLE = ("is not a whole number", "not whole numbers", "a header has no numbers")
"""Advice in messages about ids that are no whole numbers."""
ANY_IDS = "; ids of any kind need --ids any"


class EndColumns(NamedTuple):
    """Names or numbers of the columns of an edge, with commas where an id has several; None: the usual."""

    source: str | None = None
    destination: str | None = None
    weight: str | None = None
    time: str | None = None
    """Column that is read elsewhere, and so is no weight."""

    @property
    def given(self) -> str:
        """The first flag that was given, or nothing."""
        return next((f"--{name}-column" for name in self._fields[:3] if getattr(self, name) is not None), "")


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
        source, destination = self.sources[0], self.destinations[0]
        if table.names[source] in SOURCES or table.names[destination] in DESTINATIONS:
            return None
        return shown_column(table, source), shown_column(table, destination)


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
            for source, destination, *weight in read_exactly(table, columns, [int, int, np.float64][: len(columns)]):
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
        ends: names or numbers that the user gave.
        named: whether an id is any text, and may have several columns.

    Raises:
        InputError: where there are none, or not those.
    """
    if (ends.source is None) != (ends.destination is None):
        raise InputError("--source-column and --destination-column go together; give both or none")
    weight = None if ends.weight is None else named_column(table, ends.weight, "--weight-column")
    if ends.source is None or ends.destination is None:
        sources, destinations = ([column] for column in _usual(table, named))
    else:
        sources = named_columns(table, ends.source, "--source-column")
        destinations = named_columns(table, ends.destination, "--destination-column")
        _check_ends(ends, sources, destinations, named)
    if weight in (*sources, *destinations):
        raise InputError(f"--weight-column {ends.weight}: that column holds the ids of an edge; name another")
    if weight is None:
        time = () if ends.time is None else (named_column(table, ends.time, "--edge-time"),)
        weight = _usual_weight(table, (*sources, *destinations, *time))
    found = EdgeColumns(sources=sources, destinations=destinations, weight=weight)
    _tell(table, found)
    return found


def _check_ends(ends: EndColumns, sources: list[int], destinations: list[int], named: bool) -> None:
    """Check the columns of ids that a user named."""
    if len(sources) != len(destinations):
        raise InputError(
            f"--source-column {ends.source} has {len(sources)} columns and --destination-column {ends.destination} "
            f"has {len(destinations)}"
        )
    if sources == destinations:
        raise InputError(f"--source-column and --destination-column are both {ends.source}; name two")
    if len(sources) > 1 and not named:
        raise InputError(f"--source-column {ends.source}: ids of several columns need --ids any")


def _tell(table: Table, found: EdgeColumns) -> None:
    """Log which columns are an edge, and which are ignored."""
    taken = [*found.sources, *found.destinations, *([] if found.weight is None else [found.weight])]
    ignored = [shown_column(table, column) for column in range(table.num_columns) if column not in taken]
    if ignored:
        logger.info("%s: ignored the columns %s", table.path, ", ".join(ignored))
    shown = [f"{shown_column(table, at)}" if table.names else f"column {at + 1}" for at in taken]
    width = len(found.sources)
    logger.info(
        "%s: edges go from %s to %s%s",
        table.path,
        ",".join(shown[:width]),
        ",".join(shown[width : 2 * width]),
        f", weights in {shown[-1]}" if found.weight is not None else "",
    )


def _usual(table: Table, named: bool) -> tuple[int, int]:
    """Columns of source and destination, by their usual names or their places."""
    if table.num_columns < 2:
        raise InputError(
            f"{table.path} has one column; an edge needs two, with a comma, semicolon, tab, | or space between"
        )
    source = _usual_column(table, SOURCES, "--source-column")
    destination = _usual_column(table, DESTINATIONS, "--destination-column")
    if source is not None and destination is not None:
        return source, destination
    if (source is None) != (destination is None):
        here, lacking = ("a source", DESTINATIONS) if destination is None else ("a destination", SOURCES)
        raise InputError(f"{table.path} has {here} but no column called {', '.join(lacking)}")
    if not table.names and table.num_columns > 3:
        raise InputError(
            f"{table.path} has {table.num_columns} columns and no header; name those of an edge by their numbers, as "
            "--source-column 1 --destination-column 2, or add a first line such as src,dst,weight,x"
        )
    if named and table.names:
        raise InputError(
            f"{table.path} has no columns called src and dst in its first line, which reads {shown_names(table)}; "
            "name them by --source-column and --destination-column, or give --no-header if that is an edge"
        )
    if table.num_columns > 2 and table.names:
        raise InputError(
            f"{table.path} has the columns {shown_names(table)}; name those of an edge by --source-column and "
            "--destination-column, or call them src and dst; its weight, if it has one, is called weight"
        )
    return 0, 1


def _usual_weight(table: Table, ends: Collection[int]) -> int | None:
    """The column of the weight by a usual name, or the third where there is no header; None where there is none."""
    if not table.names and table.num_columns == 3 and 2 not in ends:
        logger.info("%s has no header: the third of its columns is taken for the weight", table.path)
        return 2
    return _usual_column(table, WEIGHTS, "--weight-column", ends)


def _usual_column(table: Table, names: Sequence[str], flag: str, others: Collection[int] = ()) -> int | None:
    """The column of the first of some names that is there, beside others; None where there is none.

    Raises:
        InputError: where two have that name.
    """
    there = {name for column, name in enumerate(table.names) if column not in others}
    name = next((name for name in names if name in there), None)
    return None if name is None else named_column(table, name, flag)


def edge_times(path: Path, word: str, *, named: bool) -> Times:
    """The times of the edges of a table, in its order; 8 bytes an edge in memory.

    Args:
        path: the edge list.
        word: the name of the column, and perhaps its kind, as of ``--split-by``.
        named: whether ids are of any kind.

    Raises:
        InputError: where there is no such column, naming the first line that holds something else.
    """
    name, kind = column_of_times(word, {}, "--edge-time")
    table = open_table(path, header=TextRules.current().header if named else None)
    values, are_dates = times_in(table, named_column(table, name, "--edge-time"), name, kind, "--edge-time")
    return Times(values=values, are_dates=are_dates, called=f"{path}: {name}")
