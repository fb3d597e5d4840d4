"""Columns of features in numbers: ranges, means, deviations, zeros, values that are not finite, repeated columns.

N vertices, D columns. Features are walked in pieces of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.bars import progress_bar
from gsplit.data.columns.statistics import Moments

VALUES_AT_ONCE = 1 << 22
WEIGHTS_SEED = 0x6C6F6F6B
"""Seed of the weights of rows in a column's fingerprint."""


@dataclass(frozen=True, kw_only=True)
class FeatureColumns:
    """The columns of features, or the outputs of a regression; what is not finite is counted, and left out else."""

    dtype: str
    least: NDArray[np.float64]
    """[D]; infinity where no value is finite."""
    most: NDArray[np.float64]
    """[D]; minus infinity where no value is finite."""
    mean: NDArray[np.float64]
    """[D]; NaN where no value is finite."""
    deviation: NDArray[np.float64]
    """[D] standard deviations, of the values themselves and not of a sample."""
    zeros: NDArray[np.int64]
    """[D] values that are 0."""
    missing: NDArray[np.int64]
    """[D] values that are NaN or infinite."""
    whole: NDArray[np.bool_]
    """[D] whether all finite values are whole numbers."""
    repeats: Sequence[tuple[int, int]]
    """Pairs (column, first column with the same values) of columns that are not constant, ascending."""

    @property
    def count(self) -> int:
        """D."""
        return len(self.least)

    @property
    def constant(self) -> NDArray[np.int64]:
        """Columns with one value throughout."""
        return np.flatnonzero((self.least == self.most) & (self.missing == 0))

    @property
    def of_0_and_1(self) -> NDArray[np.bool_]:
        """[D] whether a column holds 0 and 1, and nothing else."""
        return self.whole & (self.least == 0) & (self.most == 1) & (self.missing == 0)


def pieces_of(rows: NDArray[Any], width: int | None = None) -> Iterator[tuple[int, NDArray[Any]]]:
    """The number of the first row and the rows of each piece; ``width`` is how many values a row stands for."""
    at_once = max(1, VALUES_AT_ONCE // max(1, rows.shape[1] if width is None else width))
    for begin in range(0, len(rows), at_once):
        yield begin, np.ascontiguousarray(rows[begin : begin + at_once])


def columns_of(numbers: NDArray[Any], what: str) -> FeatureColumns:
    """Look at the columns of numbers [N, D], which are read once; ``what`` names them beside a progress bar."""
    width = numbers.shape[1]
    least, most = np.full(width, np.inf), np.full(width, -np.inf)
    zeros, missing = np.zeros(width, np.int64), np.zeros(width, np.int64)
    whole = np.ones(width, np.bool_)
    moments = Moments(width)
    prints = np.zeros(width, np.uint64)
    random = np.random.Generator(np.random.PCG64(WEIGHTS_SEED))
    with np.errstate(invalid="ignore"), progress_bar(len(numbers), f"look at {what}") as bar:
        for _, rows in pieces_of(numbers):
            prints += _fingerprints(rows, random)
            low, high = rows.min(axis=0), rows.max(axis=0)
            if not (np.isfinite(low).all() and np.isfinite(high).all()):
                finite = np.isfinite(rows)
                missing += len(rows) - finite.sum(axis=0)
                low, high = np.where(finite, rows, np.inf).min(axis=0), np.where(finite, rows, -np.inf).max(axis=0)
            least, most = np.minimum(least, low), np.maximum(most, high)
            zeros += np.count_nonzero(rows == 0, axis=0)
            maybe = np.flatnonzero(whole)
            if len(maybe):
                some = rows if len(maybe) == width else rows[:, maybe]
                whole[maybe] = ((some == np.trunc(some)) | ~np.isfinite(some)).all(axis=0)
            moments.add(rows)
            bar.update(len(rows))
    none = moments.count == 0
    return FeatureColumns(
        dtype=str(numbers.dtype),
        least=least,
        most=most,
        mean=np.where(none, np.nan, moments.mean),
        deviation=np.where(none, np.nan, moments.deviation),
        zeros=zeros,
        missing=missing,
        whole=whole & ~none,
        repeats=_repeats(prints, (least == most) & (missing == 0)),
    )


def _fingerprints(rows: NDArray[Any], random: np.random.Generator) -> NDArray[np.uint64]:
    """Sums of a column's bits, each row with a weight of 64 bits; others differ but for a chance below 2^-32."""
    bits = (rows + rows.dtype.type(0)).view(f"u{rows.dtype.itemsize}")  # -0 becomes 0
    weights = random.integers(0, 2**64, len(rows), np.uint64, endpoint=False)
    return np.einsum("i,ij->j", weights, bits, dtype=np.uint64, casting="unsafe")


def _repeats(prints: NDArray[np.uint64], constant: NDArray[np.bool_]) -> list[tuple[int, int]]:
    first: dict[int, int] = {}
    pairs = []
    for column, value in enumerate(prints.tolist()):
        if not constant[column] and first.setdefault(value, column) != column:
            pairs.append((column, first[value]))
    return pairs
