"""Features of a store that grows: rows of before, of which some are replaced, and rows of the new vertices.

N vertices in all, of which the first N0 were there before; D features.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.written import PIECE_BYTES, write_features
from gsplit.data.folders import FolderWriter
from gsplit.data.growing.growth import Growth, bare, say_updated
from gsplit.data.growing.named_rows import UpdatedRows
from gsplit.data.importers.source import Rows, Source
from gsplit.data.importers.vertex_files import VertexFiles, attach
from gsplit.data.npy import forget
from gsplit.errors import InputError


def grown_features(
    growth: Growth, files: VertexFiles, in_order: Source | None, folder: Path, dtype: str | None
) -> NDArray[Any] | Rows | None:
    """Features [N, D]: those there were, of which some are replaced, and those of the new vertices.

    Args:
        files: with the table of features, if there is one.
        in_order: that table, where its rows are those of the new vertices.
        folder: for the new rows; whoever's it is removes it.
        dtype: to be stored in; None: that of the store.

    Raises:
        InputError: for a table with other columns than the store, and new vertices without a row.
    """
    old, path = growth.graph.features, next(iter(files.features), None)
    if old is None:
        if path is not None:
            raise InputError(
                f"{growth.where} has no features, and {path} would leave its vertices without; drop --features, or "
                "give it those of all vertices first, without --add"
            )
        return None
    if path is None:
        if growth.new:
            raise InputError(
                f"vertex {growth.ids.shown(growth.old)} is new and has no features, which {growth.where} has; give "
                f"a row for each of the {growth.new} new vertices by --features FILE"
            )
        return old
    numbered = UpdatedRows(growth.ids, growth.old)
    if in_order is None:
        given = attach(bare(growth.where), VertexFiles(features=(path,), id_column=files.id_column), numbered)
    else:
        given = in_order
    features = given.features
    assert features is not None
    if len(features.shape) != 2 or features.dtype.kind not in "fiub":
        raise InputError(f"{path} must be numbers of shape (N, D), not {features.dtype} of {tuple(features.shape)}")
    if features.shape[1] != old.shape[1]:
        raise InputError(f"{path} has {features.shape[1]} features a vertex, and {growth.where} has {old.shape[1]}")
    if in_order is not None:
        growth.check_rows(features.shape[0], path)
    say_updated(path, numbered.updated, "rows of features of vertices that were there")
    writer = FolderWriter(folder)
    write_features(
        writer,
        features,
        dtype=dtype or str(old.dtype),
        training=np.empty(0, np.int64),
        called=str(path),
        shown=numbered.shown,
    )
    return _with_rows(old, writer.mapped("features"), numbered.vertices, growth.all)


def _with_rows(old: NDArray[Any], rows: NDArray[Any], vertices: NDArray[np.int64], n: int) -> Rows:
    """Old rows [N0, D], and in their place or after them the rows [n, D] of these vertices [n]."""
    order = np.argsort(vertices)
    sorted_vertices = vertices[order]
    at_once = max(1, PIECE_BYTES // max(1, old.shape[1] * old.dtype.itemsize))

    def chunks() -> Iterator[NDArray[Any]]:
        for begin in range(0, n, at_once):
            end = min(begin + at_once, n)
            piece = np.empty((end - begin, old.shape[1]), rows.dtype)
            kept = old[begin:end]
            with np.errstate(over="ignore"):
                piece[: len(kept)] = kept
            first, last = np.searchsorted(sorted_vertices, [begin, end])
            piece[sorted_vertices[first:last] - begin] = rows[order[first:last]]
            forget(old)
            yield piece

    return Rows(shape=(n, old.shape[1]), dtype=rows.dtype, chunks=chunks)
