"""Caches of feature rows on the trainers, behind one interface that says who has which row.

| cache | holds | index | asks |
|---|---|---|---|
| none | nothing | | the host |
| partitioned | the prefix of each own part | none: ranges | itself, the host |
| peers (Quiver, Tan et al., 2023) | the same | none: ranges | itself, the other trainers, the host |
| replicated (PaGraph, Lin et al., SoCC 2020) | any rows | int32 [N] | itself, the host |

Rows lie on the device in the type they are stored in. Which rows are cached is decided by
:mod:`gsplit.features.placement`, how many by :mod:`gsplit.features.room`.

Legend: N vertices, D features, R rows of one cache, P parts, n vertices that are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import gsplit._core as _core
from gsplit.device import accelerator
from gsplit.device.peer_memory import PeerMemory, reaches
from gsplit.errors import InputError
from gsplit.features.host_rows import HostRows, pieces
from gsplit.features.places import NOTHING, Found, Places, Prefixes, sorted_by_place
from gsplit.host import SharedBuffer

CHECKED_ROWS = 64
"""Rows of a peer's cache that are held against the host's when it is opened."""

NO_MEMORY: Mapping[int, PeerMemory] = {}

logger = logging.getLogger(__name__)


class Cache(Protocol):
    """Cached feature rows, as a loader asks for them."""

    rows: Tensor
    """The cached rows, [R, D] on the trainer's device, in the type they are stored in."""
    peers: Mapping[int, Tensor]
    """The ``rows`` of other trainers by rank, as the trainer's device reads them."""

    def locate(self, vertices: NDArray[np.int64]) -> Places:
        """Return where the rows of some vertices are read from.

        Args:
            vertices: int64 [n] layout ids.
        """


class NoCache:
    """The cache that holds nothing: every row comes from the host."""

    def __init__(self) -> None:
        self.rows = torch.empty((0, 0))
        self.peers: Mapping[int, Tensor] = {}

    def locate(self, vertices: NDArray[np.int64]) -> Places:
        """Return where the row of each vertex is read from."""
        return Places(own=NOTHING, host=Found(rows=vertices, positions=None))


class PartitionedCache:
    """A cache of the prefixes of the trainer's own parts.

    Args:
        host: rows to fill it from.
        prefixes: of all trainers.
        rank: of this one.
        device: where the rows go.
        threads: that fill it.
    """

    def __init__(self, host: HostRows, prefixes: Prefixes, rank: int, *, device: torch.device, threads: int) -> None:
        self._prefixes, self._rank = prefixes, rank
        self.rows = _empty(host, prefixes.num_rows[rank], device)
        self.peers: Mapping[int, Tensor] = {}
        _fill(self.rows, host, prefixes.ids(rank, host.row_bytes), threads)

    def locate(self, vertices: NDArray[np.int64]) -> Places:
        """Return where the row of each vertex is read from."""
        found, left = self._prefixes.find(vertices, [self._rank])
        return Places(own=found.get(self._rank, NOTHING), host=left)


