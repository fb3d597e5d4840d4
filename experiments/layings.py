"""Ways to lay mini-batches over P trainers: splits of one, or a micro-batch for each trainer.

- *splits*: one mini-batch is sampled and split (GSplit).
- *micro-batches*: the targets are cut in P, and each trainer samples on its own (DGL, Quiver).
- *fixed shares*: likewise, but each trainer takes its targets from its own share of the training vertices, the same
  in all epochs (PaGraph). A share is a run of layout ids, so it has the locality of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.sampling import EpochPlan, MiniBatchSampler
from gsplit.sampling.segment import Segment

EPOCH = 0
Lay = Callable[[int], list[Segment]]
"""From the number of a mini-batch to the segments of the trainers."""


def shares_of(train_idx: NDArray[np.int64], trainers: int) -> list[NDArray[np.int64]]:
    """The training vertices in layout order, cut into equal runs."""
    return np.array_split(train_idx, trainers)


class FixedShares:
    """Cuts each trainer's share into as many micro-batches as the epoch has mini-batches.

    Args:
        order: int64 [T] the training vertices in the order of an epoch.
        shares: of the trainers; they make up ``order``.
        batch_size: targets of a mini-batch over all trainers.
    """

    def __init__(self, order: NDArray[np.int64], shares: Sequence[NDArray[np.int64]], batch_size: int) -> None:
        self._orders = [order[np.isin(order, share)] for share in shares]
        self._num_targets = len(order)
        self._batch_size = batch_size

    def micro_batches(self, batch: int) -> list[NDArray[np.int64]]:
        """[P] arrays of targets, together as many as the mini-batch has, give or take the rounding."""
        begin, end = (min(b * self._batch_size, self._num_targets) for b in (batch, batch + 1))
        return [
            order[len(order) * begin // self._num_targets : len(order) * end // self._num_targets]
            for order in self._orders
        ]


class Layings:
    """The mini-batches of one epoch, laid over the trainers of a layout in each way.

    Args:
        layout: its parts are the trainers.
        batch_size: targets of a mini-batch over all trainers.
        fan_outs: neighbours drawn per hop, the first for the targets.
        seed: of the shuffle and the draws.
    """

    def __init__(self, layout: Layout, batch_size: int, fan_outs: Sequence[int], seed: int) -> None:
        graph = layout.graph
        self._trainers = layout.parts
        self._samplers = {
            name: MiniBatchSampler(
                graph.indptr, graph.indices, offsets, fan_outs=fan_outs, seed=seed, global_ids=layout.permutation
            )
            for name, offsets in (("split", layout.offsets), ("unsplit", [0, graph.num_vertices]))
        }
        self.plan = EpochPlan(graph.train_idx, layout.permutation, batch_size, seed)
        self.shares = shares_of(graph.train_idx, self._trainers)
        self._fixed = FixedShares(self.plan.targets(EPOCH), self.shares, batch_size)

    def ways(self) -> dict[str, Lay]:
        return {"splits": self.splits, "micro-batches": self.micro_batches, "fixed shares": self.fixed_shares}

    def splits(self, batch: int) -> list[Segment]:
        sampler = self._samplers["split"]
        sampler.sample(self.plan.batch(EPOCH, batch), epoch=EPOCH, batch=batch)
        return [sampler.segment(rank) for rank in range(self._trainers)]

    def micro_batches(self, batch: int) -> list[Segment]:
        return self._each(batch, np.array_split(self.plan.batch(EPOCH, batch), self._trainers))

    def fixed_shares(self, batch: int) -> list[Segment]:
        return self._each(batch, self._fixed.micro_batches(batch))

    def _each(self, batch: int, micro_batches: Sequence[NDArray[np.int64]]) -> list[Segment]:
        sampler = self._samplers["unsplit"]
        segments = []
        for micro, targets in enumerate(micro_batches):
            sampler.sample(targets, epoch=EPOCH, batch=batch, micro=micro)
            segments.append(sampler.segment(0))
        return segments
