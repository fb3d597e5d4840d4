"""What must stand in a message, however it is worded: flags, places, numbers, and what to do.

``"--parts, 1, 0"`` are the parts of "--parts must be at least 1, not 0". Each stands in one line, in any order, as a
word of its own: 1 is neither in 10 nor in 1.5, --parts not in --parts-x. A ``#`` is any number, a ``*`` any part of a
name.
"""

from __future__ import annotations

import re


def line_with(*parts: str) -> str:
    """Return the pattern of a message of one line that has these parts, which ", " divides."""
    words = [re.escape(word) for part in parts for word in part.split(", ")]
    words = [word.replace(r"\#", r"\d[\d.,e+-]*").replace(r"\*", r"[\w.-]*") for word in words]
    return r"\A" + "".join(rf"(?=.*(?<![\w.,-]){word}(?!\w|[.,-]\w))" for word in words) + r".*\n?\Z"


def says(printed: object, *parts: str) -> None:
    """Assert that an error has these parts, and is one line; or one of the lines of a text."""
    lines = [str(printed)] if isinstance(printed, BaseException) else str(printed).splitlines()
    assert any(re.search(line_with(*parts), line) for line in lines), f"{parts} is not in a line of: {printed}"
