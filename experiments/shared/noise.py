"""Whether the machine was as fast, and as free, in one run as in another."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import numpy as np

NUMBERS = 3_000_000
MOST_DEVIATION = 0.15
"""Part of the median by which a calibration may differ, in a quiet round."""


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
