"""Tables that lie in memory: data frames and columns of pandas and Polars, tables of Arrow, and what exports as one.

Each is kept in a Parquet file, and is a table like any other from there on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gsplit.data.importers.attached.matching import IDS, NO_IDS
from gsplit.data.importers.in_memory import given_array
from gsplit.data.importers.tables.parquet_tables import pyarrow_for_tables
from gsplit.data.importers.tables.table_files import TableFile, one_line, table_file, write_table
from gsplit.errors import InputError


@dataclass(frozen=True)
class IdNames:
    """What an index of ids may be called: as a column of ids in a file."""

    id_column: str | None = None
    of_any_kind: bool = False
    """Whether an index of another name is left to the import, which looks for ids in it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names in lower case; of none where no column holds ids."""
        if self.id_column is None:
            return IDS
        return () if self.id_column == NO_IDS else tuple(str(self.id_column).lower().split(","))

    def call(self, index: Any) -> bool:
        """Return whether an index of pandas, all of whose levels have names, holds ids."""
        named = all(name not in (None, "") for name in index.names)
        return named and (self.of_any_kind or all(str(name).lower() in self.names for name in index.names))


def is_frame(value: Any) -> bool:
    """Return whether a value is a table, or a column of pandas or Polars, and no array."""
    if hasattr(value, "to_frame") or hasattr(value, "iloc"):
        return True
    return hasattr(value, "__arrow_c_stream__") and not hasattr(value, "chunks")  # which an array of Arrow has


def given_file(value: Any, folder: Path, called: str, ids: IdNames | None) -> TableFile:
    """Keep a table in a Parquet file, or an array in a ``.npy``.

    Args:
        value: a table, a column or an array; an index of pandas that has a name is one more column.
        folder: for the file; the caller removes it.
        called: what messages call it.
        ids: what ids are called; None: rows have none, and an index without a name means nothing.

    Raises:
        InputError: for what makes no array and no table of Arrow, and an index that is neither ids nor counts the
            rows.
    """
    if not is_frame(value):
        array, path = given_array(value, called), _path(folder, called, ".npy")
        assert array is not None
        np.save(path, array)
        return table_file(path, called)
    pa = pyarrow_for_tables(Path(called))
    frame = value.to_frame() if hasattr(value, "to_frame") else value
    if frame is not value and ids is not None and str(value.name or "").lower() in ids.names:
        frame = value.rename(_short(called)).to_frame()  # a column alone holds values, whatever its name
    try:
        if hasattr(frame, "iloc"):
            table = pa.Table.from_pandas(frame, preserve_index=_keeps_index(value, called, ids))
        else:
            to_arrow = getattr(frame, "to_arrow", None)  # of Polars, in types that each version of Arrow writes
            table = pa.RecordBatchReader.from_stream(frame) if to_arrow is None else to_arrow()
        batches = table.to_batches() if isinstance(table, pa.Table) else table
        return write_table(table.schema, batches, _path(folder, called, ".parquet"), called)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{called} is a {type(value).__name__} that makes no table: {one_line(error)}") from None


def set_file(value: Any, folder: Path, called: str, ids: IdNames) -> TableFile:
    """Keep a vertex set: a mask or ids, of any kind if those of ``ids`` are; arguments as of :func:`given_file`."""
    is_column = not is_frame(value) or hasattr(value, "to_frame")
    if ids.of_any_kind and is_column:
        value = pyarrow_for_tables(Path(called)).table({"id": np.asarray(value)})
    return given_file(np.asarray(value) if is_column and not ids.of_any_kind else value, folder, called, ids)


def given_set(value: Any, called: str, ids: IdNames) -> Any:
    """Return a vertex set as it was given, but of a mask of pandas whose index holds ids those that it marks.

    Raises:
        InputError: for a mask whose index is neither ids nor counts the rows, or that has gaps.
    """
    if not hasattr(value, "iloc"):
        return value
    column = value.iloc[:, 0] if getattr(value, "shape", ())[1:] == (1,) else value
    if not hasattr(column, "to_frame") or column.dtype.kind != "b":
        return value
    if column.isna().any():
        raise InputError(f"{called} is a mask with gaps; .fillna(False) leaves these vertices out")
    mask = column.to_numpy(bool)
    if not _keeps_index(column, called, ids):
        return mask
    marked = column.index[mask]
    return marked.to_frame(index=False) if marked.nlevels > 1 else np.asarray(marked)


def check_edge_order(edge_index: Any, edge_weight: Any, where: str) -> None:
    """Check that columns of pandas that are parts of edges belong together row by row.

    Raises:
        InputError: for an index that does not count the edges, and that not all parts have.
    """
    pair = edge_index if isinstance(edge_index, (tuple, list)) and len(edge_index) == 2 else ()
    parts = [each for each in (*pair, edge_weight) if each is not None]
    columns = [each for each in parts if hasattr(each, "iloc")]
    shared = columns[0].index if pair and len(columns) == len(parts) else None
    for column in columns:
        index = np.arange(len(column)) if shared is None else shared
        if len(index) == len(column) and not np.array_equal(column.index, index):
            raise InputError(
                f"{where}: a column of edge_index or edge_weight has another index than the others, or one that does "
                "not count the edges; .reset_index(drop=True) takes each in its order, and a table with the columns "
                "src, dst and weight keeps them together"
            )


def _keeps_index(value: Any, called: str, ids: IdNames | None) -> bool:
    """Return whether the index of a frame or a column of pandas becomes a column: where it has a name."""
    if not hasattr(value, "index"):
        return False  # an index itself, as a column
    index, is_column = value.index, hasattr(value, "to_frame")
    named = any(name is not None for name in index.names)
    if ids is None or (named and (not is_column or ids.call(index))):
        return named
    if not named and np.array_equal(index, np.arange(len(index))):
        return False
    which = f"called {', '.join(map(str, index.names))}, as no ids are" if named else "without a name"
    raise InputError(
        f"{called} has an index {which}{'' if named else ' that does not count its rows'}; "
        f".rename_axis({next(iter(ids.names), 'id')!r}) matches rows by it, .reset_index(drop=True) takes them in "
        "their order"
    )


def _short(called: str) -> str:
    return called.rpartition(" ")[2]


def _path(folder: Path, called: str, suffix: str) -> Path:
    return folder / f"{_short(called)}{suffix}"
