"""Waiting for what others do and tell nobody of."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], limit_s: float, every_s: float = 0.05) -> T:
    """What a condition gives once it holds, or when the limit is over; it is asked once at least.

    Args:
        condition: asked again and again; what it gives holds where it is true.
        limit_s: seconds after which it is asked no more.
        every_s: seconds between two times.
    """
    until_s = time.monotonic() + limit_s
    while not (found := condition()) and time.monotonic() < until_s:
        time.sleep(every_s)
    return found
