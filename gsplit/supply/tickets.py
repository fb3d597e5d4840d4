"""Tickets: the mini-batches of a run, numbered in the sequence in which they are to be sampled."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """One mini-batch to sample: with the configuration of the run, all that decides it (law 1)."""

    number: int
    """Place in the sequence of this start of the run, from 0."""
    epoch: int
    """Which epoch, from 0."""
    batch: int
    """Which mini-batch of the epoch, from 0."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """The position of a run: what a checkpoint says of the current epoch."""

    epoch: int = 0
    """The current epoch, from 0."""
    batch: int = 0
    """Number of mini-batches done in that epoch."""
    ahead: Collection[int] = ()
    """The mini-batches among them that lie behind one that is not done, as ``--order ready`` leaves them."""


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
