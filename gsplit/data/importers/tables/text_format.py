"""How a table of text is written, by its first lines: delimiter, quotes, comments, names of columns."""

from __future__ import annotations

import csv
import io
import itertools
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import IO, Any

from gsplit.data.importers.checked import is_number
from gsplit.data.importers.tables.content import Blocks
from gsplit.errors import InputError

BLOCK_BYTES = 1 << 22
"""Bytes of text parsed at once, more where lines are long."""
LINE_BYTES = 1 << 24
"""Bytes of a first line at most."""
SNIFF_BYTES = 1 << 16
DELIMITERS = ";\t,"
BAR, DOUBLE_COLON = "|", "::"
"""Delimiters where all lines have them equally often: values may hold them, too."""
csv.field_size_limit(sys.maxsize)  # lines are shown and counted as pyarrow reads them: of any length
HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
MARKS = re.compile(r"\||::")
NOTHING = "\x1e"
"""A delimiter that stands in no text."""
INNER, OUTER = re.compile(rb"\S[ \t;,]+\S"), re.compile(rb"^[ \t]|[ \t]\r?$", re.MULTILINE)
"""Spaces and delimiters between others of a line, and spaces around them."""
BETWEEN = re.compile(r"[;,|\s]|::")
"""What may stand between two fields."""
UNIT = b"\x1f"
"""Mark that stands for two colons: parsers take one character."""
SAID = re.compile(rb'"?sep=(.)"?\r?\n?', re.IGNORECASE)
"""First line in which Excel says the delimiter."""


@dataclass(frozen=True, kw_only=True)
class Top:
    """The lines above the rows of a text, and some of these."""

    lines: int
    """Number of lines above the first that is a row or a header."""
    comments: int
    """Number of these that are comments."""
    comment: bytes
    """The last of them that begins with ``#``."""
    delimiter: str | None
    """The delimiter that the text itself says."""
    first: bytes
    """The first line that is a row or a header; nothing where there is none."""
    sample: bytes
    """That line and what follows."""


def top_of(file: IO[bytes]) -> Top:
    """Read the top of a text. Lines that start with # or %, and empty ones, are above the rows."""
    lines, comments, comment, delimiter = 0, 0, b"", None
    while line := file.readline(LINE_BYTES):
        if not lines and (said := SAID.fullmatch(line)):
            delimiter = said[1].decode("latin1")
        elif line.strip() and line[:1] not in b"#%":
            break
        elif line.strip():
            comments += 1
            comment = line if line[:1] == b"#" else comment
        lines += 1
    return Top(
        lines=lines,
        comments=comments,
        comment=comment,
        delimiter=delimiter,
        first=line,
        sample=line + file.read(SNIFF_BYTES),
    )


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """Delimiter and quotes of a text."""

    delimiter: str
    quote: str | None
    """None: quotes are characters like others."""
    is_squeezed: bool = False
    """True where columns are lined up by several spaces, or lines end in some."""

    @classmethod
    def of(cls, top: Top, quote: str | None, *, bars: bool = True, alone: bool = False) -> TextFormat:
        """Find the format by the first lines, with ``|`` and ``::`` as delimiters or as characters like others.

        Where lines are fields ``alone``, only marks that stand in each of the first lines equally often are
        delimiters, and spaces are none; so it is where the first line is one field, and not all below are numbers.
        """
        text = top.first.decode(errors="replace").rstrip("\r\n")
        unquoted = re.sub(f"{quote}[^{quote}]*{quote}", 2 * quote, text) if quote else text
        delimiter = top.delimiter or next((mark for mark in DELIMITERS if mark in unquoted), " ")
        if not (top.delimiter or BETWEEN.search(unquoted.strip(" "))):
            alone = alone or not all(map(is_number, top.sample[len(top.first) :].decode(errors="replace").split()))
        of_several = top.delimiter or (delimiter != " " and _is_regular(top.sample + b"\n", delimiter, quote))
        if alone and not of_several and (INNER.search(top.sample) or not OUTER.search(top.sample)):
            return cls(delimiter=NOTHING, quote=quote)
        if bars and not alone and top.delimiter is None and not _is_regular(top.sample, delimiter, quote):
            if _is_regular(top.sample, DOUBLE_COLON, None):
                return cls(delimiter=UNIT.decode(), quote=None)
            if _is_regular(top.sample, BAR, quote):
                return cls(delimiter=BAR, quote=quote)
        lined_up = delimiter == " " and re.search(rb"[ \t]{2}|^[ \t]|[ \t]\r?$", top.sample, re.M)
        return cls(delimiter=delimiter, quote=quote, is_squeezed=bool(lined_up))

    @property
    def has_bars(self) -> bool:
        """True where ``|`` or two colons stand between fields."""
        return self.has_colons or self.delimiter == BAR

    @property
    def has_colons(self) -> bool:
        """True where two colons stand between fields."""
        return self.delimiter == UNIT.decode()

    @property
    def may_hold_line_ends(self) -> bool:
        """True where a field in quotes may hold line ends."""
        return self.quote is not None and not self.is_squeezed

    @property
    def of_csv(self) -> dict[str, Any]:
        """The format as arguments of :func:`csv.reader`."""
        quoting = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        return {"delimiter": self.delimiter, "quotechar": self.quote or '"', "quoting": quoting}

    def fields(self, line: bytes) -> list[str]:
        """The fields of a line, as it stands in the file."""
        text = self._plain(line).decode(errors="replace").rstrip("\r\n")
        return [field.strip() for field in next(csv.reader([text], **self.of_csv), [""])]

    def plain(self, file: IO[bytes]) -> IO[bytes]:
        """The text with one character between fields."""
        if not self.is_squeezed and not self.has_colons:
            return file
        return io.BufferedReader(
            Blocks(file, lambda: self._plain(file.read(SNIFF_BYTES) + file.readline())), BLOCK_BYTES
        )

    def _plain(self, block: bytes) -> bytes:
        """Whole lines with one character between fields."""
        if self.has_colons:
            if UNIT in block:
                raise InputError("a line of the text holds U+001F, which stands for '::' between fields; remove it")
            return block.replace(DOUBLE_COLON.encode(), UNIT)
        if not self.is_squeezed:
            return block
        quote = (self.quote or "").encode()
        if quote and quote in block:
            in_quotes = rb"(?<![^ \t\r\n])%b(?:[^%b\r\n]|%b%b)*%b" % ((quote,) * 5)
            block = re.sub(rb"(%b)|[ \t]+" % in_quotes, lambda found: found[1] or b" ", block)
        else:
            block = re.sub(rb"[ \t]+", b" ", block)
        return re.sub(rb"(?m)^ | (?=\r?$)", b"", block)


