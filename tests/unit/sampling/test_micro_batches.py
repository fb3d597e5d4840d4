"""Micro-batches and their splits, against the slow reference."""

from __future__ import annotations

import numpy as np
import pytest
from support.messages import line_with
from support.reference import splits_of
from support.samplers import micro_batches_of

from gsplit.sampling import EpochPlan, Neighbours, split_offsets

FAN_OUT = (3, 4)


def test_splits_are_whole_parts_of_the_layout(layouts):
    layout = layouts(4)
    by_size = {size: split_offsets(layout, size).tolist() for size in (1, 2, 4)}
    assert by_size == {1: [0, 300], 2: layout.offsets[[0, 2, 4]].tolist(), 4: layout.offsets.tolist()}
    assert split_offsets(layout, 3).tolist() == layout.offsets[[0, 1, 2, 4]].tolist()
    with pytest.raises(ValueError, match=line_with("4 parts, 5 trainers")):
        split_offsets(layout, 5)


@pytest.mark.parametrize("fixed_shares", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 40, 1000])
def test_micro_batches_bring_every_target_once_an_epoch(batch_size, fixed_shares):
    train = np.arange(5, 300, 3)
    plan = EpochPlan(train, np.arange(300)[::-1], batch_size, 0, micro_batches=3, fixed_shares=fixed_shares)
    for epoch in range(2):
        batches = [plan.micro_batches(epoch, batch) for batch in range(plan.num_batches)]
        for batch, micro in enumerate(batches):
            sizes = [len(targets) for targets in micro]
            assert len(micro) == 3
            assert max(sizes) - min(sizes) <= 1
            assert sum(sizes) == min(batch_size, len(train) - batch * batch_size)
            assert plan.batch(epoch, batch).tolist() == np.concatenate(micro).tolist()
        assert sorted(v for micro in batches for targets in micro for v in targets) == train.tolist()


def test_mini_batches_have_the_same_targets_with_any_number_of_micro_batches():
    ids = np.arange(100)
    one, three = (EpochPlan(ids, ids, 16, 5, micro_batches=number) for number in (1, 3))
    for batch in range(one.num_batches):
        assert one.batch(2, batch).tolist() == three.batch(2, batch).tolist()


def test_fixed_shares_stay_and_are_shuffled():
    train = np.arange(0, 200, 2)
    plan = EpochPlan(train, np.arange(200), 30, 1, micro_batches=4, fixed_shares=True)
    assert [share.tolist() for share in plan.shares] == [train[i : i + 25].tolist() for i in range(0, 100, 25)]
    orders = []
    for epoch in range(2):
        seen = [[] for _ in range(4)]
        for batch in range(plan.num_batches):
            for own, targets in zip(seen, plan.micro_batches(epoch, batch), strict=True):
                own += targets.tolist()
        assert [sorted(own) for own in seen] == [share.tolist() for share in plan.shares]
        orders.append(seen)
    assert orders[0] != orders[1]


@pytest.mark.parametrize(("number", "splits"), [(4, 1), (2, 2), (1, 4), (3, 1)])
def test_micro_batches_are_those_of_the_reference(layouts, number, splits):
    layout = layouts(4)
    batches = micro_batches_of(
        layout,
        micro_batches=number,
        splits=splits,
        rule=Neighbours(fan_out=FAN_OUT),
        batch_size=50,
        seed=9,
        edge_ids=True,
    )
    targets = batches.plan.micro_batches(1, 2)
    for micro, sampler in enumerate(batches.sample_all(1, 2)):
        offsets = split_offsets(layout, splits)
        wanted = splits_of(layout, targets[micro], FAN_OUT, offsets=offsets, seed=9, epoch=1, batch=2, micro=micro)
        for split, reference in enumerate(wanted):
            segment = sampler.segment(split)
            segment.validate()
            assert (segment.micro, segment.num_targets) == (micro, 50)
            assert segment.vertices.tolist() == reference.vertices
            for layer in (1, 2):
                assert segment.indices(layer).tolist() == reference.source_rows(layer)
                assert segment.edge_ids(layer).tolist() == reference.edge_ids[layer]


def test_more_groups_than_targets(layouts):
    batches = micro_batches_of(
        layouts(1), micro_batches=4, splits=1, rule=Neighbours(fan_out=FAN_OUT), batch_size=2, seed=0, edge_ids=False
    )
    sizes = [s.segment(0).level_sizes[-1] for s in batches.sample_all(0, 0)]
    assert sizes == [1, 1, 0, 0]
