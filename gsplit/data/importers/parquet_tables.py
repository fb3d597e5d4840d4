"""Tables of numbers in Parquet, read in chunks by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.checked import NotNumbersError
from gsplit.data.importers.gaps import USUAL, Gaps
from gsplit.errors import InputError

BATCH_ROWS = 1 << 20
"""Rows of a Parquet file read at once."""


def pyarrow_for_tables(path: Path) -> ModuleType:
    """The module ``pyarrow``; InputError naming ``path`` where it is not installed."""
    try:
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"reading {path} needs pyarrow: pip install 'gsplit[tables]'") from None
    return pyarrow


def to_numpy(column: Any, kind: type) -> NDArray[Any]:
    """A column of pyarrow as an array: int64, float32, float64 or objects, by its kind."""
    if kind is float:
        return column.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return column.to_numpy(zero_copy_only=kind is int)


class ParquetTable:
    """A Parquet file of flat columns."""

    def __init__(self, path: Path, gaps: Gaps = USUAL) -> None:
        self.path, self.gaps = path, gaps
        self._pyarrow = pyarrow_for_tables(path)
        try:
            with self._open() as file:
                self._schema = file.schema_arrow
                self._rows = file.metadata.num_rows
        except (self._pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{path} is not a readable Parquet file: {error}") from None
        self.names = [name.lower() for name in self._schema.names]
        self.num_columns = len(self.names)

    def _open(self) -> Any:
        return self._pyarrow.parquet.ParquetFile(self.path)

    def read(self, columns: Sequence[int], kinds: Sequence[type]) -> Iterator[list[NDArray[Any]]]:
        """Read columns in chunks of rows, as :meth:`gsplit.data.importers.tables.Table.read` says."""
        pa = self._pyarrow
        fields = [self._schema.field(column) for column in columns]
        for field, kind in zip(fields, kinds, strict=True):
            self._check_type(field, kind)
        types = {int: pa.int64(), float: pa.float32(), np.float64: pa.float64(), str: pa.string()}
        for rows, batch in self._batches(fields):
            arrays = []
            for column, field, kind in zip(batch, fields, kinds, strict=True):
                if kind is int and column.null_count:
                    at = rows + column.is_null().to_numpy(zero_copy_only=False).argmax()
                    raise InputError(f"{self.path}, {self.place(at)}: column {field.name!r} is empty")
                arrays.append(to_numpy(self._cast(column, types[kind], rows, safe=kind is int), kind))
            yield arrays

    def texts(self, columns: Sequence[int]) -> Iterator[list[Any]]:
        """Read columns as texts, as :meth:`gsplit.data.importers.tables.Table.texts` says."""
        pa = self._pyarrow
        fields = [self._schema.field(column) for column in columns]
        for field in fields:
            is_ = pa.types
            has_words = is_.is_boolean(field.type) or is_.is_temporal(field.type)
            if not (has_words or is_.is_integer(field.type) or self._is_text(field.type)):
                raise InputError(
                    f"{self.path}: column {field.name!r} holds {field.type}, not text or whole numbers; store "
                    "it as one of these"
                )
        for rows, batch in self._batches(fields):
            yield [self._cast(column, pa.large_string(), rows).fill_null("") for column in batch]

    def _batches(self, fields: Sequence[Any]) -> Iterator[tuple[int, list[Any]]]:
        """The number of rows above, and columns of pyarrow."""
        for field in fields:
            if len(self._schema.get_all_field_indices(field.name)) > 1:
                raise InputError(f"{self.path} has several columns called {field.name!r}; rename all but one")
        rows = 0
        try:
            with self._open() as file:
                for batch in file.iter_batches(
                    BATCH_ROWS, columns=[field.name for field in fields], use_threads=False
                ):
                    yield rows, [batch.column(field.name) for field in fields]
                    rows += batch.num_rows
        except (self._pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{self.path} cannot be read after row {rows}: {error}") from None

    def _cast(self, column: Any, type_: Any, rows: int, *, safe: bool = True) -> Any:
        try:
            if self._is_text(column.type):
                column.validate(full=True)  # a file may say UTF-8 of what is none
            return column.cast(type_, safe=safe)
        except self._pyarrow.ArrowException as error:
            raise InputError(f"{self.path} cannot be read after row {rows}: {error}") from None

    def _is_text(self, type_: Any) -> bool:
        is_ = self._pyarrow.types
        of_dictionary = is_.is_dictionary(type_) and self._is_text(type_.value_type)
        return is_.is_string(type_) or is_.is_large_string(type_) or is_.is_string_view(type_) or of_dictionary

    def _is_number(self, type_: Any) -> bool:
        is_ = self._pyarrow.types
        return bool(is_.is_integer(type_) or is_.is_floating(type_) or is_.is_decimal(type_))

    def _check_type(self, field: Any, kind: type) -> None:
        is_ = self._pyarrow.types
        whole = is_.is_integer(field.type)
        number = self._is_number(field.type) or is_.is_boolean(field.type)
        text = self._is_text(field.type)
        if not {int: whole, float: number, np.float64: number, str: text}[kind]:
            wanted = {int: "whole numbers", str: "text"}.get(kind, "numbers")
            fault = InputError if kind in (int, str) else NotNumbersError
            raise fault(f"{self.path}: column {field.name!r} holds {field.type}, not {wanted}")

    def is_text(self, column: int) -> bool:
        """Return whether a column holds texts."""
        return bool(self._is_text(self._schema.field(column).type))

    def holds_numbers(self, column: int) -> bool:
        """Return whether the schema says that a column holds numbers."""
        return self._is_number(self._schema.field(column).type)

    def num_rows(self) -> int:
        """Number of rows."""
        return int(self._rows)

    def place(self, row: int) -> str:
        """Number of a row, as messages name it."""
        return f"row {row}"
