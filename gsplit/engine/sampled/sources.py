"""Where a trainer gets its segments from: out of the slots that samplers write to, or sampled by itself."""

from __future__ import annotations

import logging
import time
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from gsplit.device import accelerator
from gsplit.parallel import DATA, SPLIT, Member
from gsplit.sampling import MicroBatches, Segment
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.ring import Handle, LettingGo, Ring

logger = logging.getLogger(__name__)


class SegmentSource(Protocol):
    """The source of a trainer's segments."""

    def segment(self, handle: Handle) -> tuple[Segment, float]:
        """The segment of a mini-batch, and the seconds that sampling took."""

    def release(self, handle: Handle) -> None:
        """The segment is on the device: its memory may be written again."""


class FromSlots:
    """Segments out of the slots that samplers write to.

    Args:
        end: of this trainer.
        rank: of this trainer.
        device: where the segments go. The CPU needs a copy of its own; a GPU copies from the slot.

    For a GPU all slots are registered when the first mini-batch arrives: they have their sizes then, and nothing is
    computed yet, which registering would hold up. One that is enlarged later is registered anew in mid-training.
    """

    def __init__(self, end: TrainerEnd, rank: int, device: torch.device) -> None:
        self._released, self._rank, self._done = end.released, rank, LettingGo()
        self._begun = False
        self._to_gpu = accelerator.is_one(device)
        self._ring = Ring(end.slots, on_map=Pins() if self._to_gpu else None)
        self._mapped = not self._to_gpu

    def segment(self, handle: Handle) -> tuple[Segment, float]:
        """This trainer's segment of a slot, and the seconds that the sampler took."""
        if not self._mapped:
            self._ring.map_all()
            self._mapped = True
        data = self._ring.read(handle, self._rank)
        return Segment(data if self._to_gpu else data.copy()), handle.seconds

    def release(self, handle: Handle) -> None:
        """Tell the launcher that this trainer is done with the slot, once it is done with all that lies in it."""
        done = self._done.of(handle)
        if done:
            self._released.send(handle.slot)
        elif not self._begun:
            self._released.send(None)  # the launcher learns that training goes on
        self._begun = True


class SampledHere:
    """Segments without samplers: each trainer samples the micro-batch of its group and keeps its own split."""

    def __init__(self, micro_batches: MicroBatches, member: Member, end: TrainerEnd | None) -> None:
        self._micro_batches, self._end = micro_batches, end
        self._micro, self._split = member.coordinate(DATA), member.coordinate(SPLIT)

    def segment(self, handle: Handle) -> tuple[Segment, float]:
        """This trainer's split, sampled now, and the seconds that this took."""
        start_s = time.perf_counter()
        sampler = self._micro_batches.sample(handle.ticket.epoch, handle.ticket.batch, self._micro)
        return sampler.segment(self._split), time.perf_counter() - start_s

    def release(self, handle: Handle) -> None:
        """Tell the launcher that training goes on."""
        if self._end is not None:
            self._end.released.send(handle.slot)  # there is no slot, but the launcher learns that training goes on


class Pins:
    """Registers mapped slots, so that copies from them run beside the host. Where that fails they wait."""

    def __init__(self) -> None:
        self._pinned: set[int] = set()
        """Addresses."""

    def __call__(self, memory: NDArray[np.uint8], replaced: NDArray[np.uint8] | None) -> None:
        """Register the memory of a slot, and forget that which it replaces."""
        if replaced is not None and replaced.ctypes.data in self._pinned:
            self._pinned.remove(replaced.ctypes.data)
            accelerator.unregister(replaced.ctypes.data)
        code = accelerator.register(memory)
        if code == 0:
            self._pinned.add(memory.ctypes.data)
            return
        logger.warning("a slot could not be registered (error %d of the driver), so copies from it will wait", code)
