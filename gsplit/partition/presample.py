"""Counts of what training will compute, by sampling some epochs of it with the product's own sampler.

How often a vertex is computed and an edge is drawn depends on the targets and the fan-out, which degrees know
nothing of: in papers100M one vertex of a hundred is a target. (Sampling to rank what to cache: GNNLab, EuroSys 2022;
to weight the graph that is partitioned: the later version of the GSplit paper.) The draws are other ones than those
of the training: counts of the very mini-batches that they are to predict would flatter themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from gsplit.bars import progress_bar
from gsplit.config.partition import Training
from gsplit.config.sampling import fan_outs_by_name
from gsplit.data import Layout
from gsplit.data.graph import GraphArrays
from gsplit.data.layout import inverse, reordered_indptr
from gsplit.errors import InputError
from gsplit.sampling import MicroBatchSampler, Neighbours, Rule
from gsplit.sampling.links import Links, Negatives
from gsplit.sampling.micro_batches import sample_planned
from gsplit.sampling.named import fan_out_of_relations, rule_named
from gsplit.sampling.plan import fold_key

PRESAMPLE = 0x50524553
"""Key that keeps the draws apart from those of a training with the same seed."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts over all mini-batches that were sampled. N vertices, of several types one type after the other."""

    mini_batches: int
    loaded: NDArray[np.int64]
    """[N] mini-batches that have the vertex among their inputs: how often its features are loaded."""
    computed: NDArray[np.int64]
    """[N] edges drawn for the vertex, at all hops: what it costs to compute."""
    by_relation: tuple[NDArray[np.int64], ...]
    """By relation: [N_d] edges of it drawn for the vertex."""


def presample(
    graph: GraphArrays,
    training: Training,
    *,
    epochs: int,
    seed: int,
    global_ids: Sequence[NDArray[np.int64]] | None = None,
    threads: int = 1,
) -> Counts:
    """Sample whole epochs and count.

    Args:
        graph: of a store, or of a layout with its permutations as ``global_ids``.
        training: its rule and the size of mini-batches.
        epochs: how many.
        seed: of the shuffles and draws.
        global_ids: by type: int64 [N_t], what draws depend on; None: the graph's own.
        threads: how many sample; the counts are the same.

    Raises:
        InputError: where there are no training vertices to sample for.
    """
    check_targets(graph, training)
    schema = graph.schema
    sizes = [each.num_vertices for each in schema.types]
    ids = [np.arange(n) for n in sizes] if global_ids is None else list(global_ids)
    whole = Whole(graph=graph, permutations=ids, offsets_by_type=[np.array([0, n]) for n in sizes])
    loaded = [np.zeros(n, np.int64) for n in sizes]
    drawn = tuple(np.zeros(len(each.indptr) - 1, np.int64) for each in graph.adjacencies)
    mini_batches = 0
    seed = fold_key(seed, PRESAMPLE)
    for sampler in mini_batches_of(
        cast(Layout, whole), training, epochs=epochs, seed=seed, threads=threads, desc="presample"
    ):
        segment = sampler.segment(0)
        vertices = [segment.vertices_of(number) for number in range(len(sizes))]
        for of_type, own in zip(loaded, vertices, strict=True):
            of_type[own] += 1  # no vertex stands twice in a level
        for layer, blocks in segment.blocks.items():
            for relation, header in enumerate(blocks):
                rows = vertices[schema.ends(relation)[1]][: header.num_destinations]
                drawn[relation][rows] += np.diff(segment.indptr(layer, relation))
        mini_batches += 1
    computed = [np.zeros(n, np.int64) for n in sizes]
    for relation, of_relation in enumerate(drawn):
        computed[schema.ends(relation)[1]] += of_relation
    return Counts(
        mini_batches=mini_batches, loaded=np.concatenate(loaded), computed=np.concatenate(computed), by_relation=drawn
    )


@dataclass(kw_only=True)
class Whole:
    """A graph as rules see a layout: in one part."""

    graph: GraphArrays
    permutations: list[NDArray[np.int64]]
    """By type: [N_t] global ids."""
    offsets_by_type: list[NDArray[np.int64]]
    """By type: [2] of the one part."""
    parts: int = 1

    @property
    def permutation(self) -> NDArray[np.int64]:
        """[N] global ids of the first type."""
        return self.permutations[0]

    @property
    def offsets(self) -> NDArray[np.int64]:
        """[2] of the first type."""
        return self.offsets_by_type[0]

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """[N] of global ids in the graph."""
        return inverse(self.permutation)

    @cached_property
    def store_indptr(self) -> NDArray[np.int64]:
        """[N + 1] by global ids."""
        return reordered_indptr(self.graph.indptr, self.positions)


def rule_to_come(training: Training, graph: GraphArrays) -> Rule:
    """The rule of a training to come on a graph.

    Raises:
        InputError: for fan-outs of relations that do not go with the graph.
    """
    own = fan_outs_by_name(training.fan_out_of)
    rule = rule_named(
        training.sampling,
        fan_out=training.fan_out,
        fan_out_of=fan_out_of_relations(own, training.fan_out, graph.schema, graph.target),
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
    rule = rule_to_come(training, layout.graph)
    plan = rule.plan(layout, batch_size=training.batch_size, seed=seed)
    offsets = np.stack(layout.offsets_by_type) if layout.graph.schema.is_typed else layout.offsets
    sampler = rule.sampler(layout, offsets, seed=seed, threads=threads)
    number = rule.num_batches(layout, batch_size=training.batch_size)
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


def check_training(training: Training, graph: GraphArrays) -> None:
    """Raise InputError for fan-outs of relations that do not go with the graph, and a subgraph larger than it."""
    rule_to_come(training, graph)
    size, num_vertices = training.subgraph, sum(each.num_vertices for each in graph.schema.types)
    if size is not None and not size.endswith("%") and int(size) > num_vertices:
        raise InputError(f"--subgraph is {size}, but there are {num_vertices} vertices")
