"""Contenders in turn, round by round: their order, seconds and ratios, and whether a round was quiet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import mean, median, stdev
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
NUMBERS = 3_000_000
MOST_DEVIATION = 0.15
"""Part of the median by which a calibration may differ, in a quiet round."""


def in_turn(contenders: Iterable[T], number: int) -> list[T]:
    """The contenders in the order of round ``number``: each round begins with the next one."""
    every = list(contenders)
    first = number % max(1, len(every))
    return every[first:] + every[:first]


def seconds_of(call: Callable[..., object], *arguments: Any, **named: Any) -> float:
    """Seconds of one call with these arguments, by the clock on the wall."""
    start_s = time.perf_counter()
    call(*arguments, **named)
    return time.perf_counter() - start_s


def ratios(theirs: Iterable[float], ours: Iterable[float]) -> list[float]:
    """Theirs over ours, round by round."""
    return [their / our for their, our in zip(theirs, ours, strict=True)]


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean of some values; None of one."""
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else None


def spread(values: Sequence[float], name: str = "ratio") -> dict[str, float]:
    """Columns of a row: the median of some rounds as ``name``, the least and the most of them."""
    return {name: median(values), f"{name}_min": min(values), f"{name}_max": max(values)}


def quiet_spread(pairs: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """:func:`spread` of the ratios of all rounds, and the median of those that were quiet.

    Args:
        pairs: the ratio of each round, and whether the round was quiet.
    """
    quiet = [ratio for ratio, is_quiet in pairs if is_quiet]
    return {
        **spread([ratio for ratio, _ in pairs]),
        "rounds": len(pairs),
        "quiet_ratio": median(quiet) if quiet else None,
        "quiet_rounds": len(quiet),
    }


def scores(values: Sequence[float], name: str = "") -> dict[str, Any]:
    """Columns of a row: mean, standard deviation and the scores of some runs, each with ``name`` before it."""
    deviation = stdev(values) if len(values) > 1 else None
    return {f"{name}mean": mean(values), f"{name}stdev": deviation, f"{name}scores": list(values)}


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def calibrate() -> float:
    """Seconds of a fixed loop, on all cores at once: sorting the same numbers, without the GIL.

    Another process that takes a core makes it longer, and so does a slower clock.
    """
    arrays = [np.random.default_rng(0).random(NUMBERS) for _ in range(cores())]
    with ThreadPoolExecutor(len(arrays)) as pool:
        list(pool.map(len, arrays))  # threads are there
        start_s = time.perf_counter()
        list(pool.map(np.sort, arrays))
        return time.perf_counter() - start_s


def quiet_rounds(calibrations: Sequence[Sequence[float]]) -> list[bool]:
    """Whether each round was quiet: none of its calibrations is far from the median of all.

    Args:
        calibrations: seconds, for each round one before each run.
    """
    middle = median(seconds for of_round in calibrations for seconds in of_round)
    return [all(abs(seconds / middle - 1) <= MOST_DEVIATION for seconds in of_round) for of_round in calibrations]
