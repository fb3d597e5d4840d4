"""Tables with a row for each vertex: which column is what, and which vertex a row belongs to.

A column of ids must never become a feature. Ids are the column that ``--id-column`` names, or one with a usual name,
which must count 0, 1, 2, ... . A column with any other name that holds each id once is refused.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.ids.vertex_ids import VertexIds
from gsplit.data.importers.checked import one_line
from gsplit.data.importers.tables import Table, open_table
from gsplit.errors import InputError

IDS = ("id", "node", "node_id", "vertex", "vertex_id", "")
"""Usual names of a column of ids; without one pandas writes its index."""
NO_IDS = "none"
"""Value of ``--id-column`` where all columns are values."""
FEWEST_ROWS = 3
"""Fewest rows that can look like ids: two rows of 0 and 1 are as likely to be a feature."""
GLANCE_ROWS = 1000
"""Rows that are looked at first: most columns of whole numbers show there that they hold a number twice."""
NAMES_SHOWN = 20

logger = logging.getLogger(__name__)


class VertexTable:
    """A table, its columns of values, and the vertex of each row.

    Args:
        path: the table.
        what: ``feature``, ``label`` or ``set``, for messages.
        id_column: as ``--id-column``.
        num_vertices: None where it is not known: then there are as many as rows.
        words: as for :func:`gsplit.data.importers.tables.open_table`.
        ids: what the vertices are called; None: 0 .. N-1.

    Raises:
        InputError: where the table is missing or damaged, ids are not those of all vertices, or a feature or one of
            several labels is a column of ids.
    """

    def __init__(
        self,
        path: Path,
        what: str,
        *,
        id_column: str | None = None,
        num_vertices: int | None = None,
        words: frozenset[str] = frozenset(),
        ids: VertexIds | None = None,
    ) -> None:
        self.num_vertices = num_vertices
        self._ids: int | None
        self._index: list[int] = []
        """Columns that count 0, 1, 2, ...: at most one, which is checked and left out."""
        self._ignored: list[int] = []
        self.vertices: NDArray[np.int64] | None
        """int64 [rows], the vertex of each row; None: rows are in the order of the vertices."""
        if ids is not None:
            self.table = open_table(path, words, header=True)
            columns = id_columns(self.table, id_column, ids)
            self._ids = columns[0]
            self.values = [column for column in range(self.table.num_columns) if column not in columns]
            if not self.values:
                raise InputError(f"{path} has no column beside the ids")
            self.num_vertices = ids.num_vertices
            self.vertices = _named_vertices(self.table, columns, ids, every=what == "feature")
            logger.info("%s", self._described(what))
            return
        self.table = open_table(path, words)
        self._ids = _named(self.table, id_column) if id_column not in (None, NO_IDS) else None
        usual = [column for column, name in enumerate(self.table.names) if name in IDS and column != self._ids][:1]
        self._index = usual if id_column is None else []
        # The index of pandas says nothing beside ids that are named.
        self._ignored = [c for c in usual if self._ids is not None and self.table.names[c] == ""]
        no_values = {self._ids, *self._index, *self._ignored}
        self.values = [column for column in range(self.table.num_columns) if column not in no_values]
        if not self.values:
            raise InputError(f"{path} has no column beside the ids")
        self.vertices = None if self._ids is None else _vertices(self.table, self._ids, num_vertices)
        if id_column != NO_IDS and (what == "feature" or (what == "label" and len(self.values) > 1)):
            self._refuse_ids_among_values(what)
        logger.info("%s", self._described(what))

    def read(self, kind: type) -> Iterator[list[NDArray[Any]]]:
        """The columns of values in chunks of rows; the index beside them is checked."""
        table, begin = self.table, 0
        columns, kinds = [*self.values, *self._index], [kind] * len(self.values) + [int] * len(self._index)
        for chunk in table.read(columns, kinds):
            for column in chunk[len(self.values) :]:
                expected = np.arange(begin, begin + len(column))
                if (column != expected).any():
                    at = int(np.argmax(column != expected))
                    raise InputError(
                        f"{table.path}, {table.place(begin + at)}: id {column[at]} where {begin + at} should be; "
                        "there must be a row for each vertex, in the order of their ids, or "
                        f"--id-column {self._flag(self._index[0])} to match rows by it"
                    )
            begin += len(chunk[0])
            yield chunk[: len(self.values)]

    def read_texts(self) -> Iterator[list[Any]]:
        """The columns of values as texts of pyarrow, in chunks of rows; the index beside them is checked."""
        for texts, _ in zip(self.table.texts(self.values), self.read(str), strict=True):
            yield texts

    def ordered(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values [rows, ...] of the rows, in the order of the vertices, NaN for those without a row."""
        if self.vertices is None:
            return values
        out = np.full((self.num_vertices or len(values), *values.shape[1:]), np.nan, values.dtype)
        out[self.vertices] = values
        return out

    def _refuse_ids_among_values(self, what: str) -> None:
        rows = self.table.num_rows()
        if rows < FEWEST_ROWS:
            return
        head = next(self.table.read(self.values, [float] * len(self.values)))
        for column, values in zip(self.values, head, strict=True):
            if not (_may_be_ids(values[:GLANCE_ROWS], rows) and _may_be_ids(values, rows)):
                continue
            if (first := _counts_from(self.table, column, rows)) is None:
                continue
            ids = f"{self.table.path}: column {self._shown(column)} holds each of {first} .. {first + rows - 1} once"
            flag = self._flag(column)
            if self._ids is not None:
                raise InputError(
                    f"{ids}, as ids do, and is no {what}: the ids are {self._shown(self._ids)}; remove it"
                )
            if first:
                raise InputError(
                    f"{ids}, as ids do that count from 1, and is no {what}; ids count from 0: subtract 1 and give "
                    f"--id-column {flag} to match rows by it, or --id-column {NO_IDS} if no column holds ids"
                )
            raise InputError(
                f"{ids}, as ids do, and is no {what}; give --id-column {flag} to match rows by it, or --id-column "
                f"{NO_IDS} if no column holds ids"
            )

    def _flag(self, column: int) -> str:
        """The column as the value of ``--id-column``."""
        return shlex.quote(one_line(self.table.names[column])) if self.table.names else str(column + 1)

    def _shown(self, column: int) -> str:
        return one_line(self.table.names[column]) or "(nameless)" if self.table.names else str(column + 1)

    def _described(self, what: str) -> str:
        """What each column is, in words."""
        if self._ids is not None:
            order = f"rows are matched by the ids in {self._shown(self._ids)}"
        else:
            index = f" ({self._shown(self._index[0])} counts them)" if self._index else ""
            order = f"rows are taken in the order of the vertices{index}"
        count = len(self.values)
        names = [self._shown(column) for column in self.values[:NAMES_SHOWN]] + ["..."] * (count > NAMES_SHOWN)
        values = f"{what}s ({count}): " + ("" if self.table.names else "column ") + ", ".join(names)
        ignored = "".join(f"; {self._shown(column)} is left out" for column in self._ignored)
        return f"{self.table.path}: {order}; {values}{ignored}"


