"""Shared memory without a name.

A buffer is a memfd: it lives as long as a process has it open, so nothing is left behind whatever happens, no
other user can open it, and a small /dev/shm does no harm. The parent makes it empty and passes the descriptor
when it spawns the trainers; one of them sizes it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray


class SharedBuffer:
    """Memory that several processes map. Pickles only while a process is spawned."""

    def __init__(self, name: str) -> None:
        self._fd = os.memfd_create(name, os.MFD_CLOEXEC)

    def grow(self, num_bytes: int) -> None:
        """Make room for ``num_bytes``; what is there stays. One process calls it, the others wait for it.

        Raises:
            MemoryError: where the host has less than that free.
        """
        more = num_bytes - os.fstat(self._fd).st_size
        if more <= 0:
            return
        available = psutil.virtual_memory().available
        if more > available:
            raise MemoryError(
                f"shared memory of {num_bytes:,} bytes is needed, and the host has {available:,} bytes available"
            )
        os.posix_fallocate(self._fd, 0, num_bytes)

    def view(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """The first bytes as an array; the mapping goes when the array does."""
        num_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if num_bytes == 0:
            return np.zeros(shape, dtype)
        return np.frombuffer(mmap.mmap(self._fd, num_bytes), dtype).reshape(shape)

    def close(self) -> None:
        os.close(self._fd)

    def __reduce__(self) -> tuple[Callable[..., SharedBuffer], tuple[Any]]:
        return _rebuild, (reduction.DupFd(self._fd),)


def _rebuild(passed: Any) -> SharedBuffer:
    buffer = SharedBuffer.__new__(SharedBuffer)
    buffer._fd = passed.detach()
    return buffer
