"""A file of features for a store that grows: which of its columns are which of the store's.

N vertices in all, of which the first N0 were there before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gsplit.data.append.kept_tables import KeptTable
from gsplit.data.append.named_rows import UpdatedRows, bound_of, names_vertices, refuse_unnamed_ids
from gsplit.data.columns.assembled import FeatureBlock, FeatureColumn, Missing
from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.column_kinds import read_columns
from gsplit.data.importers.feature_tables import read_array
from gsplit.data.importers.gaps import Gaps
from gsplit.data.importers.matching import IDS, NO_IDS, Unknown
from gsplit.data.importers.tables import open_table
from gsplit.data.importers.vertex_tables import VertexTable
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Adding:
    """Rules for files of features that are added to a store."""

    where: str
    """The store, for messages."""
    named: bool
    """True where vertices have ids of the user's own, by which all rows are matched."""
    id_column: str | None
    missing: Missing
    unknown: Unknown
    gaps: Gaps
    skip: Collection[str]
    """Names of columns, in lower case, that are labels or sets."""


class AddedTable:
    """A file of features, and those of the store that its columns become.

    Args:
        path: a ``.npy`` or a table.
        kept: what the features were made of. Columns are found by their names, and by their order where the store or
            the file has none.
        how: as for all files.

    Raises:
        InputError: for a file that cannot be read, or has other columns.
    """

    def __init__(self, path: Path, kept: KeptTable, how: Adding) -> None:
        self.path, self.kept, self._how = path, kept, how
        self._array: NDArray[Any] | None = None
        self._in_order: VertexTable | None = None
        self._names: list[str] | None = None
        """The columns, where they are found by their names."""
        if path.suffix == ".npy":
            if how.named:
                raise InputError(
                    f"{path} has no ids to match its rows by, as --ids any does; give a table with a header"
                )
            self._array = read_array(path)
            self._check_count(self._array.shape[1], in_array=True)
            return
        there = set(open_table(path, header=True if how.named else None).names)
        names = [column.name.lower() for column in kept.columns]
        if len(set(names)) == len(names) and "" not in names and there and (kept.has_names or there & set(names)):
            self._names = names
            self._check_ids()
        if not how.named and not names_vertices(path, how.id_column):
            if self._names is not None and how.id_column is None:
                refuse_unnamed_ids(path, {*how.skip, *names})
            self._in_order = self._open(None)

    @property
    def is_in_order(self) -> bool:
        """True where the rows are those of the new vertices."""
        return self._array is not None or self._in_order is not None

    @property
    def rows(self) -> int:
        """Number of rows, of a file whose rows are those of the new vertices."""
        if self._array is not None:
            return len(self._array)
        assert self._in_order is not None
        return self._in_order.num_rows

    def reach(self, old: int) -> int:
        """Return how many vertices there are by this file, where they are called by whole numbers.

        Args:
            old: N0.
        """
        if self.is_in_order:
            return old + self.rows
        return bound_of(self.path, self._how.id_column) if self._how.unknown == "refuse" else 0

    def block(self, ids: UpdatedRows) -> FeatureBlock:
        """The rows, as features.

        Args:
            ids: the vertices that they may be of; they learn which ones.

        Raises:
            InputError: for ids that are no vertex's.
        """
        array, kept = self._array, self.kept
        if array is not None:
            return self._block(lambda: iter((array,)))
        table, columns = self._in_order or self._open(ids), kept.columns
        if self._names is None and kept.is_plain:  # an array may have been as many columns
            columns = tuple(FeatureColumn(table=str(self.path), name=table.name(column)) for column in table.values)
        block = self._block(lambda: read_columns(table.table, table.values, columns))
        return replace(block, vertices=table.vertices, place=table.table.place)

    def _block(self, chunks: Callable[[], Iterator[NDArray[Any]]]) -> FeatureBlock:
        columns = tuple(replace(column, table=str(self.path)) for column in self.kept.columns)
        return FeatureBlock(path=str(self.path), columns=columns, chunks=chunks, statistics=self.kept.statistics)

    def _check_ids(self) -> None:
        """Check that no feature of the store is about to be taken as the ids."""
        how, names = self._how, self._names or ()
        asked = {name.strip().lower() for name in (how.id_column or "").split(",")}
        taken = [name for name in names if name in asked or (not how.named and not how.id_column and name in IDS)]
        if taken:
            raise InputError(
                f"{self.path}: column {printable_line(taken[0])} is a feature of {how.where}, and not the ids; name "
                f"the column of ids by --id-column, or --id-column {NO_IDS} if no column holds them"
            )

    def _open(self, ids: UpdatedRows | None) -> VertexTable:
        how = self._how
        table = VertexTable(
            self.path,
            "feature",
            id_column=how.id_column,
            ids=ids,
            require_all=how.missing == "refuse",
            unknown=how.unknown,
            gaps=how.gaps,
            skip=how.skip,
            take=self._names,
            flag=f"column that features of {how.where} were made of",
        )
        if self._names is None:
            self._check_count(len(table.values), in_array=False)
            table.refuse_ids(table.values, "feature")
        return table

    def _check_count(self, columns: int, *, in_array: bool) -> None:
        """Check the number of columns that are found by their order."""
        kept, where = self.kept, self._how.where
        other = next((column for column in kept.columns if column.kind not in ("number", "array")), None)
        if other is not None and in_array:
            raise InputError(
                f"{self.path} is an array, and features of {where} were made of columns such as "
                f"{printable_line(other.name)}:{other.kind}; give a table with these columns"
            )
        wanted = kept.width if other is None else len(kept.columns)
        if columns != wanted:
            raise InputError(f"{self.path} has {columns} features a vertex, and {where} has {wanted}")
