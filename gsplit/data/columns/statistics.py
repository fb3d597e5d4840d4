"""Numbers that features are filled with and scaled by: of the files, or known, as of a store that grows.

Means and deviations are those of the values that are there among the training vertices, or among all where none
trains; deviations divide by their count, as scikit-learn's ``StandardScaler`` does. They are taken in a pass of their
own over the files, in float64, so that what is written is written once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import (
    Assembled,
    FeatureBlock,
    FeatureColumn,
    Statistics,
    column_of_feature,
    columns_of,
    rows_of,
)
from gsplit.data.columns.rounding import LARGEST, WHOLE
from gsplit.errors import InputError


class Moments:
    """Count, mean and sum of squared deviations of each column of [N, D] numbers; what is not finite is left out.

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        self.count = np.zeros(width, np.int64)
        """[D] finite values."""
        self._origin: NDArray[Any] = np.zeros(width)
        """[D] numbers that are subtracted first, and exactly, of long doubles: the first that is there."""
        self._mean, self._squares = np.zeros(width), np.zeros(width)

    def add(self, rows: NDArray[Any]) -> None:
        """Take the next rows [n, D]: the moments of two parts are made one (Chan, Golub and LeVeque, 1983)."""
        values = rows.astype(np.promote_types(rows.dtype, np.float64))
        finite = np.isfinite(values)
        everywhere = bool(finite.all())
        if not everywhere:
            values[~finite] = 0
        if WHOLE <= np.abs(values).max(initial=0) < LARGEST:
            values = values.astype(np.longdouble)
        if values.dtype == np.longdouble and not self.count.any() and len(values):
            self._origin = values[finite.argmax(axis=0), np.arange(values.shape[1])]
        if self._origin.any():
            values = np.where(finite, values - self._origin, 0)
        count = finite.sum(axis=0)
        mean = values.sum(axis=0) / np.maximum(count, 1)
        values -= mean
        if not everywhere:
            values[~finite] = 0
        off = values.sum(axis=0) / np.maximum(count, 1)  # what a long sum lost: a constant has no deviation
        mean += off
        total = np.maximum(self.count + count, 1)
        apart = mean - self._mean
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->j", values, values) - count * off**2
            self._squares = self._squares + np.maximum(squares, 0) + apart**2 * self.count * count / total
        self._mean = self._mean + apart * (count / total)  # of the first rows exactly theirs
        self.count += count

    @property
    def mean(self) -> NDArray[np.float64]:
        """[D] means; 0 where there is no value."""
        return (self._origin + self._mean).astype(np.float64)

    @property
    def rest(self) -> NDArray[np.float64]:
        """[D] parts of the means that the doubles of :attr:`mean` do not hold."""
        return (self._origin - self.mean + self._mean).astype(np.float64)

    @property
    def exact_mean(self) -> NDArray[Any]:
        """[D] means, as long doubles where doubles do not hold them."""
        rest = self.rest
        return self.mean + rest.astype(np.longdouble) if rest.any() else self.mean

    @property
    def deviation(self) -> NDArray[np.float64]:
        """[D] standard deviations, of the values themselves and not of a sample; 0 where all are the same.

        Where squares are not finite, neither are they.
        """
        deviation = np.sqrt(self._squares / np.maximum(self.count, 1)).astype(np.float64)
        # What is left of a constant by rounding is none.
        return np.where(deviation <= 1e-12 * np.abs(self._mean), 0, deviation)


def statistics_of(features: Assembled, block: FeatureBlock, training: NDArray[np.int64]) -> Statistics:
    """The statistics of a block: those that it brings, or those of its values, as far as they are needed.

    Args:
        features: those that the block is of.
        training: ids of the training vertices; empty: all vertices count.

    Raises:
        InputError: where a column has no value that a mean or deviation could be taken of, or too large ones.
    """
    if block.statistics is not None:
        return block.statistics
    nothing, one = np.zeros(block.width), np.ones(block.width)
    if not features.takes_moments:
        return Statistics(fill=nothing, mean=nothing, rest=nothing, deviation=one)
    moments = _moments_of(features, block, training)
    widths = [column.width for column in block.columns]
    codes = np.repeat([column.kind == "code" for column in block.columns], widths)
    scaled = np.repeat([features.standardize and column.is_scaled for column in block.columns], widths)
    deviation = moments.deviation
    return Statistics(
        fill=np.where(codes, 0.0, np.where(scaled, moments.mean, moments.exact_mean))
        if features.missing == "mean"
        else nothing,
        mean=np.where(scaled, moments.mean, 0.0),
        rest=np.where(scaled, moments.rest, 0.0),
        deviation=np.where(scaled & (deviation > 0), deviation, 1.0),
    )


def _moments_of(features: Assembled, block: FeatureBlock, training: NDArray[np.int64]) -> Moments:
    moments = Moments(block.width)
    counts = np.zeros(features.num_vertices, np.bool_)
    counts[training if len(training) else slice(None)] = True
    for _, vertices, piece in rows_of(block):
        moments.add(piece[counts[vertices] & (vertices >= 0)])
    needed = [_takes_moments(features, column) for column, _ in columns_of(block) for _ in range(column.width)]
    lacking = (moments.count == 0) & np.array(needed, np.bool_)
    if lacking.any():
        among = "training vertex" if len(training) else "vertex"
        raise InputError(
            f"{block.path}: {column_of_feature(block, int(np.argmax(lacking)))} has no value of any {among} to "
            "take a mean of; drop the column, or --missing mean and --standardize"
        )
    large = np.array(needed, np.bool_) & ~np.isfinite(moments.deviation)
    if large.any():
        raise InputError(
            f"{block.path}: numbers of {column_of_feature(block, int(np.argmax(large)))} are too large for the "
            "squares of their deviations; divide them first"
        )
    return moments


def _takes_moments(features: Assembled, column: FeatureColumn) -> bool:
    """Return whether the mean or deviation of a column is used; codes are filled with 0 and not scaled."""
    return (features.standardize and column.is_scaled) or (features.missing == "mean" and column.kind != "code")
