"""What children do in tests of processes: imported by each of them, so it imports little."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import numpy as np


def collects(rank):
    """Whether garbage is looked for, and how many objects are left out."""
    return gc.isenabled(), gc.get_freeze_count()


def square(rank, offset):
    return (rank + offset) ** 2


def fail_on_1(rank, kind):
    if rank == 1:
        raise kind("told so")
    time.sleep(60)  # the others would go on; they are ended


def leave(rank):
    (Path("/dev/shm") / f"torch_{os.getpid()}_1_0").touch()  # as PyTorch does where GPUs read each other's memory
    os._exit(7)


def write_into(rank, buffer):
    view = buffer.view((4, 3), np.float32)
    view[rank] = rank + 1
