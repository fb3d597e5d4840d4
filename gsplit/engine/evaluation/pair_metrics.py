"""Metrics of pairs, from their ranks among candidates (:mod:`gsplit.engine.evaluation.ranking`) or from scores.

They are sums of whole numbers, or rounded once, so they are the same for any number of trainers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mean_reciprocal_rank(doubled: NDArray[np.int64]) -> float:
    """The mean of 1 / rank, rounded once; NaN of no pairs."""
    ranks, counts = np.unique(doubled, return_counts=True)
    return math.fsum(counts * 2.0 / ranks) / len(doubled) if len(doubled) else math.nan


def hits(doubled: NDArray[np.int64], k: int) -> float:
    """The share of ranks that are at most k; NaN of no pairs."""
    return float(np.count_nonzero(doubled <= 2 * k) / len(doubled)) if len(doubled) else math.nan


def area_under_roc(positive: NDArray[Any], negative: NDArray[Any]) -> float:
    """The chance that a positive scores above a negative, equal ones counting half; NaN without either."""
    if not _are_finite(positive, negative):
        return math.nan
    ordered = np.sort(negative)
    below, up_to = (int(np.searchsorted(ordered, positive, side=side).sum()) for side in ("left", "right"))
    return (below + up_to) / (2 * len(positive) * len(negative))


def average_precision(positive: NDArray[Any], negative: NDArray[Any]) -> float:
    """The sum over distinct scores of what recall gains there times precision; NaN without either."""
    if not _are_finite(positive, negative):
        return math.nan
    values, counts = np.unique(positive, return_counts=True)
    right = np.cumsum(counts[::-1])[::-1]
    wrong = len(negative) - np.searchsorted(np.sort(negative), values, side="left")
    return math.fsum(counts * (right / (right + wrong))) / len(positive)


def hits_above(positive: NDArray[Any], negative: NDArray[Any], k: int) -> float:
    """OGB's hits@k: the share of positives above the k-th best negative, all where there are fewer negatives."""
    if not _are_finite(positive, negative, negatives=False):
        return math.nan
    if len(negative) < k:
        return 1.0
    return float(np.count_nonzero(positive > np.partition(negative, -k)[-k]) / len(positive))


def _are_finite(positive: NDArray[Any], negative: NDArray[Any], negatives: bool = True) -> bool:
    """Return whether there are scores, and all of them are finite."""
    enough = len(positive) > 0 and (len(negative) > 0 or not negatives)
    return bool(enough and np.isfinite(positive).all() and np.isfinite(negative).all())


def measured(
    name: str, doubled: NDArray[np.int64], positive: NDArray[np.float64], negative: NDArray[np.float64]
) -> float:
    """A metric of pairs: ``mrr``, ``hits@k``, ``auroc``, ``ap`` or ``ogb-hits@k``; NaN where it is not defined.

    Args:
        name: of the metric.
        doubled: twice the rank of each pair.
        positive: scores of the pairs.
        negative: scores of pairs that do not belong together.
    """
    kind, _, k = name.partition("@")
    if kind == "mrr":
        return mean_reciprocal_rank(doubled)
    if kind == "hits":
        return hits(doubled, int(k))
    if kind == "ogb-hits":
        return hits_above(positive, negative, int(k))
    return (area_under_roc if kind == "auroc" else average_precision)(positive, negative)
