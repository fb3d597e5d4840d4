"""The mini-batches of one trainer of a grid: its block of each subgraph, and the rows that are its own.

A set is known to all trainers of a group. Each owns the vertices of its range, training vertices first, so that the
rows that the last layer computes are a prefix. The edges into the vertices of its grid row are read out of the
layout, and of these the ones that come from its grid column are kept. What an edge counts where sums stand for more
goes by all in-edges that are in the set, whichever column they come from.

Legend: S vertices of the set, E edges.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from gsplit.device import accelerator
from gsplit.engine.components import Components
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.sampled.maker import share_of_whole
from gsplit.engine.whole.whole_batch import grid_operator
from gsplit.full import COLUMNS, FEATURES, ROWS, GridPlan
from gsplit.full.grid_attention import GridAttention
from gsplit.full.moves import Moves, fresh_counters
from gsplit.full.operators import GridOperator
from gsplit.full.shards import Shard, slots
from gsplit.full.whole_block import WholeBlock
from gsplit.kernels import Edges
from gsplit.nn import BatchComm
from gsplit.runs.log import level_name
from gsplit.sampling import Rule
from gsplit.sampling.subgraphs import OfSets
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.ring import Handle


@dataclass(frozen=True, kw_only=True)
class SubgraphMiniBatch(MiniBatch):
    """This trainer's share of a subgraph on a grid."""

    operators: Sequence[GridOperator | GridAttention]
    """What sums or attends in its layers; layers between the same rows have one."""

    @override
    def tensors(self) -> Iterator[Tensor]:
        yield from super().tensors()
        for block in self.blocks.values():
            yield from (each for each in vars(block).values() if isinstance(each, Tensor))
        for operator in self.operators:
            yield from operator.tensors()


