"""Tables in text, with comma, semicolon, tab, ``|``, ``::`` or spaces between fields, read in chunks.

pyarrow parses. Where it finds a mistake the text is read again, line by line, so that the message can name the line.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import logging
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.importers.checked import OF_LISTS, NotNumbersError, parses, printable_line
from gsplit.data.importers.tables import text_format
from gsplit.data.importers.tables.content import UNREADABLE, open_text
from gsplit.data.importers.tables.gaps import GLANCE_ROWS, USUAL, Gaps, are_truths
from gsplit.data.importers.tables.parquet_tables import pyarrow_for_tables, to_numpy
from gsplit.data.importers.tables.text_format import TextFormat, counts_up, header_of, top_of
from gsplit.data.importers.tables.text_rules import TextRules
from gsplit.errors import InputError

MOST_BYTES = 1 << 30
"""Bytes of a row, at most."""
LISTED = re.compile(r"[\[(]")
"""How a list begins, as data frames and JSON write it."""

logger = logging.getLogger(__name__)


class TextTable:
    """Text with one row a line. Lines that start with # or % at the top, and empty ones, are skipped.

    A value in quotes may hold delimiters, line ends, and quotes as two. The last comment above the rows holds the
    names of the columns where it has as many fields, and the first line holds a number.
    """

    def __init__(
        self,
        path: Path,
        words: frozenset[str] = frozenset(),
        *,
        header: bool | None = None,
        gaps: Gaps = USUAL,
        bars: bool = True,
        alone: bool = False,
    ) -> None:
        self.path, self.gaps = path, gaps
        self._pyarrow = pyarrow_for_tables(path)
        self._rules = TextRules.current()
        self._has_good_quotes = False
        try:
            with open_text(path) as file:
                top = top_of(file)
        except UNREADABLE as error:
            raise self._unreadable(error, 0) from None
        if not top.first:
            raise InputError(f"{path} is empty" + (": it has only comments" if top.lines else ""))
        if b"\r" in top.first.rstrip(b"\r\n"):
            raise InputError(f"{path} has line ends of CR alone; convert them to LF")
        self._comments, self._format = top.comments, TextFormat.of(top, self._rules.mark, bars=bars, alone=alone)
        self.has_bars = self._format.has_bars
        self.num_columns = len(self._format.fields(top.first))
        try:
            self.written_names, in_comment = header_of(top, self._format, header, words, gaps)
        except ValueError as error:
            raise InputError(
                f"{path}, line {top.lines + 1}: {str(error)[:40]!r} is not a number, and a header has no numbers in "
                "it"
            ) from None
        self.names = [name.lower() for name in self.written_names]
        self.begins_counting = not self.names and counts_up(self._format.fields(top.first))
        """True where the first row reads 0, 1, ..., as a header of pandas does where columns have no names."""
        self._skipped = top.lines + (bool(self.names) and not in_comment)
        self._comments -= in_comment

    def _open_rows(self) -> IO[bytes]:
        """The file at the first row, in UTF-8, with one character between fields."""
        file = open_text(self.path)
        for _ in range(self._skipped):
            file.readline()
        return self._format.plain(file)

    def read(self, columns: Sequence[int], kinds: Sequence[type]) -> Iterator[list[Any]]:
        """Read columns in chunks of rows, as :meth:`gsplit.data.importers.tables.table.Table.read` says."""
        pa = self._pyarrow
        types = {int: pa.int64(), float: pa.float32(), np.float64: pa.float64(), str: pa.large_string()}
        for batch in self._batches(columns, kinds, [types[kind] for kind in kinds]):
            pairs = zip(batch.columns, kinds, strict=True)
            yield [self._rules.stripped(column) if kind is str else to_numpy(column, kind) for column, kind in pairs]

    def texts(self, columns: Sequence[int]) -> Iterator[list[Any]]:
        """Read columns as they are written, as :meth:`gsplit.data.importers.tables.table.Table.texts` says."""
        return self.read(columns, [str] * len(columns))

    ids = texts

    def _batches(self, columns: Sequence[int], kinds: Sequence[type], types: Sequence[Any]) -> Iterator[Any]:
        """Read columns in chunks of rows, the same whatever the columns, as batches of pyarrow."""
        pa, form = self._pyarrow, self._format
        names = [f"f{column}" for column in columns]
        rows = 0
        try:
            self._tell_of_comments()
            for text in self._whole_rows():
                table = pa.csv.read_csv(
                    pa.BufferReader(text),
                    pa.csv.ReadOptions(
                        use_threads=False,
                        block_size=text.size + 1,
                        column_names=[f"f{column}" for column in range(self.num_columns)],
                    ),
                    pa.csv.ParseOptions(
                        delimiter=form.delimiter,
                        quote_char=form.quote or False,
                        newlines_in_values=form.may_hold_line_ends,
                    ),
                    pa.csv.ConvertOptions(
                        include_columns=names,
                        column_types=dict(zip(names, types, strict=True)),
                        null_values=self.gaps.spellings,
                    ),
                )
                for batch in table.to_batches():
                    for column, kind in zip(batch.columns, kinds, strict=True):
                        if kind is int and column.null_count:
                            raise pa.ArrowInvalid("an id is missing")
                    rows += batch.num_rows
                    yield batch
        except RowTooLongError:
            if self._format.quote and not self._has_good_quotes and self._odd_line(ends=False):
                raise self._odd_quotes() from None
            raise InputError(
                f"{self.path}: a row at or after {self.place(rows)} is longer than {MOST_BYTES:,} bytes; shorten it, "
                "or write the table as Parquet"
            ) from None
        except OddQuotesError:
            raise self._odd_quotes() from None
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            if rows or not self._has_no_rows():
                raise self._explained(columns, kinds, str(error)) from None
        except UNREADABLE as error:
            raise self._unreadable(error, rows) from None

    def _whole_rows(self) -> Iterator[Any]:
        """The rows, some at a time, each time in a buffer of pyarrow's own.

        Its threads let go of what they read when they like. If that were an object of Python's they would need the
        interpreter, and where it is ending, the process is aborted (apache/arrow#34314).
        """
        with self._open_rows() as file:
            for text in whole_rows(file, self._format, text_format.BLOCK_BYTES, check=not self._has_good_quotes):
                buffer = self._pyarrow.allocate_buffer(len(text))
                memoryview(buffer).cast("B")[:] = text
                yield buffer
        self._has_good_quotes = True

    def _tell_of_comments(self) -> None:
        """Tell of comments once."""
        if self._comments:
            logger.info(
                "%s: skipped %s lines of comments; rows begin in line %s",
                self.path,
                f"{self._comments:,}",
                f"{self._skipped + 1:,}",
            )
        self._comments = 0

    def _odd_quotes(self) -> InputError:
        """Return what is wrong with the first field in quotes that does not end where they do, or with its line."""
        what = (
            "goes on after them, or never ends; write a quote in quotes twice, or remove the quotes, or --quote none "
            "takes them as characters"
        )
        if (line := self._odd_line(ends=False)) is None:
            line = self._odd_line(ends=True)
            what = (
                "goes on in the next line, which is read where one space, tab or comma stands between fields, and "
                "none around lines; write it so"
            )
        return InputError(f"{self.path}, line {line}: a field in quotes {what}")

    def _odd_line(self, *, ends: bool) -> int | None:
        with io.TextIOWrapper(self._open_rows(), "utf-8", errors="replace", newline="") as text:
            line = first_odd_line(text, self._format.of_csv, ends=ends)
        return None if line is None else self._skipped + line

    def _has_no_rows(self) -> bool:
        with self._open_rows() as file:
            return not any(line.strip() for line in file)

    def is_text(self, column: int) -> bool:
        """Return whether a column may hold texts, as any may here."""
        return True

    def holds_numbers(self, column: int) -> bool:
        """Return whether the file says that a column holds numbers, as text does of none."""
        return False

    def may_round(self, column: int) -> bool:
        """Return whether doubles may not hold the numbers of a column, as those of any may not here."""
        return True

    def holds_truths(self, column: int) -> bool:
        """Return whether the first value of a column, among its first rows, is true or false."""
        return are_truths((fields[column] for fields in self._head if column < len(fields)), self.gaps)

    @functools.cached_property
    def _head(self) -> list[list[str]]:
        head: list[list[str]] = []
        with suppress(*UNREADABLE):  # where all rows are read it is said what is wrong
            head += (fields for _, fields in itertools.islice(self._lines(), GLANCE_ROWS))
        return head

    def num_rows(self) -> int:
        """Number of rows."""
        return sum(len(column) for (column,) in self.read([0], [str]))

    def place(self, row: int) -> str:
        """Line of a row, as messages name it."""
        found = next(itertools.islice(self._lines(), row, None), None)
        return f"row {row}" if found is None else f"line {found[0]}"

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Number (from 1) and fields of each line that is a row."""
        with self._open_rows() as file:
            text = io.TextIOWrapper(file, "utf-8", errors="replace", newline="")
            rows, number = csv.reader(text, **self._format.of_csv), self._skipped
            with suppress(csv.Error):  # a line that is too long to be shown
                for fields in rows:
                    if fields:
                        yield number + 1, [field.strip(" \t") for field in fields]
                    number = self._skipped + rows.line_num

    def _explained(self, columns: Sequence[int], kinds: Sequence[type], message: str) -> InputError:
        """Return what is wrong with the first line that is wrong."""
        for number, fields in self._lines():
            line = f"{self.path}, line {number}"
            if len(fields) != self.num_columns:
                return InputError(
                    f"{line}: {len(fields)} columns, not {self.num_columns} as in the first line; a field that holds "
                    "a delimiter stands in quotes"
                )
            for column, kind in zip(columns, kinds, strict=True):
                value = fields[column]
                if "\ufffd" in value:
                    return InputError(
                        f"{line}: column {column + 1} is no text in UTF-8; convert it: iconv -f latin1 -t utf-8 "
                        f"{shlex.quote(str(self.path))}"
                    )
                if not value and kind is int:
                    return InputError(f"{line}: column {column + 1} is empty")
                if (kind is int or value not in self.gaps) and not parses(value, kind):
                    return self._odd_value(line, column, value, kind)
        return InputError(f"{self.path}: {message}")

    def _odd_value(self, line: str, column: int, value: str, kind: type) -> InputError:
        """Return that a value is no number."""
        name = printable_line(self.written_names[column]) if self.names else ""
        of_column = f", as column {name} should be" if name else ""
        if kind is int:
            return InputError(f"{line}: {value[:40]!r} is not a whole number{of_column}")
        if LISTED.match(value):
            return InputError(f"{line}: {value[:40]!r} is not a number{of_column}; {OF_LISTS}")
        return NotNumbersError(f"{line}: {value[:40]!r} is not a number{of_column}")

    def _unreadable(self, error: BaseException, rows: int) -> InputError:
        return InputError(f"{self.path} is damaged after row {rows}: {error}; copy or unpack it again")


LINE_END = b"\n"


class RowTooLongError(ValueError):
    """A row is longer than what is parsed at once."""


class OddQuotesError(ValueError):
    """A field goes on after its quotes, or in the next line where none may."""


def whole_rows(file: IO[bytes], form: TextFormat, at_once: int, *, check: bool = True) -> Iterator[memoryview]:
    """Read text in pieces of whole rows.

    Args:
        file: at the beginning of a row.
        form: its format.
        at_once: bytes read at a time; more for a longer row.
        check: whether fields in quotes have to end where they do.

    Raises:
        RowTooLongError: for a row of over ``MOST_BYTES``.
        OddQuotesError: before a piece with a field that has to and does not.
    """
    rest = b""
    while text := rest + (block := file.read(max(at_once, min(len(rest), MOST_BYTES + 1 - len(rest))))):
        end = end_of_rows(text, form, is_last=not block, check=check)
        if end:
            yield memoryview(text)[:end]
        elif len(text) > MOST_BYTES:
            raise RowTooLongError
        rest = text[end:]


def end_of_rows(text: bytes, form: TextFormat, *, is_last: bool, check: bool) -> int:
    """Return where the last whole row of a text ends that begins with a row, 0 where none does.

    Args:
        text: as it stands in the file.
        form: its format.
        is_last: whether the file ends with it.
        check: as of :func:`whole_rows`.

    Raises:
        OddQuotesError: as there.
    """
    end, quote = len(text) if is_last else text.rfind(LINE_END) + 1, (form.quote or "").encode()
    if not quote or quote not in text:
        return end
    if form.may_hold_line_ends:
        if end and _are_regular(np.frombuffer(text, np.uint8)[:end], ord(quote), ord(form.delimiter)):
            return end
        begin = rb"(?:(?<=[\r\n])|(?<=%b)|\A)" % re.escape(form.delimiter.encode())  # where a field does
        quoted = re.compile(begin + rb"%b[^%b]*(?:%b%b[^%b]*)*(?:%b|\Z)" % ((quote,) * 6))
        outside = quoted.sub(lambda found: b" " * len(found[0]), text)
        end = len(text) if is_last else outside.rfind(LINE_END) + 1
    if check and end:
        lines = io.TextIOWrapper(io.BytesIO(text[:end]), "utf-8", errors="replace", newline="")
        if first_odd_line(lines, form.of_csv, ends=not form.may_hold_line_ends):
            raise OddQuotesError
    return end


def _are_regular(marks: NDArray[np.uint8], quote: int, delimiter: int) -> bool:
    """Return whether each quote of some rows is at an end of its field, or beside another; False may be wrong."""
    at = np.flatnonzero(marks == quote)
    may_stand_beside = np.zeros(256, np.bool_)
    may_stand_beside[[*b"\r\n", quote, delimiter]] = True
    # Of every two quotes the first opens, or is the second of two in quotes; the other closes, or is the first.
    beside = np.concatenate([at[::2] - 1, at[1::2] + 1])
    return len(at) % 2 == 0 and bool(may_stand_beside[marks.take(beside, mode="wrap")].all())


def first_odd_line(lines: Iterable[str], form: Mapping[str, Any], *, ends: bool = False) -> int | None:
    """Find a field that goes on after its quotes, or whose quotes never close.

    Args:
        lines: of a text, with their ends.
        form: the format, as arguments of :func:`csv.reader`.
        ends: find also a field that goes on in the next line.

    Returns:
        The number of the line where its row begins, from 1 on; None where there is none.
    """
    rows, begin = csv.reader(lines, **form, strict=True), 1
    try:
        for _ in rows:
            if ends and rows.line_num > begin:
                return begin
            begin = rows.line_num + 1
    except csv.Error as error:
        if "expected" in str(error):  # a delimiter, or no end; else it is about something else
            return begin
    return None
