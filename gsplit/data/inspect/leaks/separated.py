"""Columns of features whose values separate classes, on some vertices first and then on all that are labelled.

N vertices, D columns, K classes that have a vertex.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import GraphArrays
from gsplit.data.inspect.feature_columns import pieces_of
from gsplit.data.inspect.leaks.chances import of_pure_values

SOME, SOME_VALUES = 1 << 13, 1 << 22
"""Vertices that are looked at first, and their features, at most; but two vertices of each class."""
LARGEST_SPREAD = 1 << 12
"""Largest difference between two whole numbers of a column that may be codes of classes."""

SPANS_AT_ONCE = 256

Ranges = tuple[NDArray[Any], NDArray[Any]]
"""Least and largest values of columns in classes, [K, D] each; infinity and minus infinity where there are none."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Columns that hold a code: whole numbers in one column, or one of several columns that is not 0."""

    begin: int
    end: int
    least: int = 0
    """Smallest number of a single column; the largest is at most :data:`LARGEST_SPREAD` above it."""

    def values(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Codes of rows [n, D], from 0 on, int64 [n]."""
        if self.end - self.begin == 1:
            return rows[:, self.begin].astype(np.int64) - self.least
        own = rows[:, self.begin : self.end] != 0
        return np.where(own.any(axis=1), own.argmax(axis=1) + 1, 0)


class Labelled:
    """The vertices of a graph with a class, and their features.

    Args:
        graph: with features, and one class a vertex.
        numbers: [K] of the classes that have a vertex, ascending.
    """

    def __init__(self, graph: GraphArrays, numbers: NDArray[np.int64]) -> None:
        assert graph.features is not None
        self._features, self._labels, self._numbers = graph.features, graph.labels, numbers
        labelled = np.flatnonzero(np.isin(graph.labels, numbers))
        place = np.searchsorted(numbers, graph.labels[labelled])
        by_class = labelled[np.argsort(place, kind="stable")]
        counts = np.bincount(place, minlength=len(numbers))
        take = np.minimum(counts, max(2, _some(graph) // len(numbers)))
        begins = np.repeat(np.cumsum(counts) - counts, take)
        nth = np.arange(take.sum()) - np.repeat(np.cumsum(take) - take, take)
        some = by_class[begins + nth * np.repeat(counts, take) // np.repeat(take, take)]  # evenly spaced in a class
        self._places = np.repeat(np.arange(len(numbers)), take)
        self._some = np.asarray(self._features[some])

    def columns_of_groups(self, columns: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """Columns that no two classes share values of: the column, its least and largest value in each class."""
        columns = columns[_apart(*self._ranges_of_some(columns))]
        if len(columns):
            least, most = self._ranges(columns)
            for at in np.flatnonzero(_apart(least, most)):
                yield int(columns[at]), least[:, at], most[:, at]

    def columns_of_one(
        self, columns: NDArray[np.int64], classes: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, bool]]:
        """Columns that lie above or below all others in one class: (class, column, whether it is 1 there and else 0).

        Args:
            columns: to look at.
            classes: that may be marked, places in the numbers.
        """
        marks = _marks(*self._ranges_of_some(columns))[classes]
        columns = columns[marks.any(axis=0)]
        if not len(columns):
            return
        least, most = self._ranges(columns)
        marks = _marks(least, most)
        others = _of_others(least, most)
        for place in classes.tolist():
            for at in np.flatnonzero(marks[place]).tolist():
                ends = [array[place, at] for array in (least, most, *others)]
                yield place, int(columns[at]), ends == [1, 1, 0, 0]

    def spans_of_codes(self, spans: Sequence[Span], counts: NDArray[np.int64]) -> Iterator[tuple[Span, float]]:
        """Codes each of which stands for one class: where they are, and the chance of that.

        Args:
            spans: the columns that codes are in.
            counts: [K] vertices of each class.
        """
        left: list[Span] = []
        for begin in range(0, len(spans), SPANS_AT_ONCE):
            codes = _Codes(spans[begin : begin + SPANS_AT_ONCE])
            codes.add(self._some, self._places)
            left += codes.spans
        codes = _Codes(left)
        for rows, places in self._pieces():
            if not codes.spans:
                return
            codes.add(rows, places)
        for span, sizes in zip(codes.spans, codes.sizes, strict=True):
            yield span, of_pure_values(sizes, counts)

    def _pieces(self) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
        """Features of all labelled vertices, and the places of their classes."""
        for begin, rows in pieces_of(self._features):
            labels = self._labels[begin : begin + len(rows)]
            there = np.isin(labels, self._numbers)
            yield rows[there], np.searchsorted(self._numbers, labels[there])

    def _ranges_of_some(self, columns: NDArray[np.int64]) -> Ranges:
        ranges = _empty_ranges(len(self._numbers), len(columns), self._some.dtype)
        _widen(ranges, self._some[:, columns], self._places)
        return ranges

    def _ranges(self, columns: NDArray[np.int64]) -> Ranges:
        ranges = _empty_ranges(len(self._numbers), len(columns), self._some.dtype)
        for rows, places in self._pieces():
            order = np.argsort(places, kind="stable")
            _widen(ranges, rows[:, columns][order], places[order])
        return ranges


class _Codes:
    """How many vertices have each value of each span, and the classes that they are of."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = list(spans)
        shape = (len(self.spans), LARGEST_SPREAD + 1)
        self.sizes = np.zeros(shape, np.int64)
        self._first, self._last = np.full(shape, np.iinfo(np.int32).max, np.int32), np.full(shape, -1, np.int32)

    def add(self, rows: NDArray[Any], places: NDArray[np.int64]) -> None:
        """Count rows, and drop the spans with a value of which there are two classes."""
        keep = np.ones(len(self.spans), bool)
        own = places.astype(np.int32)
        for at, span in enumerate(self.spans):
            values = span.values(rows)
            self.sizes[at] += np.bincount(values, minlength=LARGEST_SPREAD + 1)
            np.minimum.at(self._first[at], values, own)
            np.maximum.at(self._last[at], values, own)
            there = self.sizes[at] > 0
            keep[at] = np.array_equal(self._first[at][there], self._last[at][there])
        self.spans = [span for span, kept in zip(self.spans, keep, strict=True) if kept]
        self.sizes, self._first, self._last = self.sizes[keep], self._first[keep], self._last[keep]


def columns_of_labels(
    graph: GraphArrays, columns: NDArray[np.int64], labels: NDArray[np.int64]
) -> Iterator[tuple[int, int, bool]]:
    """Columns that lie all above or all below where a vertex has a label: (label, column, whether it is the label).

    Args:
        graph: with features, and labels [N, C].
        columns: to look at.
        labels: to look at.
    """
    assert graph.features is not None
    some = np.unique(np.arange(_some(graph)) * graph.num_vertices // _some(graph))
    left = {int(label): columns for label in labels}
    for label, ranges in _ranges_by_label(graph.features[some], graph.labels[some], left, {}).items():
        left[label] = columns[_marks(*ranges)[1]]
    left = {label: those for label, those in left.items() if len(those)}
    found: dict[int, Ranges] = {}
    for begin, rows in pieces_of(graph.features):
        if not left:
            return
        found = _ranges_by_label(rows, graph.labels[begin : begin + len(rows)], left, found)
        for label in list(left):
            marks = _marks(*found[label])[1]
            least, most = found[label]
            left[label], found[label] = left[label][marks], (least[:, marks], most[:, marks])
            if not marks.any():
                del left[label], found[label]
    for label, those in left.items():
        least, most = found[label]
        for at, column in enumerate(those.tolist()):
            yield label, column, [*least[:, at], *most[:, at]] == [0, 1, 0, 1]


def _ranges_by_label(
    rows: NDArray[Any], labels: NDArray[Any], left: dict[int, NDArray[np.int64]], ranges: dict[int, Ranges]
) -> dict[int, Ranges]:
    """The ranges of the columns that are left, without a label (row 0) and with it (row 1), over these rows, too."""
    known = ~np.isnan(labels).any(axis=1)
    rows, labels = rows[known], labels[known]
    for label, columns in left.items():
        has = (labels[:, label] > 0).astype(np.int64)
        order = np.argsort(has, kind="stable")
        ranges.setdefault(label, _empty_ranges(2, len(columns), rows.dtype))
        _widen(ranges[label], rows[:, columns][order], has[order])
    return ranges


def _some(graph: GraphArrays) -> int:
    """How many vertices are looked at first."""
    return max(1, min(SOME, SOME_VALUES // graph.num_features))


def _empty_ranges(classes: int, columns: int, dtype: Any) -> Ranges:
    return np.full((classes, columns), np.inf, dtype), np.full((classes, columns), -np.inf, dtype)


def _widen(ranges: Ranges, rows: NDArray[Any], places: NDArray[np.int64]) -> None:
    """Take rows [n, D] into the ranges of their classes, whose places [n] ascend."""
    if not len(rows):
        return
    begins = np.flatnonzero(np.diff(places, prepend=-1))
    there = places[begins]
    least, most = ranges
    least[there] = np.minimum(least[there], np.minimum.reduceat(rows, begins, axis=0))
    most[there] = np.maximum(most[there], np.maximum.reduceat(rows, begins, axis=0))


def _apart(least: NDArray[Any], most: NDArray[Any]) -> NDArray[np.bool_]:
    """[D] whether no two of the ranges [K, D] overlap."""
    order = np.argsort(least, axis=0, kind="stable")
    least, most = np.take_along_axis(least, order, 0), np.take_along_axis(most, order, 0)
    return np.all(most[:-1] < least[1:], axis=0)


def _of_others(least: NDArray[Any], most: NDArray[Any]) -> Ranges:
    """Range of all classes but one, [K, D], from those of each; of two classes at least."""
    first, second = np.partition(least, 1, axis=0)[:2]
    last, but_last = -np.partition(-most, 1, axis=0)[:2]
    return np.where(least == first, second, first), np.where(most == last, but_last, last)


def _marks(least: NDArray[Any], most: NDArray[Any]) -> NDArray[np.bool_]:
    """[K, D] whether a class lies above or below all others."""
    others_least, others_most = _of_others(least, most)
    return (least > others_most) | (most < others_least)
