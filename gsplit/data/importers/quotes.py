"""Quotes in a table of text: a field in quotes ends where its quotes do (RFC 4180, section 2).

Parsers take ``"Kostas" Theatre`` for the same text as ``Kostas Theatre``, which makes one vertex of two, and a quote
that is never closed for all that follows. Bytes are looked at in blocks; only where something is odd is the text read
again, field by field, as a quote in the middle of a field without quotes means nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

LINE_END = b"\n"


def are_odd(blocks: Iterable[bytes], delimiter: str, quote: str = '"') -> bool:
    """Return whether a quote is neither at an end of its field nor beside another.

    Args:
        blocks: of a text, from the beginning of a row on.
        delimiter: between fields.
        quote: around fields.
    """
    mark = ord(quote)
    may_stand_beside = np.zeros(256, np.bool_)
    may_stand_beside[list(b"\r\n" + (quote + delimiter).encode())] = True
    last = LINE_END  # the last byte, and the one before where it is a quote
    opens = True  # whether the next quote does
    for block in _ended(blocks):
        if block and mark not in block and len(last) == 1:
            last = block[-1:]
            continue
        text = last + (block or LINE_END)
        marks = np.frombuffer(text, np.uint8)
        at = 1 + np.flatnonzero(marks[1:-1] == mark)
        # Of every two quotes the first opens, or is the second of two in quotes; the other closes, or is the first.
        first, second = (at[::2], at[1::2]) if opens else (at[1::2], at[::2])
        if not (may_stand_beside[marks[first - 1]].all() and may_stand_beside[marks[second + 1]].all()):
            return True
        opens ^= len(at) % 2 == 1
        last = text[-2:] if text[-1] == mark else text[-1:]
    return not opens


def _ended(blocks: Iterable[bytes]) -> Iterable[bytes]:
    """Blocks that are not empty, and an empty one."""
    yield from filter(None, blocks)
    yield b""


def first_odd_line(lines: Iterable[str], form: Mapping[str, Any]) -> int | None:
    """Find a field that goes on after its quotes, or whose quotes never close.

    Args:
        lines: of a text, with their ends.
        form: the format, as arguments of :func:`csv.reader`.

    Returns:
        The number of the line where its row begins, from 1 on; None where there is none.
    """
    rows, begin = csv.reader(lines, **form, strict=True), 1
    try:
        for _ in rows:
            begin = rows.line_num + 1
    except csv.Error as error:
        if "expected" in str(error):  # a delimiter, or no end; else it is about something else
            return begin
    return None
