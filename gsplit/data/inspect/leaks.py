"""Columns of features that give the label away, such as the label itself among the features.

Where labels are classes, three kinds of columns are found. The values of one in any two classes do not overlap, so
that it alone tells all classes (the class, or another number for each). The values of one in a class lie all above or
all below those elsewhere (one column of a one-hot class). Of one with whole numbers, each number stands for one class
alone. Where a vertex has several labels, a column is found that is all above or all below where there is a label; of
a regression, a column that an output follows as a straight line (Pearson's correlation).

All labelled vertices are compared, some from all over the graph first: they rule out nearly all columns. A finding is
no luck: a random order of the column's values would do as well in fewer than one of a thousand graphs. Columns that
are constant or hold values that are not finite are left out.

N vertices, D columns, K classes that have a vertex.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import GraphArrays
from gsplit.data.inspect.feature_columns import FeatureColumns, pieces_of
from gsplit.data.inspect.label_counts import LabelCounts

LeakKind = Literal["is the class", "tells the class", "is a class", "marks a class", "follows an output"]
LARGEST_TABLE = 1 << 24
"""Classes times columns that are compared at most."""
RARE = math.log(1e-3)
"""Logarithm of the chance below which something is no luck."""
FEWEST_OF_CLASS, FEWEST_OF_OUTPUT = 5, 10
"""Vertices of a class, and elsewhere, from which on a column can mark it; known values of an output to follow."""
LARGEST_SPREAD = 1 << 12
"""Largest difference between two whole numbers of a column that may be codes of classes."""
SURE = 1 - 1e-6
"""Correlation, up to the sign, from which on a column follows an output."""
SOME, SOME_VALUES = 1 << 13, 1 << 22
"""Vertices that are compared first, and their features, at most."""


@dataclass(frozen=True, kw_only=True)
class Leak:
    """A column of features that gives a label away."""

    column: int
    """The first of them, where a column of a table became several."""
    kind: LeakKind
    """The class, by its number; another number or range for each class; 1 in one class and 0 elsewhere; above or
    below all others in one class; a straight line that an output follows."""
    target: int | None = None
    """The class or output that a column marks or follows."""
    width: int = 1
    """Number of columns."""


@dataclass(frozen=True, kw_only=True)
class Leaks:
    """The columns that give labels away, ascending, and why none were looked for, or nothing."""

    found: Sequence[Leak] = ()
    left_out: str = ""


def leaks_of(
    graph: GraphArrays, columns: FeatureColumns, labels: LabelCounts, categories: Sequence[tuple[int, int]] = ()
) -> Leaks:
    """Find columns that give the label away; reads the features once.

    Args:
        categories: first column, and the one after the last, of each column of a table that became several, one for
            each category.
    """
    usable = np.flatnonzero((columns.missing == 0) & (columns.least < columns.most))
    targets = labels.outputs.count if labels.outputs is not None else int(np.count_nonzero(labels.counts))
    if not len(usable) or not targets:
        return Leaks()
    if targets * columns.count > LARGEST_TABLE:
        what = "outputs" if graph.regression else "classes"
        return Leaks(left_out=f"{targets:,} {what} times {columns.count:,} columns are too many to compare")
    if graph.task == "classes":
        found = _of_classes(graph, columns, labels, usable, categories)
    else:
        found = (_of_outputs if graph.regression else _of_labels)(graph, columns, labels, usable)
    return Leaks(found=sorted(found, key=lambda leak: (leak.column, leak.target or 0)))


def _of_classes(
    graph: GraphArrays,
    columns: FeatureColumns,
    labels: LabelCounts,
    usable: NDArray[np.int64],
    categories: Sequence[tuple[int, int]],
) -> Iterator[Leak]:
    there = labels.counts > 0
    numbers, counts = labels.numbers[there], labels.counts[there]
    if len(numbers) < 2:
        return
    possible = _can_be_marked(counts, counts.sum(), columns.count) & (len(numbers) > 2)  # of two, one tells both
    ranges = _Ranges(usable, len(numbers), columns.dtype)
    codes = [*_whole_numbers(columns, usable), *_categories(columns, categories)]
    for vertices, features in _pieces(graph):
        own = graph.labels[vertices]
        known = np.isin(own, numbers)
        rows, places = features[known], np.searchsorted(numbers, own[known])
        ranges.add(rows, places)
        ranges.keep(ranges.apart() | ranges.marks()[possible].any(axis=0))
        codes = [code for code in codes if code.add(rows, places)]
        if not len(ranges.columns) and not codes:
            return
    telling: set[int] = set()
    if chance_of_groups(counts) + math.log(columns.count) < RARE:
        for at in np.flatnonzero(ranges.apart()).tolist():
            is_class = all(np.array_equal(ends[:, at], numbers) for ends in (ranges.least, ranges.most))
            telling.add(int(ranges.columns[at]))
            yield Leak(column=int(ranges.columns[at]), kind="is the class" if is_class else "tells the class")
    codes = [code for code in codes if telling.isdisjoint(code.columns)]
    for code in codes:
        sizes = _sizes(graph, code, numbers)
        if chance_of_pure_values(sizes, counts) + math.log(columns.count) < RARE:
            telling |= set(code.columns)
            yield Leak(column=code.begin, width=code.end - code.begin, kind="tells the class")
    ranges.keep(~np.isin(ranges.columns, list(telling)))
    yield from _marks(ranges, np.flatnonzero(possible), numbers)


def _of_labels(
    graph: GraphArrays, columns: FeatureColumns, labels: LabelCounts, usable: NDArray[np.int64]
) -> Iterator[Leak]:
    possible = np.flatnonzero(_can_be_marked(labels.counts, labels.labelled, columns.count))
    left = {int(label): _Ranges(usable, 2, columns.dtype) for label in possible}
    for vertices, features in _pieces(graph):
        own = graph.labels[vertices]
        known = ~np.isnan(own).any(axis=1)
        rows, own = features[known], own[known]
        for label, ranges in list(left.items()):
            ranges.add(rows, (own[:, label] > 0).astype(np.int64))
            ranges.keep(ranges.marks()[1])
            if not len(ranges.columns):
                del left[label]
        if not left:
            return
    for label, ranges in left.items():
        yield from _marks(ranges, np.array([1]), {1: int(labels.numbers[label])})


def _of_outputs(
    graph: GraphArrays, columns: FeatureColumns, labels: LabelCounts, usable: NDArray[np.int64]
) -> Iterator[Leak]:
    about = labels.outputs
    assert graph.features is not None
    assert about is not None
    enough = graph.num_vertices - about.missing >= FEWEST_OF_OUTPUT
    outputs = []
    for output in np.flatnonzero(enough & (about.deviation > 0) & (about.deviation < math.inf)).tolist():
        values = graph.labels[:, output]
        _, counts = np.unique(values[np.isfinite(values)], return_counts=True)
        if chance_of_order(counts) + math.log(2 * columns.count * about.count) < RARE:
            outputs.append(output)
    if not outputs:
        return
    means, deviations = about.mean[outputs], about.deviation[outputs]
    sums: list[Any] = [0.0] * 6
    for begin, rows in pieces_of(graph.features):
        y = (graph.labels[begin : begin + len(rows)][:, outputs].astype(np.float64) - means) / deviations
        known = np.isfinite(y)
        y, once = np.where(known, y, 0), known.astype(np.float64)
        x = (rows[:, usable].astype(np.float64) - columns.mean[usable]) / columns.deviation[usable]
        more = (once.sum(axis=0), x.T @ once, y.sum(axis=0), (x * x).T @ once, (y * y).sum(axis=0), x.T @ y)
        sums = [own + new for own, new in zip(sums, more, strict=True)]
    n, x, y, xx, yy, xy = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = (xy - x * y / n) / np.sqrt((xx - x * x / n) * (yy - y * y / n))
    for column, output in np.argwhere(np.isfinite(correlation) & (np.abs(correlation) >= SURE)).tolist():
        yield Leak(column=int(usable[column]), kind="follows an output", target=outputs[output])


def _pieces(graph: GraphArrays) -> Iterator[tuple[NDArray[np.int64] | slice, NDArray[Any]]]:
    """Yield vertices and their features: some, evenly spaced, and then all in pieces."""
    assert graph.features is not None
    count = max(1, min(SOME, SOME_VALUES // graph.num_features))
    some = np.unique(np.arange(count) * graph.num_vertices // count)
    yield some, graph.features[some]
    for begin, rows in pieces_of(graph.features):
        yield slice(begin, begin + len(rows)), rows


def _sizes(graph: GraphArrays, code: _Codes, numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Count the vertices of known classes with each value of a code, a piece of the features at a time."""
    assert graph.features is not None
    sizes = np.zeros(0, np.int64)
    for begin, rows in pieces_of(graph.features):
        known = np.isin(graph.labels[begin : begin + len(rows)], numbers)
        more = np.bincount(code.values(rows[known]), minlength=len(sizes))
        more[: len(sizes)] += sizes
        sizes = more
    return sizes


