"""The micro-batches of a mini-batch, each sampled on its own and split between the trainers that share it.

Which vertices a split owns follows from the layout and the number of splits, :func:`split_offsets`. Which targets a
micro-batch has follows from the plan of the rule (:mod:`gsplit.sampling.rule`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout, first_parts
from gsplit.sampling.links import LinkPlan, Pairs
from gsplit.sampling.rule import MicroBatchSampler, Plan, Rule
from gsplit.sampling.sampler import CoreSampler, MiniBatchSampler


def split_offsets(layout: Layout, splits: int) -> NDArray[np.int64]:
    """int64 [splits + 1]: split k owns the layout ids ``offsets[k] .. offsets[k + 1]``, whole parts of the layout.

    Of a layout of several types it is int64 [T, splits + 1].

    Raises:
        ValueError: where there are fewer parts than splits.
    """
    if layout.parts < splits:
        raise ValueError(f"{layout.parts} parts cannot be dealt out to {splits} trainers")
    firsts = first_parts(layout.parts, splits)
    if layout.graph.schema.is_typed:
        return np.stack([offsets[firsts] for offsets in layout.offsets_by_type])
    return layout.offsets[firsts]


@dataclass(frozen=True, kw_only=True)
class SamplerSpec:
    """The sampling of mini-batches: from what, and how; decided once for all samplers and trainers of a run."""

    layout: Path
    """The layout to sample from."""
    rule: Rule
    """Which vertices start, and which in-edges are kept. A sampler imports the module of its class."""
    batch_size: int
    """Targets of a mini-batch over all its micro-batches."""
    seed: int
    """The seed of the run."""
    edge_ids: bool
    """Whether segments carry the ids of the kept edges."""
    memory: int | None = None
    """Bytes that a sampler's maps of vertices may take; None for no limit."""
    threads: int = 1
    """Threads that work on one micro-batch."""
    partial_sums: bool = False
    """Whether splits send each other sums of rows where these are fewer."""
    by_id: bool = False
    """Whether the vertices that a hop meets are numbered by their ids (:meth:`CoreSampler.number_by_id`)."""
    micro_batches: int = 1
    """Number of micro-batches that a mini-batch is cut into."""
    splits: int | None = None
    """Number of splits of each micro-batch; None for one for each part."""
    fixed_shares: bool = False
    """Whether each micro-batch has its own share of the training vertices, see :class:`gsplit.sampling.EpochPlan`."""
    own: range | None = None
    """The micro-batches that are sampled here: those of the trainers of a host. None: all."""


class MicroBatches:
    """Samples and splits the micro-batches of each mini-batch of a run.

    Args:
        layout: that ``spec.layout`` names, opened.
        spec: how to sample from it.

    Raises:
        ValueError: where the parts of the layout cannot be dealt out to the splits.
    """

    def __init__(self, layout: Layout, spec: SamplerSpec) -> None:
        self.number, self.splits = spec.micro_batches, spec.splits or layout.parts
        self._own = range(self.number) if spec.own is None else spec.own
        self.plan = spec.rule.plan(
            layout,
            batch_size=spec.batch_size,
            seed=spec.seed,
            micro_batches=spec.micro_batches,
            fixed_shares=spec.fixed_shares,
        )
        self._sampler = spec.rule.sampler(
            layout,
            split_offsets(layout, self.splits),
            seed=spec.seed,
            edge_ids=spec.edge_ids,
            memory=spec.memory,
            threads=spec.threads,
            partial_sums=spec.partial_sums,
        )
        if spec.by_id and isinstance(self._sampler, CoreSampler):
            self._sampler.number_by_id()

    def sample(self, epoch: int, batch: int, micro: int) -> MicroBatchSampler:
        """Sample one micro-batch of a mini-batch; it stays in the sampler until the next call."""
        sample_planned(self._sampler, self.plan, epoch, batch, micro)
        return self._sampler

    def sample_all(self, epoch: int, batch: int) -> Iterator[MicroBatchSampler]:
        """The same sampler for each micro-batch that is sampled here in turn, which it holds until the next one."""
        for micro in self._own:
            yield self.sample(epoch, batch, micro)


def sample_planned(sampler: MicroBatchSampler, plan: Plan, epoch: int, batch: int, micro: int) -> None:
    """Sample a micro-batch as a plan has it: its targets, what else starts, or pairs with their candidates.

    Args:
        sampler: of the rule that made the plan; the micro-batch stays in it until it samples the next one.
        plan: of a run.
        epoch, batch, micro: which micro-batch.
    """
    if isinstance(plan, LinkPlan):
        assert isinstance(sampler, MiniBatchSampler)
        return sample_pairs(sampler, plan.pairs(epoch, batch), epoch, batch, micro)
    targets, others = plan.micro_batches(epoch, batch), plan.others(epoch, batch)
    sampler.sample(
        targets[micro],
        epoch=epoch,
        batch=batch,
        micro=micro,
        num_targets=sum(map(len, targets)),
        others=None if others is None else others[micro],
    )


def sample_pairs(sampler: MiniBatchSampler, pairs: list[Pairs], epoch: int, batch: int, micro: int) -> None:
    """Sample what one micro-batch of pairs is scored from, without the edges that it asks for.

    Args:
        sampler: of neighbours; the micro-batch stays in it until it samples the next one.
        pairs: of the mini-batch, by micro-batch.
        epoch, batch, micro: which micro-batch.
    """
    own = pairs[micro]
    sampler.exclude(own.excluded.destinations, own.excluded.sources)
    number = sum(len(each.targets) for each in pairs)
    sampler.sample(own.targets, epoch=epoch, batch=batch, micro=micro, num_targets=number)
    sampler.put_pairs(
        own,
        groups_of_all=sum(len(each.rows) for each in pairs),
        negatives_of_all=sum(int((~each.masked).sum()) for each in pairs),
    )
