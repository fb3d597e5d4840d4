"""Ids of any kind, mapped to vertices while a graph is imported.

The map is the core's (gsplit/csrc/id_map.hpp): some 40 bytes a vertex in memory, the ids themselves in a file.
DuckDB, Polars and Arrow were measured beside it (docs/development/log.md, "Ten million names").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit._core import IdMap
from gsplit.data.ids.kept_ids import (
    SEPARATOR,
    ids_in_columns,
    import_pyarrow,
    joined,
    shown,
    whole_numbers,
    write_ids,
)
from gsplit.data.ids.prefixes import NONE, Prefixes
from gsplit.errors import InputError

IDS_AT_ONCE = 1 << 20
Order = Literal["appearance", "sorted"]


class NamedIds:
    """Vertices by texts of the user's own, numbered as they first appear, or in the order of their texts.

    Args:
        folder: where the file of ids goes; the caller removes it.
        names: of the columns of an id.
        prefixes: of the ids of sources and of destinations.
    """

    def __init__(self, folder: Path, names: Sequence[str], prefixes: Prefixes = NONE) -> None:
        self.names = tuple(names)
        self.prefixes = prefixes
        self._pyarrow = import_pyarrow("ids of any kind")
        self._map = IdMap(str(folder / "ids"))
        self._rank: NDArray[np.int64] | None = None
        """[N] vertex by the number of the first appearance; None: they are the same."""

    @property
    def num_vertices(self) -> int:
        """N."""
        return self._map.num_vertices

    def add(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        """The vertex of each id, int64 [n], in the order of first appearance; new ids become new vertices.

        Raises:
            InputError: where there are 2^32 vertices.
            MemoryError, OSError: where there is no room for the map, or on the disk for the ids.
        """
        assert self._rank is None
        offsets, data, vertices = self._buffers(columns)
        try:
            self._map.add(offsets, data, vertices)
        except OverflowError:
            raise InputError("there are 2^32 ids or more, and --ids any takes fewer") from None
        return vertices

    def find(self, columns: Sequence[Any]) -> NDArray[np.int64]:
        """The vertex of each id, int64 [n]; -1 where there is none."""
        offsets, data, vertices = self._buffers(columns)
        self._map.find(offsets, data, vertices)
        return vertices if self._rank is None else np.where(vertices < 0, -1, self._rank[vertices])

    def num_spaced(self) -> int:
        """Number of ids that another is but for spaces around it; before they are sorted."""
        pa, count = self._pyarrow, 0
        left = [pa.array([], pa.large_string())]
        for piece in self._pieces():
            columns = ids_in_columns(piece, len(self.names))
            trimmed = joined_columns([pa.compute.utf8_trim_whitespace(column) for column in columns])
            spaced = trimmed.filter(pa.compute.not_equal(trimmed, joined_columns(columns)))
            known = self.find([spaced]) >= 0
            count += int(known.sum())
            left.append(spaced.filter(pa.array(~known)))
        others = pa.concat_arrays(left)
        return count + len(others) - len(others.unique())

    def sort(self) -> None:
        """Number the vertices anew, by the columns of their ids: by size where all are numbers, else by bytes."""
        pa = self._pyarrow
        column = pa.concat_arrays(list(self._pieces())) if self.num_vertices else pa.array([], pa.large_string())
        parts = ids_in_columns(column, len(self.names))
        parts = [part if (whole := whole_numbers(part)) is None else whole for part in parts]
        table = pa.table(parts, list(self.names))
        order = pa.compute.sort_indices(table, [(name, "ascending") for name in self.names]).to_numpy()
        self._rank = np.empty(len(order), np.int64)
        self._rank[order] = np.arange(len(order))

    def rank(self, vertices: NDArray[Any]) -> NDArray[Any]:
        """Vertices [...] as they are numbered now, of those that :meth:`add` gave."""
        return vertices if self._rank is None else self._rank[vertices]

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""
        first = vertex if self._rank is None else int(np.flatnonzero(self._rank == vertex)[0])
        return shown([part[0].as_py() for part in ids_in_columns(self._piece(first, first + 1), len(self.names))])

    def write(self, path: Path) -> dict[str, Any]:
        """Write the ids by vertex; what the description of the folder says of them."""
        pieces = list(self._pieces()) if self._rank is not None else self._pieces()
        if self._rank is not None:
            pieces = [self._pyarrow.concat_arrays(pieces).take(self._pyarrow.array(np.argsort(self._rank)))]
        return {**write_ids(path, self.names, pieces), **self.prefixes.described()}

    def _pieces(self) -> Iterator[Any]:
        for begin in range(0, self.num_vertices, IDS_AT_ONCE):
            yield self._piece(begin, min(begin + IDS_AT_ONCE, self.num_vertices))

    def _piece(self, begin: int, end: int) -> Any:
        offsets = np.empty(end - begin + 1, np.int64)
        data = np.empty(self._map.bytes_between(begin, end), np.uint8)
        self._map.copy(begin, offsets, data)
        pa = self._pyarrow
        return pa.LargeStringArray.from_buffers(end - begin, pa.py_buffer(offsets), pa.py_buffer(data))

    def _buffers(self, columns: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
        """Offsets [n + 1] and bytes of the ids, and room for n vertices."""
        column = joined_columns(columns)
        _, offsets, data = column.buffers()
        begins = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        bytes_ = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        return begins, bytes_, np.empty(len(column), np.int64)


def joined_columns(columns: Sequence[Any]) -> Any:
    """Ids of several columns as one, ``large_string`` [n], a character of no text between.

    Raises:
        InputError: where that character is in a text.
    """
    import pyarrow.compute as pc

    for column in columns if len(columns) > 1 else ():
        if pc.any(pc.match_substring(column, SEPARATOR)).as_py():
            raise InputError("an id of several columns holds the control character U+001F; remove it")
    return joined(columns)
