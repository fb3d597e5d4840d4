"""Progress bars: tqdm, without the semaphore it would share between processes.

By default tqdm makes a named semaphore in every process that draws a bar; one that is killed leaves it behind.
"""

from __future__ import annotations

import threading

from tqdm import tqdm

tqdm.set_lock(threading.RLock())

SECONDS_BEFORE_BAR = 2.0
"""Time in seconds; work that is over sooner shows no bar."""

__all__ = ["SECONDS_BEFORE_BAR", "tqdm"]
