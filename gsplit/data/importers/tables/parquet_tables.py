"""Tables of numbers in Parquet, read in chunks by pyarrow."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.checked import OF_LISTS, NotNumbersError, printable_line
from gsplit.data.importers.tables.gaps import GLANCE_ROWS, USUAL, Gaps, are_truths
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.errors import InputError

BATCH_ROWS = 1 << 20
"""Rows of a Parquet file read at once."""

logger = logging.getLogger(__name__)


def pyarrow_for_tables(path: Path) -> ModuleType:
    """The module ``pyarrow``; InputError naming ``path`` where it is not installed."""
    try:
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"reading {path} needs pyarrow: pip install 'gsplit[tables]'") from None
    return pyarrow


def to_numpy(column: Any, kind: type) -> NDArray[Any]:
    """A column of numbers of pyarrow as an array: int64, float32 or float64, by its kind."""
    if kind is float:
        return column.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return column.to_numpy(zero_copy_only=kind is int)


def _even(pieces: Iterable[list[Any]]) -> Iterator[list[Any]]:
    """The columns [n] of pieces of a table, in ones of ``BATCH_ROWS`` and a rest.

    Where a column is stored as a dictionary, pyarrow ends a piece with each group of rows, and else it does not.
    """
    held: list[list[Any]] = []
    rows = 0
    for columns in pieces:
        while rows + len(columns[0]) >= BATCH_ROWS:
            held.append([column[: BATCH_ROWS - rows] for column in columns])
            columns, rows = [column[BATCH_ROWS - rows :] for column in columns], 0
            yield _joined(held)
            held = []
        if len(columns[0]):
            held.append(columns)
            rows += len(columns[0])
    if held:
        yield _joined(held)


def _joined(pieces: list[list[Any]]) -> list[Any]:
    import pyarrow as pa

    return pieces[0] if len(pieces) == 1 else list(map(pa.concat_arrays, zip(*pieces, strict=True)))


def _numbered(names: Sequence[str]) -> list[tuple[str, int]]:
    """Names of columns, of which two may be the same, each with how many there are before it."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        numbered.append((name, seen[name]))
        seen[name] += 1
    return numbered


