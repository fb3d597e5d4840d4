"""Rows and sums that the trainers of one host leave for each other in memory that all of them map.

gloo sends through sockets: each message takes several threads their turns, a third of a millisecond however small it
is. Here a trainer copies what it sends into memory of its own and posts the number of the message; the others wait
for that number, copy their part, and post that they have taken it. Messages are numbered from 1, and use two pieces
of memory in turn, so that one is written while the one before is read: before message m is written, all have taken
message m - 2. A trainer that has begun two messages must have waited for the first before it begins a third.

Whoever lets go of its mailboxes says so, and its process is known: those who wait for a trainer that has left, or
whose process is gone, are notified.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from torch import Tensor

import gsplit._core as _core
from gsplit.host import SharedBuffer

TURNS = 2
"""Messages of a trainer that are in memory at a time."""
SPARE = 1.25
"""A message that does not fit gets room for so many times its bytes: mini-batches differ."""
LOOK_UP_S = 0.1
"""Seconds after which a wait looks whether the other is still there; signals are handled meanwhile, too."""


@dataclass(frozen=True)
class OverHosts:
    """The collectives of the trainers that have one number on each host; for tensors of one shape and type."""

    all_reduce: Callable[[Tensor], object]
    """Replaces a tensor by its sum."""
    all_gather: Callable[[Tensor], list[Tensor]]
    """The tensors of all, by host."""


class Mailboxes:
    """One trainer's view of the memory; every trainer makes its own before any of them sends.

    Args:
        numbers: zeros uint32 [trainers, 2 + trainers] that all map: the last message that each has posted, the
            generation that it has left, and the last message of each other that it has taken.
        generation: number of these mailboxes among those that were made in the same memory, from 1.
        pids: int64 [trainers] that all map: the process of each.
        ranges: int64 [trainers, TURNS, trainers, 2] that all map: where in a message each one's bytes begin and end.
        memory: TURNS pieces of each trainer's.
        rank: of this trainer, among those of its host.
        group: ranks of those who send each other rows, this trainer's among them, in the order of their parts.
        first: rank of the first trainer of the host among all, for messages.
    """

    def __init__(
        self,
        numbers: NDArray[np.uint32],
        pids: NDArray[np.int64],
        ranges: NDArray[np.int64],
        memory: Sequence[Sequence[SharedBuffer]],
        rank: int,
        group: Sequence[int],
        generation: int,
        first: int = 0,
    ) -> None:
        self.over_hosts: OverHosts | None = None
        """What sums and gathers go on with, where the trainers of the group have equals on other hosts."""
        self._generation, self._first = generation, first
        self._numbers, self._ranges, self._memory = numbers.reshape(-1), ranges, memory
        self._width = numbers.shape[1]
        self._rank, self._group, self._sent = rank, tuple(group), 0
        self._mapped: dict[tuple[int, int], Tensor] = {}
        self._pids, pids[rank] = pids, os.getpid()
        weakref.finalize(self, _leave, self._numbers, rank * self._width + 1, generation)

    @classmethod
    def fresh(
        cls,
        pieces: Sequence[Sequence[SharedBuffer]],
        rank: int,
        group: Sequence[int],
        barrier: Callable[[], None],
        first: int = 0,
    ) -> Mailboxes:
        """Mailboxes in which nothing is yet; all trainers make the call.

        Args:
            pieces: memory for the header, and then TURNS of each trainer; the same for all.
            rank, group, first: as above.
            barrier: waits for all trainers.
        """
        (header,), *memory = pieces
        trainers = len(memory)
        # Words of 8 bytes: the generation, the numbers, the processes, the ranges.
        parts = (1, -(-trainers * (2 + trainers) // 2), trainers, trainers * TURNS * trainers * 2)
        if rank == 0:
            header.grow(8 * sum(parts))
        barrier()
        words = header.view((sum(parts),), np.int64)
        if rank == 0:
            words[0] += 1
            words[1:] = 0
        barrier()
        generation, numbers, pids, ranges = np.split(words, np.cumsum(parts)[:-1])
        numbers = numbers.view(np.uint32)[: trainers * (2 + trainers)].reshape(trainers, 2 + trainers)
        ranges = ranges.reshape(trainers, TURNS, trainers, 2)
        mail = cls(numbers, pids, ranges, memory, rank, group, int(generation[0]), first)
        barrier()
        return mail

    def start(
        self, out: Tensor | Sequence[Tensor], sent: Tensor, receive_counts: Sequence[int], send_counts: Sequence[int]
    ) -> Callable[[], None]:
        """Send each member its rows; what is returned waits until ``out`` holds those of member 0, 1, ...

        Args:
            out: [sum(receive_counts), ...] filled with the received rows; contiguous, of the type of ``sent``. Or
                several such tensors of any shapes, filled one after another, each with rows of one member.
            sent: [sum(send_counts), ...] rows, those for member 0 first; it may be written again at once.
            receive_counts: [P] rows from each member of the group.
            send_counts: [P] rows for each member.

        Raises:
            MemoryError: where the host has no room.
            RuntimeError: also from the wait, where a trainer that is waited for has left, or its process is gone.
        """
        ends = np.cumsum([0, *send_counts])
        return self._start(out, sent, receive_counts, np.stack([ends[:-1], ends[1:]], axis=1))

    def _start(
        self, out: Tensor | Sequence[Tensor], sent: Tensor, receive_counts: Sequence[int], ranges: NDArray[np.int64]
    ) -> Callable[[], None]:
        """Begin as :meth:`start` does, with rows ``ranges[member]`` for each member; ranges may be equal."""
        places = out.split(list(receive_counts)) if isinstance(out, Tensor) else out
        assert all(place.is_contiguous() and place.dtype == sent.dtype for place in places)
        self._sent = number = self._sent + 1
        turn, me = number % TURNS, self._group.index(self._rank)
        for peer in self._group:
            if peer != self._rank:
                self._wait_for(peer, self._taken(peer, self._rank), number - TURNS)
        row_bytes = sent.itemsize * sent.shape[1:].numel()
        if sent.numel():
            self._piece(self._rank, turn, sent.nbytes)[: sent.nbytes].copy_(_bytes_of(sent))
        self._ranges[self._rank, turn, : len(ranges)] = ranges * row_bytes
        _core.post_number(self._numbers, self._rank * self._width, number)

        def wait() -> None:
            left = (_bytes_of(place) for place in places if place.numel())
            for member, peer in enumerate(self._group):
                self._wait_for(peer, peer * self._width, number)
                begin, end = (int(each) for each in self._ranges[peer, turn, me])
                wanted = receive_counts[member] * row_bytes
                if end - begin != wanted:
                    raise RuntimeError(
                        f"trainer {self._first + peer} sends {end - begin} bytes to trainer "
                        f"{self._first + self._rank}, which wants {wanted}"
                    )
                while begin < end:
                    into = next(left)
                    into.copy_(self._piece(peer, turn, end)[begin : begin + len(into)])
                    begin += len(into)
                _core.post_number(self._numbers, self._taken(self._rank, peer), number)

        return wait

    def all_reduce(self, x: Tensor) -> None:
        """Replace ``x`` [n] by its sum over the group, the same bits for all: each member adds up a share of it.

        Where there are other hosts, it sums its share with those that its equals there have.

        Args:
            x: contiguous, as long and of the same type everywhere.

        Raises:
            MemoryError, RuntimeError: as :meth:`start` does.
        """
        members, me = len(self._group), self._group.index(self._rank)
        ends = [len(x) * member // members for member in range(members + 1)]
        counts = [end - begin for begin, end in pairwise(ends)]
        shares = x.new_empty((members, counts[me]))
        self.start(shares.view(-1), x, [counts[me]] * members, counts)()
        total = shares.sum(dim=0)
        if self.over_hosts is not None and counts[me]:
            self.over_hosts.all_reduce(total)
        self._start(x, total, counts, np.full((members, 2), [0, counts[me]]))()

    def all_gather(self, x: Tensor) -> list[Tensor]:
        """The tensors of all members, of one shape and type, in the order of the group; of all hosts, by host.

        Raises:
            MemoryError, RuntimeError: as :meth:`start` does.
        """
        equals = x.unsqueeze(0) if self.over_hosts is None else torch.stack(self.over_hosts.all_gather(x))
        members, number = len(self._group), equals.numel()
        out = x.new_empty((members, *equals.shape))
        self._start(out.view(-1), equals.reshape(-1), [number] * members, np.full((members, 2), [0, number]))()
        return list(out.transpose(0, 1).flatten(0, 1))

    def meet(self) -> None:
        """Wait until all members of the group make this call; raises as :meth:`start` does."""
        nothing, counts = torch.empty(0, dtype=torch.uint8), [0] * len(self._group)
        self.start(nothing, nothing, counts, counts)()

    def _taken(self, reader: int, sender: int) -> int:
        """Place of the last message of ``sender`` that ``reader`` has taken."""
        return reader * self._width + 2 + sender

    def _wait_for(self, peer: int, at: int, number: int) -> None:
        """Wait until a peer has posted a number at a place."""
        if number <= 0:
            return
        while not _core.wait_for_number(self._numbers, at, number, LOOK_UP_S):
            left = int(self._numbers[peer * self._width + 1]) == self._generation
            here = not left and is_alive(int(self._pids[peer]))
            # It may have posted the number just before it left.
            if not here and not _core.wait_for_number(self._numbers, at, number, 0.0):
                raise RuntimeError(
                    f"trainer {self._first + peer} has left while trainer {self._first + self._rank} waits for it"
                )

    def _piece(self, trainer: int, turn: int, num_bytes: int) -> Tensor:
        """Memory of a trainer, of at least so many bytes; its own is enlarged where they are not there."""
        mapped = self._mapped.get((trainer, turn))
        if mapped is None or len(mapped) < num_bytes:
            buffer = self._memory[trainer][turn]
            if trainer == self._rank and buffer.num_bytes < num_bytes:
                buffer.grow(int(num_bytes * SPARE))
            mapped = torch.from_numpy(buffer.view((buffer.num_bytes,), np.uint8))
            self._mapped[trainer, turn] = mapped
        return mapped


def _bytes_of(x: Tensor) -> Tensor:
    """The memory of a contiguous tensor, uint8 [bytes]."""
    return x.contiguous().view(-1).view(torch.uint8) if x.numel() else torch.empty(0, dtype=torch.uint8)


def _leave(numbers: NDArray[np.uint32], at: int, generation: int) -> None:
    """Say that a trainer has left this generation; mailboxes of before may be collected after later ones."""
    if numbers[at] < generation:
        _core.post_number(numbers, at, generation)


def is_alive(pid: int) -> bool:
    """Return whether a process computes; one that has ended, but was not waited for yet, does not."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
