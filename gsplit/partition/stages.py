"""Seconds and memory at the peak of the stages of the offline work."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gsplit.units import binary

RESET_PEAK = "5"
"""Number to write to /proc/self/clear_refs to begin a new peak (man 5 proc)."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Seconds and memory of one stage."""

    seconds: float
    peak_bytes: int | None
    """Resident memory of the process at its peak so far, pages of mapped files that it touched included; None where
    the system does not tell."""


class Stages:
    """Stopwatch and peak meter; ``taken`` has the stages that are over, in order.

    Args:
        own_peaks: measure the peak of each stage for itself, not of all so far. The kernel then forgets the peak of
            the process, so that tools that look at it from outside see that of the last stage.
    """

    def __init__(self, *, own_peaks: bool = False) -> None:
        self.taken: dict[str, Taken] = {}
        self._own_peaks = own_peaks

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure what runs inside the ``with`` block, and log it."""
        if self._own_peaks:
            with suppress(OSError):
                Path("/proc/self/clear_refs").write_text(RESET_PEAK)
        start_s = time.perf_counter()
        yield
        taken = Taken(seconds=round(time.perf_counter() - start_s, 3), peak_bytes=_peak_bytes())
        self.taken[name] = taken
        peak = "" if taken.peak_bytes is None else f", memory at most {binary(taken.peak_bytes)}"
        logger.info("%s: %.1f s%s", name, taken.seconds, peak)


def _peak_bytes() -> int | None:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    lines = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0][1]) * 1024 if lines else None
