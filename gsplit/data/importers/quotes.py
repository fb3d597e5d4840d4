"""Quotes in a table of text: a field in quotes ends where its quotes do (RFC 4180, section 2).

Parsers take ``"Kostas" Theatre`` for the same text as ``Kostas Theatre``, which makes one vertex of two, and a quote
that is never closed for all that follows. Bytes are looked at as they are read; only where something is odd is the
text read again, field by field, as a quote in the middle of a field without quotes means nothing.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from typing import IO

import numpy as np

QUOTE, LINE_END = ord('"'), b"\n"


class Watched(io.RawIOBase):
    """A file whose quotes are looked at as it is read; closing it closes the file.

    Args:
        file: at the beginning of a row.
        delimiter: between fields.
    """

    def __init__(self, file: IO[bytes], delimiter: str) -> None:
        self._file = file
        self._beside = np.frombuffer(b'\r\n"' + delimiter.encode(), np.uint8)
        self._last = LINE_END
        """The last byte, and before it, where that is a quote whose next byte is not known yet, the one before."""
        self._count = 0
        self.is_odd = False
        """True once a quote is neither at an end of its field nor beside another."""

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read some bytes, and look at them."""
        data = self._file.read(size)
        if not self.is_odd:
            self._look(data)
        return data

    def _look(self, data: bytes) -> None:
        if data and QUOTE not in data and len(self._last) == 1:
            self._last = data[-1:]
            return
        text = self._last + (data or LINE_END)
        marks = np.frombuffer(text, np.uint8)
        at = 1 + np.flatnonzero(marks[1:-1] == QUOTE)
        # Of every two quotes the first opens, or is the second of two in quotes; the other closes, or is the first.
        opens = (self._count + np.arange(len(at))) % 2 == 0
        beside = np.where(opens, marks[at - 1], marks[at + 1])
        self._count += len(at)
        self.is_odd = not np.isin(beside, self._beside).all() or (not data and self._count % 2 == 1)
        self._last = text[-2:] if text[-1] == QUOTE else text[-1:]

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def first_odd_line(lines: Iterable[str], delimiter: str) -> int | None:
    """Find a field that goes on after its quotes, or whose quotes never close.

    Args:
        lines: of a text, with their ends.
        delimiter: between fields.

    Returns:
        The number of the line where its row begins, from 1 on; None where there is none.
    """
    rows, begin = csv.reader(lines, delimiter=delimiter, strict=True), 1
    longest = csv.field_size_limit(sys.maxsize)
    try:
        for _ in rows:
            begin = rows.line_num + 1
    except csv.Error as error:
        if "expected" in str(error):  # a delimiter, or no end; else it is about something else
            return begin
    finally:
        csv.field_size_limit(longest)
    return None
