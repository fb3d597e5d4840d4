"""Loads the feature rows of a split from the memory-mapped host array.

Every vertex of level 0 belongs to one split, so every row is loaded once, by its owner (law 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import gsplit._core as _core


@dataclass(kw_only=True)
class LoadCounters:
    """What was loaded since the counters were made."""

    rows: int = 0
    """Feature rows read from the host."""
    host_to_device_bytes: int = 0
    """Their bytes as stored. Counted on the CPU too, where the host is the device."""


class FeatureLoader:
    """Gathers rows in C++ and brings them to a device.

    Args:
        features: [N, D] float32 or float16, mapped.
        device: where the rows go.
        dtype: in which the model computes.
        normalize: divide each row by the sum of its absolute values (rows of zeros stay), as PyG's
            ``NormalizeFeatures`` does for counts.
        threads: that gather.
    """

    def __init__(
        self,
        features: NDArray[Any],
        *,
        device: torch.device,
        dtype: torch.dtype,
        normalize: bool,
        threads: int,
    ) -> None:
        self._features = features
        self._device = device
        self._dtype = dtype
        self._normalize = normalize
        self._threads = threads
        self.counters = LoadCounters()

    def take_counters(self) -> LoadCounters:
        """What was loaded since the last call."""
        taken, self.counters = self.counters, LoadCounters()
        return taken

    def load(self, vertices: NDArray[np.int64]) -> Tensor:
        """Features [len(vertices), D] in the compute dtype, on the device."""
        pinned = self._device.type == "cuda"
        rows = gather(self._features, vertices, threads=self._threads, pinned=pinned)
        self.counters.rows += len(rows)
        self.counters.host_to_device_bytes += rows.nbytes
        x_ND = rows.to(self._device, non_blocking=pinned).to(self._dtype)
        if self._normalize:
            sums_N1 = torch.linalg.vector_norm(x_ND, ord=1, dim=1, keepdim=True)
            x_ND /= sums_N1.clamp_(min=torch.finfo(self._dtype).tiny)
        return x_ND


def gather(rows: NDArray[Any], ids: NDArray[np.int64], *, threads: int, pinned: bool = False) -> Tensor:
    """``rows[ids]`` as a CPU tensor [len(ids), D] of the rows' dtype.

    Raises:
        ValueError: for an id outside the rows.
    """
    dtype = torch.from_numpy(np.empty(0, rows.dtype)).dtype
    out = torch.empty((len(ids), rows.shape[1]), dtype=dtype, pin_memory=pinned)
    if out.numel():
        _core.gather_rows(rows.view(np.uint8), ids, out.numpy().view(np.uint8), threads)
    return out
