"""The mini-batches of one trainer of a grid: its part of each subgraph, and the rows that are its own.

A set is known to all trainers of a group. Each owns the vertices of its range, training vertices first. The edges
into the vertices that it sums over are read out of the layout, and of these the ones that come from its columns are
kept. What an edge counts where sums stand for more goes by all in-edges that are in the set, whichever column they
come from.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data.graph import slots
from gsplit.device import accelerator
from gsplit.engine.components import Components
from gsplit.engine.gridded.held_sets import EdgesOfSet, Held
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.sampled.maker import share_of_whole
from gsplit.full import GridPlan
from gsplit.full.moves import Moves, fresh_counters
from gsplit.nn import BatchComm
from gsplit.runs.log import level_name
from gsplit.sampling import Rule
from gsplit.sampling.subgraphs import OfSets
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.ring import Handle


class Cut(NamedTuple):
    """What a trainer computes of a subgraph."""

    kind: Callable[..., MiniBatch]
    """Makes the mini-batch of all that does not depend on how it is computed."""
    edges: int
    """Number of edges that this trainer counts, in all layers; of trainers that sum over the same one does."""


class SubgraphBatches(ABC):
    """Cuts the mini-batches of one trainer; see :class:`gsplit.engine.feed.Maker`.

    Args:
        components: of the trainer.
        rule: of the sets.
        plan: of each group.
        end: this trainer's end of the supply, if any.
    """

    def __init__(self, components: Components, rule: Rule, plan: GridPlan, end: TrainerEnd | None) -> None:
        assert isinstance(rule, OfSets)
        self._components, self._rule, self._grid, self._end = components, rule, plan.grid, end
        run, layout, member = components.run, components.layout, components.member
        self._micro, self._rank = divmod(member.rank, plan.grid.world)
        self._bounds = bounds_of(layout, plan.grid.world)
        self._sets = rule.plan(
            layout, batch_size=run.config.batch_size, seed=run.config.seed, micro_batches=run.strategy.micro_batches
        )
        self._place_N = np.full(layout.graph.num_vertices, -1, np.int32)
        """Place in the set of the mini-batch that is being cut; -1 of vertices that are not there."""
        self._moves = Moves.of(member, run.moves_dtype)
        self._features = components.feature_loader(run.precision.rows)

    @abstractmethod
    def _cut(self, handle: Handle, held: Held, comm: BatchComm, moves: Moves) -> Cut:
        """Cut this trainer's part out of a set.

        Args:
            handle: of the mini-batch.
            held: the set of this trainer's group.
            comm: the communicator of the mini-batch.
            moves: of this trainer, which count for the mini-batch.
        """

    def make(self, handle: Handle) -> MiniBatch:
        """Cut the mini-batch of a ticket, and load what is this trainer's own."""
        start_s, components, run = time.perf_counter(), self._components, self._components.run
        epoch, batch = handle.ticket.epoch, handle.ticket.batch
        targets = self._sets.micro_batches(epoch, batch)
        held = Held.of(targets[self._micro], self._sets.others(epoch, batch)[self._micro], self._bounds)
        counters, member = fresh_counters(), components.member
        comm = BatchComm(
            member.group, counters, member.device, checker=member.checker, exchange_dtype=run.exchange_dtype
        )
        cut = self._cut(handle, held, comm, replace(self._moves, counters=counters))
        cut_s = time.perf_counter()
        own, of_targets = held.vertices[self._rank], held.vertices[self._rank][: held.sizes[self._rank, 1]]
        x = self._features.load(own)
        sizes = [len(own)] * run.config.layers + [len(of_targets)]
        return cut.kind(
            handle=handle,
            num_targets=sum(map(len, targets)),
            comm=comm,
            x=x,
            labels=accelerator.moved(components.layout.graph.labels[of_targets], member.device),
            loaded=self._features.take_counters(),
            counts={
                "sampled_edges": cut.edges,
                "computed_edges": cut.edges,
                "computed_vertices": sum(sizes[1:]),
                "segment_bytes": 0,
                **{level_name(level): size for level, size in enumerate(sizes)},
            },
            targets=of_targets,
            target_weights=self._target_weights(of_targets),
            share_of_whole=share_of_whole(run) if self._rule.draws_targets else None,
            seconds={"sample": cut_s - start_s, "load": time.perf_counter() - cut_s},
        )

    def release(self, handle: Handle) -> None:
        """Tell the launcher that training goes on."""
        if self._end is not None:
            self._end.released.send(handle.slot)

    def _target_weights(self, targets: NDArray[np.int64]) -> Tensor | None:
        if not self._rule.draws_targets:
            return None
        scales = self._rule.scales(self._components.layout, targets)
        return None if scales is None else self._components.edges.tensor(scales)

    def _edges_into(self, held: Held, trainers: Sequence[int]) -> EdgesOfSet:
        """All edges of the set into the vertices of some trainers."""
        graph, edges = self._components.layout.graph, self._components.edges
        everyone = np.concatenate(held.vertices)
        destinations = np.concatenate([held.vertices[trainer] for trainer in trainers])
        begins = graph.indptr[destinations]
        counts = graph.indptr[destinations + 1] - begins
        ids = slots(begins, counts)
        self._place_N[everyone] = np.arange(len(everyone), dtype=np.int32)
        places = self._place_N[graph.indices[ids]]
        own_places = self._place_N[destinations]
        self._place_N[everyone] = -1
        there = places >= 0
        rows = np.repeat(np.arange(len(destinations)), counts)[there]
        places, ids = places[there], ids[there]
        scales_S = self._rule.scales(self._components.layout, everyone)
        if scales_S is None:
            numbers = np.bincount(rows, minlength=len(destinations)).astype(np.int32)
            if not edges.weights or graph.edge_weight is None:
                return EdgesOfSet(rows, places, None, numbers, None, estimates=False)
            weights = graph.edge_weight[ids]
            totals = np.bincount(rows, weights.astype(np.float64), minlength=len(destinations)).astype(np.float64)
            return EdgesOfSet(rows, places, weights, numbers, totals, estimates=False)
        # A vertex that is there is there with its edge to itself.
        scales = np.where(places == own_places[rows], np.float32(1), scales_S[places])
        found = edges.estimated(destinations, rows, scales, ids)
        counted = found.scales if found.weights is None else found.weights
        return EdgesOfSet(rows, places, counted, found.numbers, found.whole_weights, estimates=True)
