"""Progress bars: tqdm, without the semaphore it would share between processes.

By default tqdm makes a named semaphore in every process that draws a bar; one that is killed leaves it behind.
"""

from __future__ import annotations

import threading
from typing import Any

from tqdm import tqdm

tqdm.set_lock(threading.RLock())

SECONDS_BEFORE_BAR = 2.0
"""Time in seconds; work that is over sooner shows no bar."""

__all__ = ["progress_bar", "tqdm"]


def progress_bar(total: int | None, what: str, unit: str = "") -> tqdm[Any]:
    """Make a bar for work of so many units, if that is known; only a terminal shows it, until it ends."""
    return tqdm(
        total=total,
        desc=what,
        unit=unit,
        unit_scale=True,
        leave=False,
        disable=None,  # where the output is no terminal
        delay=SECONDS_BEFORE_BAR,
    )
