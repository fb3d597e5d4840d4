"""Memory of a store of the edges it was made of, so that others can be added as if all had been there at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from gsplit.errors import InputError

Rule = Literal["first", "sum", "mean", "max", "last", "count", "keep", "refuse", "drop"]
"""Values of ``--duplicates``; ``drop`` is another word for ``first``."""
WEIGHED = ("sum", "mean", "max", "last", "count")
"""Rules that take more than one of the edges to make a weight."""
KEY = "edges"
"""Entry of ``graph.json``."""
ADDED = "added_degrees"
"""Array [N]: how many in-edges of each vertex, the last ones, an import has added. Stores without such have none."""


@dataclass(frozen=True, kw_only=True)
class EdgeHistory:
    """What became of the edges of a store's sources."""

    duplicates: str = "keep"
    """Rule by which repeated edges became one."""
    repeated: int = 0
    """Edges that repeated another."""
    reverses: int = 0
    """Reverse edges that were added and are there."""
    loops: int = 0
    """Self-loops, likewise."""

    @property
    def has_combined(self) -> bool:
        """True where the edges no longer tell what those of the sources were."""
        return self.duplicates == "count" or (self.duplicates != "keep" and self.repeated > 0)

    def then(self, rule: str, *, repeated: int, reverses: int, loops: int) -> EdgeHistory:
        """Return the history after one more import, of all these edges and perhaps others."""
        before = 0 if self.duplicates == "keep" else self.repeated
        return EdgeHistory(
            duplicates=self.duplicates if self.has_combined and (not repeated or rule == "keep") else rule,
            repeated=before + repeated,
            reverses=reverses,
            loops=loops,
        )

    def check_next(self, rule: str, where: str) -> None:
        """Raise InputError where edges cannot be added with the same result as if all were imported at once."""
        was, at_once = self.duplicates, "import all edges at once, without --add"
        if self.has_combined and rule != was and {rule, was} - {"first", "keep"}:
            raise InputError(
                f"repeated edges of {where} became one by --duplicates {was}, and {rule} cannot go on from there; "
                f"give --duplicates {was}, or {at_once}"
            )
        if self.has_combined and rule == "mean":
            raise InputError(
                f"{self.repeated:,} repeated edges of {where} became one by --duplicates mean, and a mean cannot go "
                f"on without how many there were; {at_once}"
            )


def history_of(described: Mapping[str, Any], where: str) -> EdgeHistory | None:
    """What became of the edges of a store; None where its description does not say, or not which were added.

    Raises:
        InputError: where the entry is damaged.
    """
    entry = described.get(KEY)
    if entry is None:
        return None
    whole = isinstance(entry, dict) and entry.keys() == asdict(EdgeHistory()).keys()
    if not whole or entry["duplicates"] not in get_args(Rule):
        raise InputError(f"{where} is damaged where it says what became of repeated edges")
    if any(not isinstance(value, int) or value < 0 for key, value in entry.items() if key != "duplicates"):
        raise InputError(f"{where} is damaged where it says how many edges were repeated or added")
    history = EdgeHistory(**entry)
    lacks_added = ADDED not in described.get("arrays", ()) and (history.reverses or history.loops)
    return None if lacks_added else history
