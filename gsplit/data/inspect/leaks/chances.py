"""Chances that a column tells labels apart by luck alone: its values are as good as any other order of them.

All are natural logarithms. A finding is one that luck gives in fewer than one of a thousand graphs (:data:`RARE`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

RARE = math.log(1e-3)
"""Logarithm of the chance below which something is no luck."""


def log_factorials(counts: Sequence[int] | NDArray[Any]) -> float:
    """Logarithm of the product of the factorials of counts."""
    return sum(math.lgamma(int(count) + 1) for count in counts)


def of_order(counts: Sequence[int] | NDArray[Any]) -> float:
    """Chance that vertices in a random order stand in one given order of groups of these sizes."""
    return log_factorials(counts) - math.lgamma(int(sum(counts)) + 1)


def of_groups(counts: Sequence[int] | NDArray[Any]) -> float:
    """Chance that each group stands together in a random order, whichever group comes first."""
    return of_order(counts) + math.lgamma(len(counts) + 1)


def of_pure_values(sizes: NDArray[Any], counts: NDArray[Any]) -> float:
    """Chance that in each of the groups of vertices with one value (``sizes``) all are of one class (``counts``)."""
    logs = np.log(np.asarray(counts, np.float64) / np.sum(counts))
    total = 0.0
    for size, times in zip(*np.unique(sizes[sizes > 0], return_counts=True), strict=True):
        exponents = size * logs
        most = exponents.max()
        total += times * (most + math.log(np.exp(exponents - most).sum()))
    return total
