"""Tables and bars of characters, for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence

BAR = 30
"""Characters of the longest bar."""
BLOCK, THIN = "\N{FULL BLOCK}", "\N{LEFT ONE EIGHTH BLOCK}"
ASCII = str.maketrans({BLOCK: "#", THIN: "."})
"""Characters in place of blocks where the output cannot show them."""


def bars(counts: Sequence[int]) -> list[str]:
    """A bar for each count; the largest is the longest, and what is not 0 can be seen."""
    most = max(counts, default=0) or 1
    return [BLOCK * round(BAR * count / most) or (THIN if count else "") for count in counts]


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int]) -> Iterator[str]:
    """Lines of a table, two spaces in; a head without words is left out.

    Args:
        head: of the columns.
        rows: with a text for each column.
        right: the columns that stand to the right.
    """
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    for row in (head, *rows):
        cells = [
            text.rjust(width) if at in right else text.ljust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        if line := "  ".join(cells).rstrip():
            yield f"  {line}"


def for_output(line: str) -> str:
    """A line in the characters that standard output can show."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        line = line.translate(ASCII).encode(encoding, "replace").decode(encoding)
    return line
