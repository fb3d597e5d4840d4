"""The one place where tests look again and again for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

EVERY_S = 0.01


def wait_until(condition: Callable[[], Any], limit_s: float, why: Callable[[], object]) -> Any:
    """Wait for a condition, and return what it gave; fail after the limit with what ``why`` says."""
    deadline_s = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, why()
        time.sleep(EVERY_S)
    return value
