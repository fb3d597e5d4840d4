"""A sampler process: samples and splits the mini-batches it is told to, into slots of the ring. Imports no torch.

It has a pipe that only the launcher writes to and one that only it writes to, shares no lock with anyone, and asks
the kernel to be killed with its parent. So it can be killed at any moment: the launcher starts another one, which
samples the same mini-batch again, bit for bit (law 1).
"""

from __future__ import annotations

import os
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from gsplit.data import open_layout
from gsplit.host import SharedBuffer, die_with_parent
from gsplit.sampling.micro_batches import MicroBatches
from gsplit.supply.dispatch import Task
from gsplit.supply.ring import Handle, Ring, bytes_of
from gsplit.supply.tickets import Ticket


@dataclass(frozen=True, kw_only=True)
class SamplerJob:
    """What a sampler is told once: what to sample from, and how."""

    layout: Path
    fan_out: tuple[int, ...]
    batch_size: int
    seed: int
    edge_ids: bool
    memory: int
    """Bytes that a sampler's maps of vertices may take."""
    threads: int
    micro_batches: int = 1
    """Number of micro-batches that a mini-batch is cut into."""
    splits: int | None = None
    """Number of splits of each micro-batch; None: one for each part."""
    fixed_shares: bool = False
    """Each micro-batch has its own share of the training vertices, see :class:`gsplit.sampling.EpochPlan`."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The answer to a bare :class:`Ticket`: the room that its mini-batch takes in a slot."""

    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The last word of a sampler."""

    reason: str
    """One line for the user, or a traceback."""
    bad_input: bool


def main(parent: int, commands_fd: int, reports_fd: int, slot_fds: list[int]) -> None:
    """The life of a sampler process; ends when the launcher closes its pipe."""
    die_with_parent(parent)
    commands, reports = Connection(commands_fd, writable=False), Connection(reports_fd, readable=False)
    try:
        _serve(commands, reports, Ring([SharedBuffer("", fd) for fd in slot_fds]))
    except EOFError:
        return
    except MemoryError as error:
        reason = f"a sampler is out of memory: {error or 'no more could be had'}"
        reports.send(
            Failed(reason=f"{reason}; use fewer --samplers or --slots, or a smaller --batch-size", bad_input=True)
        )
        os._exit(1)
    except BaseException:
        reports.send(Failed(reason=traceback.format_exc(), bad_input=False))
        os._exit(1)


def _serve(commands: Connection, reports: Connection, ring: Ring) -> None:
    job: SamplerJob = commands.recv()
    layout = open_layout(job.layout, trusted=True)
    micro_batches = MicroBatches(
        layout,
        micro_batches=job.micro_batches,
        splits=job.splits or layout.parts,
        fixed_shares=job.fixed_shares,
        fan_out=job.fan_out,
        batch_size=job.batch_size,
        seed=job.seed,
        edge_ids=job.edge_ids,
        memory=job.memory,
        threads=job.threads,
    )
    while True:
        command: Ticket | Task = commands.recv()
        begun_ns, start_s = time.time_ns(), time.perf_counter()
        if isinstance(command, Ticket):
            reports.send(Measured(num_bytes=bytes_of(micro_batches.sample_all(command))))
            continue
        extents = ring.write(command.slot, micro_batches.sample_all(command.ticket))
        reports.send(
            Handle(
                ticket=command.ticket,
                slot=command.slot,
                extents=extents,
                pid=os.getpid(),
                begun_ns=begun_ns,
                seconds=time.perf_counter() - start_s,
            )
        )
