"""Placements: ways to place mini-batches over P trainers, each a strategy of the engine.

- *splits*: one mini-batch is sampled and split (GSplit).
- *micro-batches*: the targets are cut in P, and each trainer samples on its own (DGL, Quiver).
- *fixed shares*: likewise, but each trainer takes its targets from its own share of the training vertices, the same
  in all epochs (PaGraph). A share is a run of layout ids, so it has the locality of the parts.
- *groups of K*, where asked for: the targets are cut in P / K, and K trainers split each micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.sampling import MicroBatches, Neighbours, SamplerSpec, Segment

EPOCH = 0
Place = Callable[[int], list[Segment]]
"""A function from the number of a mini-batch to the segments of the trainers."""


def group_name(group: int) -> str:
    """The placement of groups of that many trainers."""
    return f"groups of {group}"


class Placements:
    """The mini-batches of one epoch, placed over the trainers of a layout in each way.

    Args:
        layout: its parts are the trainers.
        batch_size: targets of a mini-batch over all trainers.
        fan_outs: neighbours drawn per hop, the first for the targets.
        seed: of the shuffle and the draws.
        groups: sizes of groups, each a divisor of the trainers.
    """

    def __init__(
        self, layout: Layout, batch_size: int, fan_outs: Sequence[int], seed: int, groups: Sequence[int] = ()
    ) -> None:
        trainers = layout.parts
        ways = {
            "splits": (1, trainers, False),
            "micro-batches": (trainers, 1, False),
            "fixed shares": (trainers, 1, True),
            **{group_name(group): (trainers // group, group, False) for group in groups},
        }
        rule = Neighbours(fan_out=tuple(fan_outs))
        self._ways = {
            name: MicroBatches(
                layout,
                SamplerSpec(
                    layout=layout.path,
                    micro_batches=micro_batches,
                    splits=splits,
                    fixed_shares=fixed_shares,
                    rule=rule,
                    batch_size=batch_size,
                    seed=seed,
                    edge_ids=False,
                ),
            )
            for name, (micro_batches, splits, fixed_shares) in ways.items()
        }
        self.plan = rule.plan(layout, batch_size=batch_size, seed=seed)
        fixed = rule.plan(layout, batch_size=batch_size, seed=seed, micro_batches=trainers, fixed_shares=True)
        assert fixed.shares is not None
        self.shares: list[NDArray[np.int64]] = fixed.shares
        """[P] the training vertices of each trainer, where they stay the same."""

    def ways(self) -> dict[str, Place]:
        """Each placement by its name."""
        return {name: partial(self._segments, name) for name in self._ways}

    def _segments(self, name: str, batch: int) -> list[Segment]:
        micro_batches = self._ways[name]
        return [
            sampler.segment(split)
            for sampler in micro_batches.sample_all(EPOCH, batch)
            for split in range(micro_batches.splits)
        ]
