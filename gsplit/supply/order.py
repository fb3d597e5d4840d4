"""The order in which finished mini-batches are trained: the leader picks, the others follow.

The leader, trainer 0, hears from the launcher of every mini-batch that a sampler has finished, picks the next one and
writes its handle into one pipe for each other trainer. So all train the same mini-batches in the same order, and all
stop at the same one when the launcher asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Literal, Protocol

from gsplit.supply.ring import Handle
from gsplit.supply.tickets import Ticket

if TYPE_CHECKING:
    from gsplit.supply.pipes import TrainerEnd

By = Literal["sequence", "ready"]
"""How the leader picks. ``sequence``: as the tickets are numbered, so that results do not depend on the samplers;
``ready``: first finished, first trained, though never before the epoch that comes first is over."""

PATIENCE_S = 600.0
"""Seconds that the leader waits for a mini-batch to be sampled; for a bulk as often as it has mini-batches. A sampler
that dies is replaced at once; this is for one that hangs."""


class Order(Protocol):
    """The order of mini-batches: a trainer asks it for the next one."""

    def next(self) -> Handle | None:
        """The handle of the next mini-batch; None when the run is over, or shall stop.

        Raises:
            RuntimeError: where no mini-batch is sampled in time.
            EOFError: where the leader has ended.
        """


class OwnOrder:
    """The order of a trainer that gets no messages: all tickets, one after the other."""

    def __init__(self, tickets: Iterator[Ticket]) -> None:
        self._tickets = tickets

    def next(self) -> Handle | None:
        """The next ticket, without a slot; None after the last."""
        ticket = next(self._tickets, None)
        return None if ticket is None else Handle(ticket=ticket)


class Leader:
    """Picks the next mini-batch and tells the others.

    Args:
        tickets: all of the run, in sequence.
        heard: from the launcher: tuples of handles of finished mini-batches, and None to stop.
        followers: a pipe to each other trainer.
        by: how it picks.
        sampled: whether there are sampler processes; otherwise every trainer samples for itself, and no handle is
            waited for.
        bulk: mini-batches that come together, at most: the first of them waits for all.
    """

    def __init__(
        self,
        tickets: Iterator[Ticket],
        heard: Connection,
        followers: Sequence[Connection],
        *,
        by: By,
        sampled: bool,
        bulk: int = 1,
    ) -> None:
        self._patience_s = PATIENCE_S * bulk
        self._epochs = (list(epoch) for _, epoch in groupby(tickets, lambda ticket: ticket.epoch))
        self._left: dict[int, Ticket] = {}
        """The tickets of the current epoch that are not trained yet, by number, in sequence."""
        self._finished: dict[int, Handle] = {}
        """The handles of finished mini-batches, by number of the ticket, first finished first."""
        self._heard = heard
        self._followers = followers
        self._by = by
        self._sampled = sampled
        self._stopped = False

    def next(self) -> Handle | None:
        """Pick the next mini-batch, tell the others, and return its handle; None to end."""
        handle = self._pick()
        for follower in self._followers:
            follower.send(handle)
        return handle

    def _pick(self) -> Handle | None:
        if not self._left:
            self._left = {ticket.number: ticket for ticket in next(self._epochs, [])}
        while self._left:
            while self._heard.poll():
                self._listen()
            if self._stopped:
                return None
            number = self._choose()
            if number is not None:
                ticket = self._left.pop(number)
                return self._finished.pop(number) if self._sampled else Handle(ticket=ticket)
            self._listen()
        return None

    def _choose(self) -> int | None:
        """The number of the ticket to train next; None while that is not finished."""
        first = next(iter(self._left))
        if not self._sampled:
            return first
        if self._by == "ready":
            return next((number for number in self._finished if number in self._left), None)
        return first if first in self._finished else None

    def _listen(self) -> None:
        if not self._heard.poll(self._patience_s):
            raise RuntimeError(f"no mini-batch came within {self._patience_s:.0f} s, though all processes live")
        handles: tuple[Handle, ...] | None = self._heard.recv()
        if handles is None:
            self._stopped = True
        else:
            self._finished |= {handle.ticket.number: handle for handle in handles}


class Follower:
    """Does what the leader says, and waits for it as long as it lives.

    Args:
        heard: from the leader: handles in the order in which they are trained, then None.
    """

    def __init__(self, heard: Connection) -> None:
        self._heard = heard

    def next(self) -> Handle | None:
        """Return what the leader picked; None to end."""
        handle: Handle | None = self._heard.recv()
        return handle


def order_of(left: Iterator[Ticket], end: TrainerEnd | None, rank: int, *, by: By, bulk: int = 1) -> Order:
    """The order that one trainer follows.

    Args:
        left: tickets of the run that are left.
        end: the trainer's end of the supply; without one it gets no messages and takes all tickets in turn.
        rank: of the trainer; 0 leads.
        by: which finished mini-batch comes next.
        bulk: mini-batches that come together, at most.
    """
    if end is None:
        return OwnOrder(left)
    if rank == 0:
        return Leader(left, end.heard, end.followers, by=by, sampled=bool(end.slots), bulk=bulk)
    return Follower(end.heard)
