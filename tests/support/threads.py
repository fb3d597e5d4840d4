"""Trainers as threads of one process: worlds of any size in no time, each with gloo groups of its own.

A function is called as ``function(member, *arguments)`` in every thread, as those of the pool are in its processes.
"""

from __future__ import annotations

import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _world
from torch.torch_version import TorchVersion

from gsplit.parallel import Member

PATIENCE = timedelta(seconds=20)
BEFORE_2_8 = TorchVersion(torch.__version__) < "2.8"
"""Whether PyTorch asks for the ranks of a group, and takes gloo's down holding Python's lock."""
LET_GO_S = 0.05
"""Seconds that gloo's threads then have for letting go of the last tensors, for which they want that lock, too."""
GLOO = dist.ProcessGroup.BackendType.GLOO


class Groups(dict):
    """In place of the groups that a member has made: makes each when it is asked for."""

    def __init__(self, store, rank: int) -> None:
        super().__init__()
        self._store, self._rank = store, rank

    def __contains__(self, ranks) -> bool:
        return True

    def __missing__(self, ranks):
        name = "-".join(map(str, ranks))
        store, place = dist.PrefixStore(name, self._store), ranks.index(self._rank)
        group = dist.ProcessGroup(store, place, len(ranks))
        backend = dist.ProcessGroupGloo(store, place, len(ranks), PATIENCE)
        group._set_default_backend(GLOO)
        group._register_backend(torch.device("cpu"), GLOO, backend)
        group._set_group_name(name)
        if BEFORE_2_8:
            _world.pg_group_ranks[group] = {rank: i for i, rank in enumerate(ranks)}
        self[ranks] = group
        return group


def in_threads(world: int, function, *arguments) -> list:
    """Results of ``function`` on all members; the first that fails says why."""
    store = dist.HashStore()
    failed: list[str] = []
    stop = threading.Event()

    def live(rank: int):
        try:
            groups = Groups(store, rank)
            group = groups[tuple(range(world))]
            member = Member(rank=rank, world=world, device=torch.device("cpu"), group=group, made=groups)
            return function(member, *arguments)
        except BaseException:
            if not stop.is_set():
                failed.append(f"rank {rank} of {world}:\n{traceback.format_exc()}")
            stop.set()
            raise

    known = dict(_world.pg_group_ranks)
    with ThreadPoolExecutor(world) as pool:
        futures = [pool.submit(live, rank) for rank in range(world)]
        errors = [future.exception() for future in futures]
    if BEFORE_2_8:
        time.sleep(LET_GO_S)
        _world.pg_group_ranks.clear()
        _world.pg_group_ranks.update(known)
    assert not any(errors), failed[0]
    return [future.result() for future in futures]