def id_columns(table: Table, id_column: str | None, ids: VertexIds) -> list[int]:
    """The columns of a table that hold the ids: those of ``--id-column``, of the ids' own names, or of a usual one.

    Raises:
        InputError: where there are none.
    """
    wanted = ids.names if id_column is None else tuple(name.strip() for name in id_column.split(","))
    found = [table.names.index(name.lower()) for name in wanted if name.lower() in table.names]
    if len(found) == len(wanted):
        return found
    usual = [column for column, name in enumerate(table.names) if name in IDS[:-1]][:1]
    if id_column is None and usual and len(ids.names) == 1:
        return usual
    there = ", ".join(one_line(name) or "(nameless)" for name in table.names)
    raise InputError(
        f"{table.path} has no column of ids called {', '.join(wanted)}; it has {there}; name it by --id-column"
    )


def _named_vertices(table: Table, columns: list[int], ids: VertexIds, *, every: bool) -> NDArray[np.int64]:
    """The vertex of each row, int64 [rows].

    Args:
        every: whether each vertex needs a row.

    Raises:
        InputError: naming the first id that is no vertex's, that is there twice, or that has no row and needs one.
    """
    pieces = [ids.find(texts) for texts in table.texts(columns)]
    vertices = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    unknown = vertices < 0
    if unknown.any():
        at = int(np.argmax(unknown))
        raise InputError(
            f"{table.path}, {table.place(at)}: the id is in no edge, nor are those of {int(unknown.sum()) - 1} other "
            "rows; remove these rows"
        )
    times = np.bincount(vertices, minlength=ids.num_vertices)
    if (times > 1).any():
        twice = int(vertices[np.argmax(times[vertices] > 1)])
        first, second = np.flatnonzero(vertices == twice)[:2].tolist()
        raise InputError(
            f"{table.path}, {table.place(second)}: id {ids.shown(twice)} was in {table.place(first)} already"
        )
    lacking = int((times == 0).sum())
    if lacking and every:
        raise InputError(
            f"{table.path} has no row for {ids.shown(int(np.argmin(times)))}, nor for {lacking - 1} other of the "
            f"{ids.num_vertices} vertices; add them"
        )
    if lacking:
        logger.info("%s: %s of the %s vertices have no row", table.path, f"{lacking:,}", f"{ids.num_vertices:,}")
    return vertices


