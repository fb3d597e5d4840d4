"""What joins the launcher, the samplers and the trainers: who tells whom about mini-batches.

    launcher ── tickets ──► sampler ── handles ──► launcher ── handles, stop ──► leader (trainer 0)
        ▲                                                                          │ handles, in order
        └────────────────────── slots let go of ◄── every trainer ◄────────────────┘

Each arrow is a pipe with one writer and one reader. Data goes from sampler to trainer through the slots alone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from gsplit.host import SharedBuffer
from gsplit.supply.pool import SamplerPool
from gsplit.supply.ring import Handle


@dataclass
class TrainerEnd:
    """What a trainer is passed of the supply; pickles only while a process is spawned."""

    slots: list[SharedBuffer]
    """Empty where trainers sample for themselves."""
    heard: Connection
    """From the launcher (trainer 0) or from the leader (the others): handles, then None."""
    followers: list[Connection]
    """To the other trainers, on trainer 0."""
    released: Connection
    """To the launcher: numbers of slots that this trainer has let go of; None for a mini-batch that had no slot."""

    def close(self) -> None:
        for connection in (self.heard, *self.followers, self.released):
            connection.close()


class Supply:
    """The launcher's side.

    Args:
        trainers: processes.
        pool: makes the samplers, given the function to call with each finished mini-batch; None: every trainer
            samples for itself, and is only told when to stop.
    """

    def __init__(self, trainers: int, pool: Callable[[Callable[[Handle], None]], SamplerPool] | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        heard, self._leader = context.Pipe(duplex=False)
        followers = [context.Pipe(duplex=False) for _ in range(trainers - 1)]
        released = [context.Pipe(duplex=False) for _ in range(trainers)]
        self._pool = None if pool is None else pool(self._tell_leader)
        self._released = [reader for reader, _ in released]
        self._begun = False
        self.ends = [
            TrainerEnd(
                slots=[] if self._pool is None else self._pool.slots,
                heard=heard if rank == 0 else followers[rank - 1][0],
                followers=[] if rank else [writer for _, writer in followers],
                released=released[rank][1],
            )
            for rank in range(trainers)
        ]
        """By rank; :meth:`close_ends` once the trainers have them."""

    def close_ends(self) -> None:
        """Leave the trainers' ends to the trainers, so that a pipe ends with them."""
        for end in self.ends:
            end.close()

    def files(self) -> list[Connection]:
        """To wait for, until :meth:`ready` has read from them."""
        return [*self._released, *([] if self._pool is None else self._pool.files())]

    def ready(self, file: Connection) -> None:
        """Something arrived at ``file``; raises what :meth:`SamplerPool.ready` does."""
        if file not in self._released:
            assert self._pool is not None
            self._pool.ready(file)
            return
        try:
            slot: int | None = file.recv()
        except (EOFError, OSError):
            self._released.remove(file)  # the trainer has left; why is the business of who waits for it
            return
        self._begun = True
        if slot is not None:
            assert self._pool is not None
            self._pool.released(slot)

    def stop(self) -> bool:
        """Ask the trainers to end after the mini-batch at work. False where none has reached them yet."""
        if self._begun:
            self._tell_leader(None)
        return self._begun

    def end(self) -> None:
        """End the samplers; the trainers have ended before."""
        if self._pool is not None:
            self._pool.end()
        self.close_ends()
        for connection in (self._leader, *self._released):
            connection.close()

    def _tell_leader(self, handle: Handle | None) -> None:
        with contextlib.suppress(OSError):  # it has ended: the launcher sees that for itself
            self._leader.send(handle)
