"""Words that stand for no value in a table: one rule for columns of all kinds.

Ids are no values: one that is called ``NA`` is an id.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.errors import InputError

WORDS = ("na", "n/a", "nan", "null", "none")
OF_SPREADSHEETS = ("#n/a", "#na", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan")
"""As spreadsheets and C libraries write what is no number."""
GLANCE_ROWS = 1000
"""Rows of a column that are looked at first, for what it holds."""
MOST_WORDS = 100
"""Words that a flag takes at most: the parser of numbers fails with many thousands of spellings."""
MOST_LETTERS = 5
"""Letters of a word of which all cases are listed for the parser of numbers; of longer ones the usual three are."""


@dataclass(frozen=True)
class Gaps:
    """The words, in lower case; an empty value is a gap beside them.

    Examples:
        >>> from gsplit.data.importers.tables.gaps import Gaps
        >>> gaps = Gaps.of(["unknown"])
        >>> "Unknown " in gaps, "" in gaps, "NA" in gaps
        (True, True, False)
    """

    words: frozenset[str]

    @classmethod
    def of(cls, words: Iterable[str]) -> Gaps:
        """Make the gaps of words in any case."""
        return cls(frozenset(word.strip().lower() for word in words))

    def and_also(self, words: Iterable[str]) -> Gaps:
        """Return these and others."""
        return Gaps(self.words | Gaps.of(words).words)

    def __contains__(self, text: str) -> bool:
        word = text.strip().lower()
        return not word or word in self.words or (len(self.numbers) > 0 and _number(word) in self.numbers.tolist())

    @functools.cached_property
    def spellings(self) -> list[str]:
        """The words that are no numbers, in upper and lower case and after a space, and nothing.

        They are for a parser that compares bytes, and takes all columns alike: a number may be an id beside a gap.
        """
        found = {""}
        for word in self.words:
            if _number(word) is not None:
                continue
            if sum(map(str.isalpha, word)) <= MOST_LETTERS:
                found |= {"".join(each) for each in itertools.product(*({mark, mark.upper()} for mark in word))}
            else:
                found |= {word, word.upper(), word.capitalize(), word.title()}
        return sorted(found | {f" {word}" for word in found})

    @functools.cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The words that are numbers, such as -999, however they are written."""
        return np.array([number for word in self.words if (number := _number(word)) is not None], np.float64)

    def without(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return numbers with NaN in place of those that are gaps."""
        numbers = self.numbers.astype(values.dtype)
        return (
            np.where(np.isin(values, numbers), np.asarray(np.nan, values.dtype), values) if len(numbers) else values
        )

    def marked(self, texts: Any) -> Any:
        """Return which texts of pyarrow are gaps, as truth values of pyarrow."""
        import pyarrow as pa
        import pyarrow.compute as pc

        words = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
        gaps = {"", *self.words}
        if len(self.numbers):
            gaps.update(word for word in pc.unique(words).drop_null().to_pylist() if word in self)
        return pc.is_in(words, pa.array(list(gaps), words.type))

    def cleared(self, texts: Any) -> Any:
        """Return texts of pyarrow with nothing in place of gaps."""
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.if_else(self.marked(texts), pa.scalar("", texts.type), texts)


USUAL = Gaps.of((*WORDS, *OF_SPREADSHEETS))


def are_truths(texts: Iterable[str], gaps: Gaps) -> bool:
    """Return whether the first text that is no gap is true or false."""
    first = next((text for text in texts if text not in gaps), "")
    return first.strip().lower() in ("true", "false")


def _number(word: str) -> float | None:
    """The finite number that a word is; None where it is none."""
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def check_words(words: Sequence[str]) -> None:
    """Check the words that a flag gives.

    Raises:
        InputError: where there are too many.
    """
    if len(words) > MOST_WORDS:
        raise InputError(f"--gaps and --unlabelled take {MOST_WORDS} words at most, not {len(words)}")