class _Ranges:
    """Least and largest values [K, D] of some columns in classes; infinity and its negative where there are none."""

    def __init__(self, columns: NDArray[np.int64], classes: int, dtype: str) -> None:
        self.columns = columns
        self.least: NDArray[Any] = np.full((classes, len(columns)), np.inf, dtype)
        self.most: NDArray[Any] = np.full((classes, len(columns)), -np.inf, dtype)

    def add(self, rows: NDArray[Any], places: NDArray[np.int64]) -> None:
        """Take rows of all columns, and the places [n] of their classes."""
        if not len(rows) or not len(self.columns):
            return
        order = np.argsort(places, kind="stable")
        rows, places = rows[:, self.columns][order], places[order]
        begins = np.flatnonzero(np.diff(places, prepend=-1))
        there = places[begins]
        self.least[there] = np.minimum(self.least[there], np.minimum.reduceat(rows, begins, axis=0))
        self.most[there] = np.maximum(self.most[there], np.maximum.reduceat(rows, begins, axis=0))

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Forget all columns but some."""
        self.columns, self.least, self.most = self.columns[which], self.least[:, which], self.most[:, which]

    def apart(self) -> NDArray[np.bool_]:
        """[D] True where no two of the classes overlap."""
        order = np.argsort(self.least, axis=0, kind="stable")
        least, most = np.take_along_axis(self.least, order, 0), np.take_along_axis(self.most, order, 0)
        return np.all(most[:-1] < least[1:], axis=0)

    def of_others(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the range of all classes but one, [K, D], of two classes at least."""
        first, second = np.partition(self.least, 1, axis=0)[:2]
        last, but_last = -np.partition(-self.most, 1, axis=0)[:2]
        return np.where(self.least == first, second, first), np.where(self.most == last, but_last, last)

    def marks(self) -> NDArray[np.bool_]:
        """[K, D] True where a class lies above or below all others."""
        least, most = self.of_others()
        return (self.least > most) | (self.most < least)


