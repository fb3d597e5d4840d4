"""Tables about a graph, as the terminal and the page show them: texts under a head, and what was left out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gsplit.data.graph import GraphArrays
from gsplit.data.inspect.described_columns import DescribedColumn, shortened
from gsplit.data.inspect.feature_columns import FeatureColumns
from gsplit.data.inspect.label_counts import LabelCounts
from gsplit.data.inspect.overview import Overview
from gsplit.data.inspect.structure import Structure
from gsplit.data.layout import Layout

CATEGORIES = 4
"""Categories of a column that are named at most."""


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """Texts under a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: str = ""
    """Description of the rows that are left out."""


def share(count: float, of: int) -> str:
    """A share as people read it: small ones are not made 0, nor nearly all of them all."""
    percent = 100 * float(count) / max(1, of)
    if 0 < percent < 0.05:
        return "<0.1 %"
    return ">99.9 %" if 99.95 <= percent < 100 else f"{percent:.1f} %"


def number(value: float) -> str:
    """A value of a feature: whole ones with all digits up to a million, others with four."""
    whole = np.isfinite(value) and value == int(value) and abs(value) < 1e6
    return f"{int(value):,}" if whole else f"{value:.4g}"


def degree_table(structure: Structure, num_vertices: int) -> PrintedTable:
    """Vertices by in-degree."""
    rows = [[str(each), f"{each.vertices:,}", share(each.vertices, num_vertices)] for each in structure.degrees]
    return PrintedTable(head=["in-degree", "vertices", "share"], rows=rows)


def class_places(labels: LabelCounts, most: int) -> list[int]:
    """Places of the classes that are shown, ascending; of more than ``most`` the largest."""
    if len(labels.numbers) <= most:
        return list(range(len(labels.numbers)))
    order: list[int] = np.sort(np.argsort(-labels.counts, kind="stable")[:most]).tolist()
    return order


def class_name(graph: GraphArrays, at: int) -> str:
    """A class by its number, and its name where it has one."""
    return str(at) if graph.classes is None else f"{at}  {shortened(graph.classes[at])}"


def class_table(graph: GraphArrays, labels: LabelCounts, most: int) -> PrintedTable:
    """Vertices of each class, in all and in each set; of more than ``most`` classes the largest."""
    places = class_places(labels, most)
    rows = [
        [
            class_name(graph, int(labels.numbers[at])),
            f"{labels.counts[at]:,}",
            share(labels.counts[at], labels.labelled),
            *(f"{count:,}" for count in labels.in_sets[at]),
        ]
        for at in places
    ]
    left = np.delete(labels.counts, places)
    return PrintedTable(
        head=["class", "vertices", "share", "train", "valid", "test"],
        rows=rows,
        left_out=f"and {len(left):,} smaller classes, of {left.min():,} to {left.max():,} vertices"
        if len(left)
        else "",
    )


def output_table(outputs: FeatureColumns, num_vertices: int, most: int) -> PrintedTable:
    """Outputs of a regression."""
    rows = [
        [str(at), f"{num_vertices - outputs.missing[at]:,}", *_ranges(outputs, at, num_vertices)]
        for at in range(min(most, outputs.count))
    ]
    head = ["output", "known", "least", "mean", "most", "deviation"]
    return PrintedTable(head=head, rows=rows, left_out=_others(outputs.count - most, "outputs"))


def feature_table(seen: Overview, features: FeatureColumns, most: int) -> PrintedTable:
    """Ranges of the features."""
    n = seen.graph.num_vertices
    rows = [
        [
            seen.names.feature(at, 1),
            *_ranges(features, at, n),
            share(features.zeros[at], n),
            f"{features.missing[at]:,}",
        ]
        for at in range(min(most, features.count))
    ]
    head = ["feature", "least", "mean", "most", "deviation", "zeros", "missing"]
    return PrintedTable(head=head, rows=rows, left_out=_others(features.count - most, "features"))


def _ranges(columns: FeatureColumns, at: int, n: int) -> list[str]:
    """Least, mean, most and deviation of a column of n values."""
    values = (columns.least[at], columns.mean[at], columns.most[at], columns.deviation[at])
    return list(map(number, values)) if columns.missing[at] < n else ["none"] * len(values)


def column_table(columns: Sequence[DescribedColumn], most: int) -> PrintedTable:
    """Columns that features were made of."""
    rows = [
        [shortened(each.column) or "(array)", shortened(each.table), each.kind, each.features, _note(each)]
        for each in columns[:most]
    ]
    return PrintedTable(
        head=["column", "of", "kind", "became", ""], rows=rows, left_out=_others(len(columns) - most, "columns")
    )


def quality_table(opened: Layout) -> PrintedTable:
    """Return how good the partition of a layout is, as its description says."""

    def words_of(value: object) -> str:
        if isinstance(value, list):
            return ", ".join(map(words_of, value))
        return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"

    quality = opened.description["quality"].items()
    return PrintedTable(head=["", ""], rows=[[key.replace("_", " "), words_of(value)] for key, value in quality])


def _note(column: DescribedColumn) -> str:
    """Return notes on a column: its categories, and what was done to it."""
    names = [shortened(name) for name in column.categories[:CATEGORIES]]
    more = ["..."] if len(column.categories) > CATEGORIES else []
    listed = ", ".join([*names, *more])
    categories = f"{len(column.categories):,} categories: {listed}" if names else ""
    return "; ".join(part for part in (categories, column.done) if part)


def _others(count: int, what: str) -> str:
    return f"and {count:,} other {what}" if count > 0 else ""
