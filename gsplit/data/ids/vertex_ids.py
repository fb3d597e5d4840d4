"""Which vertex an id in a table is: the seam between tables and whatever their vertices are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class VertexIds(Protocol):
    """The vertices of a graph by the ids that its tables use.

    An id has one column or several. Columns are arrays of pyarrow, ``large_string`` [n].
    """

    names: tuple[str, ...]
    """What the columns of an id are called."""

    @property
    def num_vertices(self) -> int:
        """N."""

    def find(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        """The vertex of each id, int64 [n]; -1 where there is none."""

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""


class WrittenIds(VertexIds, Protocol):
    """Ids that a store keeps."""

    def write(self, path: Path) -> dict[str, Any]:
        """Write ``ids.arrow``; what the description of the folder says of it."""


class WholeIds:
    """Vertices that are called 0 .. N-1."""

    names = ("id",)

    def __init__(self, num_vertices: int) -> None:
        self.num_vertices = num_vertices

    def find(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        """The vertex of each id, int64 [n]; -1 where it is no number of 0 .. N-1."""
        (texts,) = columns
        found = np.full(len(texts), -1, np.int64)
        for at, text in enumerate(texts.to_pylist()):
            if text.isascii() and text.strip().isdigit() and (vertex := int(text)) < self.num_vertices:
                found[at] = vertex
        return found

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""
        return str(vertex)
