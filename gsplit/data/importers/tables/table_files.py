"""Tables that a user gave in another way than in a file, kept in Parquet files until a store is made of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PosixPath
from typing import Any

from gsplit.data.importers.tables.parquet_tables import pyarrow_for_tables
from gsplit.errors import InputError


class TableFile(PosixPath):
    """The path of a file of ours; messages call it by what the user gave, such as ``shop.duckdb (--edges-query)``."""

    called: str = ""

    def __str__(self) -> str:
        return self.called or super().__str__()

    def __fspath__(self) -> str:
        return super().__str__()


def table_file(path: Path, called: str) -> TableFile:
    """Return a path with a name in messages."""
    named = TableFile(os.fspath(path))
    named.called = called
    return named


def write_table(schema: Any, batches: Iterable[Any], path: Path, called: str) -> TableFile:
    """Write batches of pyarrow as a Parquet file, one after the other.

    Raises:
        InputError: naming ``called`` and the column, for a type that Parquet has no place for.
    """
    pa = pyarrow_for_tables(Path(called))
    _check_types(pa, schema, called)
    with pa.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
    return table_file(path, called)


def _check_types(pa: Any, schema: Any, called: str) -> None:
    for field in schema:
        try:
            pa.parquet.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
        except pa.ArrowException:
            raise InputError(
                f"{called}: column {field.name!r} holds {field.type}, which is neither numbers nor text nor times; "
                "leave it out or convert it"
            ) from None


def one_line(error: BaseException) -> str:
    """Return what an error of a library says, as part of a line."""
    return " ".join(" ".join(map(str, error.args)).split())
