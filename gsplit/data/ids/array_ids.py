"""Ids of the user's own that lie in memory, a row for each vertex: those of a graph that was exported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gsplit.data.ids.kept_ids import SEPARATOR, ids_in_columns, import_pyarrow, joined, shown, write_ids
from gsplit.data.labels.class_names import texts_of
from gsplit.errors import InputError

ROWS_AT_ONCE = 1 << 20


class ArrayIds:
    """Ids of N vertices, as arrays.

    Args:
        names: of the columns of an id.
        columns: for each an array [N] of whole numbers or texts, or a list of texts.
        num_vertices: N.
        what: what messages call the ids.

    Raises:
        InputError: where two vertices have one id, an id is empty or no text, or the arrays have other shapes.
    """

    def __init__(self, names: Sequence[str], columns: Sequence[Any], num_vertices: int, what: str) -> None:
        pa = import_pyarrow(what)
        self.names = tuple(names)
        if not names or len(set(names)) < len(names) or len(names) != len(columns):
            raise InputError(
                f"{what}: each column needs a name of its own, and they are {', '.join(names) or 'none'}"
            )
        self.num_vertices = num_vertices
        texts = [_texts(column, num_vertices, what) for column in columns]
        for column in texts:
            for at, text in enumerate(column):
                if not text or "\0" in text or (len(names) > 1 and SEPARATOR in text):
                    fault = f"holds a control character: {text[:40]!r}" if text else "is empty"
                    raise InputError(f"{what}: the id of vertex {at} {fault}; give each vertex an id of its own")
        try:
            whole = [pa.array(column, pa.large_string()) for column in texts]
        except (UnicodeEncodeError, pa.ArrowException):
            raise InputError(f"{what}: an id holds half a character, which is no text; correct it") from None
        self._column = joined(whole)
        numbers = self._column.dictionary_encode().indices.to_numpy()
        again = np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1) == 0)
        if len(again):
            second = int(again[0])
            first = int(np.argmax(numbers == numbers[second]))
            raise InputError(f"{what}: the vertices {first} and {second} are both called {self.shown(first)}")

    def shown(self, vertex: int) -> str:
        """The id of a vertex, as messages show it."""
        return shown([part[0].as_py() for part in ids_in_columns(self._column.slice(vertex, 1), len(self.names))])

    def write(self, path: Path) -> dict[str, Any]:
        """Write the ids by vertex; what the description of the folder says of them."""
        pieces = (self._column.slice(at, ROWS_AT_ONCE) for at in range(0, self.num_vertices, ROWS_AT_ONCE))
        return write_ids(path, self.names, pieces)


def _texts(column: Any, num_vertices: int, what: str) -> list[str]:
    """The ids of one column as texts."""
    if isinstance(column, np.ndarray):
        if column.shape != (num_vertices,) or column.dtype.kind not in "iuU":
            raise InputError(
                f"{what} must be {num_vertices} whole numbers or texts, not {column.dtype} of shape {column.shape}"
            )
        return texts_of(column, what) if column.dtype.kind == "U" else list(map(str, column.tolist()))
    if not isinstance(column, (list, tuple)) or not all(isinstance(text, str) for text in column):
        raise InputError(
            f"{what} must be a list of texts or an array, with an id for each vertex; correct or remove it"
        )
    if len(column) != num_vertices:
        raise InputError(f"{what} must be an id for each of the {num_vertices} vertices, not {len(column)}")
    return list(column)
