"""Which vertices are asked for, and which rows of the result are theirs.

M vertices are asked for, by global id, in any order and as often as one likes; each is computed once.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsplit.data import Layout
from gsplit.data.graph import VERTEX_SETS
from gsplit.data.npy import DAMAGE, map_array
from gsplit.errors import InputError


def asked_vertices(
    which: str | ArrayLike, layout: Layout, flag: str = "--vertices", type_: int = 0
) -> NDArray[np.int64]:
    """int64 [M] global ids; those of ``all`` and of a vertex set ascend, whatever the layout.

    Args:
        which: ``all``, a vertex set, the path of a file, or the ids themselves.
        layout: of the graph they are in.
        flag: names them in messages.
        type_: number of the type that they are of.

    Raises:
        InputError: for a file that cannot be read, ids that are none of the graph, no id at all, or a vertex set of
            another type than the one that has labels.
    """
    schema, target = layout.graph.schema, layout.graph.target
    n, name, called = schema.types[type_].num_vertices, schema.types[type_].name, ""
    if isinstance(which, str):
        if which == "all":
            return np.arange(n)
        if which in VERTEX_SETS:
            if type_ != target:
                raise InputError(
                    f"{flag} {which} is a set of vertices of type {schema.types[target].name}, and --type is {name}; "
                    "say all, or a file"
                )
            chosen = layout.permutations[type_][layout.graph.vertex_set(which)]
            return _not_empty(np.sort(chosen), f"{flag} {which}")
        named = layout.ids()
        if named is not None:
            texts = _read_named(Path(which), named.names, flag)
            return named.find(_not_empty(texts, which).tolist(), which)
        ids, where = _read(Path(which), flag), which
    else:
        ids, where = np.asarray(which), flag.removeprefix("--")
        if ids.dtype.kind in "UTO" and (named := layout.ids()) is not None:
            return named.find(_not_empty(np.atleast_1d(ids), where).tolist(), where)
    _not_empty(ids, where)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise InputError(f"{where} must be a list of whole numbers, not {ids.dtype} of shape {ids.shape}")
    outside = (ids < 0) | (ids >= n)
    if outside.any():
        at = int(np.argmax(outside))
        if schema.is_typed:
            called = f" of type {name}"
        if (named := layout.ids()) is not None:
            called = f"; its vertices have ids such as {named.shown(0)}, which are given as texts"
        raise InputError(f"{where}: vertex number {at + 1} is {ids[at]}, outside the vertices 0 .. {n - 1}{called}")
    return ids.astype(np.int64)


def _not_empty(ids: NDArray[Any], where: str) -> NDArray[Any]:
    if ids.size == 0:
        raise InputError(f"{where} asks for no vertex")
    return ids


def _read_named(path: Path, names: Sequence[str], flag: str) -> NDArray[Any]:
    """Ids of any kind, [M] or [M, columns]: a line each, perhaps below the names of an id's columns."""
    columns = len(names)
    if path.suffix == ".npy":
        return np.atleast_1d(_read(path, flag))
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {flag} takes all, train, valid, test or a file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no list of ids, text with one id a line: {error}") from None
    if rows and [name.strip().lower() for name in rows[0]] == [name.lower() for name in names]:
        del rows[0]
    odd = next((number for number, row in enumerate(rows, 1) if len(row) != columns), None)
    if odd is not None:
        raise InputError(
            f"{path}: id number {odd} has {len(rows[odd - 1])} columns, not {columns}; commas in an id need quotes"
        )
    ids = np.empty(len(rows), object)
    ids[:] = [row[0] if columns == 1 else tuple(row) for row in rows]
    return ids


def _read(path: Path, flag: str) -> NDArray[Any]:
    try:
        if path.suffix != ".npy":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of an empty file, which is our caller's to refuse
                warnings.simplefilter("error", DeprecationWarning)  # NumPy 1 would cut off what is behind the point
                columns = np.loadtxt(path, dtype=np.int64, ndmin=2)
                return columns[:, 0] if columns.shape[1] == 1 else columns
        return map_array(path) if path.stat().st_size else np.empty(0, np.int64)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {flag} takes all, train, valid, test or a file") from None
    except (*DAMAGE, DeprecationWarning) as error:
        raise InputError(f"{path} is no list of vertices, .npy or text with one id a line: {error}") from None


class Request:
    """Finds the rows of the result that belong to a vertex.

    Args:
        asked: int64 [M] global ids.
        permutation: int64 [N] layout id -> global id.
    """

    def __init__(self, asked: NDArray[np.int64], permutation: NDArray[np.int64]) -> None:
        layout_ids = np.empty(len(permutation), np.int64)
        layout_ids[permutation] = np.arange(len(permutation))
        self.ids = layout_ids[asked]
        """int64 [M] layout ids in the order asked for."""
        self._rows_M = np.argsort(self.ids, kind="stable")
        self._sorted_M = self.ids[self._rows_M]

    @property
    def num_rows(self) -> int:
        """Number of vertices asked for, M."""
        return len(self._rows_M)

    def in_order(self) -> NDArray[np.int64]:
        """Distinct layout ids, in the order in which they were first asked for: the same under every layout."""
        _, first = np.unique(self.ids, return_index=True)
        return self.ids[np.sort(first)]

    def of_part(self, begin: int, end: int) -> NDArray[np.int64]:
        """Distinct layout ids from ``begin`` to below ``end``, ascending."""
        return np.unique(self._sorted_M[slice(*np.searchsorted(self._sorted_M, (begin, end)))])

    def rows(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the result that belong to layout ids, and for each row the position in ``ids``."""
        begin = np.searchsorted(self._sorted_M, ids, side="left")
        counts = np.searchsorted(self._sorted_M, ids, side="right") - begin
        positions = np.repeat(np.arange(len(ids)), counts)
        within = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._rows_M[begin[positions] + within], positions
