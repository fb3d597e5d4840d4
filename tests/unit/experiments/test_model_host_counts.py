"""Counts of every strategy on small graphs, against slow ones that share no code with what they check."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.reference import splits_of
from support.traffic import cut, dealt_from, hottest_set

from experiments.model_host.counts import count, strategies_of
from experiments.model_host.layers import layers_of
from experiments.model_host.model import exchanged_bytes
from experiments.shared.placements import Placements
from gsplit.sampling import EpochPlan

FAN_OUT, SEED, CACHES = (4, 3), 5, (0, 10)
OFFSETS = [0, 20, 150, 151, 301]
"""Four parts of very different sizes."""


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    layout = lay_out(random_graph(301, 10, seed=3), tmp_path_factory.mktemp("model_host"), parts=1)
    return replace(layout, offsets=np.array(OFFSETS))


def slow_counts(layout, name, percent, group, batch_size, batches):
    """By mini-batch and trainer: (destinations, own sources, edges, sent, received) of each layer, loaded rows."""
    graph, parts = layout.graph, 4
    n, train = graph.num_vertices, graph.train_idx.tolist()
    order = EpochPlan(graph.train_idx, layout.permutation, batch_size, SEED).targets(0).tolist()
    shares = [set(share) for share in cut(train, parts)]
    dealt = dealt_from(shares, order)
    offsets = OFFSETS[:: parts // group]
    counted = []
    for batch in batches:
        begin, end = (min(b * batch_size, len(order)) for b in (batch, batch + 1))
        micros = cut(order[begin:end], parts // group)
        if name == "PaGraph":
            micros = [[v for share, v in dealt[begin:end] if share == g] for g in range(parts)]
        trainers = []
        for micro, targets in enumerate(micros):
            splits = splits_of(layout, targets, FAN_OUT, offsets=offsets, seed=SEED, batch=batch, micro=micro)
            for k, split in enumerate(splits):
                sizes = split.level_sizes
                rank = micro * group + k
                own, peers = set(), set()
                holders = group if "GSplit" in name else parts
                prefixes = [
                    set(range(a, a + min(b - a, ceil((b - a) * percent * holders / 100))))
                    for a, b in pairwise(OFFSETS)
                ]
                if "GSplit" in name:
                    own = {v for part, cached in enumerate(prefixes) if part * group // parts == k for v in cached}
                elif name == "Quiver":
                    own, peers = prefixes[rank], set().union(*prefixes)
                elif name == "PaGraph":
                    own = hottest_set(graph, shares[rank], len(FAN_OUT), ceil(n * percent / 100))
                needed = set(split.vertices)
                hits, remote = len(needed & own), len((needed & peers) - own)
                layers = [
                    (
                        sizes[at],
                        sizes[at - 1],
                        sum(map(len, split.edges[at])),
                        tuple(len(other.received[at][k]) for other in splits),
                        tuple(map(len, split.received[at])),
                    )
                    for at in (1, 2)
                ]
                trainers.append((layers, (hits, remote, len(needed) - hits - remote)))
        counted.append(trainers)
    return counted


@pytest.mark.parametrize("batch_size", [64, 2, 1000])
def test_every_strategy_is_counted_as_slowly(layout, batch_size):
    """150 targets: an uneven last mini-batch; fewer targets than trainers; all in one."""
    placements = Placements(layout, batch_size, FAN_OUT, SEED, groups=(2,))
    batches = range(min(3, placements.plan.num_batches))
    strategies = strategies_of(layout, placements, CACHES, len(FAN_OUT), groups=(2,))
    made = count(placements, strategies, batches)
    named = [(each.strategy.name, each.strategy.cache_percent) for each in made]
    assert named == [
        *[("DGL", 0), ("PaGraph", 0), ("PaGraph", 10), ("Quiver", 0), ("Quiver", 10), ("GSplit", 0), ("GSplit", 10)],
        *[("GSplit, groups of 2", 0), ("GSplit, groups of 2", 10)],
    ]
    for each, (name, percent) in zip(made, named, strict=True):
        group = {"GSplit": 4, "GSplit, groups of 2": 2}.get(name, 1)
        assert each.strategy.group == group
        slow = slow_counts(layout, name, percent, group, batch_size, batches)
        found = [
            [
                (
                    [
                        (at.destinations, at.own_sources, at.edges, at.sent_rows, at.received_rows)
                        for at in trainer.layers
                    ],
                    (trainer.loads.hit_rows, trainer.loads.peer_rows, trainer.loads.host_rows),
                )
                for trainer in mini_batch
            ]
            for mini_batch in each.mini_batches
        ]
        assert found == slow, (name, percent)
        every = [trainer for mini_batch in slow for trainer in mini_batch]
        assert each.edges == sum(layer[2] for layers, _ in every for layer in layers)
        assert each.messages == sum(rows > 0 for layers, _ in every for layer in layers for rows in layer[3])
        rows = [sum(sum(layers[at][3]) for layers, _ in every) for at in (0, 1)]
        # 5 -> 7 -> 3 columns: features are sent as they are, without gradients; then projections.
        assert exchanged_bytes(each, layers_of("sage", [5, 7, 3], 1)) == 4 * (5 * rows[0] + 2 * 3 * rows[1])
        assert exchanged_bytes(each, layers_of("gat", [5, 7, 3], 1)) == 4 * 2 * (7 * rows[0] + 3 * rows[1])
