"""What children do in tests of processes: imported by each of them, so it imports little."""

from __future__ import annotations

import gc
import os
import threading
import time

import numpy as np

"""What stays mapped."""


def collects(rank):
    """Whether garbage is looked for, and how many objects are left out."""
    return gc.isenabled(), gc.get_freeze_count()


def square(rank, offset):
    return (rank + offset) ** 2


def fail_on_1(rank, kind):
    if rank == 1:
        raise kind("told so")
    time.sleep(60)  # the others would go on; they are ended


def stay(rank):
    setattr(os, "_exit", lambda code: threading.Event().wait(600))  # noqa: B010
    return rank


def join_and_leave(rank, port):
    import torch
    import torch.distributed as dist

    from gsplit.parallel.collectives import all_reduce
    from gsplit.parallel.join import joined

    def hang(*_):
        raise AssertionError("this may hang")

    dist.destroy_process_group = dist.distributed_c10d.destroy_process_group = hang
    with joined(rank, 2, port, "cpu", threads=1) as member:
        x = torch.tensor(float(rank))
        all_reduce(x, member.group)
        return x.item()


def leave(rank):
    os._exit(7)


def write_into(rank, buffer):
    view = buffer.view((4, 3), np.float32)
    view[rank] = rank + 1
