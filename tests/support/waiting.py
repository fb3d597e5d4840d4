"""The one place where tests look again and again for what another process does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gsplit.waiting import until

EVERY_S = 0.01


def wait_until(condition: Callable[[], Any], limit_s: float, why: Callable[[], object]) -> Any:
    """Wait for a condition, and return what it gave; fail after the limit with what ``why`` says."""
    value = until(condition, limit_s, EVERY_S)
    assert value, why()
    return value
