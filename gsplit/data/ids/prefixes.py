"""Prefixes that keep ids of sources and of destinations apart: user 1 and film 1 are ``user:1`` and ``film:1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gsplit.errors import InputError

KEY = "prefixes"
"""Entry of the ids in a description: for sources, then destinations, the name of their column and the prefix."""


@dataclass(frozen=True, kw_only=True)
class Prefixes:
    """Texts that stand before the ids of sources and of destinations."""

    columns: tuple[str, str] = ("", "")
    """Names of their columns in the edge list, in lower case; nothing where they have none."""
    texts: tuple[str, str] = ("", "")

    def of_column(self, name: str) -> str:
        """The prefix of the ids in a column of a table: that of the column of an edge list with the same name."""
        found = {text for column, text in zip(self.columns, self.texts, strict=True) if name and column == name}
        return found.pop() if len(found) == 1 else ""

    def described(self) -> dict[str, Any]:
        """Return what the description of the ids says of them."""
        return {KEY: [list(each) for each in zip(self.columns, self.texts, strict=True)]} if any(self.texts) else {}


NONE = Prefixes()


def prefixed(texts: Any, prefix: str) -> Any:
    """Texts of pyarrow, ``large_string`` [n], with a prefix; what is empty stays so, as no id is."""
    if not prefix:
        return texts
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar("", pa.large_string())
    joined = pc.binary_join_element_wise(pa.scalar(prefix, pa.large_string()), texts, nothing)
    return pc.if_else(pc.equal(texts, nothing), texts, joined)


def prefixes_of(described: Mapping[str, Any], where: str) -> Prefixes:
    """The prefixes of the ids of a store.

    Args:
        described: what its description says of the ids.
        where: what messages call the store.

    Raises:
        InputError: where the entry is damaged.
    """
    entry = described.get(KEY)
    if entry is None:
        return NONE
    pairs = entry if isinstance(entry, list) and len(entry) == 2 else []
    if not pairs or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair) for pair in pairs
    ):
        raise InputError(f"{where}: the description is damaged where it says which prefixes ids have")
    (source, before), (destination, then) = pairs
    return Prefixes(columns=(source, destination), texts=(before, then))


def check_apart(texts: Sequence[str]) -> None:
    """Check that ids with these two prefixes are never the same.

    Raises:
        InputError: where one prefix begins with the other.
    """
    first, second = texts
    if first and second and (first.startswith(second) or second.startswith(first)):
        raise InputError(
            f"--source-prefix {first} and --destination-prefix {second}: one begins with the other, so that two ids "
            "may become one; give others, such as user: and film:"
        )
