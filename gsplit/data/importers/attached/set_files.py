"""Vertex sets in files of their own: lists of ids, masks, and tables that say for each vertex which set it is in."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS
from gsplit.data.ids.vertex_ids import VertexIds
from gsplit.data.importers.arrays import read_npy, set_ids
from gsplit.data.importers.attached.matching import DROP_NEEDS_COUNT, IDS, Unknown, found_vertices, spaces_around
from gsplit.data.importers.attached.row_rules import RowRules
from gsplit.data.importers.attached.vertex_tables import VertexTable
from gsplit.data.importers.tables.table import Table, open_table
from gsplit.errors import InputError

SET_WORDS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}
NO_SET = ("", "none", "-")
SPLIT_WORDS = frozenset((*SET_WORDS, *NO_SET))
"""Values in a file of --split-file, which are no header."""

Place = Callable[[int], str]

logger = logging.getLogger(__name__)


class VertexSets(NamedTuple):
    """The vertex sets of files."""

    sets: dict[str, NDArray[np.int64]]
    places: dict[str, Place]
    """Names of their vertices in messages."""
    vertices: NDArray[np.int64] | None
    """[rows], the vertices that the files name, or -1; None: rows are those of the vertices, in order."""
    rows: int | None = None
    """Number of rows of a file with one for each vertex."""


def sets_of_lists(paths: Mapping[str, Path], rules: RowRules) -> VertexSets:
    """The vertex sets that have a file each; of a store that grows, with their ids in range.

    Raises:
        InputError: as :func:`set_of_file`.
    """
    found = {name: set_of_file(path, rules) for name, path in paths.items()}
    sets = {name: vertices for name, (vertices, _) in found.items()}
    for name, vertices in sets.items() if rules.old is not None else ():
        if (outside := (vertices < 0) | (vertices >= rules.count)).any():
            vertex = vertices[np.argmax(outside)]
            raise InputError(f"{paths[name]}: {vertex} is outside the vertices 0 .. {rules.count - 1}")
    places = {name: place for name, (_, place) in found.items() if place is not None}
    return VertexSets(sets, places, np.concatenate(list(sets.values())))


def set_of_file(path: Path, rules: RowRules) -> tuple[NDArray[np.int64], Place | None]:
    """The vertices of a set, and what messages call the i-th: a list or a mask in a ``.npy``, or a table of ids.

    Raises:
        InputError: where the file is missing, damaged, or holds something else.
    """
    n, unknown = rules.num_vertices, rules.unknown
    if path.suffix == ".npy":
        return set_ids(read_npy(path), str(path), n), None
    if rules.ids is not None and rules.have_names:
        return _named(path, rules.ids, unknown)
    table = open_table(path, bars=False)
    if table.num_columns != 1:
        raise InputError(f"{path} has {table.num_columns} columns; the ids of a vertex set need one")
    vertices = np.concatenate([np.empty(0, np.int64), *(chunk for (chunk,) in table.read([0], [int]))])
    if unknown != "drop":
        return vertices, table.place
    if n is None:
        raise InputError(DROP_NEEDS_COUNT.format(path))
    return _kept(np.where((vertices >= 0) & (vertices < n), vertices, -1), table)


def _named(path: Path, ids: VertexIds, unknown: Unknown) -> tuple[NDArray[np.int64], Place]:
    """Vertices by their ids, a line each."""
    table = ids_table(path, ids)
    vertices = found_vertices(table, range(len(ids.names)), ids)
    if (vertices < 0).any() and unknown != "drop":
        at = int(np.argmin(vertices))
        raise InputError(
            f"{path}, {table.place(at)}: the id is in no edge; remove the line, or --unknown drop leaves it out, "
            f"--vertices makes vertices of ids that are in none{spaces_around(table, range(len(ids.names)), ids)}"
        )
    return _kept(vertices, table)


def ids_table(path: Path, ids: VertexIds) -> Table:
    """A list of ids of any kind, in as many columns as an id has.

    A first line is a header where it has a usual name of ids, their own, or that of a column of the edges.

    Raises:
        InputError: where the file is missing or damaged, or has other columns.
    """
    width = len(ids.names)
    table = open_table(path, header=False, alone=width == 1)
    if table.num_columns != width:
        hint = "; an id that holds a delimiter stands in quotes" if width == 1 else ""
        raise InputError(f"{path} has {table.num_columns} columns; the ids of a vertex set have {width}{hint}")
    first = next(table.ids(range(width)), None)
    names = [] if first is None or not len(first[0]) else [column[0].as_py().lower() for column in first]
    known = width == 1 and bool(names) and names[0] in (*IDS[:-1], *filter(None, ids.prefixes.columns))
    if known or names == [name.lower() for name in ids.names]:
        table = open_table(path, header=True, alone=width == 1)
    return table


def _kept(vertices: NDArray[np.int64], table: Table) -> tuple[NDArray[np.int64], Place]:
    rows = np.flatnonzero(vertices >= 0)
    if len(rows) < len(vertices):
        logger.info("%s: left out %s rows whose ids are no vertex's", table.path, f"{len(vertices) - len(rows):,}")
    return vertices[rows], _place_of(table.place, rows)


def sets_of_file(path: Path, column: str | None, rules: RowRules) -> VertexSets:
    """The vertex sets that a file says for each row.

    Args:
        path: a ``.npy`` of texts or a table.
        column: the one of a table that says train, valid or test; None: the only one beside the ids.
        rules: by which rows belong to vertices.

    Raises:
        InputError: where the file is missing, damaged, or holds something else.
    """
    if path.suffix == ".npy":
        words = read_npy(path)
        if words.ndim != 1 or words.dtype.kind != "U":
            raise InputError(f"{path} must be texts of shape (N,), not {words.dtype} of shape {words.shape}")
        marks = np.ascontiguousarray(words, words.dtype.newbyteorder("=")).view(np.uint32)
        if (marks > sys.maxunicode).any():
            raise InputError(f"{path} is damaged: it holds characters that there are not")
        return _by_words(words, path, "entry {}".format, rules.in_order(path, len(words)), rules)
    table = VertexTable(
        path, "set", rules, words=SPLIT_WORDS, take=None if column is None else (column,), flag="--split-column"
    )
    if len(table.values) == 2 and not table.table.names:
        raise InputError(f"{path} has two columns and no header; add the line id,split at the top")
    if len(table.values) != 1:
        raise InputError(
            f"{path} has {len(table.values)} columns; a split file has one, of train, valid and test"
            + (", beside that of --id-column" if rules.id_column is None else "")
            + "; --split-column names it"
        )
    texts = (words.to_numpy(zero_copy_only=False) for (words,) in table.table.texts(table.values))
    words = np.concatenate([np.empty(0, object), *texts])
    return _by_words(words, path, table.table.place, table.vertices, rules)


def _by_words(
    words: NDArray[Any], path: Path, place: Place, vertices: NDArray[np.int64] | None, rules: RowRules
) -> VertexSets:
    """The vertex sets of words, one a row, of these vertices [rows]; None: of all, in order."""
    n, rows_of_sets = rules.num_vertices, _rows_of_words(words, path, place)
    if vertices is None and n is not None and len(words) != n:
        raise InputError(f"{path} has {len(words)} rows; there must be one for each of the {n} vertices")
    sets: dict[str, NDArray[np.int64]] = {}
    places: dict[str, Place] = {}
    for name, at in rows_of_sets.items():
        of_rows = at if vertices is None else vertices[at]
        order = np.argsort(of_rows[of_rows >= 0], kind="stable")
        sets[name] = of_rows[of_rows >= 0][order]
        places[name] = _place_of(place, at[of_rows >= 0][order])
    return VertexSets(sets, places, vertices, rows=len(words))


def _place_of(place: Place, rows: NDArray[np.int64]) -> Place:
    return lambda index: place(int(rows[index]))


def _rows_of_words(words: NDArray[Any], path: Path, place: Place) -> dict[str, NDArray[np.int64]]:
    """The rows of each set."""
    found, code = np.unique(["" if word is None else str(word) for word in words], return_inverse=True)
    names = [SET_WORDS.get(word.strip().lower(), "") for word in found.tolist()]
    for index, word in enumerate(found.tolist()):
        if not names[index] and word.strip().lower() not in NO_SET:
            at = int(np.argmax(code == index))
            raise InputError(f"{path}, {place(at)}: {word[:40]!r} is none of train, valid, test and none")
    set_of = np.array([VERTEX_SETS.index(name) if name else -1 for name in names] or [-1])[code]
    return {name: np.flatnonzero(set_of == index) for index, name in enumerate(VERTEX_SETS)}
