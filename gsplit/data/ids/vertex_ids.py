"""Which vertex an id in a table is: the seam between tables and whatever their vertices are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gsplit.data.ids.prefixes import NONE, Prefixes


class VertexIds(Protocol):
    """The vertices of a graph by the ids that its tables use.

    An id has one column or several. Columns are arrays of pyarrow, ``large_string`` [n].
    """

    names: tuple[str, ...]
    """Names of the columns of an id."""
    prefixes: Prefixes
    """What stands before the ids of some columns in tables."""

    @property
    def num_vertices(self) -> int:
        """N."""

    def find(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        """The vertex of each id, int64 [n]; -1 where there is none."""

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""


class KeepsIds(Protocol):
    """Ids of the vertices of a new store, kept in a file of their own."""

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""

    def write(self, path: Path) -> dict[str, Any]:
        """Write the ids by vertex; what the description of the folder says of them."""


class WholeIds:
    """Vertices that are called 0 .. N-1."""

    names: tuple[str, ...] = ("id",)
    prefixes = NONE

    def __init__(self, num_vertices: int) -> None:
        self.num_vertices = num_vertices

    def find(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        """The vertex of each id, int64 [n]; -1 where it is no number of 0 .. N-1."""
        import pyarrow.compute as pc

        (texts,) = columns
        whole = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"\.0*$", "")  # pandas writes 3.0, too
        good = pc.match_substring_regex(whole, "^[0-9]{1,18}$")
        numbers = pc.if_else(good, whole, "-1").cast("int64").to_numpy()
        return np.where(numbers < self.num_vertices, numbers, -1)

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""
        return str(vertex)
