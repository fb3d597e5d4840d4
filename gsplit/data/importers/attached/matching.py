"""Which vertex each row of a table belongs to, by its ids; and what is done with those that do not fit.

N vertices. A row whose id is no vertex's is *unknown*; a vertex without a row *lacks* one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.data.ids.prefixes import prefixed
from gsplit.data.ids.vertex_ids import VertexIds
from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.tables.column_names import named_column, shown_column, shown_names
from gsplit.data.importers.tables.table import Table, open_table
from gsplit.errors import InputError

IDS = ("id", "node", "node_id", "vertex", "vertex_id", "")
"""Usual names of a column of ids; without one pandas writes its index."""
INDEXES = ("", "__index_level_0__")
"""Names under which pandas writes an index that has none, in text and in Parquet."""
NO_IDS = "none"
"""Value of ``--id-column`` where all columns are values."""

DROP_NEEDS_COUNT = "{}: --unknown drop has to know how many vertices there are; give --num-vertices, or --ids any"

Unknown = Literal["refuse", "drop", "add"]

logger = logging.getLogger(__name__)


def table_with(
    column: str | None, flag: str, own: Path | None, others: Sequence[Path | None], header: bool | None
) -> Path | None:
    """The table that has a column that was named, or the first of several names; None where none was.

    Args:
        column: the value of the flag.
        flag: what messages call it.
        own: the table that is for it, where there is one: if it has not the column, none has.
        others: tables that may have it beside other things; those that are not there, and arrays, have none.
        header: whether tables have headers, as of :func:`gsplit.data.importers.tables.table.open_table`.

    Raises:
        InputError: where none of several tables has it, or there is none.
    """
    if column is None:
        return None
    if own and own.suffix == ".npy":
        raise InputError(f"{flag} {column} is for tables, and {own} is an array; drop it")
    if own:
        return own
    first = column.split(",")[0].strip()
    tables = [path for path in others if path and path.suffix != ".npy"]
    opened = [open_table(path, header=header) for path in tables]
    for table in opened:
        if first.lower() in table.names:
            return table.path
    if len(opened) == 1:
        named_column(opened[0], first, flag)
        return tables[0]
    if first.isdecimal() and opened:
        raise InputError(f"{flag} {column}: there are several tables; give the name of the column, not its number")
    raise InputError(
        f"{flag} {column}: no table of --labels or --features has it"
        if opened
        else f"{flag} {column} is for a table of --labels, --features or --split-file; there is none"
    )


def number_column(table: Table, id_column: str | None) -> int | None:
    """The column of a table with ids that are 0 .. N-1: that of ``--id-column``, or of a usual name; or None.

    Raises:
        InputError: where there is none of that name, or several.
    """
    if id_column not in (None, NO_IDS):
        return named_column(table, id_column, "--id-column")
    usual = [column for column, name in enumerate(table.names) if name in IDS]
    if id_column == NO_IDS or not usual:
        return None
    return min(usual, key=lambda column: table.names[column] in INDEXES)


def bound_of_ids(table: Table, column: int) -> int:
    """One more than the largest id in a column; what is no id is refused where rows are matched."""
    largest = -1.0
    for (values,) in table.read([column], [np.float64]):
        largest = max(largest, values[np.isfinite(values) & (values == np.floor(values))].max(initial=-1))
    return int(min(largest, 2.0**62)) + 1


def id_columns(table: Table, id_column: str | None, ids: VertexIds) -> list[int]:
    """The columns of a table that hold the ids.

    They are those of ``--id-column``, one that is called as sources or destinations are, whose ids have a prefix,
    those of the ids' own names, or one of a usual name.

    Raises:
        InputError: where there are none, or several.
    """
    ends = [column for column, name in enumerate(table.names) if ids.prefixes.of_column(name)]
    if id_column is None and ends:
        if len(ends) > 1:
            shown = " and ".join(shown_column(table, column) for column in ends)
            raise InputError(
                f"{table.path} has ids of sources and of destinations, in {shown}; say by --id-column which a row "
                "belongs to"
            )
        return ends
    if id_column == NO_IDS and NO_IDS not in table.names:
        raise InputError(f"--id-column {NO_IDS} leaves no ids to match {table.path} by, as --ids any does; drop it")
    wanted = ids.names if id_column is None else tuple(id_column.split(","))
    if id_column is not None or all(name.lower() in table.names for name in wanted):
        return [named_column(table, name, "--id-column") for name in wanted]
    usual = [column for column, name in enumerate(table.names) if name in IDS[:-1]][:1]
    if usual and len(ids.names) == 1:
        return usual
    raise InputError(
        f"{table.path} has no column of ids called {', '.join(wanted)}; it has {shown_names(table)}; name it by "
        "--id-column"
    )


def texts_of_ids(table: Table, columns: Sequence[int], ids: VertexIds) -> Iterator[list[Any]]:
    """The ids of the rows in chunks, as the vertices are called: with the prefix that ids of this column have."""
    prefix = ids.prefixes.of_column(table.names[columns[0]]) if table.names else ""
    if prefix:
        column = shown_column(table, columns[0])
        logger.info("%s: ids in %s are those that begin with %s", table.path, column, printable_line(prefix))
    for texts in table.ids(columns):
        yield [prefixed(texts[0], prefix), *texts[1:]]


def found_vertices(table: Table, columns: Sequence[int], ids: VertexIds) -> NDArray[np.int64]:
    """The vertex of each row by the ids in some columns, int64 [rows]; -1 where there is none."""
    pieces = (ids.find(texts) for texts in texts_of_ids(table, columns, ids))
    return np.concatenate([np.empty(0, np.int64), *pieces])


def vertices_by_id(
    table: Table, columns: Sequence[int], ids: VertexIds, *, require_all: bool, unknown: Unknown, old: int = 0
) -> NDArray[np.int64]:
    """The vertex of each row, int64 [rows]; -1 for rows that are dropped.

    Args:
        columns: of the ids.
        ids: what the vertices are called.
        require_all: whether each vertex needs a row.
        unknown: what is done with rows of other ids.
        old: number of the first vertices, which need no row.

    Raises:
        InputError: naming the first id that is no vertex's, that is there twice, or that has no row and needs one.
    """
    vertices = found_vertices(table, columns, ids)
    others = vertices < 0
    if others.any() and unknown != "drop":
        at = int(np.argmax(others))
        raise InputError(
            f"{table.path}, {table.place(at)}: the id is in no edge, nor are those of {int(others.sum()) - 1} other "
            "rows; remove these rows, or --unknown drop leaves them out, add keeps them as vertices without edges"
            f"{spaces_around(table, columns, ids)}"
        )
    _check_rows(table, vertices, ids.num_vertices, ids.shown, require_all=require_all, old=old)
    return vertices


def spaces_around(table: Table, columns: Sequence[int], ids: VertexIds) -> str:
    """Return what a message adds where ids are unknown for spaces around them alone; nothing where none is."""
    import pyarrow.compute as pc

    known = 0
    for texts in texts_of_ids(table, columns, ids):
        trimmed = [pc.utf8_trim_whitespace(each) for each in texts]
        known += int(((ids.find(texts) < 0) & (ids.find(trimmed) >= 0)).sum())
    return f"; {known:,} of them have spaces around them, which --strip removes" if known else ""


def vertices_by_number(
    table: Table, column: int, num_vertices: int | None, *, require_all: bool, unknown: Unknown
) -> tuple[NDArray[np.int64] | None, int]:
    """The vertex of each row, int64 [rows], where ids are 0 .. N-1; None where rows are those of all, in order.

    The number of rows stands behind it.

    Args:
        num_vertices: None where it is not known: then there are as many as rows.
        column, require_all, unknown: as of :func:`vertices_by_id`.

    Raises:
        InputError: naming the first id that is out of range, there twice or missing.
    """
    if num_vertices is None and unknown == "drop":
        raise InputError(DROP_NEEDS_COUNT.format(table.path))
    values = np.concatenate([np.empty(0), *(chunk for (chunk,) in table.read([column], [np.float64]))])
    n = len(values) if num_vertices is None else num_vertices
    good = (values >= 0) & (values < n) & (values == np.floor(values))
    number = np.isfinite(values) & (values == np.floor(values))
    if not (number if unknown == "drop" else good).all():
        at = int(np.argmin(number if unknown == "drop" else good))
        id_ = int(values[at]) if number[at] else values[at]
        raise InputError(
            f"{table.path}, {table.place(at)}: "
            + ("the id is missing" if np.isnan(values[at]) else f"{id_} is no id of the vertices 0 .. {n - 1}")
            + "; "
            + ("there must be a row for each vertex, and ids count from 0" if require_all else "ids count from 0")
            + ("; give --num-vertices if there are more" if num_vertices is None and not require_all else "")
        )
    vertices = np.where(good, values, -1).astype(np.int64)
    del values, number
    _check_rows(table, vertices, n, str, require_all=require_all)
    in_order = len(vertices) == n and (np.diff(vertices) > 0).all() and good.all()
    return None if in_order else vertices, len(vertices)


def _check_rows(
    table: Table, vertices: NDArray[np.int64], n: int, shown: Callable[[int], str], *, require_all: bool, old: int = 0
) -> None:
    """Check that no vertex has two rows, and each after the ``old`` ones one if ``require_all``; say what is odd.

    Raises:
        InputError: naming the first vertex that has two, or none.
    """
    times = np.bincount(vertices[vertices >= 0], minlength=n)
    if (times > 1).any():
        twice = int(vertices[np.argmax((times[vertices] > 1) & (vertices >= 0))])
        first, second = np.flatnonzero(vertices == twice)[:2].tolist()
        raise InputError(
            f"{table.path}, {table.place(second)}: id {shown(twice)} was in {table.place(first)} already"
        )
    times = times[old:]
    lacking, others = int((times == 0).sum()), int((vertices < 0).sum())
    if lacking and require_all:
        raise InputError(
            f"{table.path} has no row for {shown(old + int(np.argmin(times)))}, nor for {lacking - 1} other of "
            f"the {len(times)} vertices; add them, or --missing zero or mean fills them in"
        )
    if lacking:
        logger.info("%s: %s of the %s vertices have no row", table.path, f"{lacking:,}", f"{len(times):,}")
    if others:
        logger.info("%s: left out %s rows whose ids are no vertex's", table.path, f"{others:,}")
