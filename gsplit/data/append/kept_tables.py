"""Tables that the features of a store were made of, as its description keeps them, so that more can be made alike.

D features, of N vertices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import FeatureColumn, Kind, Missing, Statistics
from gsplit.data.columns.moments import Moments
from gsplit.data.columns.written import PIECE_BYTES
from gsplit.data.importers.times import check_form
from gsplit.data.npy import forget
from gsplit.data.store import FILE, GraphStore
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

    @property
    def features(self) -> slice:
        """The features, of all D."""
        return slice(self.begin, self.begin + self.width)

    @property
    def is_plain(self) -> bool:
        """True where all columns are numbers, which need no names."""
        return all(column.kind in ("number", "array") for column in self.columns)

    @property
    def has_names(self) -> bool:
        """True where columns can be found by their names: those of a table without a header have numbers."""
        names = [column.name for column in self.columns]
        return all(names) and not all(map(str.isdecimal, names))


def kept_tables(store: GraphStore, missing: Missing) -> tuple[KeptTable, ...]:
    """The files that the features of a store were made of, in the order of their features; at least one.

    A store that tells nothing of them has features that are an array's.

    Args:
        missing: what becomes of values that are not there. A mean is that of the first import where that is kept,
            which it is of what was standardised, else that of the store's training vertices, or of all where none
            trains.

    Raises:
        InputError: for a description that is damaged there.
    """
    features = store.graph.features
    assert features is not None
    entries = store.description.get("columns") or [{"kind": "array", "features": [0, features.shape[1]]}]
    means = np.zeros(features.shape[1])
    tables, begin = [], 0
    try:
        if missing == "mean" and not all("mean" in entry for entry in entries):
            means = _means(store)
        for _, group in groupby(entries, key=lambda entry: entry.get("table", "")):
            table = _table(list(group), begin, missing, means, str(store.path))
            tables.append(table)
            begin = table.features.stop
        if begin != features.shape[1]:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"{store.path / FILE} is damaged where it says what the features were made of; import all at once"
        ) from None
    return tuple(tables)


def _table(entries: Sequence[Any], begin: int, missing: Missing, means: NDArray[np.float64], where: str) -> KeptTable:
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
        fill, mean, deviation = np.zeros(column.width), np.zeros(column.width), np.ones(column.width)
        if "mean" in entry:
            mean, deviation = (np.array(entry[key], np.float64) for key in ("mean", "deviation"))
        if missing == "mean" and column.kind != "code":
            fill = mean if "mean" in entry else means[at:end]
        shapes = {each.shape for each in (fill, mean, deviation)}
        if shapes != {(column.width,)} or not (np.isfinite(mean) & (deviation > 0)).all():
            raise ValueError
        statistics.append(Statistics(fill=fill, mean=mean, deviation=deviation))
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


def _means(store: GraphStore) -> NDArray[np.float64]:
    """The mean of each feature [D] over the training vertices, over all where there are none."""
    features, training = store.graph.features, np.sort(store.graph.vertex_set("train"))
    assert features is not None
    moments = Moments(features.shape[1])
    at_once = max(1, PIECE_BYTES // max(1, 8 * features.shape[1]))
    for begin in range(0, len(training) or len(features), at_once):
        rows = training[begin : begin + at_once] if len(training) else slice(begin, begin + at_once)
        moments.add(features[rows])
        forget(features)
    return moments.mean