class PeerCaches:
    """A cache of the prefixes of all parts: the own ones, and those in the memory of the other trainers.

    It is made by :meth:`in_buffers` or :meth:`on_gpus`, which every trainer calls.

    Args:
        prefixes: of all trainers.
        rank: of this one.
        caches: the rows of every trainer whose rows can be read here, by rank.
        memory: that they lie in, where it has to be let go of.
    """

    def __init__(
        self,
        prefixes: Prefixes,
        rank: int,
        caches: Mapping[int, Tensor],
        memory: Mapping[int, PeerMemory] = NO_MEMORY,
    ) -> None:
        self._prefixes, self._rank, self._holders, self._memory = prefixes, rank, sorted(caches), memory
        self.rows = caches[rank]
        self.peers: Mapping[int, Tensor] = {peer: rows for peer, rows in caches.items() if peer != rank}

    @property
    def reaches_all(self) -> bool:
        """True where every cached row can be read here."""
        return all(peer in self._holders for peer, rows in enumerate(self._prefixes.num_rows) if rows)

    @classmethod
    def in_buffers(
        cls,
        host: HostRows,
        prefixes: Prefixes,
        rank: int,
        *,
        buffers: Sequence[SharedBuffer],
        barrier: Callable[[], None],
        threads: int,
    ) -> PeerCaches:
        """The caches of trainers on the CPU: each trainer fills its own buffer and maps the others'.

        Args:
            buffers: one a trainer, the same for all.
            barrier: waits for all trainers.

        Raises:
            MemoryError: where the host has no room.
        """
        buffers[rank].grow(prefixes.num_rows[rank] * host.row_bytes)
        own = _mapped(host, prefixes.num_rows[rank], buffers[rank])
        _fill(own, host, prefixes.ids(rank, host.row_bytes), threads)
        barrier()
        others = {
            peer: _mapped(host, prefixes.num_rows[peer], buffer)
            for peer, buffer in enumerate(buffers)
            if peer != rank
        }
        return cls(prefixes, rank, {rank: own, **others})

    @classmethod
    def on_gpus(
        cls,
        host: HostRows,
        prefixes: Prefixes,
        rank: int,
        *,
        device: torch.device,
        all_gather_object: Callable[[Any], list[Any]],
        threads: int,
    ) -> PeerCaches:
        """The caches of trainers on GPUs of one host: each trainer opens the memory of the others.

        Rows that a GPU cannot read out of another's memory come from the host, with a warning.

        Args:
            device: of this trainer; the others must see it under the same number.
            all_gather_object: takes this trainer's object, returns those of all by rank.

        Raises:
            InputError: where a GPU reads other numbers than another one has.
        """
        sizes = [rows * host.row_bytes for rows in prefixes.num_rows]
        memory = {rank: PeerMemory.allocated(sizes[rank], device)} if sizes[rank] else {}
        own = _rows_in(memory[rank], host) if memory else _empty(host, prefixes.num_rows[rank], device)
        _fill(own, host, prefixes.ids(rank, host.row_bytes), threads)
        accelerator.synchronize(device)  # filled, before anyone else may look
        caches = {rank: own}
        for peer, sent in enumerate(all_gather_object(_shared(memory[rank], device) if memory else None)):
            if peer == rank or sent is None:
                continue
            owner, handle = sent
            opened = _opened(owner, handle, sizes[peer], device)
            if opened is not None:
                memory[peer], caches[peer] = opened, _rows_in(opened, host)
                _check(caches[peer], host, next(prefixes.ids(peer, host.row_bytes))[:CHECKED_ROWS], owner)
        all_gather_object(None)  # nobody goes on, and perhaps ends, before all have opened what they were sent
        return cls(prefixes, rank, caches, memory)

    def close(self, barrier: Callable[[], None]) -> None:
        """Let go of the others' memory, and then of the own; every trainer makes the call before it ends.

        Args:
            barrier: waits for all trainers.
        """
        device = self.rows.device
        accelerator.synchronize(device)  # what is under way reads them
        self.peers = {}
        for peer, memory in self._memory.items():
            if peer != self._rank:
                memory.close()
        barrier()
        self.rows = torch.empty((0, self.rows.shape[1]), dtype=self.rows.dtype)
        if self._rank in self._memory:
            self._memory[self._rank].close()

    def locate(self, vertices: NDArray[np.int64]) -> Places:
        """Return where the row of each vertex is read from."""
        found, left = self._prefixes.find(vertices, self._holders)
        own = found.pop(self._rank, NOTHING)
        return Places(own=own, peers={peer: some for peer, some in found.items() if len(some)}, host=left)


