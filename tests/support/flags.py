"""Tables of flags: for each flag a change that something observable tells, or in words why there is none."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Row:
    """A flag with another value than in ``base`` (or than by default) changes what ``see`` returns."""

    value: Any
    """A function is called with the test's place, which knows paths."""
    see: Callable[[Any], Any]
    """Of what a command left behind: something to compare."""
    base: dict[str, Any] = field(default_factory=dict)
    """Other flags, with and without which the command runs."""

    def values(self, flag: str, place: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The flags without the change and with it."""
        base = {name: value(place) if callable(value) else value for name, value in self.base.items()}
        return base, {**base, flag: self.value(place) if callable(self.value) else self.value}


Table = Mapping[str, Row | str]
"""flag -> its row, or why it changes nothing that can be seen."""


def names_of(command: Any) -> set[str]:
    """The flags of a configuration (a dataclass), or of a function whose parameters may be configurations."""
    if is_dataclass(command):
        return {f.name for f in fields(command)}
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    configurations = [p.default for p in parameters if is_dataclass(p.default)]
    own = {p.name for p in parameters if not is_dataclass(p.default)}
    return own.union(*(names_of(configuration) for configuration in configurations))


def rows_of(table: Table) -> list[str]:
    """The flags that have a row, for parametrize."""
    return [flag for flag, row in table.items() if isinstance(row, Row)]


def assert_complete(table: Table, command: Any) -> None:
    """Every flag has a row or a reason, and every row a flag."""
    assert set(table) == names_of(command), "a flag without a row, or a row without a flag"
    assert all(isinstance(row, Row) or len(row) > 20 for row in table.values())
