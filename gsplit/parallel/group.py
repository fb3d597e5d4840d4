"""The process group of the trainers: NCCL where each has a GPU, gloo on the CPU; loopback only."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist

from gsplit.sampling import SplitGroups

LOOPBACK = "127.0.0.1"
TIMEOUT = timedelta(minutes=10)
"""After which a collective gives up; a peer that died is noticed at once, this is for one that hangs."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One rank of the group, and where it computes."""

    rank: int
    world: int
    device: torch.device
    group: dist.ProcessGroup | None = None
    """Of all trainers; None only for a trainer that is alone, outside of any group."""
    subgroups: dict[tuple[int, ...], dist.ProcessGroup] = field(default_factory=dict)
    """Those made so far, by their ranks."""

    def barrier(self) -> None:
        """Wait for all. A sum on the host: NCCL's barrier would order the device, not the processes."""
        dist.all_reduce(torch.zeros(1), group=self.group)


def split_group(worker: Worker, groups: SplitGroups) -> dist.ProcessGroup | None:
    """The process group of the trainers that this one splits micro-batches with; all of them make the call.

    Not to be used where groups have a single trainer, which has nobody to send rows to: the result is that of all.
    """
    if groups.size in (1, worker.world):
        return worker.group
    ranks = tuple(groups.ranks_of(groups.group_of(worker.rank)))
    if ranks not in worker.subgroups:
        worker.subgroups[ranks] = dist.new_group(list(ranks), timeout=TIMEOUT, use_local_synchronization=True)
    return worker.subgroups[ranks]


@contextmanager
def rendezvous(world: int) -> Iterator[int]:
    """The port of a store through which ``world`` processes find each other; it listens on loopback only."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        port = listener.getsockname()[1]
        # The store closes the descriptor it is given, hence a duplicate.
        store = dist.TCPStore(
            LOOPBACK, port, world_size=None, is_master=True, wait_for_workers=False, timeout=TIMEOUT,
            master_listen_fd=os.dup(listener.fileno()),
        )  # fmt: skip
        yield port
        del store


@contextmanager
def joined(rank: int, world: int, port: int, device_type: str, threads: int) -> Iterator[Worker]:
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
        backend, store=store, rank=rank, world_size=world, timeout=TIMEOUT,
        device_id=device if device.type == "cuda" else None,
    )  # fmt: skip
    yield Worker(rank=rank, world=world, device=device, group=dist.group.WORLD)
    dist.destroy_process_group()
