"""Features on their way into a store: checked, cast and written piece by piece, as they need not fit in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.bars import progress_bar
from gsplit.data.columns.assembled import Assembled, parsed_once
from gsplit.data.columns.filled import Filled, log_columns
from gsplit.data.columns.rounding import Rounding, log_rounded
from gsplit.data.folders import FolderWriter
from gsplit.data.graph import cast
from gsplit.data.importers.source import Rows
from gsplit.data.npy import forget
from gsplit.data.store import check_finite
from gsplit.errors import InputError

PIECE_BYTES = 1 << 26
"""Bytes of features copied at once."""
MOST_CODES = 2048
"""Codes that float16 tells apart."""


def write_features(
    writer: FolderWriter,
    features: NDArray[Any] | Rows | Assembled,
    *,
    dtype: str | None,
    training: NDArray[np.int64],
    called: str,
    shown: Callable[[int], str] = str,
) -> list[dict[str, Any]]:
    """Write ``features`` [N, D] into the folder of a store; what was made of each column, where there were tables.

    Args:
        dtype: ``float32``, ``float16`` or ``float64``; None: float16 stays and all else becomes float32.
        training: ids of the training vertices.
        called: what messages call them.
        shown: what messages call a vertex.

    Raises:
        InputError: for values that are not finite, or missing, or that the dtype cannot hold.
    """
    dtype = dtype or ("float16" if features.dtype == np.float16 else "float32")
    rows = features.shape[0]
    bar = progress_bar(rows, "copy features")
    with bar:
        if isinstance(features, Assembled):
            with tempfile.TemporaryDirectory(prefix="spill-", dir=writer.path) as name:
                features = _read_twice(features, Path(name)) if features.takes_moments else features
                return _write_assembled(writer, features, dtype, training, bar, shown)
        copied, rounding = 0, Rounding(np.zeros(features.shape[1], np.bool_))
        with writer.stream("features", dtype, features.shape[1]) as stream:
            for piece in _pieces(features):
                rounded = cast(piece, dtype)
                check_finite(rounded, range(copied, copied + len(piece)), called, shown)
                rounding.add(piece, rounded)
                stream.write(rounded)
                copied += len(piece)
                bar.update(len(piece))
    if copied != rows:
        raise InputError(f"{called}: there are {copied} rows of features, but {rows} were announced")
    log_rounded(called, rounding, lambda feature: f"column {feature + 1}")
    return []


def _read_twice(features: Assembled, folder: Path) -> Assembled:
    """Features that are read for their means first, and parsed for these alone; ``folder`` is for their numbers."""
    blocks = enumerate(features.blocks)
    kept = (block if block.statistics else parsed_once(block, folder / f"block-{at}") for at, block in blocks)
    return replace(features, blocks=tuple(kept))


def _write_assembled(
    writer: FolderWriter,
    features: Assembled,
    dtype: str,
    training: NDArray[np.int64],
    bar: Any,
    shown: Callable[[int], str],
) -> list[dict[str, Any]]:
    if dtype == "float16":
        for column in (column for block in features.blocks for column in block.columns):
            if column.kind == "code" and len(column.categories) > MOST_CODES:
                raise InputError(
                    f"{column.table}: column {column.name} has {len(column.categories):,} codes, but float16 tells "
                    f"{MOST_CODES:,} apart; drop --feature-dtype float16"
                )
            if column.kind == "time" and not features.standardize:
                raise InputError(
                    f"{column.table}: column {column.name} holds times, and float16 rounds days since 1970 to weeks; "
                    "drop --feature-dtype float16" + (", or give --standardize" if features.may_be_scaled else "")
                )
    filled = Filled(features, training, dtype)
    out = writer.create("features", features.shape, dtype)
    width = max(1, features.shape[1])
    kept = features.kept
    for at, piece in _numbered(None if kept is None else kept.rows):
        out[at] = cast(piece, dtype)
        forget(out)
    dirty_bytes = 0
    for vertices, columns, piece in filled.pieces():
        out[vertices, columns] = piece
        # Rows in any order touch most pages at every piece, so they are let go seldom.
        dirty_bytes += piece.nbytes
        if dirty_bytes >= PIECE_BYTES:
            forget(out)
            dirty_bytes = 0
        bar.update(len(vertices) * (columns.stop - columns.start) / width)
    if kept is not None and not np.can_cast(kept.rows.dtype, dtype):
        for at, piece in _numbered(out[: len(kept.rows)]):
            check_finite(piece, range(at.start, at.stop), kept.called, shown)
    columns_made = filled.described()
    log_columns(columns_made)
    filled.log_rounded()
    return columns_made


def _numbered(rows: NDArray[Any] | None) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Rows [N, D] some at a time, and which they are; nothing of None."""
    begin = 0
    for piece in () if rows is None else _pieces(rows):
        yield slice(begin, begin + len(piece)), piece
        begin += len(piece)
        forget(piece)


def _pieces(features: NDArray[Any] | Rows) -> Iterator[NDArray[Any]]:
    at_once = max(1, PIECE_BYTES // max(1, features.shape[1] * features.dtype.itemsize))
    for chunk in features.chunks() if isinstance(features, Rows) else (features,):
        for begin in range(0, len(chunk), at_once):
            yield np.asarray(chunk[begin : begin + at_once])
