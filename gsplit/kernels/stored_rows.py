"""Feature rows that are picked, and read where they lie: on the CPU a first layer that projects them needs no copy.

A copy writes every row to memory and reads it again in each of the layer's products; read where it lies, a row comes
through the caches once forward and once backward.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import gsplit._core as _core


@dataclass
class Use:
    """The use that was made of stored rows."""

    copied: bool = False
    """Whether somebody computed with a copy: reading rows like these where they lie spares nothing."""


@dataclass(frozen=True, kw_only=True)
class StoredRows:
    """Rows of a table of features, as a model is given them in the place of a tensor if it says that it reads them.

    It has what a layer asks of a tensor before it computes: ``shape``, ``dtype`` and ``device``.
    """

    table: NDArray[np.float32] | Tensor
    """[N, D] rows of all vertices; it may be a file that is mapped for reading. A tensor in bfloat16."""
    ids: NDArray[np.int64]
    """[n] which row of the table each row is."""
    use: Use = field(default_factory=Use)
    """What was done with them, which may be kept without the rows."""

    @property
    def shape(self) -> torch.Size:
        """[n, D]."""
        return torch.Size((len(self.ids), self.table.shape[1]))

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.table.dtype if isinstance(self.table, Tensor) else torch.float32

    @property
    def device(self) -> torch.device:
        """Where the rows lie."""
        return torch.device("cpu")

    def __len__(self) -> int:
        return len(self.ids)

    def copied(self, threads: int) -> Tensor:
        """The rows beside each other, [n, D].

        Args:
            threads: that copy.
        """
        self.use.copied = True
        out = torch.empty(self.shape, dtype=self.dtype)
        if out.numel():
            table = self.table
            values = table.view(torch.uint8).numpy() if isinstance(table, Tensor) else table.view(np.uint8)
            _core.gather_rows(values, self.ids, out.view(torch.uint8).numpy(), threads)
        return out


def copied(x: Tensor | StoredRows) -> Tensor:
    """Rows as a tensor [n, D]: a tensor as it is, stored rows copied by as many threads as PyTorch has."""
    return x.copied(torch.get_num_threads()) if isinstance(x, StoredRows) else x
