"""What joins the launcher, the samplers and the trainers: who tells whom about mini-batches.

    launcher ── assignments ──► sampler ── handles ──► launcher ── handles, stop ──► leader (trainer 0)
        ▲                                                                              │ handles, in order
        └───────────────────────── slots let go of ◄── every trainer ◄────────────────┘

Each arrow is a pipe with one writer and one reader. Data goes from sampler to trainer through the slots alone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from gsplit.host import SharedBuffer
from gsplit.supply.pool import SamplerPool
from gsplit.supply.ring import Handle

END = object()
"""The last message to a thread that writes."""
CLOSING_S = 5.0
"""Seconds that a thread is given to end; it may be at a pipe that nobody reads."""
MakePool = Callable[[Callable[[tuple[Handle, ...]], None]], SamplerPool]
"""Makes the samplers, given the function to call with finished mini-batches."""


@dataclass
class TrainerEnd:
    """A trainer's end of the supply; it pickles only while a process is spawned."""

    slots: list[SharedBuffer]
    """The slots of the ring; empty where trainers sample for themselves."""
    heard: Connection
    """The pipe from the launcher (to trainer 0): tuples of handles; or from the leader (to the others): handles. Then
    None."""
    followers: list[Connection]
    """The pipes to the other trainers; empty but for trainer 0."""
    released: Connection
    """The pipe to the launcher: slots that this trainer has let go of, None for a mini-batch that had no slot, or was
    the first of others in it."""

    def close(self) -> None:
        """Close the pipes."""
        for connection in (self.heard, *self.followers, self.released):
            connection.close()

    @contextlib.contextmanager
    def held(self) -> Iterator[TrainerEnd]:
        """Hold it in a process that outlives the run: behind the block the pipes are closed, and the slots, too."""
        try:
            yield self
        finally:
            self.close()
            for slot in self.slots:
                slot.close()


class Supply:
    """The launcher's side of the supply; an attendant of the trainers (:class:`gsplit.processes.children.Attendant`).

    Args:
        trainers: number of processes.
        pool: makes the samplers, given the function to call with finished mini-batches; None where every trainer
            samples for itself, and is only notified when to stop.
    """

    def __init__(self, trainers: int, pool: MakePool | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        heard, leader = context.Pipe(duplex=False)
        self._leader = NonBlockingWriter(leader)
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
        """The end of each trainer, by rank; :meth:`close_ends` once the trainers have them."""

    def close_ends(self) -> None:
        """Close the trainers' ends here, so that a pipe ends with its trainer."""
        for end in self.ends:
            end.close()

    def files(self) -> list[Connection]:
        """The pipes to wait for; :meth:`ready` reads from them."""
        return [*self._released, *([] if self._pool is None else self._pool.files())]

    def ready(self, file: Connection) -> None:
        """Read what has arrived at ``file``, and act on it.

        Raises:
            InputError, ProcessDied: as :meth:`SamplerPool.ready` does.
        """
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
        """Ask the trainers to end after the current mini-batch. False where no mini-batch has reached them yet."""
        if self._begun:
            self._tell_leader(None)
        return self._begun

    def end(self) -> None:
        """End the samplers and close all pipes; the trainers have ended before."""
        if self._pool is not None:
            self._pool.end()
        self.close_ends()
        self._leader.close()
        for connection in self._released:
            connection.close()

    def _tell_leader(self, handles: tuple[Handle, ...] | None) -> None:
        self._leader.tell(handles)


class NonBlockingWriter:
    """The writing end of a pipe, whose sender does not wait.

    A pipe holds 64 KiB, and the handles of some bulks take more; its reader may be busy for long, as a trainer is in
    an evaluation. So a thread writes, once there is something to write.

    Args:
        connection: the end to write to.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._left: SimpleQueue[Any] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="gsplit-writer", daemon=True)
        self._begun = False

    def tell(self, message: object) -> None:
        """Have a message written, behind those that were sent before; to a reader that has ended it is lost."""
        self._left.put(message)
        if not self._begun:
            self._begun = True
            self._thread.start()

    def close(self) -> None:
        """Close the pipe; its reader has ended."""
        if self._begun:
            self._left.put(END)
            self._thread.join(CLOSING_S)
        self._connection.close()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # it has ended: the launcher sees that for itself
            while (message := self._left.get()) is not END:
                self._connection.send(message)
