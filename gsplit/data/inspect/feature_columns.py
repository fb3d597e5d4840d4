"""Columns of features in numbers: ranges, means, deviations, zeros, values that are not finite, repeated columns.

N vertices, D columns. Features are walked in pieces of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.statistics import Moments

VALUES_AT_ONCE = 1 << 22
WEIGHTS_SEED = 0x6C6F6F6B
"""Seed of the weights of rows in a column's fingerprint."""


@dataclass(frozen=True, kw_only=True)
class FeatureColumns:
    """The columns of features in numbers; what is not finite is counted, and left out of all others."""

    dtype: str
    num_bytes: int
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


class ColumnSums:
    """Sums that :class:`FeatureColumns` are computed from, piece by piece; features are [N, D]."""

    def __init__(self, features: NDArray[Any]) -> None:
        self._dtype, self._bytes = features.dtype, features.nbytes
        columns = features.shape[1]
        self._least, self._most = np.full(columns, np.inf), np.full(columns, -np.inf)
        self._moments = Moments(columns)
        self._zeros, self._missing = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
        self._whole = np.ones(columns, bool)
        self._prints = np.zeros(columns, np.uint64)
        self._weights = np.random.Generator(np.random.PCG64(WEIGHTS_SEED))

    def add(self, rows: NDArray[Any]) -> None:
        """Take the next rows [n, D]."""
        self._prints += self._fingerprints(rows)
        least, most = rows.min(axis=0), rows.max(axis=0)
        if not (np.isfinite(least).all() and np.isfinite(most).all()):
            finite = np.isfinite(rows)
            self._missing += len(rows) - finite.sum(axis=0)
            least, most = np.where(finite, rows, np.inf).min(axis=0), np.where(finite, rows, -np.inf).max(axis=0)
        self._least, self._most = np.minimum(self._least, least), np.maximum(self._most, most)
        self._zeros += np.count_nonzero(rows == 0, axis=0)
        maybe = np.flatnonzero(self._whole)
        if len(maybe):
            some = rows if len(maybe) == rows.shape[1] else rows[:, maybe]
            self._whole[maybe] = ((some == np.trunc(some)) | ~np.isfinite(some)).all(axis=0)
        self._moments.add(rows)

    def _fingerprints(self, rows: NDArray[Any]) -> NDArray[np.uint64]:
        """Sums of a column's bits, each row with a weight of 64 bits; others differ but for a chance below 2^-32."""
        bits = (rows + rows.dtype.type(0)).view(f"u{rows.dtype.itemsize}")  # -0 becomes 0
        weights = self._weights.integers(0, 2**64, len(rows), np.uint64, endpoint=False)
        return np.einsum("i,ij->j", weights, bits, dtype=np.uint64, casting="unsafe")

    def result(self) -> FeatureColumns:
        """The columns, once all rows were taken."""
        none = self._moments.count == 0
        with np.errstate(invalid="ignore"):
            constant = (self._least == self._most) & (self._missing == 0)
        return FeatureColumns(
            dtype=str(self._dtype),
            num_bytes=self._bytes,
            least=self._least,
            most=self._most,
            mean=np.where(none, np.nan, self._moments.mean),
            deviation=np.where(none, np.nan, self._moments.deviation),
            zeros=self._zeros,
            missing=self._missing,
            whole=self._whole & ~none,
            repeats=_repeats(self._prints, constant),
        )


def _repeats(prints: NDArray[np.uint64], constant: NDArray[np.bool_]) -> list[tuple[int, int]]:
    first: dict[int, int] = {}
    pairs = []
    for column, value in enumerate(prints.tolist()):
        if not constant[column] and first.setdefault(value, column) != column:
            pairs.append((column, first[value]))
    return pairs
