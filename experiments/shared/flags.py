"""Kinds of flags that several experiments have, each with the values that it takes (:mod:`gsplit.config.fields`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

from gsplit.config.fields import Accepted, Range
from gsplit.config.sampling import check_fan_out
from gsplit.errors import InputError

Positive = Annotated[int, Range(1)]
"""A number from 1 on."""
Count = Annotated[int, Range(0)]
"""A number from 0 on."""
Seed = Annotated[int, Range(0)]
"""The seed of a generator of random numbers."""
Imbalance = Annotated[float, Range(0)]
"""How much more than the mean a part may hold, as a fraction of the mean."""
FanOut = Annotated[tuple[int, ...], Accepted(check_fan_out)]
"""Neighbours drawn per hop, the first for the targets; -1 takes all."""


def check_percents(percents: Sequence[int]) -> None:
    """The rule of a list of sizes of caches, in percent of all rows."""
    if not percents or not all(0 <= percent <= 100 for percent in percents):
        raise InputError(f"sizes of caches are percents from 0 to 100, not {list(percents)}")


Percents = Annotated[tuple[int, ...], Accepted(check_percents)]
"""Sizes of caches, in percent of all feature rows."""


def from_one_on(flag: str, *, empty: bool = False) -> Accepted:
    """The rule of a list of numbers from 1 on.

    Args:
        flag: names the list in the message.
        empty: whether the list may be empty.
    """

    def accept(numbers: Sequence[int]) -> None:
        if (not numbers and not empty) or any(number < 1 for number in numbers):
            raise InputError(f"{flag} takes numbers from 1 on, not {list(numbers)}")

    return Accepted(accept)


def names_of(choices: Collection[str], what: str, *, empty: bool = False) -> Accepted:
    """The rule of a list of names.

    Args:
        choices: that each must be one of.
        what: names the kind of one in the message.
        empty: whether the list may be empty.
    """

    def accept(names: Sequence[str]) -> None:
        if not names and not empty:
            raise InputError(f"name at least one {what}: {', '.join(choices)}")
        for name in names:
            if name not in choices:
                raise InputError(f"unknown {what} {name!r}; choose from {', '.join(choices)}")

    return Accepted(accept)
