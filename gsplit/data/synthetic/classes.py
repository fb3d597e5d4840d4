"""Classes of synthetic graphs: each belongs to some blocks of vertices, and is a weak signal in the features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLOCKS_PER_CLASS = 2
SIGNAL = 0.16
"""Standard deviation of the class means, beside noise of 1."""
ROWS = 1 << 16
"""Rows of features that are made at once."""


def label_block(n: int, sizes: Sequence[int], num_classes: int) -> int:
    """The largest of ``sizes`` (descending) that gives every class its blocks."""
    wanted = BLOCKS_PER_CLASS * num_classes
    return next((size for size in sizes if n / size >= wanted), max(1, n // wanted))


def deal_classes(blocks: int, num_classes: int, random: np.random.Generator) -> NDArray[np.int64]:
    """[blocks] the class of each block; each class has as many."""
    return random.permutation(np.arange(blocks, dtype=np.int64) % num_classes)


def class_features(
    labels: NDArray[np.int64], num_classes: int, num_features: int, random: np.random.Generator
) -> NDArray[np.float32]:
    """Features float32 [N, D]: the mean of a vertex's class under noise."""
    means_CD = random.normal(0.0, SIGNAL, (num_classes, num_features)).astype(np.float32)
    features_ND = random.standard_normal((len(labels), num_features), dtype=np.float32)
    for first in range(0, len(labels), ROWS):
        features_ND[first : first + ROWS] += means_CD[labels[first : first + ROWS]]
    return features_ND
