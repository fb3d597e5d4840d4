"""Checks of flags that several experiments have."""

from __future__ import annotations

from gsplit.errors import InputError


def check_positive(config: object, *names: str) -> None:
    """Numbers that are given (not None) must be at least 1, and so must those of a list, which must not be empty.

    Raises:
        InputError: naming the flag.
    """
    for name in names:
        value, flag = getattr(config, name), "--" + name.replace("_", "-")
        if isinstance(value, tuple) and (not value or min(value) < 1):
            raise InputError(f"{flag} takes numbers from 1 on, not {list(value)}")
        if isinstance(value, int) and value < 1:
            raise InputError(f"{flag} must be at least 1, not {value}")


def check_seed(seed: int) -> None:
    """Seeds are from 0 on, or InputError is raised."""
    if seed < 0:
        raise InputError(f"--seed must be at least 0, not {seed}")
