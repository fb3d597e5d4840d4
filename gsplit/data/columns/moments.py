"""Means and standard deviations of columns that are read piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data.columns.rounding import LARGEST, WHOLE


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
