"""Words that stand for no value in a table: one rule for columns of all kinds.

Ids are no values: one that is called ``NA`` is an id.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

WORDS = ("na", "n/a", "nan", "null", "none")
OF_SPREADSHEETS = ("#n/a", "#na", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan")
"""As spreadsheets and C libraries write what is no number."""
MOST_LETTERS = 5
"""Letters of a word of which all cases are listed for the parser of numbers; of longer ones the usual three are."""


@dataclass(frozen=True)
class Gaps:
    """The words, in lower case; an empty value is a gap beside them.

    Examples:
        >>> from gsplit.data.importers.gaps import Gaps
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
        return not word or word in self.words

    @cached_property
    def spellings(self) -> list[str]:
        """The words in upper and lower case, for a parser that compares bytes; and nothing."""
        found = {""}
        for word in self.words:
            if sum(map(str.isalpha, word)) <= MOST_LETTERS:
                found |= {"".join(each) for each in itertools.product(*({mark, mark.upper()} for mark in word))}
            else:
                found |= {word, word.upper(), word.capitalize()}
        return sorted(found)

    def marked(self, texts: Any) -> Any:
        """Return which texts of pyarrow are gaps, as truth values of pyarrow."""
        import pyarrow as pa
        import pyarrow.compute as pc

        words = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
        return pc.is_in(words, pa.array(["", *self.words], words.type))

    def cleared(self, texts: Any) -> Any:
        """Return texts of pyarrow with nothing in place of gaps."""
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.if_else(self.marked(texts), pa.scalar("", texts.type), texts)


USUAL = Gaps.of((*WORDS, *OF_SPREADSHEETS))