def _named(table: Table, id_column: str | None) -> int:
    """The column of that name, or, where there is no header, of that number, from 1 on."""
    assert id_column is not None
    if not table.names:
        if id_column.isdecimal() and 1 <= int(id_column) <= table.num_columns:
            return int(id_column) - 1
        raise InputError(
            f"{table.path} has no header, so --id-column takes the number of a column, 1 .. {table.num_columns}, "
            f"not {id_column}"
        )
    found = [column for column, name in enumerate(table.names) if name == id_column.lower()]
    if len(found) != 1:
        names = ", ".join(one_line(name) or "(nameless)" for name in table.names)
        many = "several columns" if found else "no column"
        raise InputError(f"{table.path} has {many} called {id_column}, the --id-column; it has {names}")
    return found[0]


def _vertices(table: Table, column: int, num_vertices: int | None) -> NDArray[np.int64] | None:
    """The vertex of each row; None where rows are in order.

    Raises:
        InputError: naming the first id that is out of range, there twice or missing.
    """
    chunks = [values for (values,) in table.read([column], [np.float64])]
    values = np.concatenate(chunks) if chunks else np.empty(0)
    n = len(values) if num_vertices is None else num_vertices
    good = (values >= 0) & (values < n) & (values == np.floor(values))
    if not good.all():
        at = int(np.argmin(good))
        id_ = int(values[at]) if np.isfinite(values[at]) and values[at] == np.floor(values[at]) else values[at]
        raise InputError(
            f"{table.path}, {table.place(at)}: "
            + ("the id is missing" if np.isnan(values[at]) else f"{id_} is no id of the vertices 0 .. {n - 1}")
            + "; there must be a row for each vertex, and ids count from 0"
        )
    ids = values.astype(np.int64)
    del chunks, values, good
    times = np.bincount(ids, minlength=n)
    if (times > 1).any():
        twice = ids[np.argmax(times[ids] > 1)]
        first, second = np.flatnonzero(ids == twice)[:2].tolist()
        raise InputError(f"{table.path}, {table.place(second)}: id {twice} was in {table.place(first)} already")
    if (times == 0).any():
        raise InputError(
            f"{table.path} has no row with the id {np.argmin(times)}; there must be one for each of the {n} vertices"
        )
    return None if (ids[1:] > ids[:-1]).all() else ids


def _may_be_ids(values: NDArray[np.float32], rows: int) -> bool:
    """Whether some values of a column are different whole numbers in 0 .. rows, as far as float32 can tell."""
    exact = values[values < 2**24]
    return bool(((values >= 0) & (values <= rows) & (values == np.floor(values))).all()) and (
        len(np.unique(exact)) == len(exact)
    )


def _counts_from(table: Table, column: int, rows: int) -> int | None:
    """First id of a column of ids: 0 if it holds each of 0 .. rows - 1 once, 1 if each of 1 .. rows; else None."""
    seen = np.zeros(rows + 1, np.bool_)
    count = 0
    for (values,) in table.read([column], [np.float64]):
        if not ((values >= 0) & (values <= rows) & (values == np.floor(values))).all():
            return None
        seen[values.astype(np.int64)] = True
        count += len(values)
        if np.count_nonzero(seen) != count:
            return None  # a number was there twice
    return {rows: 0, 0: 1}.get(int(np.argmin(seen)))
