"""Counts of what training will compute, by sampling some epochs of it with the product's own sampler.

How often a vertex is computed and an edge is drawn depends on the targets and the fan-out, which degrees know
nothing of: in papers100M one vertex of a hundred is a target. (Sampling to rank what to cache: GNNLab, EuroSys 2022;
to weight the graph that is partitioned: the later version of the GSplit paper.) The draws are other ones than those
of the training: counts of the very mini-batches that they are to predict would flatter themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from gsplit.bars import progress_bar
from gsplit.config.partition import Training
from gsplit.data import Layout
from gsplit.data.graph import GraphArrays
from gsplit.data.layout import inverse, reordered_indptr
from gsplit.data.typed_graph import TypedGraph
from gsplit.errors import InputError
from gsplit.sampling import EpochPlan, MicroBatchSampler, Neighbours, RelationEdges, Rule, TypedSampler, TypeInParts
from gsplit.sampling.links import Links, Negatives
from gsplit.sampling.micro_batches import sample_planned
from gsplit.sampling.named import rule_named
from gsplit.sampling.plan import fold_key, num_batches

PRESAMPLE = 0x50524553
"""Key that keeps the draws apart from those of a training with the same seed."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts over all mini-batches that were sampled. N vertices; ids are those of the graph sampled from."""

    mini_batches: int
    loaded: NDArray[np.int64]
    """[N] mini-batches that have the vertex among their inputs: how often its features are loaded."""
    computed: NDArray[np.int64]
    """[N] edges drawn for the vertex, at all hops: what it costs to compute."""
    by_relation: tuple[NDArray[np.int64], ...] = ()
    """By relation: [N_d] edges of it drawn for the vertex. Of several types ``loaded`` and ``computed`` are those of
    all vertices, type after type."""


def presample(
    graph: GraphArrays,
    training: Training,
    *,
    epochs: int,
    seed: int,
    global_ids: NDArray[np.int64] | None = None,
    threads: int = 1,
) -> Counts:
    """Sample whole epochs and count.

    Args:
        graph: of a store, or of a layout with its permutation as ``global_ids`` [N].
        training: its rule and the size of mini-batches.
        epochs: how many.
        seed: of the shuffles and draws.
        global_ids: int64 [N], what draws depend on; None: the graph's own.
        threads: how many sample; the counts are the same.

    Raises:
        InputError: where there are no training vertices to sample for.
    """
    check_targets(graph, training)
    if isinstance(graph, TypedGraph):
        return _presample_types(graph, training, epochs=epochs, seed=seed, threads=threads)
    n = graph.num_vertices
    ids = np.arange(n) if global_ids is None else global_ids
    whole = cast(Layout, Whole(graph=graph, permutation=ids, offsets=np.array([0, n])))
    loaded, computed = np.zeros(n, np.int64), np.zeros(n, np.int64)
    mini_batches = 0
    for sampler in mini_batches_of(
        whole, training, epochs=epochs, seed=fold_key(seed, PRESAMPLE), threads=threads, desc="presample"
    ):
        segment = sampler.segment(0)
        # No vertex stands twice in a level.
        loaded[segment.vertices] += 1
        for layer, header in segment.layers.items():
            computed[segment.vertices[: header.num_destinations]] += np.diff(segment.indptr(layer))
        mini_batches += 1
    return Counts(mini_batches=mini_batches, loaded=loaded, computed=computed)


