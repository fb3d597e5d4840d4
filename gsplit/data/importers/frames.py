"""Tables that lie in memory: data frames and columns of pandas and Polars, tables of Arrow, and what exports as one.

Each is kept in a Parquet file, and is a table like any other from there on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gsplit.data.importers.in_memory import given_array
from gsplit.data.importers.parquet_tables import pyarrow_for_tables
from gsplit.data.importers.table_files import TableFile, one_line, table_file, write_table
from gsplit.errors import InputError


def is_frame(value: Any) -> bool:
    """Return whether a value is a table, or a column of pandas or Polars, and no array."""
    if hasattr(value, "to_frame") or hasattr(value, "iloc"):
        return True
    return hasattr(value, "__arrow_c_stream__") and not hasattr(value, "chunks")  # which an array of Arrow has


def frame_file(value: Any, folder: Path, called: str, *, has_index: bool = True) -> TableFile:
    """Keep a table in a Parquet file.

    Args:
        value: a table or a column; an index of pandas that has a name is one more column.
        folder: for the file; the caller removes it.
        called: what messages call it.
        has_index: whether the index of pandas would tell rows apart if it had a name.

    Raises:
        InputError: for what makes no table of Arrow, and an index without a name that does not count the rows.
    """
    pa = pyarrow_for_tables(Path(called))
    frame = value.to_frame() if hasattr(value, "to_frame") else value
    try:
        if hasattr(frame, "iloc"):
            table = pa.Table.from_pandas(frame, preserve_index=_keeps_index(frame.index, called, has_index))
        else:
            to_arrow = getattr(frame, "to_arrow", None)  # of Polars, in types that each version of Arrow writes
            table = pa.RecordBatchReader.from_stream(frame) if to_arrow is None else to_arrow()
        batches = table.to_batches() if isinstance(table, pa.Table) else table
        return write_table(table.schema, batches, _path(folder, called, ".parquet"), called)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{called} is a {type(value).__name__} that makes no table: {one_line(error)}") from None


def given_file(value: Any, folder: Path, called: str) -> TableFile:
    """Keep a table in a Parquet file, or an array in a ``.npy``; arguments as of :func:`frame_file`."""
    if is_frame(value):
        return frame_file(value, folder, called)
    array, path = given_array(value, called), _path(folder, called, ".npy")
    assert array is not None
    np.save(path, array)
    return table_file(path, called)


def set_file(value: Any, folder: Path, called: str, *, named: bool) -> TableFile:
    """Keep a vertex set: a mask or ids, of any kind if ``named``; other arguments as of :func:`frame_file`."""
    is_column = not is_frame(value) or hasattr(value, "to_frame")
    if named and is_column:
        value = pyarrow_for_tables(Path(called)).table({"id": np.asarray(value)})
    return given_file(np.asarray(value) if is_column and not named else value, folder, called)


def _keeps_index(index: Any, called: str, has_index: bool) -> bool:
    """Return whether an index of pandas becomes a column: where it has a name."""
    named = any(name is not None for name in index.names)
    if has_index and not named and not np.array_equal(index, np.arange(len(index))):
        raise InputError(
            f"{called} has an index without a name that does not count its rows; .rename_axis('id') matches rows by "
            "it, .reset_index(drop=True) takes them in their order"
        )
    return named


def _path(folder: Path, called: str, suffix: str) -> Path:
    return folder / f"{called.rpartition(' ')[2]}{suffix}"
