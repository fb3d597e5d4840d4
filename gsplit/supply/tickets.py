"""Tickets: the mini-batches of a run, numbered in the order in which they are to be sampled."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """One mini-batch to sample: with the configuration of the run, all that decides it (law 1)."""

    number: int
    """Counts the tickets of this start of the run, from 0."""
    epoch: int
    batch: int


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a run stands: what a checkpoint says of the epoch at work."""

    epoch: int = 0
    batch: int = 0
    """Mini-batches done in that epoch."""
    ahead: Collection[int] = ()
    """Those of them that lie behind one that is not done, as ``--order ready`` leaves them."""


def tickets(num_batches: int, epochs: int, start: Position) -> Iterator[Ticket]:
    """The tickets that are left of a run of ``epochs`` epochs with ``num_batches`` mini-batches each."""
    number = 0
    first, done = start.batch - len(start.ahead), set(start.ahead)
    for epoch in range(start.epoch, epochs):
        for batch in range(first, num_batches):
            if batch not in done:
                yield Ticket(number=number, epoch=epoch, batch=batch)
                number += 1
        first, done = 0, set()
