"""Vertex sets drawn at random from the labelled vertices: of all together, or of each class its share.

N vertices, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import VERTEX_SETS
from gsplit.errors import InputError


def check_shares(shares: Sequence[float | str]) -> None:
    """Check the shares of the training, validation and test set; none at all are no mistake, nor are two bounds.

    Raises:
        InputError: for other than three numbers from 0 on, at most 1 together.
    """
    numbers = [share for share in shares if not isinstance(share, str)]
    if shares and len(shares) != 2 and not _are_shares(shares, numbers):
        given = ",".join(share if isinstance(share, str) else f"{share:g}" for share in shares)
        raise InputError(f"--split takes the shares of train, valid and test, at most 1 in all, not {given}")


def _are_shares(shares: Sequence[float | str], numbers: Sequence[float]) -> bool:
    all_positive = all(number >= 0 for number in numbers)
    return len(shares) == len(numbers) == 3 and all_positive and 0 < sum(numbers) < 1.0001


def random_sets(
    labels: NDArray[Any],
    shares: Sequence[float],
    seed: int,
    where: str,
    *,
    some: bool = False,
    stratify: bool = False,
) -> dict[str, NDArray[np.int64]]:
    """Draw ``train``, ``valid`` and ``test`` from the labelled vertices; ids ascend.

    Args:
        labels: as in a store, [N] or [N, C].
        shares: of train, valid and test among the labelled vertices.
        seed: of the draw.
        where: what messages call the source.
        some: whether a vertex is labelled that has some of its [C] labels and lacks others.
        stratify: give each class its share in each set (:func:`counts_by_class`).

    Raises:
        InputError: where no vertex is labelled, or classes are asked for and a vertex may have several.
    """
    if stratify and labels.ndim != 1:
        raise InputError(
            f"{where}: --stratify draws class by class, and a vertex may have several of these labels; drop it"
        )
    lacks = np.isnan(labels).all if some else np.isnan(labels).any
    labelled = np.flatnonzero(labels >= 0 if labels.ndim == 1 else ~lacks(axis=1))
    if not len(labelled):
        raise InputError(f"{where}: --split needs labels, and no vertex has one; give --labels FILE")
    generator = np.random.Generator(np.random.PCG64(seed))
    order = generator.permutation(labelled)
    if stratify:
        return _by_class(order, labels[order], shares, generator)
    ends = np.minimum(np.rint(np.cumsum(shares) * len(order)), len(order)).astype(np.int64)
    return {key: np.sort(order[a:b]) for key, a, b in zip(VERTEX_SETS, [0, *ends], ends, strict=False)}


def _by_class(
    order: NDArray[np.int64], labels: NDArray[np.int64], shares: Sequence[float], generator: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """The sets out of vertices [n] in random order, with the label of each."""
    by_class = order[np.argsort(labels, kind="stable")]
    _, sizes = np.unique(labels, return_counts=True)
    counts = counts_by_class(sizes.tolist(), shares, generator)
    set_of = np.repeat(np.tile(np.arange(len(VERTEX_SETS) + 1), len(sizes)), counts.ravel())
    return {key: np.sort(by_class[set_of == number]) for number, key in enumerate(VERTEX_SETS)}


def counts_by_class(
    sizes: Sequence[int], shares: Sequence[float], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Return how many vertices of each class go to train, valid, test and none of them, int64 [classes, 4].

    Shares are rounded by largest remainder (Hamilton): each set gets the whole part of its share, and what is left of
    the class goes, one vertex each, to those that lack most; of equals chance decides. No count is off by 1 or more.

    Args:
        sizes: labelled vertices of each class.
        shares: of train, valid and test.
        generator: decides between equals.
    """
    exact = [Fraction(str(float(share))) for share in shares]  # 0.6 is three fifths, which no float is
    exact.append(max(Fraction(0), 1 - sum(exact, Fraction(0))))
    denominator = lcm(*(share.denominator for share in exact))
    weights = [int(share * denominator) for share in exact]
    total = sum(weights)
    counts = np.zeros((len(sizes), len(weights)), np.int64)
    chances = generator.random(counts.shape).tolist()
    for row, size, chance in zip(counts, sizes, chances, strict=True):
        whole, lacking = zip(*(divmod(size * weight, total) for weight in weights), strict=True)
        row[:] = whole
        first = sorted(range(len(weights)), key=lambda i: (-lacking[i], chance[i]))
        row[first[: size - sum(whole)]] += 1
    return counts
