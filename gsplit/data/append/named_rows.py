"""Which vertices the rows of a table belong to that holds new vertices and perhaps old ones.

N vertices in all, of which the first N0 were there before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.ids.vertex_ids import VertexIds, WholeIds
from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.matching import IDS, NO_IDS, id_columns
from gsplit.data.importers.set_files import NO_SET, SET_WORDS
from gsplit.data.importers.tables import open_table
from gsplit.errors import InputError

SPLIT_WORDS = frozenset((*SET_WORDS, *NO_SET))
"""Values in a file of --split-file, which are no header."""
ANY_NUMBER = 1 << 62
"""More vertices than any graph has."""


class Noted:
    """All N vertices by their ids, with a note of which were asked for."""

    def __init__(self, ids: VertexIds) -> None:
        self._ids = ids
        self.names = ids.names
        self.prefixes = ids.prefixes
        self.num_vertices = ids.num_vertices
        self.named = np.zeros(ids.num_vertices, np.bool_)
        """[N] whether a table named the vertex."""

    def find(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        """The vertex of each id, int64 [n]; -1 where there is none."""
        found = self._ids.find(columns)
        self.named[found[found >= 0]] = True
        return found

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""
        return self._ids.shown(vertex)


class UpdatedRows:
    """The vertices that a table must name and may name, counted anew: the new ones, then old ones as they appear.

    Args:
        ids: of all N vertices.
        old: N0.
    """

    def __init__(self, ids: VertexIds, old: int) -> None:
        self._ids = ids
        self.names = ids.names
        self.prefixes = ids.prefixes
        self._old = old
        self._new = ids.num_vertices - old
        self._number = np.full(old, -1, np.int64)
        self._updated: list[NDArray[np.int64]] = []

    @property
    def updated(self) -> int:
        """Number of old vertices that were named so far."""
        return sum(map(len, self._updated))

    @property
    def num_vertices(self) -> int:
        """New vertices, and old ones that were named so far."""
        return self._new + self.updated

    @property
    def vertices(self) -> NDArray[np.int64]:
        """int64 [num_vertices], the vertex of each of these numbers."""
        return np.concatenate([np.arange(self._old, self._old + self._new), *self._updated])

    def find(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        """The number of each id, int64 [n]; -1 where there is none."""
        vertices = self._ids.find(columns)
        was_there = (vertices >= 0) & (vertices < self._old)
        fresh = np.unique(vertices[was_there & (self._number[np.where(was_there, vertices, 0)] < 0)])
        self._number[fresh] = self.num_vertices + np.arange(len(fresh))
        self._updated.append(fresh)
        numbers = np.where(vertices < 0, -1, vertices - self._old)
        numbers[was_there] = self._number[vertices[was_there]]
        return numbers

    def shown(self, vertex: int) -> str:
        """The id of the vertex of a number, as messages show it."""
        return self._ids.shown(int(self.vertices[vertex]))

    def write(self, path: Path) -> dict[str, Any]:
        """Write nothing: the ids of the graph are written with its store."""
        return {}


def names_vertices(path: Path, id_column: str | None, words: frozenset[str] = frozenset()) -> bool:
    """Return whether a table has a column of ids: one with a usual name, or that of ``--id-column``.

    Args:
        words: as for :func:`gsplit.data.importers.tables.open_table`.

    Raises:
        InputError: where a column is named and the table has no header.
    """
    if path.suffix == ".npy" or id_column == NO_IDS:
        return False
    names = open_table(path, words).names
    if id_column is not None and not names:
        raise InputError(f"{path} has no header, and --add finds --id-column by its name; add a line such as id,x")
    return id_column is not None or any(name in IDS[:-1] for name in names)


def refuse_unnamed_ids(path: Path, used: Collection[str]) -> None:
    """Refuse a table whose rows would be those of the new vertices, in order, if it has a column that no flag names.

    It may hold the ids, and then the rows would be those of other vertices.

    Args:
        path: a table.
        used: names of the columns, in lower case, that hold something else.

    Raises:
        InputError: naming the first such column.
    """
    for name in open_table(path, SPLIT_WORDS).names:
        if name not in used:
            shown = printable_line(name) or "(nameless)"
            call = f"give --id-column {printable_line(name)}" if name else "call it id"
            raise InputError(
                f"{path}: column {shown} was not asked for; if it holds the ids, {call}, and if the rows are those "
                f"of the new vertices, in order, --id-column {NO_IDS}"
            )


def bound_of(path: Path, id_column: str | None) -> int:
    """One more than the largest whole number among the ids of a table, 0 where there is none."""
    table, ids = open_table(path, header=True), WholeIds(ANY_NUMBER)
    columns = id_columns(table, id_column, ids)
    return max((int(ids.find(texts).max(initial=-1)) + 1 for texts in table.ids(columns)), default=0)
