"""Categories and names of classes that a store has, as a later table may spell them.

What a column of whole numbers is as texts hangs on its type: beside a gap pandas makes 1.0 of 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?", re.ASCII)
"""A whole number without zeros before it, as 01 may be a name."""


def respelt(words: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """The known name of each word that is none, but is the same whole number as one of them alone.

    Examples:
        >>> from gsplit.data.importers.same_numbers import respelt
        >>> respelt(["1", "2.0", "03", "4.5"], ["1.0", "2", "3", "4.50"])
        {'1': '1.0', '2.0': '2'}
    """
    digits = {name: found for name in known if (found := _digits(name)) is not None}
    count = Counter(digits.values())
    name_of = {found: name for name, found in digits.items() if count[found] == 1}
    names = set(known)
    return {
        word: name_of[found] for word in words if word not in names and (found := _digits(word)) in name_of and found
    }


def _digits(word: str) -> str | None:
    """The digits of a whole number, alike for 1 and 1.0; None for other texts."""
    match = WHOLE.fullmatch(word)
    return None if match is None else "0" if match[1] == "-0" else match[1]
