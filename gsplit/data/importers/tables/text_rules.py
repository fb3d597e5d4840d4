"""How the texts of a command are written: one rule for all of its tables, edges and others."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from gsplit.config.fields import Checked, flag_of
from gsplit.data.importers.tables.gaps import WORDS
from gsplit.errors import InputError

Quote = Literal['"', "'", "none"]


@dataclass(frozen=True, kw_only=True)
class TextRules(Checked):
    """Quotes and spaces in tables: the same for all of a command, or ids of one would not be ids of another."""

    # The docstrings are the help of the command.

    quote: Quote = '"'
    """Mark of quotes in tables of text: a field in them may hold delimiters and line ends. none: quotes are
    characters like others."""
    strip: bool = False
    """Remove spaces around ids and names, also of Parquet."""

    header: bool = True
    """With --ids any, read names of columns from the first line of each text. Without this flag edges have no
    header: the first two columns are the ids, a third the weight; nor have tables whose --id-column is a number."""

    def header_with(self, id_column: str | None) -> bool:
        """Return whether a table whose ids of any kind are in some columns has a header."""
        return self.header or not is_by_number(id_column)

    @property
    def mark(self) -> str | None:
        """The mark of quotes; None where there is none."""
        return None if self.quote == "none" else self.quote

    def stripped(self, texts: Any) -> Any:
        """Return texts of pyarrow without spaces around them, where they are to be removed."""
        if not self.strip:
            return texts
        import pyarrow.compute as pc

        return pc.utf8_trim_whitespace(texts)

    @staticmethod
    def current() -> TextRules:
        """Return the rules of the command that is under way."""
        return _CURRENT.get()

    def hold(self) -> None:
        """Read all tables by these rules until the context of others ends."""
        _CURRENT.set(self)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Read all tables by these rules, until the context ends."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


def is_by_number(columns: str | None) -> bool:
    """Return whether the value of a flag names columns by their numbers alone."""
    return columns is not None and all(name.strip().isdecimal() for name in columns.split(","))


_CURRENT = ContextVar("_CURRENT", default=TextRules())  # noqa: B039 (frozen)


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