def _marks(ranges: _Ranges, places: NDArray[np.int64], numbers: Any) -> Iterator[Leak]:
    """Yield the columns that mark one of the classes in these places."""
    marks, others = ranges.marks(), ranges.of_others()
    for place in places.tolist():
        for at in np.flatnonzero(marks[place]).tolist():
            exact = [array[place, at] for array in (ranges.least, ranges.most, *others)] == [1, 1, 0, 0]
            kind: LeakKind = "is a class" if exact else "marks a class"
            yield Leak(column=int(ranges.columns[at]), kind=kind, target=int(numbers[place]))


class _Codes:
    """Columns that may hold a code of the class: whole numbers in one column, or one of several that is not 0.

    Args:
        begin, end: the columns.
        least: smallest number of a single column.
        size: number of codes.
    """

    def __init__(self, begin: int, end: int, least: int, size: int) -> None:
        self.begin, self.end, self._least, self._size = begin, end, least, size
        self._class_of: NDArray[np.int64] | None = None
        """[size] places of the classes that codes stand for; -1 for codes that were not seen."""

    @property
    def columns(self) -> range:
        """The columns."""
        return range(self.begin, self.end)

    def values(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Return the codes of rows [n, D], from 0 on."""
        if self.end - self.begin == 1:
            return rows[:, self.begin].astype(np.int64) - self._least
        own = rows[:, self.begin : self.end] != 0
        return np.where(own.any(axis=1), own.argmax(axis=1) + 1, 0)

    def add(self, rows: NDArray[Any], places: NDArray[np.int64]) -> bool:
        """Take rows, and the places of their classes; False where a code stands for two."""
        if self._class_of is None:
            self._class_of = np.full(self._size, -1)
        values = self.values(rows)
        before = self._class_of[values]
        self._class_of[values] = places
        return bool(((before == -1) | (before == places)).all() and (self._class_of[values] == places).all())


def _whole_numbers(columns: FeatureColumns, usable: NDArray[np.int64]) -> Iterator[_Codes]:
    """Yield the columns of whole numbers, more than two, that may be codes."""
    spread = columns.most[usable] - columns.least[usable]
    for at in usable[columns.whole[usable] & (spread >= 2) & (spread <= LARGEST_SPREAD)].tolist():
        least = int(columns.least[at])
        yield _Codes(at, at + 1, least, int(columns.most[at]) - least + 1)


def _categories(columns: FeatureColumns, categories: Sequence[tuple[int, int]]) -> Iterator[_Codes]:
    for begin, end in categories:
        if 2 <= end - begin <= LARGEST_SPREAD and not columns.missing[begin:end].any():
            yield _Codes(begin, end, 0, end - begin + 1)


def _can_be_marked(counts: NDArray[np.int64], labelled: int, columns: int) -> NDArray[np.bool_]:
    """[K] True where a column that marks a class with so many vertices would be no luck."""
    tries = math.log(2 * columns * max(1, len(counts)))
    return np.array(
        [
            FEWEST_OF_CLASS <= count <= labelled - FEWEST_OF_CLASS
            and chance_of_order([count, labelled - count]) + tries < RARE
            for count in counts.tolist()
        ],
        bool,
    )


def chance_of_order(counts: Sequence[int] | NDArray[Any]) -> float:
    """Return the log of the chance that a random order of vertices has groups of these sizes in one given order."""
    return sum(math.lgamma(int(count) + 1) for count in counts) - math.lgamma(int(sum(counts)) + 1)


def chance_of_groups(counts: Sequence[int] | NDArray[Any]) -> float:
    """Return the log of the chance that each group stands together in a random order, whichever comes first."""
    return chance_of_order(counts) + math.lgamma(len(counts) + 1)


def chance_of_pure_values(sizes: NDArray[Any], counts: NDArray[Any]) -> float:
    """Return the log of the chance that the vertices with one value are of one class, for each value.

    Args:
        sizes: number of vertices with each value.
        counts: [K] number of vertices in each class.
    """
    logs = np.log(np.asarray(counts, np.float64) / np.sum(counts))
    total = 0.0
    for size, times in zip(*np.unique(sizes[sizes > 0], return_counts=True), strict=True):
        exponents = size * logs
        most = exponents.max()
        total += times * (most + math.log(np.exp(exponents - most).sum()))
    return total
