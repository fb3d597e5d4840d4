"""Columns of features that an output of a regression follows as a straight line: another unit, another zero.

The measure is Pearson's correlation over the vertices for which the output is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import GraphArrays
from gsplit.data.inspect.feature_columns import FeatureColumns, pieces_of
from gsplit.data.inspect.label_counts import LabelCounts
from gsplit.data.inspect.leaks.chances import RARE, of_order

SOME = 1 << 13
"""Vertices that are looked at first."""
LIKELY, SURE = 0.999, 1 - 1e-6
"""Correlations, up to the sign, from which on a column is looked at again, and follows the output."""
FEWEST = 10
"""Vertices with a known output from which on a column can follow it."""


def lines(
    graph: GraphArrays, columns: FeatureColumns, labels: LabelCounts, usable: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """The pairs (output, column) where one follows the other, by more than luck.

    Args:
        graph: with features, and outputs as labels.
        columns: of it.
        labels: of it.
        usable: columns to look at.
    """
    assert graph.features is not None
    some = np.unique(np.arange(SOME) * graph.num_vertices // SOME)
    for output, about in enumerate(labels.outputs):
        if about.known < FEWEST or not 0 < about.deviation < math.inf:
            continue
        values = graph.labels[:, output]
        _, counts = np.unique(values[np.isfinite(values)], return_counts=True)
        if of_order(counts) + math.log(2 * columns.count * len(labels.outputs)) >= RARE:
            continue
        scale = (about.mean, about.deviation)
        first = _Correlation(columns, usable, *scale)
        first.add(graph.features[some], values[some])
        likely = usable[~(np.abs(first.result()) < LIKELY)]  # NaN, of too few vertices, stays
        if len(likely):
            whole = _Correlation(columns, likely, *scale)
            for begin, rows in pieces_of(graph.features):
                whole.add(rows, values[begin : begin + len(rows)])
            for column in likely[np.abs(whole.result()) >= SURE].tolist():
                yield output, column


class _Correlation:
    """The correlation of some columns with an output: sums of what is about 0, and about 1 large."""

    def __init__(self, columns: FeatureColumns, those: NDArray[np.int64], mean: float, deviation: float) -> None:
        self._those, self._mean, self._deviation = those, mean, deviation
        self._means, self._deviations = columns.mean[those], columns.deviation[those]
        self._sums: Any = np.zeros((6, len(those)))

    def add(self, rows: NDArray[Any], values: NDArray[Any]) -> None:
        """Take the features [n, D] of vertices with these values [n] of the output; NaN where it is not known."""
        known = np.isfinite(values)
        x = (rows[known][:, self._those].astype(np.float64) - self._means) / self._deviations
        y = (values[known].astype(np.float64) - self._mean) / self._deviation
        sums = [len(y), x.sum(axis=0), y.sum(), (x * x).sum(axis=0), y @ y, y @ x]
        for own, more in zip(self._sums, sums, strict=True):
            own += more

    def result(self) -> NDArray[np.float64]:
        """The correlations; NaN where there are too few vertices."""
        n, x, y, xx, yy, xy = self._sums
        with np.errstate(invalid="ignore", divide="ignore"):
            result: NDArray[np.float64] = (xy - x * y / n) / np.sqrt((xx - x * x / n) * (yy - y * y / n))
        return np.where((n >= FEWEST) & np.isfinite(result), result, np.nan)
