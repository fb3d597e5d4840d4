"""The sampler processes of a run: started, given their assignments, replaced when they die, ended.

They are not children of multiprocessing: that would import the user's script into each, and PyTorch with it. A
sampler is a fresh Python that is passed the descriptors of its two pipes and of the slots; its death shows as the end
of the pipe it reports through. Law 1 makes a replacement's mini-batch the same, bit for bit.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import multiprocessing
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing.connection import Connection

from gsplit.errors import InputError, ProcessDied
from gsplit.host import SharedBuffer, check_memory, held_back
from gsplit.limits import host_memory
from gsplit.processes.child import GRACE_S, death
from gsplit.sampling import SamplerSpec
from gsplit.supply.dispatch import Dispatcher
from gsplit.supply.ring import Handle, with_headroom
from gsplit.supply.sampler_process import SMALLER, Failed, Measured
from gsplit.supply.tickets import Ticket
from gsplit.units import binary

DRY_RUN = 2
"""Number of mini-batches that are sampled, and thrown away, to size the slots."""
PARTS_OF_AN_EPOCH = 4
"""Bulks of each sampler in an epoch, at least, where their size is not configured."""
MOST_IN_A_BULK = 256
"""Mini-batches in a bulk whose size is not configured: more bring nothing."""
START = "import sys; sys.path[:] = {path}; from gsplit.supply.sampler_process import main; main{arguments}"
"""The program of a sampler process; ``arguments`` is the tuple that ``main`` is called with."""

logger = logging.getLogger(__name__)


@dataclass
class Sampler:
    """One process and its two pipes."""

    process: subprocess.Popen[bytes]
    commands: Connection
    reports: Connection

    def close(self) -> None:
        """Close the pipes."""
        self.commands.close()
        self.reports.close()


class SamplerPool:
    """Keeps samplers busy; the launcher's loop calls :meth:`ready` whenever one of :meth:`files` has something.

    Args:
        spec: what to sample from, and how.
        tickets: all of the run, in sequence.
        samplers: number of processes.
        slots: number of slots of the ring. They have no size until the dry run is over.
        readers: number of trainers, each of which reads every mini-batch.
        finished: called with finished mini-batches, those of a bulk together.
        max_restarts: number of samplers that may be replaced before the run is given up.
        bulk: mini-batches that are sampled, written to a slot and reported together; None for as many as a part of
            the free memory takes.
        epoch: number of mini-batches of an epoch, which a bulk has at most.

    Raises:
        InputError: where the system lets this process open no more files.
    """

    def __init__(
        self,
        spec: SamplerSpec,
        tickets: Iterator[Ticket],
        *,
        samplers: int,
        slots: int,
        readers: int,
        finished: Callable[[tuple[Handle, ...]], None],
        max_restarts: int,
        bulk: int | None = 1,
        epoch: int | None = None,
    ) -> None:
        self.slots: list[SharedBuffer] = []
        self._spec = spec
        self._finished = finished
        self._max_restarts = max_restarts
        self._restarts = 0
        self._bulk, self._epoch = bulk, epoch or bulk or 1
        self._slot_bytes = 0
        first = list(islice(tickets, DRY_RUN))
        self._to_measure = deque(first)
        self._measuring: dict[int, Ticket] = {}
        self._dispatcher = Dispatcher(chain(first, tickets), slots=slots, readers=readers, bulk=bulk or 1)
        self._samplers: dict[int, Sampler] = {}
        self._idle: set[int] = set()
        try:
            for slot in range(slots):
                self.slots.append(SharedBuffer(f"gsplit-slot-{slot}"))
            for index in range(samplers):
                self._start(index)
        except BaseException as error:
            self.end()
            if isinstance(error, OSError) and error.errno == errno.EMFILE:
                raise InputError(
                    f"no open files are left for {slots} slots and {samplers} samplers: each takes a few; use fewer "
                    "--samplers, --slots or --prefetch, or allow more open files (ulimit -n)"
                ) from None
            raise

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        """The sampler processes that are there now."""
        return [sampler.process for sampler in self._samplers.values()]

    @property
    def done(self) -> bool:
        """True where all mini-batches of the run were sampled, and read by all trainers."""
        return self._dispatcher.done

    def files(self) -> list[Connection]:
        """The pipes to wait for; :meth:`ready` reads from them."""
        return [sampler.reports for sampler in self._samplers.values()]

    def ready(self, file: Connection) -> None:
        """Hear one report, or the end of a sampler.

        Raises:
            InputError: where memory does not suffice.
            ProcessDied: for a sampler that failed, or one too many that was killed.
        """
        index = next((index for index, sampler in self._samplers.items() if sampler.reports is file), None)
        if index is None:
            return  # the samplers have ended since: all is sampled
        try:
            report = file.recv()
        except (EOFError, OSError):
            self._replace(index)
            return
        match report:
            case Failed():
                if report.bad_input:
                    raise InputError(report.reason)
                raise ProcessDied(f"sampler {index} failed:\n{report.reason}")
            case Measured():
                del self._measuring[index]
                self._slot_bytes = max(self._slot_bytes, with_headroom(report.num_bytes))
                if not self._to_measure and not self._measuring:
                    self._size_slots()
            case tuple():
                self._dispatcher.finished(index)
                self._warn_if_large(report[-1])
                self._finished(report)
        self._idle.add(index)
        self._assign()
        if self._dispatcher.all_sampled:
            self._end_samplers()

    def released(self, slot: int) -> None:
        """Note that a trainer has let go of all that lies in a slot; a sampler may have waited for it."""
        self._dispatcher.released(slot)
        self._assign()

    def end(self) -> None:
        """End all samplers and give the slots back."""
        self._end_samplers()
        for slot in self.slots:
            slot.close()
        self.slots = []

    def _end_samplers(self) -> None:
        """End all samplers, and wait until they are gone."""
        for sampler in self._samplers.values():
            sampler.process.kill()  # it holds nothing that it could leave behind
        for sampler in self._samplers.values():
            sampler.process.wait()
            sampler.close()
        self._samplers.clear()
        self._idle.clear()

    def _assign(self) -> None:
        """Give each idle sampler something to do: first the dry run, then assignments."""
        for index in sorted(self._idle):
            if self._to_measure:
                self._measuring[index] = self._to_measure.popleft()
                self._tell(index, self._measuring[index])
            elif not self._measuring and (assignment := self._dispatcher.next_for(index)) is not None:
                self._tell(index, assignment)

    def _tell(self, index: int, command: object) -> None:
        self._idle.discard(index)
        with contextlib.suppress(OSError):  # it died: the end of its reports says so
            self._samplers[index].commands.send(command)

    def _size_slots(self) -> None:
        """Give the slots their sizes; the dry run is over."""
        each, slots = self._slot_bytes, len(self.slots)
        if self._bulk is None:
            self._bulk = self._dispatcher.bulk = self._bulk_that_fits(each)
            logger.info("--bulk auto samples %d mini-batches at a time", self._bulk)
        self._bulk = self._dispatcher.bulk = min(self._bulk, max(1, self._epoch))  # no bulk crosses an epoch
        self._slot_bytes = each * self._bulk
        try:
            check_memory(slots * self._slot_bytes)
            for slot in self.slots:
                slot.grow(self._slot_bytes)
        except MemoryError as error:
            what, instead = "a mini-batch each", f"fewer --slots or {SMALLER}"
            if self._bulk > 1:
                fits = host_memory().available_bytes // (slots * max(1, each))
                what = f"{self._bulk} mini-batches each"
                instead = f"--bulk {fits} or fewer --slots" if fits else f"fewer --slots, or {SMALLER}"
            raise InputError(
                f"no memory for {slots} slots of {binary(self._slot_bytes)}, {what}: {error}; use {instead}"
            ) from None

    def _bulk_that_fits(self, each: int) -> int:
        """Number of mini-batches with which all slots together take an eighth of the free memory.

        At most a part of an epoch, so that training begins, and all samplers work, long before it is sampled.
        """
        fits = int(host_memory().available_bytes / 8 // (len(self.slots) * max(1, each)))
        part = self._epoch // (PARTS_OF_AN_EPOCH * max(1, len(self._samplers)))
        return max(1, min(fits, part, MOST_IN_A_BULK))

    def _warn_if_large(self, handle: Handle) -> None:
        needed = handle.extents[-1][1]
        if needed > self._slot_bytes:
            logger.warning(
                "mini-batches up to %d of epoch %d take %s, more than the %s of a slot; their slot was enlarged"
                if handle.bulk > 1
                else "mini-batch %d of epoch %d takes %s, more than the %s of a slot; its slot was enlarged",
                handle.ticket.batch,
                handle.ticket.epoch + 1,
                binary(needed),
                binary(self._slot_bytes),
            )
            self._slot_bytes = needed

    def _start(self, index: int) -> None:
        context = multiprocessing.get_context("spawn")
        their_commands, commands = context.Pipe(duplex=False)
        reports, their_reports = context.Pipe(duplex=False)
        slot_fds = [slot.fileno() for slot in self.slots]
        theirs = (their_commands.fileno(), their_reports.fileno())
        code = START.format(path=repr(sys.path), arguments=repr((os.getpid(), *theirs, slot_fds)))
        with held_back():
            process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=(*theirs, *slot_fds)
            )
        their_commands.close()
        their_reports.close()
        self._samplers[index] = Sampler(process, commands, reports)
        self._tell(index, self._spec)
        self._idle.add(index)
        self._assign()

    def _replace(self, index: int) -> None:
        dead = self._samplers.pop(index)
        dead.close()
        code = dead.process.wait(GRACE_S)
        self._idle.discard(index)
        what = death(f"sampler {index}", dead.process.pid, code)
        if code >= 0:
            raise ProcessDied(what)
        if self._restarts == self._max_restarts:
            raise ProcessDied(f"{what}; --max-sampler-restarts {self._max_restarts} allows no more replacements")
        self._restarts += 1
        logger.warning("%s. It is replaced; what it was at is sampled again", what)
        if (ticket := self._measuring.pop(index, None)) is not None:
            self._to_measure.appendleft(ticket)
        self._dispatcher.lost(index)
        self._start(index)
