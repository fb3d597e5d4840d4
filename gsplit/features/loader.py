"""Loading the feature rows of a split from wherever they lie: a cache, a peer's cache, the host.

| rows of | on the CPU | on a GPU |
|---|---|---|
| own cache | copied in C++ | ``index_select`` |
| a peer's cache | copied in C++, from memory that both map | read where they lie |
| the host | copied in C++, or stored rows | copied in C++ to pinned memory, piece by piece; or read where they lie |

Every vertex of level 0 belongs to one split, so a row that no cache has is loaded once, by its owner (law 3). On a
GPU everything runs on the caller's current stream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import gsplit._core as _core
from gsplit.device import accelerator
from gsplit.features.cache import Cache, NoCache, as_bytes
from gsplit.features.host_rows import HostRows
from gsplit.features.places import Found, Places
from gsplit.features.staging import Staging
from gsplit.kernels import StoredRows

logger = logging.getLogger(__name__)

NEAR_THE_ENDS = 1e30
"""Numbers above it, or below its inverse, whose sums may be beyond float32."""
ReadRows = Callable[[Tensor, Tensor, Tensor | None, Tensor], None]
"""The signature of :func:`gsplit.kernels.zero_copy.read_rows`: host rows, ids, positions, out."""


@dataclass(kw_only=True)
class LoadCounters:
    """Counts of rows and bytes loaded; the same on GPUs and on the CPU, where the host is the device."""

    rows: int = 0
    """Number of feature rows: the sum of the next three."""
    cache_hits: int = 0
    """Number of rows from the trainer's own cache."""
    peer_rows: int = 0
    """Number of rows from the caches of other trainers."""
    host_rows: int = 0
    """Number of rows from the host."""
    host_to_device_bytes: int = 0
    """Bytes of the rows from the host, as stored."""
    device_to_device_bytes: int = 0
    """Bytes of the rows from other trainers, as stored."""

    def __add__(self, other: LoadCounters) -> LoadCounters:
        return LoadCounters(
            **{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        )

    def by_name(self) -> dict[str, int]:
        """What is recorded, by its name there (docs/formats.md, "Run"): all but the number of rows."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "rows"}

    def add(self, places: Places, row_bytes: int) -> None:
        """Count the rows of a list of vertices, and their bytes."""
        hits, host = len(places.own), len(places.host)
        peers = sum(len(found) for found in places.peers.values())
        self.rows += hits + peers + host
        self.cache_hits += hits
        self.peer_rows += peers
        self.host_rows += host
        self.host_to_device_bytes += host * row_bytes
        self.device_to_device_bytes += peers * row_bytes


def normalize(x_ND: Tensor) -> None:
    """Divide each row by the sum of its absolute values, in place; rows of zeros stay.

    A row near an end of its type is scaled first, exactly: its sum would be infinite, and all of it 0, or too small
    to divide by. Others are what they are without.
    """
    sums_N1 = torch.linalg.vector_norm(x_ND, ord=1, dim=1, keepdim=True)
    huge_N1, small_N1 = sums_N1 > NEAR_THE_ENDS, (sums_N1 < 1 / NEAR_THE_ENDS) & (sums_N1 > 0)
    if not x_ND.is_cpu or (huge_N1 | small_N1).any():  # a device would be waited for
        x_ND *= torch.ones_like(sums_N1).masked_fill_(huge_N1, 2.0**-64).masked_fill_(small_N1, 2.0**64)
        sums_N1 = torch.linalg.vector_norm(x_ND, ord=1, dim=1, keepdim=True)
    x_ND /= sums_N1.clamp_(min=torch.finfo(x_ND.dtype).tiny)


class FeatureLoader:
    """Brings rows together on a device, in the type to compute in.

    Args:
        host: the rows of all vertices.
        device: where the rows go.
        dtype: in which the model takes them.
        normalize: divide each row by the sum of its absolute values (rows of zeros stay), as PyG's
            ``NormalizeFeatures`` does for counts.
        threads: that copy rows.
        cache: of rows in the type of the host's; by default none.
        zero_copy: let a kernel read the host's rows. Where that cannot be, a warning says why, and they are copied.
    """

    def __init__(
        self,
        host: HostRows,
        *,
        device: torch.device,
        dtype: torch.dtype,
        normalize: bool,
        threads: int,
        cache: Cache | None = None,
        zero_copy: bool = False,
    ) -> None:
        self._host = host
        self._device = device
        self._given = dtype
        self._dtype = torch.float32 if normalize and dtype == torch.bfloat16 else dtype
        self._normalize = normalize
        self._threads = threads
        self._cache = NoCache() if cache is None else cache
        self._staging = Staging(host, device, threads)
        self._read_rows = _zero_copy(host, device, self._dtype) if zero_copy else None
        self._read_peers = _kernel_for_peers(self._cache, device, self._dtype)
        self.counters = LoadCounters()

    def take_counters(self) -> LoadCounters:
        """Return what was loaded since the last call."""
        taken, self.counters = self.counters, LoadCounters()
        return taken

    def load(self, vertices: NDArray[np.int64]) -> Tensor:
        """The features of some vertices, [n, D] in the type to compute in, on the device.

        Args:
            vertices: int64 [n] layout ids.

        Raises:
            ValueError: for an id outside the rows.
        """
        places = self._cache.locate(vertices)
        x_ND = (self._on_gpu if accelerator.is_one(self._device) else self._on_cpu)(places, len(vertices))
        self.counters.add(places, self._host.row_bytes)
        if self._normalize:
            normalize(x_ND)
        return x_ND.to(self._given)

    @property
    def stores(self) -> bool:
        """True where :meth:`stored` can be called: rows would be copied as they are, from the host to the host.

        Those that the model takes in bfloat16 may be float32 there, and are rounded when they are multiplied.
        """
        types = {torch.float32: (torch.float32,), torch.bfloat16: (torch.float32, torch.bfloat16)}
        as_they_are = self._host.dtype in types.get(self._given, ()) and not self._normalize
        return as_they_are and self._device.type == "cpu" and isinstance(self._cache, NoCache)

    def stored(self, vertices: NDArray[np.int64]) -> StoredRows:
        """The features of some vertices where they lie, counted as if they were copied.

        Args:
            vertices: int64 [n] layout ids; nobody may write to them as long as the rows are used.
        """
        assert self.stores
        self.counters.add(self._cache.locate(vertices), self._host.row_bytes)
        wide = self._host.dtype == torch.float32
        return StoredRows(table=self._host.bytes_view.view(np.float32) if wide else self._host.tensor(), ids=vertices)

    def _on_cpu(self, places: Places, count: int) -> Tensor:
        """Copy every row straight to its position."""
        out = torch.empty((count, self._host.width), dtype=self._host.dtype)
        self._copy(as_bytes(self._cache.rows), places.own, out)
        for peer, found in places.peers.items():
            self._copy(as_bytes(self._cache.peers[peer]), found, out)
        self._copy(self._host.bytes_view, places.host, out)
        return out.to(self._dtype)

    def _on_gpu(self, places: Places, count: int) -> Tensor:
        """Copy the rows of GPUs first, so that the device does so while the CPU collects those of the host."""
        if places.host.positions is None and self._read_rows is None:
            return self._staging.brought(places.host.rows).to(self._dtype)
        if places.own.positions is None:
            return self._selected(self._cache.rows, places.own).to(self._dtype)
        x_ND = torch.empty((count, self._host.width), dtype=self._dtype, device=self._device)
        if len(places.own):
            self._put(self._selected(self._cache.rows, places.own), places.own, x_ND)
        for peer, found in places.peers.items():
            if self._read_peers is None:
                self._put(self._selected(self._cache.peers[peer], found), found, x_ND)
            else:
                self._read(self._read_peers, self._cache.peers[peer], found, x_ND)
        if len(places.host) and self._read_rows is not None:
            _check_ids(places.host.rows, self._host.num_rows)
            self._read(self._read_rows, self._host.tensor(), places.host, x_ND)
        elif len(places.host):
            self._put(self._staging.brought(places.host.rows), places.host, x_ND)
        return x_ND

    def _copy(self, rows: NDArray[np.uint8], found: Found, out: Tensor) -> None:
        if len(found):
            _core.gather_rows(rows, found.rows, as_bytes(out), self._threads, found.positions)

    def _selected(self, rows: Tensor, found: Found) -> Tensor:
        """Rows of a cache, as stored."""
        return rows.index_select(0, accelerator.moved(found.rows, self._device))

    def _read(self, read_rows: ReadRows, rows: Tensor, found: Found, x_ND: Tensor) -> None:
        """Have a kernel read rows where they lie, and put them where they belong."""
        positions = None if found.positions is None else accelerator.moved(found.positions, self._device)
        read_rows(rows, accelerator.moved(found.rows, self._device), positions, x_ND)

    def _put(self, rows: Tensor, found: Found, x_ND: Tensor) -> None:
        if found.positions is None:
            x_ND.copy_(rows)
        else:
            x_ND.index_copy_(0, accelerator.moved(found.positions, self._device), rows.to(self._dtype))


def gather(rows: NDArray[Any], ids: NDArray[np.int64], *, threads: int) -> Tensor:
    """``rows[ids]`` as a CPU tensor [n, D] of the rows' dtype.

    Args:
        rows: [N, D], C-contiguous.
        ids: int64 [n] rows.
        threads: that copy.

    Raises:
        ValueError: for an id outside the rows.
    """
    host = HostRows(rows)
    out = torch.empty((len(ids), host.width), dtype=host.dtype)
    if out.numel():
        _core.gather_rows(host.bytes_view, ids, as_bytes(out), threads)
    return out


def _check_ids(ids: NDArray[np.int64], num_rows: int) -> None:
    """Check ids before the kernel reads them: it does not, and a wrong address would end the process.

    Raises:
        ValueError: for an id outside the rows.
    """
    if len(ids) and (ids.min() < 0 or ids.max() >= num_rows):
        bad = ids[(ids < 0) | (ids >= num_rows)][0]
        raise ValueError(f"row {bad} is outside 0 .. {num_rows - 1}")


def _zero_copy(host: HostRows, device: torch.device, dtype: torch.dtype) -> ReadRows | None:
    """The kernel that reads the host's rows; None where there can be none, with a warning that says why."""
    if not accelerator.is_one(device):
        reason = "there is no GPU to read them"
    elif not host.pin():
        reason = "they are not in memory that can be registered for it"
    else:
        reader, reason = _kernel(host.tensor(), device, dtype)
        if reader is not None:
            return reader
    logger.warning("feature rows are copied by the CPU, not read where they lie: %s", reason)
    return None


def _kernel_for_peers(cache: Cache, device: torch.device, dtype: torch.dtype) -> ReadRows | None:
    """The kernel that reads the rows of peers; None where PyTorch's operation does, with a warning that says why."""
    if not (cache.peers and accelerator.is_one(device)):
        return None
    reader, reason = _kernel(next(iter(cache.peers.values())), device, dtype)
    if reader is None:
        logger.warning(
            "rows of peers are read by all of the GPU at once, which computes nothing meanwhile: %s", reason
        )
    return reader


def _kernel(rows: Tensor, device: torch.device, dtype: torch.dtype) -> tuple[ReadRows | None, str]:
    """A kernel that reads rows outside of a device's memory; or none, and why."""
    if (reader := accelerator.reader_of_rows(device)) is not None:
        return reader, ""
    try:
        from gsplit.kernels.zero_copy import prepare, read_rows

        prepare(rows, device, dtype)
    except ImportError as error:
        return None, f"Triton is missing ({error})"
    except Exception as error:  # of Triton's compiler, of the C compiler that it calls, of its cache on disk
        return None, f"the kernel that reads them cannot be made here ({type(error).__name__}: {error})"
    return read_rows, ""
