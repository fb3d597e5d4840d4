"""Rows of the host on their way to a device: gathered by the CPU into pinned memory, a bounded piece at a time.

PyTorch's allocator of pinned memory rounds up to powers of two and gives nothing back, so what it ever handed out is
the process's until it ends. A piece waits for the copy of the one that was :data:`STAGES` before it, so a loader has
no more than so many of one size.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import gsplit._core as _core
from gsplit.device import accelerator
from gsplit.features.cache import as_bytes
from gsplit.features.host_rows import PIECE_BYTES, HostRows, pieces

STAGES = 3
"""Pieces that a loader may have: one that is filled, and two whose copies are under way."""
UNLIKE = 2
"""Blocks of all smaller sizes, for last pieces and smaller mini-batches, take no more together than the largest."""
KINDS_OF_IDS = 2
"""Lists of ids and of places of a mini-batch: those of its rows, once for each."""
ID_BYTES = 8
"""Bytes of an id, and of a place, on their way to a device."""


class Staging:
    """Brings rows of the host to a device.

    Args:
        host: the rows.
        device: an accelerator.
        threads: that gather.
    """

    def __init__(self, host: HostRows, device: torch.device, threads: int) -> None:
        self._host, self._device, self._threads = host, device, threads
        self._under_way: deque[Any] = deque()

    def brought(self, ids: NDArray[np.int64]) -> Tensor:
        """Rows one after the other, [n, D] as stored, on the device once its stream is there.

        Args:
            ids: int64 [n] rows of the host.

        Raises:
            ValueError: for an id outside the rows.
        """
        host = self._host
        out = torch.empty((len(ids), host.width), dtype=host.dtype, device=self._device)
        for begin, end in pieces(0, len(ids), host.row_bytes):
            if len(self._under_way) == STAGES and not (before := self._under_way.popleft()).query():
                before.synchronize()
            staged = torch.empty((end - begin, host.width), dtype=host.dtype, pin_memory=True)
            if staged.numel():
                _core.gather_rows(host.bytes_view, ids[begin:end], as_bytes(staged), self._threads)
            out[begin:end].copy_(staged, non_blocking=True)
            del staged  # it is free for the allocator once the copy is over, before the event is
            self._under_way.append(accelerator.event(self._device))
        return out


def pinned_bytes(num_bytes: int) -> int:
    """Bytes that PyTorch pins for so many: the next power of two."""
    return 1 << (num_bytes - 1).bit_length() if num_bytes else 0


def staged_bytes(rows: int, row_bytes: int, *, gathered: bool) -> int:
    """Bytes that one trainer pins at most for the rows of its mini-batches, and for their ids and places.

    Args:
        rows: of the largest mini-batch.
        row_bytes: of a row as stored.
        gathered: whether the CPU gathers rows; else a kernel reads them where they lie.
    """
    piece = max(min(PIECE_BYTES, rows * row_bytes), row_bytes if rows else 0)
    of_rows = STAGES * pinned_bytes(piece) if gathered else 0
    return UNLIKE * (of_rows + KINDS_OF_IDS * STAGES * pinned_bytes(ID_BYTES * rows))
