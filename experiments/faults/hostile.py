"""What a damaged file is to be found out by: code that runs when somebody unpickles it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Damage = Callable[[Path, Random], str]
"""Changes a file in place and says in a few words what it did."""
CANARY = "canary"


class Hostile:
    """Unpickled, it makes the file :data:`CANARY`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pathlib.Path.touch, (pathlib.Path(CANARY),)
