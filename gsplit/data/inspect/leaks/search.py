"""Columns of features that give the label away, such as the label itself among the features.

What is looked for, where labels are classes: a column whose values in any two classes do not overlap, so that it
alone tells all classes (the class, or another number for each); one whose values in a class lie all above or all
below those elsewhere (one column of a one-hot class); and whole numbers each of which stands for one class alone.
Where a vertex has several labels: a column that is all above or all below where there is a label. Of a regression: a
column that an output follows as a straight line.

Some vertices of each class rule out nearly all columns; the others are compared on all labelled vertices. What luck
would do is no finding (``chances.py``): where two classes have a vertex each, every column tells them apart. Columns
that are constant or hold values that are not finite are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import GraphArrays
from gsplit.data.inspect.feature_columns import FeatureColumns
from gsplit.data.inspect.label_counts import LabelCounts
from gsplit.data.inspect.leaks import separated, straight
from gsplit.data.inspect.leaks.chances import RARE, of_groups, of_order

Kind = Literal["is the class", "tells the class", "is a class", "marks a class", "follows an output"]
LARGEST_TABLE = 1 << 24
"""Classes times columns that are compared at most."""
FEWEST = 5
"""Vertices of a class, and elsewhere, from which on a column can mark the class."""


@dataclass(frozen=True, kw_only=True)
class Leak:
    """A column of features that gives a label away."""

    column: int
    """The first of them, where a column of a table became several."""
    kind: Kind
    """What the column is: the class, by its number; another number or range for each class; 1 in one class and 0
    elsewhere; above or below all others in one class; a straight line that an output follows."""
    target: int | None = None
    """The class or output that a column marks or follows."""
    width: int = 1
    """How many columns it is."""


@dataclass(frozen=True, kw_only=True)
class Leaks:
    """The columns that give labels away, ascending, and why none were looked for, or nothing."""

    found: Sequence[Leak] = ()
    left_out: str = ""


def leaks_of(
    graph: GraphArrays, columns: FeatureColumns, labels: LabelCounts, categories: Sequence[tuple[int, int]] = ()
) -> Leaks:
    """Look for columns that give the label away; reads the features of some vertices, all of them only in doubt.

    Args:
        graph: with features.
        columns: of it.
        labels: of it.
        categories: first column, and the one after the last, of each column of a table that became several, one for
            each category.
    """
    usable = np.flatnonzero((columns.missing == 0) & (columns.least < columns.most))
    targets = len(labels.outputs) if graph.regression else int(np.count_nonzero(labels.counts))
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
    vertices = separated.Labelled(graph, numbers)
    told = set()
    if of_groups(counts) + math.log(columns.count) < RARE:
        for column, least, most in vertices.columns_of_groups(usable):
            told.add(column)
            is_class = np.array_equal(least, numbers) and np.array_equal(most, numbers)
            yield Leak(column=column, kind="is the class" if is_class else "tells the class")
    spans = [*_codes(columns, usable), *_categories(columns, categories)]
    spans = [span for span in spans if told.isdisjoint(range(span.begin, span.end))]
    for span, chance in vertices.spans_of_codes(spans, counts):
        if chance + math.log(columns.count) < RARE:
            told |= set(range(span.begin, span.end))
            yield Leak(column=span.begin, width=span.end - span.begin, kind="tells the class")
    if len(numbers) > 2:  # of two classes, what marks one tells both
        left = usable[~np.isin(usable, list(told))]
        pairs = vertices.columns_of_one(left, np.flatnonzero(_can_be_marked(counts, counts.sum(), columns.count)))
        yield from _marks(pairs, numbers)


def _of_labels(
    graph: GraphArrays, columns: FeatureColumns, labels: LabelCounts, usable: NDArray[np.int64]
) -> Iterator[Leak]:
    possible = np.flatnonzero(_can_be_marked(labels.counts, labels.labelled, columns.count))
    yield from _marks(separated.columns_of_labels(graph, usable, possible), labels.numbers)


def _of_outputs(
    graph: GraphArrays, columns: FeatureColumns, labels: LabelCounts, usable: NDArray[np.int64]
) -> Iterator[Leak]:
    for output, column in straight.lines(graph, columns, labels, usable):
        yield Leak(column=column, kind="follows an output", target=output)


def _codes(columns: FeatureColumns, usable: NDArray[np.int64]) -> list[separated.Span]:
    """Columns of whole numbers, more than two, that may be codes."""
    spread = columns.most[usable] - columns.least[usable]
    coded = usable[columns.whole[usable] & (spread >= 2) & (spread <= separated.LARGEST_SPREAD)]
    return [separated.Span(begin=at, end=at + 1, least=int(columns.least[at])) for at in coded.tolist()]


def _categories(columns: FeatureColumns, categories: Sequence[tuple[int, int]]) -> list[separated.Span]:
    fit = [(begin, end) for begin, end in categories if 2 <= end - begin <= separated.LARGEST_SPREAD]
    return [separated.Span(begin=a, end=b) for a, b in fit if not columns.missing[a:b].any()]


def _can_be_marked(counts: NDArray[np.int64], labelled: int, columns: int) -> NDArray[np.bool_]:
    """Whether a column that marks a class with so many vertices would be no luck, for each class."""
    tries = math.log(2 * columns * max(1, len(counts)))
    return np.array(
        [
            FEWEST <= count <= labelled - FEWEST and of_order([count, labelled - count]) + tries < RARE
            for count in counts.tolist()
        ],
        bool,
    )


def _marks(pairs: Iterator[tuple[int, int, bool]], numbers: NDArray[np.int64]) -> Iterator[Leak]:
    for at, column, exact in pairs:
        yield Leak(column=column, kind="is a class" if exact else "marks a class", target=int(numbers[at]))
