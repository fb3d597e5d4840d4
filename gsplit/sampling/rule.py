"""The sampling rule: which vertices start a mini-batch, which in-edges are kept, what a kept edge counts.

| question | who answers |
|---|---|
| which vertices start | the plan that the rule makes: epoch and batch give the targets, by micro-batch |
| which in-edges are kept | the sampler that the rule makes: targets give a segment for each split |
| what a kept edge counts | the segment: each source has a scale; without scales all edges of a vertex count alike |

What is made of scales, a ratio or an unbiased sum, is described in :mod:`gsplit.features.estimates`.

A run has one rule. It travels to the sampler processes by pickle, so its class must stand in a module that they can
import, without torch. Nothing behind the segments knows the rule: not the slots, the order, the feed or the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.data.schema import Schema
from gsplit.sampling.plan import OfTraining
from gsplit.sampling.reach import Reach, reach_of
from gsplit.sampling.sampler import TypedSampler, sampler_of, typed_sampler_of
from gsplit.sampling.segment import Segment

FanOutOf = tuple[tuple[int, tuple[int, ...]], ...]
"""Numbers of relations, each with fan-outs of its own by hop."""


class Plan(Protocol):
    """The targets of every mini-batch of a run.

    As global ids they depend on the rule and the seed alone (law 1), but for fixed shares, which follow the layout.
    """

    def micro_batches(self, epoch: int, batch: int) -> list[NDArray[np.int64]]:
        """The targets of one mini-batch by micro-batch: [G] int64 arrays of distinct layout ids, perhaps empty."""

    def others(self, epoch: int, batch: int) -> list[NDArray[np.int64]] | None:
        """List what else is in the mini-batch from the start, [G] int64 arrays of layout ids; None: nothing."""


class MicroBatchSampler(Protocol):
    """Samples and splits micro-batches, one at a time; :class:`MiniBatchSampler` says what each method does."""

    parts: int
    """P, the number of splits."""

    def sample(
        self,
        targets: NDArray[np.int64],
        *,
        epoch: int,
        batch: int,
        micro: int = 0,
        num_targets: int | None = None,
        others: NDArray[np.int64] | None = None,
    ) -> bool:
        """Sample a micro-batch, the same for the same arguments (law 1); it stays until the next call."""

    def segment_bytes(self, rank: int) -> int:
        """Room that split ``rank`` of the last micro-batch takes."""

    def write_segment(self, rank: int, out: NDArray[np.uint8]) -> None:
        """Write split ``rank`` of the last micro-batch to ``out``, uint8 [at least ``segment_bytes``]."""

    def segment(self, rank: int) -> Segment:
        """Split ``rank`` of the last micro-batch, in memory of its own."""


class Rule(Protocol):
    """A way to sample mini-batches: makes their plan, and the sampler that follows it."""

    def num_batches(self, layout: Layout, *, batch_size: int, micro_batches: int = 1) -> int:
        """Number of mini-batches of an epoch, the same in all epochs; quicker than making a plan."""

    def plan(
        self, layout: Layout, *, batch_size: int, seed: int, micro_batches: int = 1, fixed_shares: bool = False
    ) -> Plan:
        """The plan of a run.

        Args:
            layout: whose vertices start.
            batch_size: targets of a mini-batch over all its micro-batches.
            seed: of the run.
            micro_batches: of each mini-batch, G.
            fixed_shares: each micro-batch takes its targets from a share of its own, the same in all epochs.
        """

    def sampler(
        self,
        layout: Layout,
        offsets: NDArray[np.int64],
        *,
        seed: int,
        edge_ids: bool = False,
        memory: int | None = None,
        threads: int = 1,
        partial_sums: bool = False,
    ) -> MicroBatchSampler:
        """A sampler of the layout's graph, with memory of its own.

        Args:
            layout: to sample from.
            offsets: int64 [P + 1]; split p owns the layout ids ``offsets[p] .. offsets[p + 1]``. With
                several types [T, P + 1].
            seed: of the run.
            edge_ids: segments carry the positions of the kept edges in the layout's ``indices``.
            memory: bytes that the maps from vertex to row may take; None for no bound.
            threads: that work on one micro-batch.
            partial_sums: let splits send each other sums of rows where these are fewer.
        """


@dataclass(frozen=True, kw_only=True)
class Neighbours(OfTraining):
    """Neighbour sampling: training vertices start, and each destination keeps a fixed number of random in-neighbours.

    Hamilton, Ying, Leskovec, "Inductive Representation Learning on Large Graphs", NeurIPS 2017, with draws without
    replacement.
    """

    fan_out: tuple[int, ...]
    """Number of in-neighbours drawn per hop, the first for the targets, by each relation; -1 keeps all."""
    fan_out_of: FanOutOf = ()
    """The relations with other fan-outs, of which 0 draws none."""

    def fan_outs(self, relations: int) -> list[list[int]]:
        """List the fan-outs by hop and relation, [L][R]."""
        other = dict(self.fan_out_of)
        return [[other.get(r, self.fan_out)[hop] for r in range(relations)] for hop in range(len(self.fan_out))]

    def reach(self, schema: Schema, target: int) -> Reach:
        """The types of each level and the relations of each layer, with targets of the type of that number."""
        ends = [schema.ends(number) for number in range(len(schema.relations))]
        return reach_of(ends, self.fan_outs(len(ends)), target)

    def sampler(
        self,
        layout: Layout,
        offsets: NDArray[np.int64],
        *,
        seed: int,
        edge_ids: bool = False,
        memory: int | None = None,
        threads: int = 1,
        partial_sums: bool = False,
    ) -> TypedSampler:
        """The C++ sampler with the fan-outs of the rule, of a layout of one type or of several."""
        options: dict[str, Any] = {
            "seed": seed,
            "edge_ids": edge_ids,
            "memory": memory,
            "threads": threads,
            "partial_sums": partial_sums,
        }
        if offsets.ndim == 1:
            return sampler_of(layout, offsets, fan_outs=self.fan_out, **options)
        return typed_sampler_of(layout, offsets, fan_outs=self.fan_outs(len(layout.graph.adjacencies)), **options)
