"""Features, labels and vertex sets in files of their own: for sources that hold only edges, or to replace theirs.

Each is a ``.npy``, or a table in text or Parquet with one row a vertex, in the order of the vertices or with ids
(:mod:`gsplit.data.importers.vertex_tables`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS
from gsplit.data.ids.vertex_ids import VertexIds
from gsplit.data.importers.arrays import read_npy, set_ids
from gsplit.data.importers.source import Rows, Source
from gsplit.data.importers.tables import is_number, open_table
from gsplit.data.importers.vertex_tables import IDS, VertexTable
from gsplit.errors import InputError

Labels = tuple[NDArray[Any], tuple[str, ...] | None]
SET_WORDS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}
NO_SET = ("", "none", "-")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class VertexFiles:
    """Files of features, labels and vertex sets: .npy, or .csv, .tsv, .txt, .parquet with a row for each vertex."""

    # The docstrings are the help of the command.

    features: Path | None = None
    """A file of features, a row for each vertex."""
    labels: Path | None = None
    """A file of labels: one class a vertex, by number or name (-1, NaN or nothing: unlabelled), or a column of 0 and
    1 a class."""
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


def attach(source: Source, files: VertexFiles, ids: VertexIds | None = None) -> Source:
    """The source with what the files hold, which wins over what it has; vertex sets replace all of its sets.

    Args:
        ids: what the vertices are called in the files; None: 0 .. N-1.

    Raises:
        InputError: for files that are missing, damaged, or hold something else.
    """
    lists = {name: path for name in VERTEX_SETS if (path := getattr(files, name))}
    if files.split_file and lists:
        raise InputError(f"--split-file gives all vertex sets; drop --{next(iter(lists))}")
    tables = [path for path in (files.features, files.labels, files.split_file) if path and path.suffix != ".npy"]
    if files.id_column is not None and not tables and ids is None:
        raise InputError(
            f"--id-column {files.id_column} is for a table of --features, --labels or --split-file; there is none"
        )
    arrays = [path for path in (files.features, files.labels, files.split_file, *lists.values()) if path]
    array = next((path for path in arrays if path.suffix == ".npy"), None)
    if ids is not None and array is not None:
        raise InputError(f"{array} has no ids to match its rows by, as --ids any does; give a table with a header")
    changes: dict[str, Any] = {}
    n = source.num_vertices
    if files.features:
        changes["features"] = _features(files.features, files.id_column, n, ids)
        n = _num_vertices(replace(source, **changes))
    if files.labels:
        changes["labels"], changes["classes"] = _labels(files.labels, files.id_column, n, ids)
        changes["num_classes"] = None
    n = _num_vertices(replace(source, **changes))
    if files.split_file:
        changes["vertex_sets"], rows = _sets_of_file(files.split_file, files.id_column, n, ids)
        if n is not None and rows != n and ids is None:
            raise InputError(f"{files.split_file} has {rows} rows; there must be one for each of the {n} vertices")
        changes["num_vertices"] = rows if source.num_vertices is None else source.num_vertices
    elif lists:
        changes["vertex_sets"] = {name: _vertex_set(path, n, ids) for name, path in lists.items()}
    named = {name: str(path) for name in ("features", "labels", *VERTEX_SETS) if (path := getattr(files, name))}
    return replace(source, **changes, called={**source.called, **named})


def _features(path: Path, id_column: str | None, n: int | None, ids: VertexIds | None) -> NDArray[Any] | Rows:
    if path.suffix == ".npy":
        array = read_npy(path)
        return array[:, None] if array.ndim == 1 else array
    table = VertexTable(path, "feature", id_column=id_column, num_vertices=n, ids=ids)
    return Rows(
        shape=(table.table.num_rows(), len(table.values)),
        dtype=np.dtype(np.float32),
        chunks=lambda: _numbers(table),
        vertices=table.vertices,
    )


def _labels(path: Path, id_column: str | None, n: int | None, ids: VertexIds | None) -> Labels:
    """Labels [N] or [N, C], and the names of the classes where the file has names."""
    if path.suffix == ".npy":
        return read_npy(path), None
    table = VertexTable(path, "label", id_column=id_column, num_vertices=n, ids=ids)
    if len(table.values) == 1 and _has_names(table):
        return _named_classes(table)
    chunks = list(_numbers(table))
    labels = np.concatenate(chunks) if chunks else np.empty((0, len(table.values)), np.float32)
    return table.ordered(labels[:, 0] if len(table.values) == 1 else labels), None


def _has_names(table: VertexTable) -> bool:
    """Whether the first label that there is, in a column of texts, is no number."""
    if not table.table.is_text(table.values[0]):
        return False
    for (texts,) in table.table.texts(table.values):
        for text in texts.to_pylist():
            if text.strip():
                return not is_number(text.strip())
    return False


def _named_classes(table: VertexTable) -> Labels:
    """Class numbers [N], -1 without a name, in the order of the names; and the names."""
    words = np.array([word.strip() for (texts,) in table.read_texts() for word in texts.to_pylist()], object)
    names = sorted({word for word in words if word})
    number = {name: at for at, name in enumerate(names)} | {"": -1}
    labels = table.ordered(np.array([number[word] for word in words], np.float64))
    logger.info("%s: %s classes by name, in the order of the names", table.table.path, len(names))
    return np.where(np.isnan(labels), -1, labels).astype(np.int64), tuple(names)


def _num_vertices(source: Source) -> int | None:
    """Number of vertices that the source, its features or its labels tell."""
    rows = [array.shape[0] for array in (source.features, source.labels) if array is not None and len(array.shape)]
    return rows[0] if source.num_vertices is None and rows else source.num_vertices


def _numbers(table: VertexTable) -> Iterator[NDArray[np.float32]]:
    for chunk in table.read(float):
        yield np.stack(chunk, axis=1)


def _vertex_set(path: Path, n: int | None, ids: VertexIds | None) -> NDArray[np.int64]:
    """Ids from a file: a list or a mask in a ``.npy``, or the one column of a table."""
    if path.suffix == ".npy":
        return set_ids(read_npy(path), str(path), n)
    if ids is not None:
        return _named_set(path, ids)
    table = open_table(path)
    if table.num_columns != 1:
        raise InputError(f"{path} has {table.num_columns} columns; the ids of a vertex set need one")
    chunks = [ids for (ids,) in table.read([0], [int])]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)


def _named_set(path: Path, ids: VertexIds) -> NDArray[np.int64]:
    """Vertices by their ids, a line each, in as many columns as an id has; a first line of names is a header."""
    table = open_table(path, header=False)
    width = len(ids.names)
    if table.num_columns != width:
        raise InputError(f"{path} has {table.num_columns} columns; the ids of a vertex set have {width}")
    first = next(table.texts(range(width)), None)
    names = [] if first is None or not len(first[0]) else [column[0].as_py().lower() for column in first]
    if names == [name.lower() for name in ids.names] or (width == 1 and names and names[0] in IDS[:-1]):
        table = open_table(path, header=True)
    pieces = [ids.find(texts) for texts in table.texts(range(width))]
    vertices = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    if (vertices < 0).any():
        at = int(np.argmin(vertices))
        raise InputError(f"{path}, {table.place(at)}: the id is in no edge; remove the line")
    return vertices


def _sets_of_file(
    path: Path, id_column: str | None, n: int | None, ids: VertexIds | None
) -> tuple[dict[str, NDArray[np.int64]], int]:
    """The vertex sets, and the number of rows."""
    if path.suffix == ".npy":
        words = read_npy(path)
        if words.ndim != 1 or words.dtype.kind != "U":
            raise InputError(f"{path} must be texts of shape (N,), not {words.dtype} of shape {words.shape}")
        marks = np.ascontiguousarray(words, words.dtype.newbyteorder("=")).view(np.uint32)
        if (marks > sys.maxunicode).any():
            raise InputError(f"{path} is damaged: it holds characters that there are not")
        return _sets_of_words(words, path, "entry {}".format)
    table = VertexTable(
        path, "set", id_column=id_column, num_vertices=n, words=frozenset((*SET_WORDS, *NO_SET)), ids=ids
    )
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
