"""Tables of numbers in text (comma, semicolon, tab or spaces, also ``.gz``) and Parquet, read in chunks.

pyarrow parses. Where it finds a mistake the text is read again, line by line, so that the message can name the line.
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import itertools
import logging
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.checked import NotNumbersError, printable_line
from gsplit.data.importers.gaps import GLANCE_ROWS, USUAL, Gaps, are_truths
from gsplit.data.importers.parquet_tables import ParquetTable, pyarrow_for_tables, to_numpy
from gsplit.data.importers.quotes import are_odd, first_odd_line
from gsplit.errors import InputError

BLOCK_BYTES = 1 << 24
"""Bytes of text parsed at once."""
QUOTES_BYTES = 1 << 20
"""Bytes of text whose quotes are looked at at once."""
SNIFF_BYTES = 1 << 16
PARQUET = (".parquet", ".pq")
UNREADABLE = (OSError, EOFError, zlib.error)

logger = logging.getLogger(__name__)


class Table(Protocol):
    """A table in a file; columns are counted from 0."""

    path: Path
    names: list[str]
    """Names of the columns, in lower case; empty where there is no header."""
    num_columns: int
    gaps: Gaps
    """Words that stand for no number."""

    def read(self, columns: Sequence[int], kinds: Sequence[type]) -> Iterator[list[NDArray[Any]]]:
        """Read columns in chunks of rows.

        An array [n] is int64 for ``int``, float32 for ``float`` and float64 for ``np.float64`` (NaN where empty), and
        of objects for ``str``.

        Raises:
            InputError: naming the line or row, where one does not parse.
        """

    def texts(self, columns: Sequence[int]) -> Iterator[list[Any]]:
        """Read columns as they are written, in chunks of rows: arrays of pyarrow, ``large_string``, "" where empty.

        Values of a Parquet file are written as pandas does: ``3``, ``3.0``, ``True``, ``['a', 'b']``.

        Raises:
            InputError: naming the line or row, where one is no text.
        """

    def ids(self, columns: Sequence[int]) -> Iterator[list[Any]]:
        """Read columns of ids, as :meth:`texts` does, but whole floats of a Parquet file become digits, too.

        Raises:
            InputError: naming the row, where a number is no whole one.
        """

    def is_text(self, column: int) -> bool:
        """Return whether a column may hold texts that are no numbers."""

    def holds_numbers(self, column: int) -> bool:
        """Return whether the file says that a column holds numbers, as text does of none."""

    def holds_truths(self, column: int) -> bool:
        """Return whether the first value of a column, among its first rows, is true or false."""

    def num_rows(self) -> int:
        """Number of rows; text is read from top to bottom for it."""

    def place(self, row: int) -> str:
        """Return what messages call a row, counted from 0."""


def open_table(
    path: Path, words: frozenset[str] = frozenset(), *, header: bool | None = None, gaps: Gaps = USUAL
) -> Table:
    """Open ``path`` as Parquet if its suffix says so, else as text.

    Args:
        words: texts that are data: a first line of nothing but these and numbers is no header.
        header: whether the first line of a text holds the names of its columns; None: it does if no number is in it.
        gaps: words that stand for no value.

    Raises:
        InputError: where there is no such file, it is empty or damaged, or pyarrow is not installed.
    """
    if not path.is_file():
        raise InputError(f"{path} is a folder, not a file" if path.is_dir() else f"{path}: no such file")
    if path.suffix.lower() in PARQUET:
        return ParquetTable(path, gaps)
    return TextTable(path, words, header=header, gaps=gaps)


class TextTable:
    """Text with one row a line. Lines that start with # or % at the top, and empty ones, are skipped.

    A value in double quotes may hold delimiters, line ends, and quotes as two.
    """

    def __init__(
        self, path: Path, words: frozenset[str] = frozenset(), *, header: bool | None = None, gaps: Gaps = USUAL
    ) -> None:
        self.path, self.gaps = path, gaps
        self._pyarrow = pyarrow_for_tables(path)
        self._skipped = 0
        self._has_right_quotes = False
        try:
            with self._open_raw() as file:
                first = self._first_line(file)
                sample = first + file.read(SNIFF_BYTES)
        except UNREADABLE as error:
            raise self._unreadable(error, 0) from None
        text = first.decode("utf-8-sig", errors="replace").rstrip("\r\n")
        unquoted = re.sub(r'"[^"]*"', "", text)
        self._delimiter = next((mark for mark in ";\t," if mark in unquoted), " ")
        # Columns lined up with several spaces, and spaces at the ends of lines.
        self._squeezed = self._delimiter == " " and bool(re.search(rb"[ \t]{2}|^[ \t]|[ \t]\r?$", sample, re.M))
        fields = self._fields(first)
        self.num_columns = len(fields)
        numbers = [is_number(field) or field.lower() in words for field in fields if field]
        known = header is not None
        if header is None:
            header = not any(numbers) and any(field not in gaps for field in fields)
        odd = next((field for field, is_data in zip(filter(None, fields), numbers, strict=True) if not is_data), None)
        if not known and not header and odd is not None and odd not in gaps:
            raise InputError(
                f"{path}, line {self._skipped + 1}: {odd[:40]!r} is not a number, and a header has no numbers in it"
            )
        self.names = [field.lower() for field in fields] if header else []
        if known and not header and self._skipped:  # where an id may begin with #
            logger.info("%s: rows begin in line %s, below comments or empty lines", path, self._skipped + 1)
        self._skipped += header

    def _open_raw(self) -> IO[bytes]:
        return gzip.open(self.path) if self.path.suffix.lower() == ".gz" else self.path.open("rb")  # type: ignore[return-value]

    def _open(self) -> IO[bytes]:
        file = self._open_raw()
        return io.BufferedReader(_Squeezed(file), BLOCK_BYTES) if self._squeezed else file

    def _open_rows(self) -> IO[bytes]:
        """The file at the first row."""
        file = self._open()
        for _ in range(self._skipped):
            file.readline()
        return file

    def _first_line(self, file: IO[bytes]) -> bytes:
        while line := file.readline(BLOCK_BYTES):
            if line.strip() and line[:1] not in b"#%":
                if b"\r" in line.rstrip(b"\r\n"):
                    raise InputError(f"{self.path} has line ends of CR alone; convert them to LF")
                return line
            self._skipped += 1
        raise InputError(f"{self.path} is empty" + (": it has only comments" if self._skipped else ""))

    def _fields(self, line: bytes) -> list[str]:
        text = line.decode("utf-8-sig", errors="replace").rstrip("\r\n")
        return (
            [field.strip().strip('"') for field in text.strip().split() or [""]]
            if self._squeezed
            else [field.strip() for field in next(csv.reader([text], delimiter=self._delimiter), [""])]
        )

    def read(self, columns: Sequence[int], kinds: Sequence[type]) -> Iterator[list[NDArray[Any]]]:
        """Read columns in chunks of rows, as :meth:`Table.read` says."""
        pa = self._pyarrow
        types = {int: pa.int64(), float: pa.float32(), np.float64: pa.float64(), str: pa.string()}
        for batch in self._batches(columns, kinds, [types[kind] for kind in kinds]):
            yield [to_numpy(*pair) for pair in zip(batch.columns, kinds, strict=True)]

    def texts(self, columns: Sequence[int]) -> Iterator[list[Any]]:
        """Read columns as they are written, as :meth:`Table.texts` says."""
        for batch in self._batches(columns, [str] * len(columns), [self._pyarrow.large_string()] * len(columns)):
            yield batch.columns

    ids = texts

    def _batches(self, columns: Sequence[int], kinds: Sequence[type], types: Sequence[Any]) -> Iterator[Any]:
        """Read columns in chunks of rows, as batches of pyarrow."""
        pa = self._pyarrow
        names = [f"f{column}" for column in columns]
        rows = 0
        try:
            self._check_quotes()
            with self._open_rows() as file:
                batches = pa.csv.open_csv(
                    file,
                    pa.csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, autogenerate_column_names=True),
                    pa.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=not self._squeezed),
                    pa.csv.ConvertOptions(
                        include_columns=names,
                        column_types=dict(zip(names, types, strict=True)),
                        null_values=self.gaps.spellings,
                    ),
                )
                for batch in batches:
                    for column, kind in zip(batch.columns, kinds, strict=True):
                        if kind is int and column.null_count:
                            raise pa.ArrowInvalid("an id is missing")
                    rows += batch.num_rows
                    yield batch
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            if not rows and self._ends_with_header():
                return
            raise self._explained(columns, kinds, str(error)) from None
        except UNREADABLE as error:
            raise self._unreadable(error, rows) from None

    def _check_quotes(self) -> None:
        """Check, once, that each field in quotes ends where they do.

        Raises:
            InputError: naming the line of the first that does not.
        """
        if self._has_right_quotes:
            return
        with self._open_rows() as file:
            self._has_right_quotes = not are_odd(iter(lambda: file.read(QUOTES_BYTES), b""), self._delimiter)
        if self._has_right_quotes:
            return
        with io.TextIOWrapper(self._open_rows(), "utf-8", errors="replace", newline="") as text:
            line = first_odd_line(text, self._delimiter)
        if line is not None:
            raise InputError(
                f"{self.path}, line {self._skipped + line}: a field in quotes goes on after them, or never ends; "
                "write a quote in quotes twice, or remove the quotes"
            )
        self._has_right_quotes = True

    def _ends_with_header(self) -> bool:
        with self._open() as file:
            return not any(line.strip() for line in itertools.islice(file, self._skipped, None))

    def is_text(self, column: int) -> bool:
        """Return whether a column may hold texts, as any may here."""
        return True

    def holds_numbers(self, column: int) -> bool:
        """Return whether the file says that a column holds numbers, as text does of none."""
        return False

    def holds_truths(self, column: int) -> bool:
        """Return whether the first value of a column, among its first rows, is true or false."""
        return are_truths((fields[column] for fields in self._head if column < len(fields)), self.gaps)

    @functools.cached_property
    def _head(self) -> list[list[str]]:
        head: list[list[str]] = []
        with suppress(*UNREADABLE):  # whoever reads all rows says what is wrong
            head += (fields for _, fields in itertools.islice(self._lines(), GLANCE_ROWS))
        return head

    def num_rows(self) -> int:
        """Number of rows."""
        return sum(len(column) for (column,) in self.read([0], [str]))

    def place(self, row: int) -> str:
        """Line of a row, as messages name it."""
        for at, (number, _) in enumerate(self._lines()):
            if at == row:
                return f"line {number}"
        return f"row {row}"

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Number (from 1) and fields of each line that is a row."""
        with self._open_rows() as file:
            if self._squeezed:
                for number, line in enumerate(file, start=self._skipped + 1):
                    if line.rstrip(b"\r\n"):
                        yield number, self._fields(line)
                return
            text = io.TextIOWrapper(file, "utf-8", errors="replace", newline="")
            rows, number = csv.reader(text, delimiter=self._delimiter), self._skipped
            with suppress(csv.Error):  # a line that is too long to be shown
                for fields in rows:
                    if fields:
                        yield number + 1, [field.strip() for field in fields]
                    number = self._skipped + rows.line_num

    def _explained(self, columns: Sequence[int], kinds: Sequence[type], message: str) -> InputError:
        """Return what is wrong with the first line that is wrong."""
        for number, fields in self._lines():
            line = f"{self.path}, line {number}"
            if len(fields) != self.num_columns:
                return InputError(f"{line}: {len(fields)} columns, not {self.num_columns} as in the first line")
            for column, kind in zip(columns, kinds, strict=True):
                if "\ufffd" in fields[column]:
                    return InputError(f"{line}: column {column + 1} is no text in UTF-8")
                if not fields[column] and kind is int:
                    return InputError(f"{line}: column {column + 1} is empty")
                if not (kind is not int and fields[column] in self.gaps) and not _parses(fields[column], kind):
                    value, name = fields[column][:40], printable_line(self.names[column]) if self.names else ""
                    of_column = f", as column {name} should be" if name else ""
                    if kind is int:
                        return InputError(f"{line}: {value!r} is not a whole number{of_column}")
                    return NotNumbersError(f"{line}: {value!r} is not a number{of_column}")
        return InputError(f"{self.path}: {message}")

    def _unreadable(self, error: BaseException, rows: int) -> InputError:
        return InputError(f"{self.path} is damaged after row {rows}: {error}; copy or unpack it again")


class _Squeezed(io.RawIOBase):
    """Text with runs of spaces and tabs made one space, and none at the ends of lines."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready:
            block = self._file.read(SNIFF_BYTES)
            block += self._file.readline()
            block = re.sub(rb"[ \t]+", b" ", block)
            self._ready = re.sub(rb"(?m)^ | (?=\r?$)", b"", block)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def is_numeric(table: Table, column: int) -> bool:
    """Return whether the first value of a column is a number, or it has none."""
    if not table.is_text(column):
        return table.holds_numbers(column)
    for (texts,) in table.texts([column]):
        for text in map(str.strip, texts.to_pylist()):
            if text not in table.gaps:
                return is_number(text)
    return True


def is_number(field: str) -> bool:
    """Return whether a text is a number."""
    return _parses(field, float)


def _parses(field: str, kind: type) -> bool:
    try:
        # Python takes 1_000 for a number, and digits of other scripts.
        value = kind(field if field.isascii() and "_" not in field else "no number") if field or kind is int else 0
    except ValueError:
        return False
    return kind is not int or -(2**63) <= value < 2**63
