"""How the trainers share a mini-batch out: split groups, and the micro-batch of each.

Trainers of one *split group* compute one micro-batch together, split; the groups are data-parallel to each other.
One group of all trainers is split parallelism, groups of one trainer are data parallelism, and anything between is
both. Ranks go by group: group g has the ranks g * size .. (g + 1) * size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.sampling.plan import EpochPlan
from gsplit.sampling.sampler import MiniBatchSampler, sampler_of
from gsplit.supply.tickets import Ticket


@dataclass(frozen=True, kw_only=True)
class SplitGroups:
    """Who computes with whom.

    Raises:
        ValueError: where ``size`` does not divide ``trainers``.
    """

    trainers: int
    size: int
    """Trainers of a group."""
    fixed_shares: bool = False
    """Each group has its own share of the training vertices, see :class:`gsplit.sampling.plan.EpochPlan`."""

    def __post_init__(self) -> None:
        if self.size < 1 or self.trainers % self.size:
            raise ValueError(f"groups of {self.size} do not divide {self.trainers} trainers")

    @property
    def number(self) -> int:
        """Of groups, and of micro-batches."""
        return self.trainers // self.size

    def group_of(self, rank: int) -> int:
        return rank // self.size

    def split_of(self, rank: int) -> int:
        """Which split of its group's micro-batch a trainer computes."""
        return rank % self.size

    def ranks_of(self, group: int) -> range:
        return range(group * self.size, (group + 1) * self.size)

    def offsets(self, layout: Layout) -> NDArray[np.int64]:
        """int64 [size + 1]: split k owns the layout ids ``offsets[k] .. offsets[k + 1]``, whole parts of the layout.

        Raises:
            ValueError: where the parts cannot be dealt out evenly.
        """
        if layout.parts % self.size:
            raise ValueError(f"{layout.parts} parts cannot be dealt out to {self.size} trainers")
        return layout.offsets[:: layout.parts // self.size]


class MicroBatches:
    """Samples and splits the micro-batches of each mini-batch.

    Args:
        layout: to sample from.
        groups: for each a micro-batch, split over its trainers.
        fan_out, seed, edge_ids, memory, threads: see :class:`MiniBatchSampler`.
        batch_size: targets of all micro-batches of a mini-batch together.
    """

    def __init__(
        self,
        layout: Layout,
        groups: SplitGroups,
        *,
        fan_out: tuple[int, ...],
        batch_size: int,
        seed: int,
        edge_ids: bool,
        memory: int | None = None,
        threads: int = 1,
    ) -> None:
        graph = layout.graph
        self.groups = groups
        self.plan = EpochPlan(
            graph.train_idx,
            layout.permutation,
            batch_size,
            seed,
            micro_batches=groups.number,
            fixed_shares=groups.fixed_shares,
        )
        self._sampler = sampler_of(
            layout,
            groups.offsets(layout),
            fan_outs=fan_out,
            seed=seed,
            edge_ids=edge_ids,
            memory=memory,
            threads=threads,
        )

    def sample(self, ticket: Ticket, group: int) -> MiniBatchSampler:
        """Sample the micro-batch of one group; it stays in the sampler until the next call."""
        targets = self.plan.micro_batches(ticket.epoch, ticket.batch)
        self._sampler.sample(
            targets[group], epoch=ticket.epoch, batch=ticket.batch, micro=group, num_targets=sum(map(len, targets))
        )
        return self._sampler

    def sample_all(self, ticket: Ticket) -> Iterator[MiniBatchSampler]:
        """The same sampler for each group in turn, with its micro-batch."""
        for group in range(self.groups.number):
            yield self.sample(ticket, group)
