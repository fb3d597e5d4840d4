"""Mini-batches on their way into a trainer: where each lies, its segment, and all that is loaded for it.

| stage | where it runs | mini-batch |
|---|---|---|
| sample, split, write to a slot | a sampler process | i + 2 and later |
| copy the segment, load features, labels, edge data | a thread of each trainer; on CUDA a stream of its own | i + 1 |
| forward, backward, all-reduce, step | the trainer | i |

``--prefetch K`` lets the thread be K mini-batches ahead; with 0 the trainer loads when it needs to.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.profiler import record_function

from gsplit.data import Layout
from gsplit.features import EdgeLoader, FeatureLoader, LoadCounters
from gsplit.nn import Block, Chain, ExchangeCounters, blocks_of
from gsplit.parallel import DATA, SPLIT, Member
from gsplit.sampling import MicroBatches, Segment
from gsplit.supply.order import Order
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.ring import Handle, Ring

MOST_BEGUN = 2
"""Mini-batches that a trainer may be ahead of its GPU; enough to keep it busy."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MiniBatch:
    """This trainer's split of a mini-batch, loaded: all that computing its share takes."""

    handle: Handle
    segment: Segment
    """Its header. Its arrays may be gone: ``blocks`` has them."""
    chain: Chain
    blocks: dict[int, Block]
    x: Tensor
    """[n_0, D] features of the inputs."""
    labels: Tensor
    """Of the own targets."""
    loaded: LoadCounters
    seconds: dict[str, float]
    """That it took to ``sample`` and to ``load``."""


class Source(Protocol):
    """Where a trainer gets its segments from."""

    def segment(self, handle: Handle) -> tuple[Segment, float]:
        """The segment of a mini-batch, and the seconds that sampling took."""

    def let_go(self, handle: Handle) -> None:
        """The segment is on the device: its memory may be written again."""


class FromSlots:
    """Out of the slots that samplers write to.

    Args:
        end: of this trainer.
        rank: of this trainer.
        device: where the segments go. The CPU needs a copy of its own; a GPU copies from the slot.

    For a GPU all slots are registered when the first mini-batch arrives: they have their sizes then, and nothing is
    computed yet, which registering would hold up. One that is enlarged later is registered anew in mid-training.
    """

    def __init__(self, end: TrainerEnd, rank: int, device: torch.device) -> None:
        self._released, self._rank = end.released, rank
        self._to_gpu = device.type == "cuda"
        self._ring = Ring(end.slots, on_map=Pins() if self._to_gpu else None)
        self._mapped = not self._to_gpu

    def segment(self, handle: Handle) -> tuple[Segment, float]:
        if not self._mapped:
            self._ring.map_all()
            self._mapped = True
        data = self._ring.read(handle, self._rank)
        return Segment(data if self._to_gpu else data.copy()), handle.seconds

    def let_go(self, handle: Handle) -> None:
        self._released.send(handle.slot)


class SampledHere:
    """Without samplers: each trainer samples the whole micro-batch of its group, and keeps its own split."""

    def __init__(self, micro_batches: MicroBatches, member: Member, end: TrainerEnd | None) -> None:
        self._micro_batches, self._end = micro_batches, end
        self._micro, self._split = member.coordinate(DATA), member.coordinate(SPLIT)

    def segment(self, handle: Handle) -> tuple[Segment, float]:
        start_s = time.perf_counter()
        sampler = self._micro_batches.sample(handle.ticket, self._micro)
        return sampler.segment(self._split), time.perf_counter() - start_s

    def let_go(self, handle: Handle) -> None:
        if self._end is not None:
            self._end.released.send(handle.slot)  # there is no slot, but the launcher learns that training goes on


