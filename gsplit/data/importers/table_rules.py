"""Rules by which the tables of a store were read, as ``graph.json`` has them: they hold for those that are added."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

from gsplit.config.fields import flag_of
from gsplit.data.importers.gaps import WORDS
from gsplit.data.importers.text_rules import Quote
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class TableRules:
    """Flags of tables that each step would have to repeat."""

    gaps: tuple[str, ...] = WORDS
    """Words that stand for no value."""
    unlabelled: tuple[str, ...] = ()
    """Words of labels beside these."""
    quote: Quote = '"'
    """Mark of quotes in texts; ``none``: there is none."""
    strip: bool = False
    """True where spaces around ids and names were removed."""

    @classmethod
    def of(cls, described: Mapping[str, Any], where: str) -> TableRules:
        """The rules of a store.

        Args:
            described: what ``graph.json`` says of the store.
            where: what messages call that file.

        Raises:
            InputError: where an entry is damaged.
        """
        found: dict[str, Any] = {
            field.name: described[field.name] for field in fields(cls) if field.name in described
        }
        for name, value in found.items():
            usual = getattr(cls(), name)
            if isinstance(usual, tuple) and isinstance(value, list) and all(isinstance(word, str) for word in value):
                found[name] = tuple(value)
            elif type(value) is not type(usual) or (name == "quote" and value not in get_args(Quote)):
                raise InputError(f"{where} is damaged where it says how its tables were read: {name}")
        return cls(**found)

    def described(self) -> dict[str, Any]:
        """What ``graph.json`` has of them: those that are not the usual ones."""
        usual = asdict(TableRules())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    def __str__(self) -> str:
        """The flags, as a command has them; nothing where all are the usual ones."""
        shown = [
            flag_of(name)
            + ("" if value is True else f" {shlex.quote(value if name == 'quote' else ','.join(value))}")
            for name, value in self.described().items()
        ]
        return " ".join(shown)
