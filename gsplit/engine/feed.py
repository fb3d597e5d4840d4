"""Mini-batches on their way into a trainer: which is next, and all that is loaded for it, ahead of its turn.

| stage | where it runs | mini-batch |
|---|---|---|
| sample, split, write to a slot | a sampler process | i + 2 and later |
| copy the segment, load features, labels, edge data | a thread of each trainer; on GPUs a stream of its own | i + 1 |
| forward, backward, all-reduce, step | the trainer | i |

``--prefetch K`` lets the thread be K mini-batches ahead; with 0 the trainer loads when it needs to.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import torch
from torch.profiler import record_function

from gsplit.device import accelerator
from gsplit.engine.minibatch import MiniBatch
from gsplit.supply.order import Order
from gsplit.supply.ring import Handle

MOST_BEGUN = 2
"""Mini-batches that a trainer may be ahead of its GPU; enough to keep it busy."""


class Maker(Protocol):
    """The engine's part of a feed: it makes a mini-batch of its handle."""

    def make(self, handle: Handle) -> MiniBatch:
        """Load a mini-batch; its ``seconds`` hold ``sample`` and ``load``."""

    def release(self, handle: Handle) -> None:
        """The mini-batch is on the device: the memory that it came in may be written again."""


class Feed:
    """Iterates over the mini-batches of a run, loaded ahead of their turn, until it is over or shall stop.

    Args:
        order: says which mini-batch is next.
        maker: loads it.
        device: of the trainer.
        prefetch: mini-batches to load ahead.
        threads: that PyTorch may use to load.
    """

    def __init__(self, order: Order, maker: Maker, device: torch.device, *, prefetch: int, threads: int) -> None:
        self._order, self._maker, self._prefetch = order, maker, prefetch
        self._device, self._stream = device, accelerator.new_stream(device)
        self._thread = ThreadPoolExecutor(1, "gsplit-feed", initializer=begin_thread, initargs=(device, threads))
        self._ahead: deque[Future[MiniBatch | None]] = deque()
        self._begun: deque[Any] = deque()
        """Events, on an accelerator, of when the device begins with each of the mini-batches handed out last."""
        self._over = False

    def __iter__(self) -> Iterator[MiniBatch]:
        return self

    def __next__(self) -> MiniBatch:
        mini_batch = self._next_ahead() if self._prefetch else self._load_next()
        if mini_batch is None:
            raise StopIteration
        if self._stream:
            for tensor in mini_batch.tensors():
                # Or the feed's stream would use its memory again.
                tensor.record_stream(accelerator.current_stream(self._device))
            self._limit_run_ahead()
        return mini_batch

    def drain(self) -> None:
        """Wait for what is being loaded ahead, by a run that ends before its mini-batches do.

        Each trainer has asked for as many as the others, so nobody waits for one that is never told of.
        """
        while self._ahead:
            self._ahead.popleft().result()

    def _limit_run_ahead(self) -> None:
        """Wait for the device, which may be far behind: each mini-batch that it has not computed takes its memory."""
        self._begun.append(accelerator.current_stream(self._device).record_event())
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
        with accelerator.on_stream(self._stream), record_function("load"):
            mini_batch = self._maker.make(handle)
            made_s = time.perf_counter()
        if self._stream:
            self._stream.synchronize()  # waits here, in the thread, so that the trainer need not
        self._maker.release(handle)
        mini_batch.seconds["load"] += time.perf_counter() - made_s
        return mini_batch


def begin_thread(device: torch.device, threads: int) -> None:
    """Set what PyTorch and an accelerator keep for each thread, and a new one has not."""
    torch.set_num_threads(threads)
    if accelerator.is_one(device):
        # A thread begins on the first; whenever it left its stream it would go back there, and take memory of it.
        accelerator.work_on(device)