class Feed:
    """Iterates over the mini-batches of a run, loaded ahead of their turn, until it is over or shall stop.

    Args:
        order: says which mini-batch is next.
        source: gives its segment.
        member: of the trainer, on a grid; those along ``split`` exchange rows.
        layout: that is trained on.
        loader: of features; nobody else may use it, for it counts what it loads.
        edges: loader of edge data.
        prefetch: mini-batches to load ahead.
        threads: that PyTorch may use to load.
    """

    def __init__(
        self,
        order: Order,
        source: Source,
        member: Member,
        layout: Layout,
        loader: FeatureLoader,
        edges: EdgeLoader,
        *,
        prefetch: int,
        threads: int,
    ) -> None:
        self._order, self._source, self._worker, self._layout = order, source, member, layout
        self._split_group = member.along(SPLIT)
        self._loader, self._edges, self._prefetch = loader, edges, prefetch
        self._stream = torch.cuda.Stream(member.device) if member.device.type == "cuda" else None
        self._thread = ThreadPoolExecutor(
            1, "gsplit-feed", initializer=begin_thread, initargs=(member.device, threads)
        )
        self._ahead: deque[Future[MiniBatch | None]] = deque()
        self._begun: deque[torch.cuda.Event] = deque()
        """On CUDA, when the device begins with each of the mini-batches handed out last."""
        self._over = False

    def __iter__(self) -> Iterator[MiniBatch]:
        return self

    def __next__(self) -> MiniBatch:
        mini_batch = self._next_ahead() if self._prefetch else self._load_next()
        if mini_batch is None:
            raise StopIteration
        if self._stream:
            for tensor in tensors_of(mini_batch):
                tensor.record_stream(torch.cuda.current_stream())  # or the feed's stream would use its memory again
            self._hold_back()
        return mini_batch

    def _hold_back(self) -> None:
        """Wait for the device, which may be far behind: each mini-batch that it has not computed takes its memory."""
        self._begun.append(torch.cuda.current_stream().record_event())
        if len(self._begun) > MOST_BEGUN:
            self._begun.popleft().synchronize()

    def _next_ahead(self) -> MiniBatch | None:
        while len(self._ahead) <= self._prefetch:
            self._ahead.append(self._thread.submit(self._load_next))
        return self._ahead.popleft().result()  # the thread waits for nobody but the order, which has a limit

    def _load_next(self) -> MiniBatch | None:
        handle = None if self._over else self._order.next()
        if handle is None:
            self._over = True
            return None
        with torch.cuda.stream(self._stream), record_function("load"):  # a stream of None changes nothing
            segment, sample_s = self._source.segment(handle)
            start_s = time.perf_counter()
            chain = Chain(
                self._split_group,
                ExchangeCounters(),
                self._worker.device,
                everyone=self._worker.group,
                board=self._worker.board,
            )
            mini_batch = MiniBatch(
                handle=handle,
                segment=segment,
                chain=chain,
                blocks=blocks_of(segment, self._worker.device, chain, **self._edges.load(segment)),
                x=self._loader.load(segment.vertices),
                labels=labels_of(self._layout, segment, self._worker.device),
                loaded=self._loader.take_counters(),
                seconds={"sample": sample_s},
            )
        if self._stream:
            self._stream.synchronize()  # waits here, in the thread: whoever gets the mini-batch need not
        self._source.let_go(handle)
        mini_batch.seconds["load"] = time.perf_counter() - start_s
        return mini_batch


def begin_thread(device: torch.device, threads: int) -> None:
    """What PyTorch and CUDA keep for each thread, and a new one has not."""
    torch.set_num_threads(threads)
    if device.type == "cuda":
        # A thread begins on GPU 0; whenever it left its stream it would go back there, and take memory of that GPU.
        torch.cuda.set_device(device)


def labels_of(layout: Layout, segment: Segment, device: torch.device) -> Tensor:
    """Labels of the split's own targets."""
    return torch.from_numpy(layout.graph.labels[segment.targets]).to(device, non_blocking=True)


def tensors_of(mini_batch: MiniBatch) -> Iterator[Tensor]:
    """All that was loaded; the blocks of a segment share one memory, so one tensor of it will do."""
    yield from (mini_batch.x, mini_batch.labels, mini_batch.blocks[1].indptr)
    for block in mini_batch.blocks.values():
        yield from (tensor for tensor in (block.edge_weight, block.degrees) if tensor is not None)


class Pins:
    """Registers mapped slots with CUDA, so that copies from them run beside the host. Where that fails they wait."""

    def __init__(self) -> None:
        self._pinned: set[int] = set()
        """Addresses."""

    def __call__(self, memory: NDArray[np.uint8], replaced: NDArray[np.uint8] | None) -> None:
        cudart = torch.cuda.cudart()
        if replaced is not None and replaced.ctypes.data in self._pinned:
            self._pinned.remove(replaced.ctypes.data)
            cudart.cudaHostUnregister(replaced.ctypes.data)
        code = int(cudart.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0))
        if code == 0:
            self._pinned.add(memory.ctypes.data)
            return
        logger.warning("a slot could not be registered with CUDA (error %d), so copies from it will wait", code)
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device="cuda").add_(1)  # CUDA would report the error at the next launch, whoever's it is
