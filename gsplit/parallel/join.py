"""The process group of the trainers: NCCL where each has a GPU, gloo on the CPU; loopback only."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from gsplit.host import SharedBuffer
from gsplit.parallel.board import Board
from gsplit.sampling import SplitGroups

LOOPBACK = "127.0.0.1"
TIMEOUT = timedelta(minutes=10)
"""How long trainers wait for each other to start."""
PATIENCE = timedelta(days=20)
"""How long a trainer waits in a collective: as long as its peers live. One that dies breaks its connections, and the
launcher ends all; one that is in another collective is found out (:mod:`gsplit.parallel.board`); so whoever is waited
for is only slow, at an evaluation or at writing a checkpoint. Libraries count it in milliseconds, in 32 bits."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """One rank of the group, and where it computes."""

    rank: int
    world: int
    device: torch.device
    group: dist.ProcessGroup | None = None
    """Of all trainers; None only for a trainer that is alone, outside of any group."""
    subgroups: dict[tuple[int, ...], dist.ProcessGroup] = field(default_factory=dict)
    """Those made so far, by their ranks."""
    board: Board | None = None
    """On which trainers agree about what they do next; None: that is not checked."""

    def barrier(self) -> None:
        """Wait for all. A sum on the host: NCCL's barrier would order the device, not the processes."""
        dist.all_reduce(torch.zeros(1), group=self.group)


def split_group(member: Member, groups: SplitGroups) -> dist.ProcessGroup | None:
    """The process group of the trainers that this one splits micro-batches with; all of them make the call.

    Not to be used where groups have a single trainer, which has nobody to send rows to: the result is that of all.
    """
    if groups.size in (1, member.world):
        return member.group
    ranks = tuple(groups.ranks_of(groups.group_of(member.rank)))
    if ranks not in member.subgroups:
        member.subgroups[ranks] = dist.new_group(list(ranks), timeout=PATIENCE, use_local_synchronization=True)
    return member.subgroups[ranks]


def with_board(member: Member, groups: SplitGroups, buffer: SharedBuffer) -> Member:
    """The same member with a fresh notice board; all trainers make the call.

    Args:
        member: of this trainer.
        groups: those that exchange rows.
        buffer: memory for the board, the same for all.
    """
    if member.world == 1:
        return member
    shape = Board.shape(member.world)
    if member.rank == 0:
        buffer.grow(shape[0] * shape[1] * 8)
    member.barrier()
    words = buffer.view(shape, np.uint64)
    words[2 * member.rank : 2 * member.rank + 2] = 0
    member.barrier()
    return replace(member, board=Board(words, member.rank, groups.ranks_of(groups.group_of(member.rank))))


@contextmanager
def rendezvous(world: int) -> Iterator[int]:
    """The port of a store through which ``world`` processes find each other; it listens on loopback only."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        port = listener.getsockname()[1]
        # The store closes the descriptor it is given, hence a duplicate.
        store = dist.TCPStore(
            LOOPBACK,
            port,
            world_size=None,
            is_master=True,
            wait_for_workers=False,
            timeout=TIMEOUT,
            master_listen_fd=os.dup(listener.fileno()),
        )
        yield port
        del store


@contextmanager
def joined(rank: int, world: int, port: int, device_type: str, threads: int) -> Iterator[Member]:
    """Join the group as ``rank``; left when the block ends without an exception.

    Args:
        device_type: ``cpu`` or ``cuda``; the GPU is that of the rank, or shared where there are fewer.
        threads: that PyTorch may use in this process.
    """
    torch.set_num_threads(threads)
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(variable, "lo")
    device = torch.device("cpu")
    backend = "gloo"
    if device_type == "cuda":
        count = torch.cuda.device_count()
        if count < world:
            # NCCL refuses two ranks of one host on one GPU unless they claim to be of different hosts. Only
            # tests come here: the command refuses more trainers than GPUs.
            os.environ.setdefault("NCCL_HOSTID", f"gsplit-{rank}")
        device = torch.device("cuda", rank % count)
        torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl"
    store = dist.TCPStore(LOOPBACK, port, world_size=None, is_master=False, timeout=TIMEOUT)
    dist.init_process_group(
        backend,
        store=store,
        rank=rank,
        world_size=world,
        timeout=PATIENCE,
        device_id=device if device.type == "cuda" else None,
    )
    store.set_timeout(PATIENCE)  # all have started; through it they also meet in groups made later
    yield Member(rank=rank, world=world, device=device, group=dist.group.WORLD)
    dist.destroy_process_group()
