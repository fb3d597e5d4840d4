"""Tables with a row for each vertex: which column is what, and which vertex a row belongs to.

A column of ids must never become a feature. Ids are the column that ``--id-column`` names, or one with a usual name;
rows are matched by them. A column with any other name that holds each id once is refused.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.ids.vertex_ids import VertexIds
from gsplit.data.importers.attached.matching import (
    INDEXES,
    NO_IDS,
    id_columns,
    number_column,
    vertices_by_id,
    vertices_by_number,
)
from gsplit.data.importers.attached.row_rules import RowRules
from gsplit.data.importers.checked import NotNumbersError
from gsplit.data.importers.tables.column_kinds import SKIP
from gsplit.data.importers.tables.column_names import (
    called,
    flag_value,
    kinds_by_column,
    named_column,
    refuse_numbers_as_header,
    shown_column,
)
from gsplit.data.importers.tables.gaps import GLANCE_ROWS, USUAL, Gaps
from gsplit.data.importers.tables.table import Table, is_numeric, open_table
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.errors import InputError

FEWEST_ROWS = 3
"""Fewest rows that can look like ids: two rows of 0 and 1 are as likely to be a feature."""
NAMES_SHOWN = 20
REPLACED = {"feature": "rows of features", "label": "labels"}
"""Names of what a row replaces of a vertex that was there before, where a store grows."""

logger = logging.getLogger(__name__)


class VertexTable:
    """A table, its columns of values, and the vertex of each row.

    Args:
        path: the table.
        what: ``feature``, ``label``, ``set`` or ``time``, for messages.
        rules: by which its rows belong to vertices.
        words: as for :func:`gsplit.data.importers.tables.table.open_table`.
        require_all: whether each vertex needs a row that was not in a store before.
        take: names or numbers of the columns of values; None: all but those of ids.
        skip: names or numbers of columns, in lower case, that are no values.
        only: names or numbers of columns, in lower case, beside which none are values; None: all are.
        flag: what messages call ``take``.
        gaps, bars: as for :func:`gsplit.data.importers.tables.table.open_table`.

    Raises:
        InputError: where the table is missing or damaged, ids are not those of the vertices, or a feature or one of
            several labels is a column of ids.
    """

    def __init__(
        self,
        path: Path,
        what: str,
        rules: RowRules,
        *,
        words: frozenset[str] = frozenset(),
        require_all: bool = False,
        take: Sequence[str] | None = None,
        skip: Collection[str] = (),
        only: Collection[str] | None = None,
        flag: str = "",
        gaps: Gaps = USUAL,
        bars: bool = True,
    ) -> None:
        id_column, are_of_new = rules.id_column, rules.are_of_new(path, words)
        ids = None if are_of_new else rules.ids
        header = None if ids is None else TextRules.current().header_with(id_column)
        self.table = open_table(path, words, header=header, gaps=gaps, bars=bars)
        if header:
            refuse_numbers_as_header(self.table, id_column, "--id-column")
        self._named = id_column not in (None, NO_IDS)
        self._id_columns = columns = self._find_ids(id_column, ids)
        self._ids = columns[0] if columns else None
        # The index of pandas beside ids with a name says nothing.
        indexes = [column for column, name in enumerate(self.table.names) if name in INDEXES]
        self._ignored = [column for column in indexes if columns and column not in columns]
        left_out = called(self.table, skip)
        self.values = [
            column
            for column in range(self.table.num_columns)
            if column not in {*columns, *self._ignored}
            and column not in left_out
            and (only is None or column in called(self.table, only))
        ]
        if take is not None:
            self.values = [named_column(self.table, name, flag) for name in take]
        if not self.values:
            rest = " and those that hold or are configured to be something else" if skip or only is not None else ""
            raise InputError(f"{path} has no column of {what}s beside the ids{rest}")
        self.vertices: NDArray[np.int64] | None = None
        """int64 [rows], the vertex of each row, or -1; None: rows are those of the vertices, in order."""
        if ids is not None:
            self.vertices = vertices_by_id(
                self.table, columns, ids, require_all=require_all, unknown=rules.unknown, old=rules.old or 0
            )
        elif self._ids is not None:
            n, unknown = (None, "refuse") if are_of_new else (rules.num_vertices, rules.unknown)
            self.vertices, self.num_rows = vertices_by_number(
                self.table, self._ids, n, require_all=require_all, unknown=unknown
            )
        self._are_matched = self.vertices is not None
        if are_of_new and (new := rules.in_order(path, self.num_rows)) is not None:
            self.vertices = new if self.vertices is None else new[self.vertices]
        elif self.vertices is not None and what in REPLACED:
            replaced = int(((self.vertices >= 0) & (self.vertices < (rules.old or 0))).sum())
            if replaced:
                logger.info("%s: %s %s of vertices that were there replaced", path, f"{replaced:,}", REPLACED[what])
        self._may_hold_ids = ids is None and id_column != NO_IDS
        if what == "label" and take is None and len(self.values) > 1:
            self.refuse_ids(self.values, what)
        if what == "feature" and self._ids is None:
            self._refuse_left_out_ids(left_out, what)
        logger.info("%s", self._described(what))

    def _find_ids(self, id_column: str | None, ids: VertexIds | None) -> list[int]:
        """The columns that hold ids."""
        if ids is not None:
            return id_columns(self.table, id_column, ids)
        column = number_column(self.table, id_column)
        return [] if column is None else [column]

    @functools.cached_property
    def num_rows(self) -> int:
        """Number of rows; text is read from top to bottom for it where there are no ids."""
        return self.table.num_rows() if self.vertices is None else len(self.vertices)

    def is_numeric(self, column: int) -> bool:
        """Return whether the first value of a column is a number, or it has none."""
        return is_numeric(self.table, column)

    def name(self, column: int) -> str:
        """Return what a column is called: its number, from 1 on, where there is no header."""
        return self.table.written_names[column] if self.table.names else str(column + 1)

    def read_texts(self) -> Iterator[list[Any]]:
        """The columns of values as texts of pyarrow, in chunks of rows; nothing in place of gaps."""
        for columns in self.table.texts(self.values):
            yield [self.table.gaps.cleared(texts) for texts in columns]

    def refuse_ids(self, columns: Sequence[int], what: str) -> None:
        """Refuse columns of numbers that hold ids, as no ``what`` does.

        Raises:
            InputError: naming the first.
        """
        rows = self.num_rows
        columns = [column for column in columns if not self.table.holds_truths(column)]
        if rows < FEWEST_ROWS or not self._may_hold_ids or not columns:
            return
        head = next(self.table.read(columns, [float] * len(columns)))
        for column, values in zip(columns, head, strict=True):
            if not (_may_be_ids(values[:GLANCE_ROWS], rows) and _may_be_ids(values, rows)):
                continue
            if (first := _counts_from(self.table, column, rows)) is None:
                continue
            ids = f"{self.table.path}: column {self._shown(column)} holds each of {first} .. {first + rows - 1} once"
            flag = flag_value(self.table, column)
            if self._ids is not None:
                raise InputError(
                    f"{ids}, as ids do, and is no {what}: the ids are {self._shown(self._ids)}; remove it"
                    + (f", or say --columns {flag}:skip or :number" if what == "feature" else "")
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

    def _refuse_left_out_ids(self, skip: Collection[int], what: str) -> None:
        """Refuse a column of ids among those that are no values: rows are not in the order of the vertices then."""
        for column in range(self.table.num_columns):
            if column in (*self.values, *self._ignored, *skip):
                continue
            if self.is_numeric(column):
                with suppress(NotNumbersError):
                    self.refuse_ids([column], what)

    def refuse_named_ids(self, kinds: Mapping[str, str]) -> None:
        """Refuse ``--columns`` for a column of ids, which is no feature whatever its kind.

        Raises:
            InputError: naming the first; one that is to be skipped is skipped anyway.
        """
        for column, kind in kinds_by_column(self.table, kinds).items():
            if column in self._id_columns and kind != SKIP:
                raise InputError(
                    f"--columns {flag_value(self.table, column)}:{kind}: that column of {self.table.path} holds the "
                    "ids; drop it, or name another by --id-column"
                )

    def _shown(self, column: int) -> str:
        return shown_column(self.table, column)

    def _described(self, what: str) -> str:
        """Return what each column is, in words."""
        if self._ids is not None and (self._named or self._are_matched):
            order = f"rows are matched by the ids in {self._shown(self._ids)}"
        else:
            index = "" if self._ids is None else f" ({self._shown(self._ids)} counts them)"
            order = f"rows are taken in the order of the vertices{index}"
        count = len(self.values)
        names = [self._shown(column) for column in self.values[:NAMES_SHOWN]] + ["..."] * (count > NAMES_SHOWN)
        values = f"{what}s ({count}): " + ("" if self.table.names else "column ") + ", ".join(names)
        ignored = "".join(f"; {self._shown(column)} is left out" for column in self._ignored)
        return f"{self.table.path}: {order}; {values}{ignored}"


def placed(values: NDArray[Any], vertices: NDArray[np.int64] | None, n: int | None) -> NDArray[Any]:
    """Values of rows [rows, ...] in the order of n vertices; NaN, of whole numbers -1, for those without a row.

    Args:
        vertices: [rows], the vertex of each row, or -1; None: rows are those of the vertices, in order.
    """
    if vertices is None:
        return values
    out = np.full((n or len(values), *values.shape[1:]), np.nan if values.dtype.kind == "f" else -1, values.dtype)
    there = vertices >= 0
    out[vertices[there]] = values[there]
    return out


def _may_be_ids(values: NDArray[np.float32], rows: int) -> bool:
    """Return whether some values of a column are different whole numbers in 0 .. rows, as far as float32 can tell."""
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
