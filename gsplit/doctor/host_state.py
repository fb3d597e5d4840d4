"""Memory, limits and cores that the host gives this process."""

from __future__ import annotations

import os
import resource
import shutil
from dataclasses import dataclass

import torch

import gsplit._core as _core
from gsplit.host import SHARED_MEMORY
from gsplit.limits import core_quota, host_memory


@dataclass(frozen=True, kw_only=True)
class Cores:
    """Cores of the CPU, as this process may use them."""

    number: int | None
    """Cores of the host; None where it does not say."""
    allowed: int
    """Cores that this process may run on."""
    quota: float | None
    """Cores' worth of time that cgroups allow; None without a limit."""
    threads: int
    """Threads that PyTorch computes with, unless another number is configured."""
    instruction_sets: tuple[str, ...]
    """Sets that the core has kernels for and the CPU has, the widest first."""


@dataclass(frozen=True, kw_only=True)
class HostState:
    """Memory and limits of the host. In the place of a limit, None is none; of a size, None is not there."""

    memory_total_bytes: int
    """Main memory that this process may have, as cgroups allow it."""
    memory_available_bytes: int
    """Bytes of it that can be taken now."""
    memlock_bytes: int | None
    """Bytes that a process may lock (RLIMIT_MEMLOCK)."""
    shared_memory_bytes: int | None
    """Size of /dev/shm."""
    shared_memory_free_bytes: int | None
    """Free bytes of /dev/shm."""
    open_files: int | None
    """Files that a process may have open (the soft RLIMIT_NOFILE)."""
    open_files_most: int | None
    """Number that it may raise that to (the hard one)."""
    cores: Cores
    """Cores of the CPU."""


def host_state() -> HostState:
    """Ask the host."""
    memory = host_memory()
    size, free = _shared_memory()
    soft, hard = (_limit(number) for number in resource.getrlimit(resource.RLIMIT_NOFILE))
    return HostState(
        memory_total_bytes=memory.total_bytes,
        memory_available_bytes=memory.available_bytes,
        memlock_bytes=_limit(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]),
        shared_memory_bytes=size,
        shared_memory_free_bytes=free,
        open_files=soft,
        open_files_most=hard,
        cores=Cores(
            number=os.cpu_count(),
            allowed=len(os.sched_getaffinity(0)),
            quota=core_quota(),
            threads=torch.get_num_threads(),
            instruction_sets=tuple(_core.instruction_sets()),
        ),
    )


def _limit(number: int) -> int | None:
    return None if number == resource.RLIM_INFINITY else number


def _shared_memory() -> tuple[int | None, int | None]:
    try:
        usage = shutil.disk_usage(SHARED_MEMORY)
    except OSError:
        return None, None
    return usage.total, usage.free