class ReplicatedCache:
    """A cache of any rows, whatever the other trainers have; so it needs an index.

    Args:
        host: rows to fill it from.
        ids: int64 [R] layout ids, all different, of :func:`gsplit.features.placement.hottest`.
        device: where the rows go.
        threads: that fill it.
    """

    def __init__(self, host: HostRows, ids: NDArray[np.int64], *, device: torch.device, threads: int) -> None:
        self._row_of_N = np.full(host.num_rows, -1, np.int32)
        self._row_of_N[ids] = np.arange(len(ids), dtype=np.int32)
        self.rows = _empty(host, len(ids), device)
        self.peers: Mapping[int, Tensor] = {}
        _fill(self.rows, host, (ids[b:e] for b, e in pieces(0, len(ids), host.row_bytes)), threads)

    def locate(self, vertices: NDArray[np.int64]) -> Places:
        """Return where the row of each vertex is read from."""
        rows, positions = np.empty(len(vertices), np.int64), np.empty(len(vertices), np.int64)
        hits = _core.find_rows_by_table(vertices, self._row_of_N, rows, positions)
        own, left = sorted_by_place(rows, positions, [hits, len(vertices) - hits])
        return Places(own=own, host=left)


def as_bytes(rows: Tensor) -> NDArray[np.uint8]:
    """The memory of a CPU tensor [R, D] as bytes, uint8 [R, row_bytes]."""
    return rows.view(torch.uint8).numpy()


def _empty(host: HostRows, num_rows: int, device: torch.device) -> Tensor:
    return torch.empty((num_rows, host.width), dtype=host.dtype, device=device)


def _rows_in(memory: PeerMemory, host: HostRows) -> Tensor:
    return memory.bytes.view(host.dtype).view(-1, host.width)


def _shared(memory: PeerMemory, device: torch.device) -> tuple[torch.device, bytes] | None:
    """Return what the others open a device's memory with; None with a warning where its driver shares none."""
    try:
        return device, memory.handle
    except RuntimeError as error:
        logger.warning("what %s caches is for itself alone, others read it from the host: %s", device, error)
        return None


def _opened(owner: torch.device, handle: bytes, num_bytes: int, device: torch.device) -> PeerMemory | None:
    """A peer's memory for the kernels of a device; None with a warning where they cannot read it."""
    reason = "it has no access to its memory"
    if reaches(device, owner):
        try:
            return PeerMemory.opened(handle, num_bytes, device)
        except RuntimeError as error:
            reason = str(error)
    logger.warning(
        "%s reads what %s caches from the host: %s; --cache replicated reads no other device's memory",
        *(device, owner, reason),
    )
    return None


def _check(rows: Tensor, host: HostRows, ids: NDArray[np.int64], owner: torch.device) -> None:
    """Read the first rows of a peer's cache: a bus on which GPUs reach each other may bring something else.

    Raises:
        InputError: where they are not the host's.
    """
    read = rows.index_select(0, torch.arange(len(ids), device=rows.device)).cpu()
    if not np.array_equal(as_bytes(read), host.bytes_view[ids]):
        raise InputError(
            f"{rows.device} reads other numbers than {owner} caches: GPUs of this host do not reach each other's "
            "memory as their driver says (an IOMMU may be between them); use --cache replicated"
        )


def _mapped(host: HostRows, num_rows: int, buffer: SharedBuffer) -> Tensor:
    return HostRows(buffer.view((num_rows, host.row_bytes), np.uint8), host.dtype).tensor()


def _fill(rows: Tensor, host: HostRows, ids_of_pieces: Iterable[NDArray[np.int64]], threads: int) -> None:
    """Fill ``rows`` with the host's rows of some vertices, in their order; on a GPU through a bounded buffer."""
    done = 0
    for ids in ids_of_pieces:
        into = rows[done : done + len(ids)]
        staged = into if rows.device.type == "cpu" else torch.empty_like(into, device="cpu")
        _core.gather_rows(host.bytes_view, ids, as_bytes(staged), threads)
        if staged is not into:
            into.copy_(staged)
        done += len(ids)
    assert done == len(rows)
