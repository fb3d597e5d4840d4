"""Labels counted: vertices of each class in each vertex set, or the range of each output of a regression.

N vertices, C classes or outputs, K classes that have a vertex or a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS, GraphArrays
from gsplit.data.inspect.feature_columns import FeatureColumns, columns_of, pieces_of


@dataclass(frozen=True, kw_only=True)
class LabelCounts:
    """The labels of a graph in numbers."""

    labelled: int
    """Vertices with a label; of a regression with one output at least."""
    in_no_set: int
    """Vertices in neither the training, nor the validation, nor the test set."""
    shared: dict[tuple[str, str], int]
    """Vertices that are in two sets, by the names of both; only where there are some."""
    numbers: NDArray[np.int64]
    """[K] classes that have a vertex, or all where that many can be listed, ascending."""
    counts: NDArray[np.int64]
    """[K] vertices of each of these classes; one with several labels counts for each."""
    in_sets: NDArray[np.int64]
    """[K, 3] those of them in the training, validation and test set."""
    unknown: int
    """Vertices with a number that is no class; they are in no set."""
    outputs: FeatureColumns | None
    """Outputs of a regression, with what is not known for missing; None of a classification."""


LISTED = 1 << 16
"""Classes that are listed at most where not all of them have a vertex."""


def label_counts(graph: GraphArrays) -> LabelCounts:
    """Count labels, class by class and set by set; reads them twice at most, and those of the sets once more."""
    sets = [graph.vertex_set(name) for name in VERTEX_SETS]
    member_of = np.zeros(len(graph.labels), np.uint8)  # a bit for each set
    for bit, ids in enumerate(sets):
        member_of[ids] |= np.uint8(1 << bit)
    sizes = np.bincount(member_of, minlength=8)
    both = {
        (VERTEX_SETS[a], VERTEX_SETS[b]): int(sum(sizes[bits] for bits in range(8) if bits >> a & bits >> b & 1))
        for a, b in ((0, 1), (0, 2), (1, 2))
    }
    if graph.regression:
        outputs = columns_of(graph.labels, "labels")
        labelled = sum(int(np.isfinite(rows).any(axis=1).sum()) for _, rows in pieces_of(graph.labels))
        numbers = counts = np.empty(0, np.int64)
        in_sets = np.empty((0, 3), np.int64)
        unknown = 0
    else:
        outputs = None
        count = _of_labels if graph.labels.ndim == 2 else _of_classes
        numbers, counts, in_sets, labelled, unknown = count(graph, sets)
    return LabelCounts(
        labelled=labelled,
        in_no_set=int(sizes[0]),
        shared={names: count for names, count in both.items() if count},
        numbers=numbers,
        counts=counts,
        in_sets=in_sets,
        unknown=unknown,
        outputs=outputs,
    )


Counted = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int, int]
"""Classes [K], their vertices [K], those in sets [K, 3], labelled vertices, and vertices of no class."""


def _of_classes(graph: GraphArrays, sets: Sequence[NDArray[np.int64]]) -> Counted:
    # Not by bincount: only labels of vertices in the sets are checked, another may be as large as it likes.
    found, all_counts = np.unique(graph.labels, return_counts=True)
    is_class = (found >= 0) & (found < graph.num_classes)
    unknown = int(all_counts[(found < -1) | (found >= graph.num_classes)].sum())
    numbers, counts = found[is_class], all_counts[is_class]
    if graph.num_classes <= LISTED:
        every = np.zeros(graph.num_classes, np.int64)
        every[numbers] = counts
        numbers, counts = np.arange(graph.num_classes), every
    in_sets = np.zeros((len(numbers), 3), np.int64)
    for column, ids in enumerate(sets):
        of_set, number = np.unique(graph.labels[ids], return_counts=True)
        in_sets[np.searchsorted(numbers, of_set), column] = number
    return numbers, counts, in_sets, int(counts.sum()), unknown


def _of_labels(graph: GraphArrays, sets: Sequence[NDArray[np.int64]]) -> Counted:
    columns = graph.labels.shape[1]
    counts, labelled = np.zeros(columns, np.int64), 0
    for _, rows in pieces_of(graph.labels):
        counts += np.count_nonzero(rows > 0, axis=0)
        labelled += int(np.count_nonzero(~np.isnan(rows).any(axis=1)))
    in_sets = np.zeros((columns, 3), np.int64)
    for column, ids in enumerate(sets):
        for _, some in pieces_of(ids, columns):
            in_sets[:, column] += np.count_nonzero(graph.labels[some] > 0, axis=0)
    return np.arange(columns), counts, in_sets, labelled, 0