def _presample_types(graph: TypedGraph, training: Training, *, epochs: int, seed: int, threads: int) -> Counts:
    """Sample whole epochs of a graph of several types, each relation by the same fan-outs, and count."""
    schema, seed = graph.schema, fold_key(seed, PRESAMPLE)
    sampler = TypedSampler(
        [
            RelationEdges(
                indptr=each.indptr, indices=each.indices, source=source, destination=destination, name=str(relation)
            )
            for relation, each, (source, destination) in zip(
                schema.relations, graph.adjacencies, map(schema.ends, range(len(schema.relations))), strict=True
            )
        ],
        [TypeInParts(offsets=[0, each.num_vertices], name=each.name) for each in schema.types],
        fan_outs=[[count] * len(schema.relations) for count in training.fan_out],
        target_type=graph.target,
        seed=seed,
        threads=threads,
    )
    ids = np.arange(schema.types[graph.target].num_vertices)
    plan = EpochPlan(graph.train_idx, ids, training.batch_size, seed)
    loaded = [np.zeros(each.num_vertices, np.int64) for each in schema.types]
    drawn = [np.zeros(len(each.indptr) - 1, np.int64) for each in graph.adjacencies]
    number = num_batches(len(graph.train_idx), training.batch_size)
    with progress_bar(epochs * number, "presample", "batch") as bar:
        for epoch in range(epochs):
            for batch in range(number):
                sample_planned(sampler, plan, epoch, batch, micro=0)
                segment = sampler.segment(0)
                for each, of_type in enumerate(loaded):
                    of_type[segment.vertices_of(each)] += 1
                for layer, blocks in segment.blocks.items():
                    for relation, header in enumerate(blocks):
                        rows = segment.vertices_of(schema.ends(relation)[1])[: header.num_destinations]
                        drawn[relation][rows] += np.diff(segment.indptr(layer, relation))
                bar.update()
    computed = [np.zeros(each.num_vertices, np.int64) for each in schema.types]
    for relation, of_relation in enumerate(drawn):
        computed[schema.ends(relation)[1]] += of_relation
    return Counts(
        mini_batches=epochs * number,
        loaded=np.concatenate(loaded),
        computed=np.concatenate(computed),
        by_relation=tuple(drawn),
    )


@dataclass(kw_only=True)
class Whole:
    """A graph as rules see a layout: in one part."""

    graph: GraphArrays
    permutation: NDArray[np.int64]
    """[N] global ids."""
    offsets: NDArray[np.int64]
    """[2] of the one part."""
    parts: int = 1

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """[N] of global ids in the graph."""
        return inverse(self.permutation)

    @cached_property
    def store_indptr(self) -> NDArray[np.int64]:
        """[N + 1] by global ids."""
        return reordered_indptr(self.graph.indptr, self.positions)


def rule_to_come(training: Training) -> Rule:
    """The rule of a training to come."""
    rule = rule_named(
        training.sampling,
        fan_out=training.fan_out,
        layers=training.num_layers,
        layer_sizes=training.layer_sizes,
        subgraph=training.subgraph,
    )
    if training.task == "links":
        assert isinstance(rule, Neighbours)
        return Links(neighbours=rule, negatives=Negatives(uniform=1))
    return rule


def mini_batches_of(
    layout: Layout, training: Training, *, epochs: int, seed: int, threads: int, desc: str
) -> Iterator[MicroBatchSampler]:
    """The sampler of whole epochs, with each mini-batch in it until the next one; split over the parts.

    Args:
        layout: to sample from.
        training: to come.
        epochs: how many.
        seed: of shuffles and draws.
        threads: how many sample.
        desc: name of the progress bar.
    """
    rule = rule_to_come(training)
    plan = rule.plan(layout, batch_size=training.batch_size, seed=seed)
    number = rule.num_batches(layout, batch_size=training.batch_size)
    sampler = rule.sampler(layout, layout.offsets, seed=seed, threads=threads)
    with progress_bar(epochs * number, desc, "batch") as bar:
        for epoch in range(epochs):
            for batch in range(number):
                sample_planned(sampler, plan, epoch, batch, micro=0)
                yield sampler
                bar.update()


def check_targets(graph: GraphArrays, training: Training) -> None:
    """Raise InputError where there is nothing to sample for."""
    if training.task == "links":
        if not graph.num_edges:
            raise InputError("the graph has no edges to sample links of")
    elif not len(graph.train_idx):
        raise InputError("the graph has no training vertices to sample for; give it some (gsplit import --split)")


def check_training(training: Training, num_vertices: int) -> None:
    """Raise InputError where a subgraph would have more vertices than there are."""
    size = training.subgraph
    if size is not None and not size.endswith("%") and int(size) > num_vertices:
        raise InputError(f"--subgraph is {size}, but there are {num_vertices} vertices")
