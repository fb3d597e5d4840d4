"""Columns that features were made of, as a description has them, and the names that features get by it.

Stores that were made before say nothing; what cannot be understood is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsplit.pages.rendering import printable

SHOWN = 40
"""Characters of a name in a line."""


@dataclass(frozen=True, kw_only=True)
class DescribedColumn:
    """A column of a table, or a whole array, and the features [begin, end) that it became."""

    table: str
    column: str
    """Empty for an array."""
    kind: str
    begin: int
    end: int
    categories: Sequence[str] = ()
    done: str = ""
    """Changes to it: values that were filled in, the scale that was taken off."""

    @property
    def one_each(self) -> bool:
        """True where there is a feature for each category."""
        return len(self.categories) == self.end - self.begin > 1

    @property
    def features(self) -> str:
        """The features, as a line has them."""
        if self.end - self.begin == 1:
            return f"feature {self.begin}"
        return f"features {self.begin} - {self.end - 1}"

    def name_of(self, feature: int) -> str:
        """Return what a feature of this column is called."""
        if self.one_each:
            return f"{shortened(self.column)} = {shortened(self.categories[feature - self.begin])}"
        return shortened(self.column)


def shortened(name: str) -> str:
    """A name that a line has room for, in letters that can be printed."""
    shown = printable(name)
    return shown if len(shown) <= SHOWN else shown[: SHOWN - 3] + "..."


def described_columns(description: dict[str, Any], num_features: int) -> list[DescribedColumn]:
    """The columns in the description of a store or layout, as far as it has some, in the order of their features."""
    entries = description.get("columns")
    found = [_column(entry, num_features) for entry in entries] if isinstance(entries, list) else []
    return sorted((column for column in found if column is not None), key=lambda column: column.begin)


def feature_names(columns: Sequence[DescribedColumn]) -> dict[int, str]:
    """Return what features are called, by number; those of arrays have a number alone."""
    return {at: each.name_of(at) for each in columns if each.column for at in range(each.begin, each.end)}


def _column(entry: Any, num_features: int) -> DescribedColumn | None:
    try:
        begin, end = (int(at) for at in entry["features"])
        categories = tuple(str(text) for text in entry.get("categories") or ())
        done = done_to(entry)
        if not 0 <= begin < end <= num_features:
            return None
        return DescribedColumn(
            table=str(entry.get("table", "")),
            column=str(entry.get("column", "")),
            kind=str(entry.get("kind", "")),
            begin=begin,
            end=end,
            categories=categories,
            done=done,
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None


def done_to(entry: dict[str, Any]) -> str:
    """Return what was done to the values of a column, in words."""
    parts = []
    if entry.get("missing"):
        parts.append(f"{int(entry['missing']):,} missing{_single(', filled with {}', entry.get('filled_with'))}")
    if "mean" in entry and "deviation" in entry:
        mean, deviation = _single("mean {}", entry["mean"]), _single("deviation {}", entry["deviation"])
        parts.append(f"standardised ({mean}, {deviation})" if mean and deviation else "standardised")
    return "; ".join(parts)


def _single(text: str, values: Any) -> str:
    """A text about the only number of a list, or nothing where there are others."""
    numbers = [float(value) for value in (values if isinstance(values, list) else [values]) if value is not None]
    return text.format(f"{numbers[0]:.4g}") if len(numbers) == 1 else ""
