"""Overview of an open graph store or layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gsplit.data.graph import GraphArrays
from gsplit.data.ids.kept_ids import FILE, verify_ids
from gsplit.data.inspect.concerns import Concern, NamesInLines, concerns
from gsplit.data.inspect.described_columns import DescribedColumn, described_columns, feature_names, shortened
from gsplit.data.inspect.feature_columns import FeatureColumns, columns_of
from gsplit.data.inspect.label_counts import LabelCounts, label_counts
from gsplit.data.inspect.leaks import Leaks, leaks_of
from gsplit.data.inspect.link_counts import LinkCounts, link_counts
from gsplit.data.inspect.structure import Structure, structure_of
from gsplit.data.layout import Layout
from gsplit.data.opened import OpenFolder


@dataclass(frozen=True, kw_only=True)
class Overview:
    """A graph in numbers, with what is odd about it."""

    opened: OpenFolder
    """The graph store or layout."""
    ids: Sequence[str]
    """Columns of the user's own ids; nothing where vertices are called by their numbers."""
    names: NamesInLines
    structure: Structure
    labels: LabelCounts
    links: LinkCounts | None
    features: FeatureColumns | None
    columns: Sequence[DescribedColumn]
    """Columns that the features were made of, as far as they are known."""
    leaks: Leaks
    concerns: Sequence[Concern]

    @property
    def graph(self) -> GraphArrays:
        """The graph of the store or layout."""
        return self.opened.graph


def look(opened: OpenFolder) -> Overview:
    """Look at all of a graph: its edges and features are read once, some features perhaps again.

    Vertices are called by the user's own ids, else by global ids, also those of a layout.

    Raises:
        InputError: where the file of ids is missing or damaged.
    """
    described, path = opened.description.get("ids"), opened.path / FILE
    if isinstance(described, dict) and path.is_file() and path.stat().st_size == described.get("bytes"):
        verify_ids(opened.path, described)  # first: Arrow trusts its files
    ids = opened.ids()
    with np.errstate(all="ignore"):  # a damaged or odd file may hold any bits
        graph = opened.graph
        columns = described_columns(opened.description, graph.num_features)
        names = _names(opened, ids.shown if ids is not None else str, columns)
        structure = structure_of(graph)
        labels = label_counts(graph)
        links = link_counts(opened)
        features = None if graph.features is None else columns_of(graph.features, "features")
        leaks = Leaks()
        if features is not None:
            leaks = leaks_of(graph, features, labels, [(each.begin, each.end) for each in columns if each.one_each])
        return Overview(
            opened=opened,
            ids=() if ids is None else ids.names,
            names=names,
            structure=structure,
            labels=labels,
            links=links,
            features=features,
            columns=columns,
            leaks=leaks,
            concerns=concerns(graph, structure, labels, features, leaks, names, links),
        )


def _names(opened: OpenFolder, shown: Callable[[int], str], columns: Sequence[DescribedColumn]) -> NamesInLines:
    """Name vertices and features for lines: a vertex of a layout as it was called in the store."""
    permutation = opened.permutation if isinstance(opened, Layout) else None
    named = feature_names(columns)

    def vertex(number: int) -> str:
        return shown(number if permutation is None else int(permutation[number]))

    def feature(first: int, width: int) -> str:
        for each in columns:
            if width > 1 and (each.begin, each.end) == (first, first + width):
                return f"{shortened(each.column)} ({each.features})"
        return f"{first} ({named[first]})" if first in named else str(first)

    return NamesInLines(vertex=vertex, feature=feature)
