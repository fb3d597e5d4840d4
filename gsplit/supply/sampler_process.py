"""A sampler process: samples and splits the mini-batches it is assigned, into slots of the ring. Imports no torch.

It has a pipe that only the launcher writes to and one that only it writes to, shares no lock with anyone, and asks
the kernel to be killed with its parent. So it can be killed at any moment: the launcher starts another one, which
samples the same mini-batch again, bit for bit (law 1).

    launcher ── SamplerSpec once, then Ticket (how large is it?) or Assignment ──► sampler
    sampler  ── Measured for a Ticket, Handles for an Assignment; Failed, at the end ──► launcher
"""

from __future__ import annotations

import os
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection

from gsplit.data import open_layout
from gsplit.errors import refused_by_host
from gsplit.host import SharedBuffer, die_with_parent
from gsplit.sampling import MicroBatches, SamplerSpec
from gsplit.supply.dispatch import Assignment
from gsplit.supply.ring import Handle, Ring, bytes_of
from gsplit.supply.tickets import Ticket

SMALLER = "smaller mini-batches (--batch-size, --subgraph or --clusters)"
"""What to do where one takes too much."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The answer to a bare :class:`Ticket`: how large its mini-batch is. Nothing was written."""

    num_bytes: int
    """Bytes that it takes in a slot."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The last word of a sampler."""

    reason: str
    """One line for the user, or a traceback."""
    bad_input: bool
    """Whether it is for the user: something that other flags would mend."""


def main(parent: int, commands_fd: int, reports_fd: int, slot_fds: list[int]) -> None:
    """Live as a sampler process until the launcher closes its pipe.

    Args:
        parent: process id of the launcher; this process is killed with it.
        commands_fd, reports_fd: the pipes from and to the launcher.
        slot_fds: the slots of the ring.
    """
    die_with_parent(parent)
    commands, reports = Connection(commands_fd, writable=False), Connection(reports_fd, readable=False)
    try:
        _serve(commands, reports, Ring([SharedBuffer("", fd) for fd in slot_fds]))
    except EOFError:
        return
    except MemoryError as error:
        reason = f"a sampler is out of memory: {error or 'no more could be had'}"
        reports.send(Failed(reason=f"{reason}; use fewer --samplers or --slots, or {SMALLER}", bad_input=True))
        os._exit(1)
    except BaseException as error:
        line = refused_by_host(error)
        reason = traceback.format_exc() if line is None else f"a sampler: {line}"
        reports.send(Failed(reason=reason, bad_input=line is not None))
        os._exit(1)


def _serve(commands: Connection, reports: Connection, ring: Ring) -> None:
    spec: SamplerSpec = commands.recv()
    micro_batches = MicroBatches(open_layout(spec.layout, trusted=True, typed=True), spec)
    while True:
        command: Ticket | Assignment = commands.recv()
        begun_ns, start_s = time.time_ns(), time.perf_counter()
        if isinstance(command, Ticket):
            reports.send(Measured(num_bytes=bytes_of(micro_batches.sample_all(command.epoch, command.batch))))
            continue
        handles: list[Handle] = []
        for ticket in command.tickets:
            first = handles[-1].extents[-1][1] if handles else 0
            extents = ring.write(command.slot, micro_batches.sample_all(ticket.epoch, ticket.batch), first=first)
            handles.append(
                Handle(
                    ticket=ticket,
                    slot=command.slot,
                    extents=extents,
                    bulk=len(command.tickets),
                    pid=os.getpid(),
                    begun_ns=begun_ns,
                    seconds=time.perf_counter() - start_s,
                )
            )
            begun_ns, start_s = time.time_ns(), time.perf_counter()
        reports.send(tuple(handles))
