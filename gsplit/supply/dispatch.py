"""Which sampler gets which ticket, and which slot it writes to. Bookkeeping only: no process, no pipe, no memory.

A ticket, or a bulk of several (``--bulk``), is handed out together with a slot that stays reserved for it until the
last trainer has let go of all that lies in it. Tickets go out in sequence, so the earliest one that was not trained
yet always has its slot, and later mini-batches cannot fill the ring and lock everyone up. What a sampler that died
was at keeps its slot, and goes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gsplit.supply.tickets import Ticket


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A sampler's next task: sample these mini-batches, write them to that slot."""

    tickets: tuple[Ticket, ...]
    """One or more of an epoch, in sequence."""
    slot: int


class Dispatcher:
    """Hands out tickets and slots.

    Attributes:
        bulk: number of tickets that are handed out at a time, of one epoch.

    Args:
        tickets: all of the run, in sequence.
        slots: number of them.
        readers: trainers that must let go of a slot before it is free again.
        bulk: see the attribute.
    """

    def __init__(self, tickets: Iterator[Ticket], *, slots: int, readers: int, bulk: int = 1) -> None:
        self.bulk = bulk
        self._tickets = tickets
        self._next = next(tickets, None)
        self._readers = readers
        self._free = list(range(slots))
        self._lost: list[Assignment] = []
        self._at_work: dict[int, Assignment] = {}
        self._reading: dict[int, int] = {}
        """How many readers have not let go yet, by slot; of slots with a finished mini-batch."""

    def next_for(self, sampler: int) -> Assignment | None:
        """The next assignment of an idle sampler.

        None while every slot is taken, and when all tickets are handed out.
        """
        assert sampler not in self._at_work
        if self._lost:
            assignment = self._lost.pop(0)
        elif self._free and self._next is not None:
            assignment = Assignment(tickets=self._some(), slot=self._free.pop())  # the last one freed is warm
        else:
            return None
        self._at_work[sampler] = assignment
        return assignment

    def _some(self) -> tuple[Ticket, ...]:
        """The next tickets, as many as make a bulk, or as are left of their epoch."""
        some: list[Ticket] = []
        while (
            self._next is not None and len(some) < self.bulk and self._next.epoch == (some or [self._next])[0].epoch
        ):
            some.append(self._next)
            self._next = next(self._tickets, None)
        return tuple(some)

    def finished(self, sampler: int) -> None:
        """Note that a sampler has written its mini-batches: from now on trainers read them."""
        self._reading[self._at_work.pop(sampler).slot] = self._readers

    def lost(self, sampler: int) -> None:
        """Note that a sampler died: what it was at is to be sampled again, into the same slot."""
        if (assignment := self._at_work.pop(sampler, None)) is not None:
            self._lost.append(assignment)
            self._lost.sort(key=lambda lost: lost.tickets[0].number)

    def released(self, slot: int) -> None:
        """Note that one trainer has let go of a slot, and of all mini-batches in it."""
        self._reading[slot] -= 1
        if self._reading[slot] == 0:
            del self._reading[slot]
            self._free.append(slot)

    @property
    def all_sampled(self) -> bool:
        """True where no sampler will get another assignment."""
        return self._next is None and not (self._lost or self._at_work)

    @property
    def done(self) -> bool:
        """True where everything was sampled, and read by all trainers."""
        return self.all_sampled and not self._reading
