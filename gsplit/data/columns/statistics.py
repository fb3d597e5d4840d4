"""Numbers that features are filled with and scaled by: of the files, or known, as of a store that grows.

Means and deviations are those of the values that are there among the training vertices, or among all where none
trains; deviations divide by their count, as scikit-learn's ``StandardScaler`` does. They are taken in a pass of their
own over the files, in float64, so that what is written is written once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.assembled import Assembled, FeatureBlock, FeatureColumn, Statistics
from gsplit.data.columns.block_rows import column_of_feature, columns_of, rows_of
from gsplit.data.columns.moments import Moments
from gsplit.errors import InputError


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
