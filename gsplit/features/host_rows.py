"""The feature rows of all vertices on the host: where they come from when no cache has them.

They are either the array of the layout, mapped as it is stored, or a copy in memory that the trainers of the host
share. The copy is for types that files do not have (bfloat16 is none of NumPy's), and for GPUs: a file that is mapped
for reading cannot be registered for their kernels.

Legend: N vertices, D features.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.device import accelerator, numa
from gsplit.errors import InputError
from gsplit.host import SharedBuffer

PIECE_BYTES = 1 << 26
"""Bytes that are converted, or copied to a cache, at a time."""
REGISTERED_BYTES = 4 << 30
"""Bytes that are registered at a time: whole pages, a second or two in which the driver answers nobody."""

logger = logging.getLogger(__name__)


class HostRows:
    """Feature rows [N, D] in host memory.

    Args:
        rows: [N, D] of a type that NumPy has, C-contiguous, such as a mapped file; or uint8 [N, row_bytes], with
            ``dtype``.
        dtype: of the values; by default that of ``rows``.
    """

    def __init__(self, rows: NDArray[Any], dtype: torch.dtype | None = None) -> None:
        assert rows.flags.c_contiguous  # or C++ would be given a copy, of everything, at each call
        self.bytes_view: NDArray[np.uint8] = rows.view(np.uint8)
        """The rows as bytes, [N, row_bytes]."""
        self.dtype = torch.from_numpy(np.empty(0, rows.dtype)).dtype if dtype is None else dtype
        """The type of the values as stored."""
        self.num_rows, self.row_bytes = self.bytes_view.shape
        self.width = self.row_bytes // self.dtype.itemsize
        """D, the number of features."""
        self._pinned: bool | None = None

    @classmethod
    def shared(
        cls,
        features: NDArray[Any],
        dtype: torch.dtype,
        buffer: SharedBuffer,
        *,
        begin: int,
        end: int,
        create: bool,
        barrier: Callable[[], None],
        shown: Callable[[int], str] = str,
    ) -> HostRows:
        """A copy in memory that all trainers of the host share; each makes the call and converts its own range.

        Args:
            features: [N, D] float32 or float16, mapped.
            dtype: of the copy.
            buffer: the same for all trainers.
            begin, end: the range of vertices that this trainer converts; together the trainers convert all.
            create: whether this trainer makes the room; one of them does.
            barrier: waits for all trainers.
            shown: what messages call the vertex of a row.

        Raises:
            InputError: for a value that ``dtype`` cannot hold.
            MemoryError: where the host has no room.
        """
        n, width = features.shape
        shape = (n, width * dtype.itemsize)
        if create:
            buffer.grow(n * shape[1], allocate=numa.allocate)
        barrier()
        rows = cls(buffer.view(shape, np.uint8), dtype)
        out_ND = rows.tensor()
        for first, last in pieces(begin, end, width * features.itemsize):
            # NumPy copies, because PyTorch takes no array that is mapped for reading only.
            values = torch.from_numpy(np.array(features[first:last]))
            converted = out_ND[first:last].copy_(values)
            if not torch.isfinite(converted).all():
                vertex = shown(first + int((~torch.isfinite(converted)).any(dim=1).nonzero()[0]))
                raise InputError(
                    f"the features of vertex {vertex} do not fit into {name_of(dtype)}; use a wider --feature-dtype"
                )
        barrier()
        return rows

    def tensor(self) -> Tensor:
        """The rows as a tensor [N, D] of ``dtype``, the same memory; only of rows that may be written."""
        if not self.bytes_view.size:  # NumPy gives such arrays strides that PyTorch does not take
            return torch.empty((self.num_rows, self.width), dtype=self.dtype)
        return torch.from_numpy(self.bytes_view).view(self.dtype)

    def pin(self) -> bool:
        """Register the rows, so that kernels of an accelerator can read them; returns whether that worked.

        It is tried once. The rows stay registered as long as this object lives, also where others have views of them.
        """
        if self._pinned is None:
            self._pinned = self._register()
        return self._pinned

    def _register(self) -> bool:
        # A file is not even tried: the driver would read all of it before it refuses.
        if not (accelerator.find("auto")[1] and self.bytes_view.flags.writeable and self.bytes_view.size):
            return False
        memory = self.bytes_view.reshape(-1)
        with ExitStack() as taken_back:
            for first in range(0, memory.nbytes, REGISTERED_BYTES):
                piece = memory[first : first + REGISTERED_BYTES]
                code = accelerator.register(piece, accelerator.FOR_ALL_AND_KERNELS)
                if code:
                    logger.warning(
                        "%d bytes of feature rows could not be registered (error %d of the driver)",
                        memory.nbytes, code,
                    )  # fmt: skip
                    return False
                taken_back.callback(accelerator.unregister, piece.ctypes.data)
            weakref.finalize(self, taken_back.pop_all().close)
        return True


def pieces(begin: int, end: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges (begin, end) of rows, each of at most ``PIECE_BYTES`` bytes, or one row."""
    step = max(1, PIECE_BYTES // max(1, row_bytes))
    for first in range(begin, end, step):
        yield first, min(end, first + step)


def name_of(dtype: torch.dtype) -> str:
    """The name of a type without its package: ``float16`` for ``torch.float16``."""
    return str(dtype).removeprefix("torch.")
