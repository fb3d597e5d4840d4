"""Features, labels and vertex sets in files of their own: for sources that hold only edges, or to replace theirs.

Each is a ``.npy``, or a table in text or Parquet with one row a vertex, in the order of the vertices or with ids
(:mod:`gsplit.data.importers.vertex_tables`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS
from gsplit.data.importers.arrays import read_npy, set_ids
from gsplit.data.importers.source import Rows, Source
from gsplit.data.importers.tables import open_table
from gsplit.data.importers.vertex_tables import VertexTable
from gsplit.errors import InputError

SET_WORDS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}
NO_SET = ("", "none", "-")


@dataclass(frozen=True, kw_only=True)
class VertexFiles:
    """Files of features, labels and vertex sets: .npy, or .csv, .tsv, .txt, .parquet with a row for each vertex."""

    # The docstrings are the help of the command.

    features: Path | None = None
    """A file of features, a row for each vertex."""
    labels: Path | None = None
    """A file of labels: one class a vertex (-1, NaN or nothing: unlabelled), or a column of 0 and 1 a class."""
    train: Path | None = None
    """A file of the ids of the training vertices; a .npy may be a mask."""
    valid: Path | None = None
    """A file of the ids of the validation vertices."""
    test: Path | None = None
    """A file of the ids of the test vertices."""
    split_file: Path | None = None
    """One file in place of these three, which says train, valid, test or none for each vertex."""
    id_column: str | None = None
    """The column of vertex ids in the tables of features, labels and --split-file, by which their rows are matched:
    its name, or its number from 1 on where there is no header. none: no column holds ids. By default rows are in the
    order of the vertices."""


def attach(source: Source, files: VertexFiles) -> Source:
    """The source with what the files hold, which wins over what it has; vertex sets replace all of its sets.

    Raises:
        InputError: for files that are missing, damaged, or hold something else.
    """
    lists = {name: path for name in VERTEX_SETS if (path := getattr(files, name))}
    if files.split_file and lists:
        raise InputError(f"--split-file gives all vertex sets; drop --{next(iter(lists))}")
    tables = [path for path in (files.features, files.labels, files.split_file) if path and path.suffix != ".npy"]
    if files.id_column is not None and not tables:
        raise InputError(
            f"--id-column {files.id_column} is for a table of --features, --labels or --split-file; there is none"
        )
    changes: dict[str, Any] = {}
    n = source.num_vertices
    if files.features:
        changes["features"] = _features(files.features, files.id_column, n)
        n = _num_vertices(replace(source, **changes))
    if files.labels:
        changes["labels"], changes["num_classes"] = _labels(files.labels, files.id_column, n), None
    n = _num_vertices(replace(source, **changes))
    if files.split_file:
        changes["vertex_sets"], rows = _sets_of_file(files.split_file, files.id_column, n)
        if n is not None and rows != n:
            raise InputError(f"{files.split_file} has {rows} rows; there must be one for each of the {n} vertices")
        changes["num_vertices"] = rows if source.num_vertices is None else source.num_vertices
    elif lists:
        changes["vertex_sets"] = {name: _vertex_set(path, n) for name, path in lists.items()}
    named = {name: str(path) for name in ("features", "labels", *VERTEX_SETS) if (path := getattr(files, name))}
    return replace(source, **changes, called={**source.called, **named})


def _features(path: Path, id_column: str | None, n: int | None) -> NDArray[Any] | Rows:
    if path.suffix == ".npy":
        array = read_npy(path)
        return array[:, None] if array.ndim == 1 else array
    table = VertexTable(path, "feature", id_column=id_column, num_vertices=n)
    return Rows(
        shape=(table.table.num_rows(), len(table.values)),
        dtype=np.dtype(np.float32),
        chunks=lambda: _numbers(table),
        vertices=table.vertices,
    )


def _labels(path: Path, id_column: str | None, n: int | None) -> NDArray[Any]:
    if path.suffix == ".npy":
        return read_npy(path)
    table = VertexTable(path, "label", id_column=id_column, num_vertices=n)
    chunks = list(_numbers(table))
    labels = np.concatenate(chunks) if chunks else np.empty((0, len(table.values)), np.float32)
    return table.ordered(labels[:, 0] if len(table.values) == 1 else labels)


def _num_vertices(source: Source) -> int | None:
    """Number of vertices that the source, its features or its labels tell."""
    rows = [array.shape[0] for array in (source.features, source.labels) if array is not None and len(array.shape)]
    return rows[0] if source.num_vertices is None and rows else source.num_vertices


def _numbers(table: VertexTable) -> Iterator[NDArray[np.float32]]:
    for chunk in table.read(float):
        yield np.stack(chunk, axis=1)


def _vertex_set(path: Path, n: int | None) -> NDArray[np.int64]:
    """Ids from a file: a list or a mask in a ``.npy``, or the one column of a table."""
    if path.suffix == ".npy":
        return set_ids(read_npy(path), str(path), n)
    table = open_table(path)
    if table.num_columns != 1:
        raise InputError(f"{path} has {table.num_columns} columns; the ids of a vertex set need one")
    chunks = [ids for (ids,) in table.read([0], [int])]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)


def _sets_of_file(path: Path, id_column: str | None, n: int | None) -> tuple[dict[str, NDArray[np.int64]], int]:
    """The vertex sets, and the number of rows."""
    if path.suffix == ".npy":
        words = read_npy(path)
        if words.ndim != 1 or words.dtype.kind != "U":
            raise InputError(f"{path} must be texts of shape (N,), not {words.dtype} of shape {words.shape}")
        marks = np.ascontiguousarray(words, words.dtype.newbyteorder("=")).view(np.uint32)
        if (marks > sys.maxunicode).any():
            raise InputError(f"{path} is damaged: it holds characters that there are not")
        return _sets_of_words(words, path, "entry {}".format)
    table = VertexTable(path, "set", id_column=id_column, num_vertices=n, words=frozenset((*SET_WORDS, *NO_SET)))
    if len(table.values) == 2 and not table.table.names:
        raise InputError(f"{path} has two columns and no header; add the line id,split at the top")
    if len(table.values) != 1:
        raise InputError(
            f"{path} has {len(table.values)} columns; a split file has one, of train, valid and test"
            + (", beside that of --id-column" if id_column is None else "")
        )
    chunks = [words for (words,) in table.read(str)]
    words = np.concatenate(chunks) if chunks else np.empty(0, object)
    vertex_sets, rows = _sets_of_words(words, path, table.table.place)
    if table.vertices is not None:
        vertex_sets = {name: np.sort(table.vertices[at]) for name, at in vertex_sets.items()}
    return vertex_sets, rows


def _sets_of_words(words: NDArray[Any], path: Path, place: Any) -> tuple[dict[str, NDArray[np.int64]], int]:
    found, code = np.unique(["" if word is None else str(word) for word in words], return_inverse=True)
    names = [SET_WORDS.get(word.strip().lower(), "") for word in found.tolist()]
    for index, word in enumerate(found.tolist()):
        if not names[index] and word.strip().lower() not in NO_SET:
            at = int(np.argmax(code == index))
            raise InputError(f"{path}, {place(at)}: {word[:40]!r} is none of train, valid, test and none")
    set_of = np.array([VERTEX_SETS.index(name) if name else -1 for name in names] or [-1])[code]
    return {name: np.flatnonzero(set_of == index) for index, name in enumerate(VERTEX_SETS)}, len(words)
