"""Which sampler gets which ticket, and which slot it writes to. Bookkeeping only: no process, no pipe, no memory.

A ticket is handed out together with a slot that stays reserved for it until the last trainer has let go of it.
Tickets go out in order, so the earliest one that was not trained yet always has its slot, and later mini-batches
cannot fill the ring and lock everyone up. A ticket whose sampler died keeps its slot, and goes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gsplit.supply.tickets import Ticket


@dataclass(frozen=True, kw_only=True)
class Task:
    """For one sampler: sample this, write it there."""

    ticket: Ticket
    slot: int


class Dispatcher:
    """Hands out tickets and slots.

    Args:
        tickets: all of the run, in order.
        slots: how many there are.
        readers: trainers that must let go of a slot before it is free again.
    """

    def __init__(self, tickets: Iterator[Ticket], *, slots: int, readers: int) -> None:
        self._tickets = tickets
        self._next = next(tickets, None)
        self._readers = readers
        self._free = list(range(slots))
        self._lost: list[Task] = []
        self._at_work: dict[int, Task] = {}
        self._reading: dict[int, int] = {}
        """Readers that have not let go yet, of each slot that is finished."""

    def next_for(self, sampler: int) -> Task | None:
        """The next task of an idle sampler; None while every slot is taken, and when all tickets are handed out."""
        assert sampler not in self._at_work
        if self._lost:
            task = self._lost.pop(0)
        elif self._free and self._next is not None:
            task = Task(ticket=self._next, slot=self._free.pop())  # the last one freed is warm
            self._next = next(self._tickets, None)
        else:
            return None
        self._at_work[sampler] = task
        return task

    def finished(self, sampler: int) -> None:
        """The sampler has written its mini-batch: from now on trainers read it."""
        self._reading[self._at_work.pop(sampler).slot] = self._readers

    def lost(self, sampler: int) -> None:
        """The sampler died. What it was at is to be sampled again, into the same slot."""
        if (task := self._at_work.pop(sampler, None)) is not None:
            self._lost.append(task)
            self._lost.sort(key=lambda task: task.ticket.number)

    def released(self, slot: int) -> None:
        """One trainer has let go of a slot."""
        self._reading[slot] -= 1
        if self._reading[slot] == 0:
            del self._reading[slot]
            self._free.append(slot)

    @property
    def all_sampled(self) -> bool:
        """No sampler will get another task."""
        return self._next is None and not (self._lost or self._at_work)

    @property
    def done(self) -> bool:
        """And every mini-batch was read by all."""
        return self.all_sampled and not self._reading