class ParquetTable:
    """A Parquet file of flat columns."""

    def __init__(self, path: Path, gaps: Gaps = USUAL) -> None:
        self.path, self.gaps = path, gaps
        self._pyarrow = pyarrow_for_tables(path)
        self._rules = TextRules.current()
        try:
            with self._open() as file:
                self._schema = file.schema_arrow
                self._rows = file.metadata.num_rows
        except (self._pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{path} is not a readable Parquet file: {error}") from None
        self.written_names = list(self._schema.names)
        self.names = [name.lower() for name in self.written_names]
        self.num_columns = len(self.names)
        from gsplit.data.importers.tables import arrow_columns  # needs pyarrow

        self._columns = arrow_columns
        self._told: set[str] = set()

    def _open(self) -> Any:
        return self._pyarrow.parquet.ParquetFile(self.path)

    def read(self, columns: Sequence[int], kinds: Sequence[type]) -> Iterator[list[Any]]:
        """Read columns in chunks of rows, as :meth:`gsplit.data.importers.tables.table.Table.read` says."""
        pa = self._pyarrow
        fields = [self._schema.field(column) for column in columns]
        for field, kind in zip(fields, kinds, strict=True):
            self._check_type(field, kind)
        types: dict[type, Any] = {float: pa.float32(), np.float64: pa.float64()}
        for rows, batch in self._batches(columns):
            arrays: list[Any] = []
            for column, field, kind in zip(batch, fields, kinds, strict=True):
                if kind is int:
                    arrays.append(self._whole(column, field, rows))
                elif kind is str:
                    arrays.append(self._rules.stripped(self._columns.written(column)))
                else:
                    numbers, bad = self._columns.numbers_of(column, types[kind], self.gaps)
                    if bad is not None:
                        raise NotNumbersError(self._odd(numbers, field, rows, bad, "a number"))
                    arrays.append(to_numpy(numbers, kind))
            yield arrays

    def _whole(self, column: Any, field: Any, rows: int) -> NDArray[np.int64]:
        if (gaps := self._columns.gaps_of(column)).true_count:
            at = rows + gaps.to_numpy(zero_copy_only=False).argmax()
            raise InputError(f"{self.path}, {self.place(at)}: column {printable_line(field.name)} is empty")
        numbers, bad = self._columns.whole_numbers(column)
        if bad is not None:
            raise InputError(self._odd(column, field, rows, bad, self._columns.wanted_whole(column, bad)))
        return numbers

    def texts(self, columns: Sequence[int]) -> Iterator[list[Any]]:
        """Read columns as texts, as :meth:`gsplit.data.importers.tables.table.Table.texts` says."""
        return self.read(columns, [str] * len(columns))

    def ids(self, columns: Sequence[int]) -> Iterator[list[Any]]:
        """Read columns of ids, as :meth:`gsplit.data.importers.tables.table.Table.ids` says."""
        fields = [self._schema.field(column) for column in columns]
        for field in fields:
            self._check_type(field, str)
        for rows, batch in self._batches(columns):
            texts = []
            for column, field in zip(batch, fields, strict=True):
                found, bad = self._columns.ids_of(column)
                if bad is not None:
                    raise InputError(self._odd(column, field, rows, bad, self._columns.wanted_whole(column, bad)))
                texts.append(self._rules.stripped(found))
            yield texts

    def _odd(self, column: Any, field: Any, rows: int, at: int, wanted: str) -> str:
        value = printable_line(str(column[at].as_py()))[:40]
        return (
            f"{self.path}, {self.place(rows + at)}: {value!r} is not {wanted}, as column "
            f"{printable_line(field.name)} should be"
        )

    def _batches(self, columns: Sequence[int]) -> Iterator[tuple[int, list[Any]]]:
        """The number of rows above, and columns of pyarrow, in chunks whose ends are in the same rows always."""
        keys = _numbered(self.written_names)
        wanted = [keys[column] for column in columns]
        names = list(dict.fromkeys(name for name, _ in wanted))
        rows = 0
        try:
            with self._open() as file:
                batches = file.iter_batches(BATCH_ROWS, columns=names, use_threads=False)
                for read in _even(self._plain(batches, wanted)):
                    yield rows, read
                    rows += len(read[0])
        except (self._pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{self.path} cannot be read after row {rows}: {error}") from None

    def _plain(self, batches: Iterable[Any], wanted: Sequence[tuple[str, int]]) -> Iterator[list[Any]]:
        """Columns of batches, without dictionaries."""
        for batch in batches:
            read = dict(zip(_numbered(batch.schema.names), batch.columns, strict=True))
            yield [self._columns.plain(read[key]) for key in wanted]

    def _check_type(self, field: Any, kind: type) -> None:
        """Check that a column can be read as values of a kind."""
        what = f"{self.path}: column {printable_line(field.name)} holds {field.type}, not"
        if kind is str:
            if not self._columns.is_writable(field.type):
                raise InputError(f"{what} texts or numbers; store it as one of these")
            return
        text = self._columns.is_text(field.type)
        if not text and not self._columns.is_number(field.type):
            what += " whole numbers" if kind is int else " numbers"
            if self._pyarrow.types.is_nested(field.type):
                raise InputError(f"{what}; {OF_LISTS}")
            raise (InputError if kind is int else NotNumbersError)(what)
        if text and not self._pyarrow.types.is_null(field.type) and field.name not in self._told:
            self._told.add(field.name)
            logger.info("%s: column %s holds texts, which are read as numbers", self.path, printable_line(field.name))

    def is_text(self, column: int) -> bool:
        """Return whether a column holds texts."""
        return bool(self._columns.is_text(self._schema.field(column).type))

    def holds_numbers(self, column: int) -> bool:
        """Return whether the schema says that a column holds numbers."""
        return self._columns.is_number(self._schema.field(column).type)

    def may_round(self, column: int) -> bool:
        """Return whether doubles may not hold the numbers of a column, as they hold floats."""
        return not self._pyarrow.types.is_floating(self._columns.value_type(self._schema.field(column).type))

    def holds_truths(self, column: int) -> bool:
        """Return whether the schema says so, or the first text of a column is true or false."""
        type_ = self._columns.value_type(self._schema.field(column).type)
        if self._pyarrow.types.is_boolean(type_) or not self.is_text(column):
            return bool(self._pyarrow.types.is_boolean(type_))
        first = next(self.texts([column]), None)
        return first is not None and are_truths(first[0][:GLANCE_ROWS].to_pylist(), self.gaps)

    def num_rows(self) -> int:
        """Number of rows."""
        return int(self._rows)

    def place(self, row: int) -> str:
        """Number of a row, as messages name it."""
        return f"row {row}"
