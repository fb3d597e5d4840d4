"""The ring of slots, where samplers leave finished mini-batches for the trainers.

A ring has a few slots, each a :class:`SharedBuffer` that samplers and trainers map. A sampler writes the segments of
all trainers into a slot, one after the other; a :class:`Handle` says where they lie and is all that travels. Slots
are sized before the run (:mod:`gsplit.supply.pool`); a mini-batch that needs more enlarges its slot, and
the process that reads it next maps it anew. Who may write to a slot and who may read it is decided by the messages
between the processes (:mod:`gsplit.supply.dispatch`), so the memory itself needs no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.host import SharedBuffer
from gsplit.sampling import MicroBatchSampler
from gsplit.supply.tickets import Ticket

ALIGNMENT = 64
"""Boundary in bytes that each segment begins on in its slot: a cache line."""
HEADROOM = 1.25
"""Size of a slot over the size of the mini-batch that it was made for."""


@dataclass(frozen=True, kw_only=True)
class Handle:
    """A finished mini-batch, or, without a slot, one that every trainer samples for itself."""

    ticket: Ticket
    """Which mini-batch it is."""
    slot: int | None = None
    """The slot that it lies in."""
    extents: tuple[tuple[int, int], ...] = ()
    """Begin and end of each trainer's segment in the slot, in bytes, by rank."""
    bulk: int = 1
    """Number of mini-batches that lie in the slot, this one among them."""
    pid: int = 0
    """Process id of the sampler."""
    begun_ns: int = 0
    """When the sampler began with it, by the host's clock."""
    seconds: float = 0.0
    """Seconds that sampling, splitting and writing took."""


class Ring:
    """The slots, as one process maps them.

    Args:
        slots: the same in all processes.
        on_map: called with every new mapping of a slot, and with the one it replaces (None at first).
    """

    def __init__(
        self,
        slots: Sequence[SharedBuffer],
        on_map: Callable[[NDArray[np.uint8], NDArray[np.uint8] | None], None] | None = None,
    ) -> None:
        self._slots = slots
        self._on_map = on_map
        self._maps: list[NDArray[np.uint8] | None] = [None] * len(slots)

    def write(
        self, slot: int, micro_batches: Iterable[MicroBatchSampler], *, first: int = 0
    ) -> tuple[tuple[int, int], ...]:
        """Write a mini-batch; returns the extents of its segments, by rank.

        Args:
            slot: to write to.
            micro_batches: the samplers that hold the micro-batches; they may be one sampler, that samples the next
                micro-batch when the next item is asked for.
            first: where to begin in the slot, in bytes: behind what else lies in it.

        Raises:
            MemoryError: where the slot is too small and the host has no memory to enlarge it.
        """
        extents: list[tuple[int, int]] = []
        for sampler in micro_batches:
            own = extents_of(sampler, extents[-1][1] if extents else first)
            end = own[-1][1]
            if end > self._slots[slot].num_bytes:
                self._slots[slot].grow(with_headroom(end))
            memory = self._mapped(slot, end)
            for split, (begin, end) in enumerate(own):
                sampler.write_segment(split, memory[begin:end])
            extents += own
        return tuple(extents)

    def read(self, handle: Handle, rank: int) -> NDArray[np.uint8]:
        """A view of one trainer's segment, uint8, good until the slot is let go of."""
        assert handle.slot is not None
        begin, end = handle.extents[rank]
        return self._mapped(handle.slot, handle.extents[-1][1])[begin:end]

    def map_all(self) -> None:
        """Map all slots that have a size, so that ``on_map``, which may take its time, is not called later."""
        for slot, buffer in enumerate(self._slots):
            if buffer.num_bytes:
                self._mapped(slot, buffer.num_bytes)

    def _mapped(self, slot: int, num_bytes: int) -> NDArray[np.uint8]:
        """The mapping of a slot. It is kept, because a new one costs a page fault for every page."""
        mapped = self._maps[slot]
        if mapped is None or len(mapped) < num_bytes:
            new = self._slots[slot].view((self._slots[slot].num_bytes,), np.uint8)
            if self._on_map is not None:
                self._on_map(new, mapped)
            self._maps[slot] = mapped = new
        return mapped


class LettingGo:
    """The slots that a reader is done with: those of which it has read every mini-batch."""

    def __init__(self) -> None:
        self._read: dict[int, int] = {}

    def of(self, handle: Handle) -> bool:
        """Note that a mini-batch was read; True where nothing in its slot is left to read."""
        assert handle.slot is not None
        read = self._read.pop(handle.slot, 0) + 1
        if read < handle.bulk:
            self._read[handle.slot] = read
        return read == handle.bulk


def extents_of(sampler: MicroBatchSampler, first: int = 0) -> list[tuple[int, int]]:
    """[P] begin and end, in bytes, of a micro-batch's segments, one after the other from ``first`` on."""
    extents = []
    end = first
    for split in range(sampler.parts):
        begin = -(-end // ALIGNMENT) * ALIGNMENT
        end = begin + sampler.segment_bytes(split)
        extents.append((begin, end))
    return extents


def bytes_of(micro_batches: Iterable[MicroBatchSampler]) -> int:
    """The room in bytes that a mini-batch takes in a slot."""
    end = 0
    for sampler in micro_batches:
        end = extents_of(sampler, end)[-1][1]
    return end


def with_headroom(num_bytes: int) -> int:
    """The size of a slot that is made for a mini-batch of ``num_bytes``."""
    return int(num_bytes * HEADROOM)