class SubgraphBatches:
    """Cuts the mini-batches of one trainer; see :class:`gsplit.engine.feed.Maker`.

    Args:
        components: of the trainer, with a model of sums.
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
        self._moves, self._features = Moves.of(member, run.moves_dtype), components.split_loader().features

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
        blocks, operators = self._blocks(held, comm, replace(self._moves, counters=counters))
        # Trainers along the features share the columns of an edge: the first of them counts it.
        counts_edges = self._grid.coordinate(self._rank, FEATURES) == 0
        edges = sum(block.operator.num_edges for block in blocks.values()) if counts_edges else 0
        cut_s = time.perf_counter()
        own, of_targets = held.vertices[self._rank], held.vertices[self._rank][: held.sizes[self._rank, 1]]
        x = self._features.load(own)
        sizes = [len(own)] * run.config.layers + [len(of_targets)]
        return SubgraphMiniBatch(
            handle=handle,
            num_targets=sum(map(len, targets)),
            comm=comm,
            blocks=blocks,
            x=x,
            labels=accelerator.moved(components.layout.graph.labels[of_targets], member.device),
            loaded=self._features.take_counters(),
            counts={
                "sampled_edges": edges,
                "computed_edges": edges,
                "computed_vertices": sum(sizes[1:]),
                "segment_bytes": 0,
                **{level_name(level): size for level, size in enumerate(sizes)},
            },
            targets=of_targets,
            target_weights=self._target_weights(of_targets),
            share_of_whole=share_of_whole(run) if self._rule.draws_targets else None,
            operators=operators,
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

    def _blocks(
        self, held: Held, comm: BatchComm, moves: Moves
    ) -> tuple[dict[int, WholeBlock], list[GridOperator | GridAttention]]:
        """The blocks of all layers, the last of which computes the targets alone, and their operators."""
        components, layers = self._components, self._components.run.config.layers
        row = self._grid.group(self._rank, COLUMNS, FEATURES)
        column = self._grid.group(self._rank, ROWS, FEATURES)
        into = self._edges_into(held, row)
        column_S = held.places_among(column)
        of_level = [held.sizes[:, 0]] * layers + [held.sizes[:, 1]]
        degrees = None
        if components.edges.degrees:
            degrees = components.edges.degrees_of(held.vertices[self._rank])
        blocks: dict[int, WholeBlock] = {}
        operators = []
        for layer in range(1, layers + 1):
            if 1 < layer < layers:
                blocks[layer] = replace(blocks[1], layer=layer)
                continue
            last = layer == layers
            kept = held.of_targets(row) if last else None
            shard, own = into.shard(column_S, kept), held.own_in(row, self._rank, last=last)
            given, wanted = of_level[layer - 1], of_level[layer]
            operator = grid_operator(components, shard, moves, self._grid, self._rank, given, wanted)
            operators.append(operator)
            blocks[layer] = WholeBlock(
                num_own_sources=int(held.sizes[self._rank, 0]),
                num_destinations=int(wanted[self._rank]),
                layer=layer,
                sums_all=into.estimates,
                operator=operator,
                in_degrees=accelerator.moved(into.numbers[own], components.member.device),
                in_weights=None if into.totals is None else components.edges.tensor(into.totals[own]),
                degrees=degrees,
                estimates=into.estimates,
                comm=comm,
            )
        return blocks, operators

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


class Held(NamedTuple):
    """A set as the trainers of a group hold it."""

    vertices: list[NDArray[np.int64]]
    """Layout ids of each trainer's, training vertices first. The set's order is this one, trainer by trainer."""
    sizes: NDArray[np.int64]
    """[P, 2] numbers of all of them, and of the training vertices."""

    @classmethod
    def of(cls, targets: NDArray[np.int64], others: NDArray[np.int64], bounds: NDArray[np.int64]) -> Held:
        """Deal a set out to the trainers by the bounds of their layout ids."""
        ends = [np.searchsorted(some, bounds) for some in (targets, others)]  # both ascend
        ours = [
            [some[begin:end] for some, (begin, end) in zip((targets, others), of_trainer, strict=True)]
            for of_trainer in zip(*map(itertools.pairwise, ends), strict=True)
        ]
        sizes = [(len(first) + len(rest), len(first)) for first, rest in ours]
        return cls([np.concatenate(each) for each in ours], np.array(sizes, np.int64))

    def places_among(self, trainers: Sequence[int]) -> NDArray[np.int32]:
        """Place of each vertex of the set among those of some trainers, int32 [S]; -1 of others."""
        ends = np.cumsum(self.sizes[:, 0])
        place_S, first = np.full(int(ends[-1]), -1, np.int32), 0
        for trainer in trainers:
            number = int(self.sizes[trainer, 0])
            place_S[ends[trainer] - number : ends[trainer]] = np.arange(first, first + number)
            first += number
        return place_S

    def of_targets(self, trainers: Sequence[int]) -> NDArray[np.bool_]:
        """Which vertices of some trainers are training vertices."""
        return np.concatenate([np.arange(size) < number for size, number in self.sizes[list(trainers)]])

    def own_in(self, trainers: Sequence[int], rank: int, *, last: bool) -> slice:
        """Where a trainer's vertices stand among those of some trainers; the training vertices alone for the last."""
        first = int(self.sizes[list(trainers[: trainers.index(rank)]), 0].sum())
        return slice(first, first + int(self.sizes[rank, int(last)]))


class EdgesOfSet(NamedTuple):
    """Edges into the vertices of a grid row, from all of the set."""

    rows: NDArray[np.int64]
    """[E] the destination of each, ascending."""
    places: NDArray[np.int32]
    """[E] the place of its source in the set."""
    weights: NDArray[np.floating] | None
    """[E] what each counts; None: 1, or nobody asks."""
    numbers: NDArray[np.int32]
    """[destinations] numbers of in-edges that a sum stands for."""
    totals: NDArray[np.floating] | None
    """[destinations] their weights; None where the model takes none."""
    estimates: bool
    """Whether sums stand for those over the whole graph."""

    def shard(self, column_S: NDArray[np.int32], kept_R: NDArray[np.bool_] | None) -> Shard:
        """The edges from some of the set.

        Args:
            column_S: place of each source; -1 to leave its edges out.
            kept_R: the destinations that are wanted; None: all.
        """
        sources, wanted = column_S[self.places], None if kept_R is None else kept_R[self.rows]
        mask = sources >= 0 if wanted is None else (sources >= 0) & wanted
        counts = np.bincount(self.rows[mask], minlength=len(self.numbers))
        counts = counts if kept_R is None else counts[kept_R]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        weight = None if self.weights is None else torch.from_numpy(self.weights[mask])
        return Shard(Edges(indptr=torch.from_numpy(indptr), indices=torch.from_numpy(sources[mask])), weight)
