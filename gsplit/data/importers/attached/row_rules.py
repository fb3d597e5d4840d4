"""Rules by which the rows of files belong to vertices: of a new graph, or of a store that grows.

N vertices. Where a store grows, the first N0 of them were there before: they need no row, a row of theirs replaces
what they had, and rows without ids are those of the N - N0 new vertices.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsplit.data.ids.vertex_ids import VertexIds, WholeIds
from gsplit.data.importers.arrays import read_npy
from gsplit.data.importers.attached.matching import IDS, NO_IDS, Unknown, bound_of_ids, number_column
from gsplit.data.importers.tables.column_names import called, flag_value, shown_column
from gsplit.data.importers.tables.table import open_table
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class RowRules:
    """Vertices that rows may belong to, and how they are found."""

    id_column: str | None = None
    """As ``--id-column``."""
    num_vertices: int | None = None
    """N; None where it is not known: then there are as many as rows."""
    ids: VertexIds | None = None
    """Ids of the vertices; None: 0 .. N-1 in a new graph."""
    unknown: Unknown = "refuse"
    """Treatment of rows whose ids are no vertex's."""
    old: int | None = None
    """N0; None where no store grows."""
    where: str = ""
    """The store that grows, for messages."""

    @property
    def count(self) -> int:
        """N, where it is known."""
        assert self.num_vertices is not None
        return self.num_vertices

    @property
    def new(self) -> int:
        """N - N0."""
        return self.count - (self.old or 0)

    @property
    def have_names(self) -> bool:
        """True where ids are the user's own, so that every table has them."""
        return self.ids is not None and not isinstance(self.ids, WholeIds)

    def are_of_new(self, path: Path, words: frozenset[str] = frozenset()) -> bool:
        """Return whether the rows of a file have no ids and are those of the new vertices of a store that grows.

        Args:
            words: as for :func:`gsplit.data.importers.tables.table.open_table`.

        Raises:
            InputError: where a column of ids is named and the table has no header.
        """
        if self.old is None or self.have_names:
            return False
        if path.suffix == ".npy" or self.id_column == NO_IDS:
            return True
        names = open_table(path, words).names
        if self.id_column is not None and not names:
            raise InputError(
                f"{path} has no header, and --add finds --id-column by its name; add a line such as id,x"
            )
        return self.id_column is None and not any(name in IDS[:-1] for name in names)

    def in_order(self, path: Path, rows: int) -> NDArray[np.int64] | None:
        """The vertices of rows without ids, int64 [rows]; None: those of a new graph, one after the other.

        Raises:
            InputError: where there are more or fewer rows than new vertices.
        """
        if self.old is None:
            return None
        new = self.new
        if rows != new:
            lacking = f", and {self.old + rows} has none" if rows < new else ""
            raise InputError(
                f"{path} has {rows} rows and no column of ids, so it must have one for each of the {new} new "
                f"vertices{lacking}; a column called id names the vertex of each row"
            )
        return np.arange(self.old, self.count)

    def bound(self, path: Path) -> int:
        """One more than the largest vertex that a file has a row for, where vertices are whole numbers.

        Rows whose ids are no vertex's make none where they are dropped.
        """
        if self.are_of_new(path):
            rows = len(read_npy(path)) if path.suffix == ".npy" else open_table(path).num_rows()
            return (self.old or 0) + rows
        if self.unknown != "refuse":
            return 0
        table = open_table(path)
        column = number_column(table, self.id_column)
        assert column is not None
        return bound_of_ids(table, column)

    def refuse_unnamed_ids(self, path: Path, used: Collection[str], words: frozenset[str] = frozenset()) -> None:
        """Refuse a table whose rows would be those of the new vertices if it has a column that no flag names.

        It may hold the ids, and then the rows would be those of other vertices.

        Args:
            used: names and numbers of the columns, in lower case, that hold something else.
            words: as for :func:`gsplit.data.importers.tables.table.open_table`.

        Raises:
            InputError: naming the first such column.
        """
        if self.id_column is not None or not self.are_of_new(path, words) or path.suffix == ".npy":
            return
        table = open_table(path, words)
        others = set(range(len(table.names))) - called(table, used)
        if others:
            column = min(others)
            raise InputError(
                f"{path}: column {shown_column(table, column)} was not asked for; if it holds the ids, give "
                f"--id-column {flag_value(table, column)}, and if the rows are those of the new vertices, in order, "
                f"--id-column {NO_IDS}"
            )
