"""The seam of sampling rules: neighbours as ever, and a second rule behind the same interface."""

from __future__ import annotations

import pickle
from typing import get_args

import numpy as np
import pytest
from support.rules import FirstNeighbours
from support.samplers import micro_batches_of

from gsplit.config.partition import Presampled
from gsplit.config.sampling import RULES, Sampling
from gsplit.sampling import EpochPlan, MiniBatchSampler, Neighbours

KEEP, HOPS, BATCH_SIZE = 2, 2, 64
FIRST = FirstNeighbours(keep=KEEP, hops=HOPS)


def test_neighbours_are_the_epoch_plan_and_the_sampler(weighted_layouts):
    layout, rule = weighted_layouts(3), Neighbours(fan_out=(3, 4))
    graph = layout.graph
    plan = rule.plan(layout, batch_size=20, seed=5, micro_batches=2, fixed_shares=True)
    wanted = EpochPlan(graph.train_idx, layout.permutation, 20, 5, micro_batches=2, fixed_shares=True)
    sampler = rule.sampler(layout, layout.offsets, seed=5, edge_ids=True, memory=0, threads=2)
    plain = MiniBatchSampler(
        graph.indptr,
        graph.indices,
        layout.offsets,
        fan_outs=(3, 4),
        seed=5,
        global_ids=layout.permutation,
        edge_ids=True,
    )
    assert rule.num_batches(layout, batch_size=20) == wanted.num_batches == 8
    for batch in range(plan.num_batches):
        for micro, (targets, same) in enumerate(
            zip(plan.micro_batches(1, batch), wanted.micro_batches(1, batch), strict=True)
        ):
            assert targets.tolist() == same.tolist()
            for either in (sampler, plain):
                either.sample(targets, epoch=1, batch=batch, micro=micro)
            for rank in range(3):
                assert sampler.segment(rank).data.tobytes() == plain.segment(rank).data.tobytes()


def test_rules_travel_by_pickle():
    for rule in (Neighbours(fan_out=(5, -1)), FIRST):
        assert pickle.loads(pickle.dumps(rule)) == rule


@pytest.mark.parametrize(("number", "splits"), [(4, 1), (2, 2), (1, 4)])
def test_another_rule_decides_who_starts_and_which_edges_are_kept(layouts, number, splits):
    layout, ways = layouts(4), {"micro_batches": number, "splits": splits}
    batches = micro_batches_of(layout, **ways, rule=FIRST, batch_size=BATCH_SIZE, seed=0, edge_ids=False)
    indptr, indices = layout.graph.indptr, layout.graph.indices
    started = []
    for batch in range(FIRST.num_batches(layout, batch_size=BATCH_SIZE)):
        for sampler in batches.sample_all(0, batch):
            segments = [sampler.segment(split) for split in range(splits)]
            started += [v for segment in segments for v in segment.targets]
            for layer in range(1, HOPS + 1):
                for rank, segment in enumerate(segments):
                    segment.validate()
                    received = [other.vertices[other.send_rows(layer)[rank]] for other in segments]
                    sources = np.concatenate([segment.vertices[: segment.level_sizes[layer - 1]], *received])
                    kept = np.split(sources[segment.indices(layer)], segment.indptr(layer)[1:-1])
                    for v, drawn in zip(segment.vertices, kept[: segment.level_sizes[layer]], strict=False):
                        assert drawn.tolist() == indices[indptr[v] : indptr[v + 1]][:KEEP].tolist()
    assert sorted(started) == list(range(300))


def test_each_rule_with_a_name_has_its_facts():
    assert set(RULES) == set(get_args(Sampling))
    assert set(get_args(Presampled)) < set(RULES)
    assert all(facts.subgraph for facts in RULES.values() if facts.drawn_set or facts.draws_targets)
