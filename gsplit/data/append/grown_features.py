"""Features of a store that grows: rows of before, of which some are replaced, and rows of the new vertices.

N vertices in all, of which the first N0 were there before; D features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.append.added_table import AddedTable, Adding
from gsplit.data.append.growth import Growth, say_updated
from gsplit.data.append.kept_tables import as_one, kept_tables
from gsplit.data.append.named_rows import UpdatedRows
from gsplit.data.columns.assembled import Assembled
from gsplit.data.columns.written import PIECE_BYTES, write_features
from gsplit.data.folders import FolderWriter
from gsplit.data.importers.source import Rows
from gsplit.data.npy import forget
from gsplit.data.store import FILE, GraphStore
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class NewRows:
    """Finished rows for some features of some vertices."""

    rows: NDArray[Any]
    """[n, end - begin]"""
    vertices: NDArray[np.int64]
    """[n]"""
    features: slice
    """[begin, end) of all D."""


@dataclass(frozen=True, kw_only=True)
class GrownFeatures:
    """Features [N, D], or None, and what the description says of their columns."""

    features: NDArray[Any] | Rows | None
    columns: tuple[dict[str, Any], ...]


def added_tables(store: GraphStore, paths: Sequence[Path], how: Adding) -> tuple[AddedTable, ...]:
    """The files of features, each with the columns of the store that it has rows for.

    Args:
        paths: as many as the features were made of, in the same order, or one that has all columns.

    Raises:
        InputError: for other numbers of files, and files that have other columns.
    """
    if not paths:
        return ()
    if store.graph.features is None:
        raise InputError(
            f"{how.where} has no features, and {paths[0]} would leave its vertices without; drop --features, or give "
            "it those of all vertices first, without --add"
        )
    kept = kept_tables(store, how.missing)
    if len(paths) == 1 < len(kept) and (all_in_one := as_one(kept)) is not None:
        kept = (all_in_one,)
    if len(paths) != len(kept):
        raise InputError(
            f"features of {how.where} were made of {', '.join(table.table for table in kept)}; --features takes as "
            f"many files here, in this order, not {len(paths)}"
        )
    return tuple(AddedTable(path, table, how) for path, table in zip(paths, kept, strict=True))


def grown_features(
    growth: Growth, store: GraphStore, tables: Sequence[AddedTable], how: Adding, folder: Path, dtype: str | None
) -> GrownFeatures:
    """Features: those there were, of which some are replaced, and those of the new vertices.

    Args:
        tables: the files of features.
        folder: for the new rows; the caller removes it.
        dtype: to be stored in; None: that of the store.

    Raises:
        InputError: for new vertices without a row, and values that are not there or that no feature can be made of.
    """
    old, columns = growth.graph.features, store.description.get("columns", [])
    if not isinstance(columns, list):
        raise InputError(f"{store.path / FILE} is damaged where it says what the features were made of")
    columns = tuple(columns)
    if old is None:
        return GrownFeatures(features=None, columns=())
    if not tables:
        if growth.new:
            raise InputError(
                f"vertex {growth.ids.shown(growth.old)} is new and has no features, which {growth.where} has; give "
                f"a row for each of the {growth.new} new vertices by --features FILE"
            )
        return GrownFeatures(features=old, columns=columns)
    parts, made = [], []
    for number, table in enumerate(tables):
        ids = UpdatedRows(growth.ids, growth.old)
        block = table.block(ids)
        if table.is_in_order:
            growth.check_rows(table.rows, table.path)
        say_updated(table.path, ids.updated, "rows of features of vertices that were there")
        features = Assembled(
            num_vertices=ids.num_vertices,
            blocks=(block,),
            missing=how.missing,
            standardize=table.kept.is_scaled,
            dtype=old.dtype,
        )
        writer = FolderWriter(folder / f"features{number}")
        writer.path.mkdir()
        made += write_features(
            writer,
            features,
            dtype=dtype or str(old.dtype),
            training=np.empty(0, np.int64),
            called=str(table.path),
            shown=ids.shown,
        )
        parts.append(NewRows(rows=writer.mapped("features"), vertices=ids.vertices, features=table.kept.features))
    return GrownFeatures(features=_with_rows(old, parts, growth.all), columns=_counted(columns, made))


def _counted(columns: Sequence[dict[str, Any]], made: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the entries of the description about the columns, with the values that were filled in this time."""
    counted = []
    for entry, now in zip(columns, made, strict=bool(columns)):
        entry = dict(entry)
        if "missing" in now:
            entry["missing"] = entry.get("missing", 0) + now["missing"]
            entry["filled_with"] = now["filled_with"]
        counted.append(entry)
    return tuple(counted)


def _with_rows(old: NDArray[Any], parts: Sequence[NewRows], n: int) -> Rows:
    """Old rows [N0, D], and in their place or after them those of some vertices."""
    dtype = parts[0].rows.dtype
    orders = [np.argsort(part.vertices) for part in parts]
    sorted_vertices = [part.vertices[order] for part, order in zip(parts, orders, strict=True)]
    at_once = max(1, PIECE_BYTES // max(1, old.shape[1] * old.dtype.itemsize))

    def chunks() -> Iterator[NDArray[Any]]:
        for begin in range(0, n, at_once):
            end = min(begin + at_once, n)
            piece = np.empty((end - begin, old.shape[1]), dtype)
            kept = old[begin:end]
            with np.errstate(over="ignore"):
                piece[: len(kept)] = kept
            for part, order, vertices in zip(parts, orders, sorted_vertices, strict=True):
                first, last = np.searchsorted(vertices, [begin, end])
                piece[vertices[first:last] - begin, part.features] = part.rows[order[first:last]]
            forget(old)
            yield piece

    return Rows(shape=(n, old.shape[1]), dtype=dtype, chunks=chunks)
