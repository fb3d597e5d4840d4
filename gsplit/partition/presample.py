"""Counts of what training will compute, by sampling some epochs of it with the product's own sampler.

How often a vertex is computed and an edge is drawn depends on the targets and the fan-out, which degrees know
nothing of: in papers100M one vertex of a hundred is a target. (Sampling to rank what to cache: GNNLab, EuroSys 2022;
to weight the graph that is partitioned: the later version of the GSplit paper.) The draws are other ones than those
of the training: counts of the very mini-batches that they are to predict would flatter themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.bars import SECONDS_BEFORE_BAR, tqdm
from gsplit.config.partition import Training
from gsplit.data.graph import GraphArrays
from gsplit.errors import InputError
from gsplit.sampling.plan import EpochPlan, fold_key
from gsplit.sampling.sampler import MiniBatchSampler

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
        training: fan-outs and the size of mini-batches.
        epochs: how many, of all training vertices.
        seed: of the shuffles and draws.
        global_ids: int64 [N], what draws depend on; None: the graph's own.
        threads: how many sample; the counts are the same.

    Raises:
        InputError: where there are no training vertices to sample for.
    """
    n = graph.num_vertices
    check_targets(graph)
    seed = fold_key(seed, PRESAMPLE)
    plan = EpochPlan(graph.train_idx, np.arange(n) if global_ids is None else global_ids, training.batch_size, seed)
    sampler = MiniBatchSampler(
        graph.indptr,
        graph.indices,
        [0, n],
        fan_outs=training.fan_out,
        seed=seed,
        global_ids=global_ids,
        threads=threads,
    )
    loaded, computed = np.zeros(n, np.int64), np.zeros(n, np.int64)
    with tqdm(
        total=epochs * plan.num_batches,
        desc="presample",
        unit="batch",
        leave=False,
        disable=None,
        delay=SECONDS_BEFORE_BAR,
    ) as bar:
        for epoch in range(epochs):
            for batch, targets in plan.batches(epoch):
                sampler.sample(targets, epoch=epoch, batch=batch)
                segment = sampler.segment(0)
                # No vertex stands twice in a level.
                loaded[segment.vertices] += 1
                for layer, header in segment.layers.items():
                    computed[segment.vertices[: header.num_destinations]] += np.diff(segment.indptr(layer))
                bar.update()
    return Counts(mini_batches=epochs * plan.num_batches, loaded=loaded, computed=computed)


def check_targets(graph: GraphArrays) -> None:
    """Raise InputError where there are no training vertices to sample for."""
    if not len(graph.train_idx):
        raise InputError("the graph has no training vertices to sample for; give it some (gsplit import --split)")
