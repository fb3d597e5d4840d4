"""The epoch plan: law 1 for the targets."""

from __future__ import annotations

import numpy as np
import pytest

from gsplit.sampling import EpochPlan
from gsplit.sampling.plan import fold_key


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_targets_do_not_depend_on_the_partition(layouts, parts):
    plans = []
    for layout in (layouts(1), layouts(parts)):
        plan = EpochPlan(layout.graph.train_idx, layout.permutation, batch_size=32, seed=4)
        plans.append([layout.permutation[targets].tolist() for _, targets in plan.batches(3)])
    assert plans[0] == plans[1]


def test_an_epoch_brings_every_target_once_and_the_last_batch_is_smaller():
    plan = EpochPlan(np.arange(10, 33), np.arange(100), batch_size=5, seed=0)
    batches = dict(plan.batches(0))
    assert [len(b) for b in batches.values()] == [5, 5, 5, 5, 3]
    assert plan.num_batches == 5
    assert sorted(np.concatenate(list(batches.values())).tolist()) == list(range(10, 33))


def test_epochs_and_seeds_differ_and_repeat():
    ids = np.arange(1000)
    order = {
        (seed, epoch): EpochPlan(ids, ids, 10, seed).targets(epoch).tolist() for seed in (0, 1) for epoch in (0, 1)
    }
    assert len({tuple(o) for o in order.values()}) == 4
    assert EpochPlan(ids, ids, 10, 1).targets(1).tolist() == order[1, 1]


def test_starting_in_the_middle_gives_the_rest():
    plan = EpochPlan(np.arange(50), np.arange(50), batch_size=8, seed=0)
    whole = [(b, t.tolist()) for b, t in plan.batches(2)]
    assert [(b, t.tolist()) for b, t in plan.batches(2, first=3)] == whole[3:]


def test_every_order_is_as_likely():
    orders = [tuple(EpochPlan(np.arange(3), np.arange(3), 1, seed).targets(0).tolist()) for seed in range(1200)]
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert counts.min() > 150  # 200 each expected, standard deviation 13


def test_keys_are_those_of_the_core():
    # Computed with csrc/random.hpp's definition by hand: fold of no words is 0, of one is mix64(word + GOLDEN).
    assert fold_key() == 0
    assert fold_key(0) == 0xE220A8397B1DCDAF  # the first output of SplitMix64 seeded with 0, a published value
    assert fold_key(1, 2) != fold_key(2, 1)
