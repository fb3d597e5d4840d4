"""The micro-batches of a mini-batch, each sampled on its own and split between the trainers that share it.

Which vertices a split owns follows from the layout and the number of splits, :func:`split_offsets`. Which targets a
micro-batch has is said by the plan of the rule (:mod:`gsplit.sampling.rule`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout, first_parts
from gsplit.sampling.rule import MicroBatchSampler, Rule


def split_offsets(layout: Layout, splits: int) -> NDArray[np.int64]:
    """int64 [splits + 1]: split k owns the layout ids ``offsets[k] .. offsets[k + 1]``, whole parts of the layout.

    Raises:
        ValueError: where there are fewer parts than splits.
    """
    if layout.parts < splits:
        raise ValueError(f"{layout.parts} parts cannot be dealt out to {splits} trainers")
    return layout.offsets[first_parts(layout.parts, splits)]


class MicroBatches:
    """Samples and splits the micro-batches of each mini-batch of a run.

    Args:
        layout: to sample from.
        micro_batches: number of micro-batches that a mini-batch is cut into.
        splits: number of splits of each micro-batch.
        fixed_shares: see :meth:`gsplit.sampling.rule.Rule.plan`.
        rule: says which vertices start and which in-edges are kept.
        batch_size: targets of all micro-batches of a mini-batch together.
        seed, edge_ids, memory, threads, partial_sums: see :meth:`gsplit.sampling.rule.Rule.sampler`.

    Raises:
        ValueError: where the parts of the layout cannot be dealt out to the splits.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        micro_batches: int,
        splits: int,
        fixed_shares: bool = False,
        rule: Rule,
        batch_size: int,
        seed: int,
        edge_ids: bool,
        memory: int | None = None,
        threads: int = 1,
        partial_sums: bool = False,
    ) -> None:
        self.number, self.splits = micro_batches, splits
        self.plan = rule.plan(
            layout, batch_size=batch_size, seed=seed, micro_batches=micro_batches, fixed_shares=fixed_shares
        )
        self._sampler = rule.sampler(
            layout,
            split_offsets(layout, splits),
            seed=seed,
            edge_ids=edge_ids,
            memory=memory,
            threads=threads,
            partial_sums=partial_sums,
        )

    def sample(self, epoch: int, batch: int, micro: int) -> MicroBatchSampler:
        """Sample one micro-batch of a mini-batch; it stays in the sampler until the next call."""
        targets, others = self.plan.micro_batches(epoch, batch), self.plan.others(epoch, batch)
        self._sampler.sample(
            targets[micro],
            epoch=epoch,
            batch=batch,
            micro=micro,
            num_targets=sum(map(len, targets)),
            others=None if others is None else others[micro],
        )
        return self._sampler

    def sample_all(self, epoch: int, batch: int) -> Iterator[MicroBatchSampler]:
        """The same sampler for each micro-batch in turn, which it holds until the next one."""
        for micro in range(self.number):
            yield self.sample(epoch, batch, micro)
