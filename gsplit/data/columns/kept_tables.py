"""Tables that the features of a store were made of, as its description keeps them, so that more can be made alike.

D features, of N vertices.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import FeatureColumn, KeptFeatures, Kind, Missing, Statistics
from gsplit.data.columns.statistics import Moments
from gsplit.data.columns.written import PIECE_BYTES
from gsplit.data.importers.checked import printable_line
from gsplit.data.importers.tables.times import check_form
from gsplit.data.npy import forget
from gsplit.data.store import FILE
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class KeptTable:
    """The columns of one file, or of several, and the features [begin, end) that they became."""

    table: str
    """Name in messages."""
    columns: tuple[FeatureColumn, ...]
    statistics: Statistics
    """Numbers that new rows are filled with and scaled by."""
    begin: int
    is_scaled: bool
    """True where some columns were standardised."""

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(column.width for column in self.columns)

    def columns_in(self, path: Path) -> tuple[FeatureColumn, ...]:
        """The columns as those of another file."""
        return tuple(replace(column, table=str(path)) for column in self.columns)

    def named_in(self, there: Collection[str]) -> list[str] | None:
        """The names of the columns, where a file that has these finds them by name; None: by their order."""
        names = [column.name.lower() for column in self.columns]
        if len(set(names)) < len(names) or "" in names or not there:
            return None
        return names if self.has_names or set(names).intersection(there) else None

    def check_count(self, path: Path, columns: int, where: str, *, in_array: bool) -> None:
        """Check the number of columns of a file in which they are found by their order.

        Raises:
            InputError: for another number, and for an array where they were not all numbers.
        """
        other = next((column for column in self.columns if column.kind not in ("number", "array")), None)
        if other is not None and in_array:
            raise InputError(
                f"{path} is an array, and features of {where} were made of columns such as "
                f"{printable_line(other.name)}:{other.kind}; give a table with these columns"
            )
        wanted = self.width if other is None else len(self.columns)
        if columns != wanted:
            raise InputError(f"{path} has {columns} features a vertex, and {where} has {wanted}")

    @property
    def features(self) -> slice:
        """The features, of all D."""
        return slice(self.begin, self.begin + self.width)

    @property
    def has_names(self) -> bool:
        """True where columns can be found by their names: those of a table without a header have numbers."""
        names = [column.name for column in self.columns]
        return all(names) and not all(map(str.isdecimal, names))


def kept_tables(kept: KeptFeatures, training: NDArray[np.int64], missing: Missing) -> tuple[KeptTable, ...]:
    """The files that the features of a store were made of, in the order of their features; at least one.

    A store that tells nothing of them has features that are an array's.

    Args:
        training: its training vertices.
        missing: what becomes of values that are not there. A mean is that of the first import where that is kept,
            which it is of what was standardised, else that of the store's training vertices, or of all where none
            trains.

    Raises:
        InputError: for a description that is damaged there.
    """
    width = kept.rows.shape[1]
    entries = kept.columns or [{"kind": "array", "features": [0, width]}]
    means: NDArray[Any] = np.zeros(width)
    tables, begin = [], 0
    try:
        if missing == "mean" and not all("mean" in entry for entry in entries):
            means = _means(kept.rows, training)
        for _, group in groupby(entries, key=lambda entry: entry.get("table", "")):
            table = _table(list(group), begin, missing, means, kept.called)
            tables.append(table)
            begin = table.features.stop
        if begin != width:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"{Path(kept.called) / FILE} is damaged where it says what the features were made of; import all at once"
        ) from None
    return tuple(tables)


def tables_for(paths: Sequence[Path], tables: tuple[KeptTable, ...], where: str) -> tuple[KeptTable, ...]:
    """The table of a store that each file has rows for: as many as there are, in their order, or one that has all.

    Raises:
        InputError: for other numbers of files.
    """
    if len(paths) == 1 < len(tables) and (all_in_one := as_one(tables)) is not None:
        tables = (all_in_one,)
    if len(paths) != len(tables):
        raise InputError(
            f"features of {where} were made of {', '.join(table.table for table in tables)}; --features takes as "
            f"many files here, in this order, not {len(paths)}"
        )
    return tables


def _table(entries: Sequence[Any], begin: int, missing: Missing, means: NDArray[Any], where: str) -> KeptTable:
    """The columns of one file, from feature ``begin`` on.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: for entries that are damaged.
    """
    columns = tuple(_column(entry, reject_unknown=missing == "refuse") for entry in entries)
    statistics = []
    at = begin
    for entry, column in zip(entries, columns, strict=True):
        end = at + column.width
        if entry["features"] != [at, end]:
            raise ValueError
        (fill, mean, rest), deviation = np.zeros((3, column.width)), np.ones(column.width)
        if "mean" in entry:
            mean, deviation = (np.array(entry[key], np.float64) for key in ("mean", "deviation"))
            rest = np.array(entry.get("mean_rest", rest), np.float64)
        if missing == "mean" and column.kind != "code":
            fill = mean if "mean" in entry else means[at:end]
        shapes = {each.shape for each in (fill, mean, rest, deviation)}
        if shapes != {(column.width,)} or not (np.isfinite(mean + rest) & (deviation > 0)).all():
            raise ValueError
        statistics.append(Statistics(fill=fill, mean=mean, rest=rest, deviation=deviation))
        at = end
    return KeptTable(
        table=str(entries[0].get("table") or where),
        columns=columns,
        statistics=_beside(statistics),
        begin=begin,
        is_scaled=any("mean" in entry for entry in entries),
    )


def _column(entry: Any, *, reject_unknown: bool) -> FeatureColumn:
    kind, (begin, end) = entry["kind"], entry["features"]
    if kind not in (*get_args(Kind), "array"):
        raise ValueError
    column = FeatureColumn(
        table=str(entry.get("table", "")),
        name=str(entry.get("column", "")),
        kind=kind,
        form=str(entry.get("form", "")),
        categories=tuple(map(str, entry.get("categories", ()))),
        columns=end - begin if kind == "array" else 1,
        reject_unknown=reject_unknown,
    )
    if kind in ("category", "code") and not column.categories:
        raise ValueError
    if column.form:
        check_form(column.form)
    return column


def _beside(statistics: Sequence[Statistics]) -> Statistics:
    """Statistics of features side by side."""
    return Statistics(
        fill=np.concatenate([each.fill for each in statistics]),
        mean=np.concatenate([each.mean for each in statistics]),
        rest=np.concatenate([each.rest for each in statistics]),
        deviation=np.concatenate([each.deviation for each in statistics]),
    )


def as_one(tables: Sequence[KeptTable]) -> KeptTable | None:
    """Several files as one that has all of their columns; None where a name would be there twice."""
    columns = tuple(chain.from_iterable(table.columns for table in tables))
    names = [column.name.lower() for column in columns]
    if not all(table.has_names for table in tables) or len(set(names)) < len(names):
        return None
    return replace(
        tables[0],
        table=", ".join(table.table for table in tables),
        columns=columns,
        statistics=_beside([table.statistics for table in tables]),
        is_scaled=any(table.is_scaled for table in tables),
    )


def _means(features: NDArray[Any], training: NDArray[np.int64]) -> NDArray[Any]:
    """The mean of each feature [D] over the training vertices, over all where there are none."""
    training = np.sort(training)
    moments = Moments(features.shape[1])
    at_once = max(1, PIECE_BYTES // max(1, 8 * features.shape[1]))
    for begin in range(0, len(training) or len(features), at_once):
        rows = training[begin : begin + at_once] if len(training) else slice(begin, begin + at_once)
        moments.add(features[rows])
        forget(features)
    return moments.exact_mean