def _is_regular(sample: bytes, mark: str, quote: str | None) -> bool:
    """Return whether a mark stands outside quotes in all of the first lines equally often, and at all."""
    lines = (re.sub(b"%b[^%b]*%b" % ((quote.encode(),) * 3), b"", sample) if quote else sample).splitlines()
    counts = {line.count(mark.encode()) for line in (lines[:-1] or lines) if line.strip()}
    return len(counts) == 1 and counts != {0}


def header_of(
    top: Top, form: TextFormat, header: bool | None, words: Collection[str], gaps: Any
) -> tuple[list[str], bool]:
    """The names of the columns as they are written, none without a header; and whether a comment holds them.

    Args:
        top: of the text.
        form: its format.
        header: whether the first line holds the names; None: it does if no number, or list of some, is in it, or it
            is that of pandas above an index and columns without names, ``,0,1``.
        words: texts that are data, in lower case.
        gaps: words that stand for no value.

    Raises:
        ValueError: with the field that is neither a number nor a name.
    """
    fields = form.fields(top.first)
    there = [field for field in fields if field]
    are_data = [all(map(_is_number, MARKS.split(field))) or field.lower() in words for field in there]
    if header is not False and any(are_data) and (names := _names_in_comment(top.comment, form, len(fields))):
        return names, True
    if header is None and fields[:1] == [""] and counts_up(fields[1:]):
        header = True  # pandas names columns so, and not its index
    is_header = not any(are_data) and any(field not in gaps for field in fields) if header is None else header
    if header is None and not is_header:
        odd = next(itertools.compress(there, (not is_data for is_data in are_data)), None)
        if odd is not None and odd not in gaps:
            raise ValueError(odd)
    return fields if is_header else [], False


def _is_number(field: str) -> bool:
    """Return whether a field is a number; the parser of whole ones takes hexadecimal ones."""
    return is_number(field) or HEXADECIMAL.fullmatch(field) is not None


def counts_up(fields: Sequence[str]) -> bool:
    """Return whether fields read 0, 1, ..., as pandas names columns that have no names."""
    return bool(fields) and list(fields) == [str(at) for at in range(len(fields))]


def _names_in_comment(comment: bytes, form: TextFormat, count: int) -> list[str]:
    """The names of the columns where a comment holds as many fields as there are columns, and no number."""
    names = form.fields(comment.lstrip(b"# \t")) if comment else []
    return names if len(names) == count and all(names) and not any(map(is_number, names)) else []
