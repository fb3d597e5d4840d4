"""What is lost where numbers of files become float32 or float64, column by column, and what to do about it.

A double has 53 bits and float32 has 24. Measurements lose nothing that matters; whole numbers from 2**24 on (of
doubles from 2**53 on), times of day in days since 1970, and small differences between large numbers do. Until then
whole numbers that doubles do not hold are long doubles, which hold all of 64 bits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

WHOLE = 1 << 53
"""Whole numbers from this on are not all doubles."""
LARGEST = float(1 << 64)
"""Numbers from this on are measurements, and no ids."""
FINEST = 1e-4
"""Part of a column's range that rounding may take before it is told."""
A_SECOND = 1 / 86_400
"""In days, the unit of times."""
LINES = 20
"""Columns of a file that are told of at most."""
WAY_OUT = (
    "; --standardize keeps their differences, {}and numbers that are names of things are a :category or a :code of "
    "--columns"
)
WIDER = "--feature-dtype float64 all of them, "
"""Where doubles hold the numbers of a column."""

logger = logging.getLogger(__name__)


class Rounded(NamedTuple):
    """A column whose numbers the type of the store does not hold."""

    column: int
    what: str
    """In words, with the number of values, or their bounds, and by how much they are rounded at most."""
    fits_double: bool
    """True where doubles hold its numbers."""


def unrounded(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers as they are, but whole ones of 64 bits that doubles do not hold as long doubles."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return values
    return values.astype(np.longdouble) if max(int(values.max()), -int(values.min())) > WHOLE else values


class Rounding:
    """Numbers [n, D] that became float32 or float64, piece by piece.

    Args:
        times: bool [D], true for columns of days since 1970-01-01.
    """

    def __init__(self, times: NDArray[np.bool_]) -> None:
        self._times, width = times, len(times)
        self._low, self._high = np.full(width, np.inf), np.full(width, -np.inf)
        self._count, self._worst = np.zeros(width, np.int64), np.zeros(width)
        self._dtype = np.dtype(np.float32)

    def add(self, values: NDArray[Any], rounded: NDArray[Any], columns: slice = slice(None)) -> None:
        """Take the next values [n, d] without gaps, and what they became, of some of the columns.

        Only what became float32 or float64 counts: float16 was asked for.
        """
        values = unrounded(values)
        if not len(values) or rounded.dtype == np.float16 or np.can_cast(values.dtype, rounded.dtype):
            return
        self._dtype = rounded.dtype
        low, high = values.min(axis=0), values.max(axis=0)
        self._low[columns] = np.minimum(self._low[columns], low)
        self._high[columns] = np.maximum(self._high[columns], high)
        least, largest = low.astype(np.float64), high.astype(np.float64)  # the least of a whole type has no absolute
        times, most = self._times[columns], np.maximum(np.abs(least), np.abs(largest))
        steps = np.spacing(most.astype(rounded.dtype))
        differ = high > low
        near = differ & (steps > FINEST * (largest - least))
        for at in np.flatnonzero(times | near | ((most >= self._whole) & (differ | (rounded[0] != low)))):
            column, exact = range(len(self._times))[columns][at], values[:, at]
            off = np.abs(exact - rounded[:, at])
            whole = (exact == np.floor(exact)) & (np.abs(exact) < LARGEST)
            counted = off > A_SECOND if times[at] else whole & (off > 0)
            self._count[column] += int(counted.sum())
            self._worst[column] = max(self._worst[column], float(off.max()))

    @property
    def _whole(self) -> int:
        """Whole numbers from this on are not all of the type."""
        return 1 << int(np.finfo(self._dtype).nmant) + 1

    def found(self) -> list[Rounded]:
        """The columns that lost something, in order."""
        apart = self._high - self._low
        found = []
        for column in np.flatnonzero((self._count > 0) | ((apart > 0) & (self._worst > FINEST * apart))):
            count, worst = int(self._count[column]), float(self._worst[column])
            if count and self._times[column]:
                what = f"{count:,} times are rounded, by up to {worst / A_SECOND:.0f} s"
            elif count:
                what = f"{count:,} whole numbers above {self._whole:,} are rounded, by up to {worst:,.0f}"
            else:
                bounds = f"{self._low[column]:.12g} and {self._high[column]:.12g}"
                what = f"numbers between {bounds} are rounded, by up to {worst:.2g}"
            fits_double = self._dtype == np.float32 and max(-self._low[column], self._high[column]) < WHOLE
            found.append(Rounded(int(column), f"{what} in {self._dtype}", bool(fits_double)))
        return found


def log_rounded(path: str, rounding: Rounding, name: Callable[[int], str], way_out: str = WAY_OUT) -> None:
    """Warn of the columns of a file whose numbers the type of the store does not hold.

    Args:
        path: what messages call the file.
        rounding: of its columns.
        name: what messages call a column, as in ``column x``.
        way_out: what messages say can be done.
    """
    found = rounding.found()
    for each in found[:LINES]:
        way = way_out.format(WIDER if each.fits_double else "")
        logger.warning("%s: %s: %s%s", path, name(each.column), each.what, way)
    if len(found) > LINES:
        logger.warning("%s: ... and %s other columns with numbers that are rounded", path, len(found) - LINES)
