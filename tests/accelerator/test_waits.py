"""Training waits for the device at most once a mini-batch, and only where it says so."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import pytest
import torch
from support.runs import config_for, trainer_of

from gsplit.train import loop

pytestmark = pytest.mark.accelerator

RIGHT = {
    "Event.synchronize": "the trainer, for the mini-batch before the last one, whose memory is then free",
    "Stream.synchronize": "the feed's thread, for what it has loaded, whose slot is then free",
}
"""What waits once in each mini-batch, and for what."""
FIRST = 3
"""Mini-batches after which the trainer is as far ahead as it may be."""


def waits_of_mini_batches(member, config):
    """How often anybody in a trainer waited for the device, by name, in each mini-batch of the run's only epoch."""
    torch.ops.sim.set_schedule("lazy")
    trainer = trainer_of(member, config)
    feed, found = trainer.feed, []

    def watched():
        torch.ops.sim.reset_waits()
        for mini_batch in feed:
            found.append(dict(torch.ops.sim.waits(False)))
            torch.ops.sim.reset_waits()
            # An operator that waits fails, with the way to it.
            torch.ops.sim.forbid_waits(FIRST <= len(found) < trainer.num_batches)
            yield mini_batch

    trainer.feed = watched()
    loop.train(trainer)
    return found


CASES = {
    "sage": {"model": "sage"},
    "gat": {"model": "gat", "heads": 2, "norm": "batch", "residual": True},
    "gcn": {"model": "gcn", "norm": "layer"},
    "pyg": {"model": "torch_geometric.nn:GraphSAGE"},
    "pyg, loops": {"model": "torch_geometric.nn:GCN"},
    "ladies": {"sampling": "ladies", "fan_out": (-1, -1), "layer_sizes": (30, 30)},
    "data, peers": {"strategy": "data", "cache": "partitioned", "cache_size": "10%"},
    "zero-copy": {"loader": "zero-copy", "cache": "partitioned", "cache_size": "10%"},
    "sums of rows": {"exchange": "auto"},
    "bf16-mixed": {"precision": "bf16-mixed"},
    "gat, bf16-mixed": {"model": "gat", "heads": 2, "precision": "bf16-mixed"},
    "clipped": {"clip_grad_norm": 1.0},
}


@pytest.mark.parametrize("case", CASES)
def test_a_step_waits_for_nothing_but_the_step_before_the_last(
    controls, accelerator_pool, weighted_layouts, tmp_path, case
):
    layout = weighted_layouts(2)
    changes = {"cache": "none", **CASES[case]}
    config = config_for(
        layout.path, tmp_path, device="sim", epochs=1, batch_size=20, dropout=0.3, prefetch=1, **changes
    )
    for waits in accelerator_pool.run(2, waits_of_mini_batches, config):
        assert len(waits) > FIRST + 2
        steps = waits[FIRST:]
        for step in steps:
            assert set(step) <= set(RIGHT), {name: n for name, n in step.items() if name not in RIGHT}
        total = Counter()
        for step in steps:
            total.update(step)
        assert total["Event.synchronize"] == len(steps)
        assert total["Stream.synchronize"] <= len(steps) + 1  # the feed's thread is ahead by one


def published_and_waits(member, config):
    """How often trained rows went to the host, and what was waited for in each epoch, by name."""
    torch.ops.sim.set_schedule("lazy")
    trainer = trainer_of(member, config)
    feed, waits, publish = trainer.feed, [], mock.Mock(wraps=trainer.trained.publish)
    trainer.evaluator._publish = publish

    def watched():
        for mini_batch in feed:
            waits.append(dict(torch.ops.sim.waits(False)))
            torch.ops.sim.reset_waits()
            yield mini_batch

    trainer.feed = watched()
    loop.train(trainer)
    return publish.call_count, waits[1:]


def test_trained_rows_go_to_the_host_when_they_are_evaluated_and_not_after_each_step(
    controls, accelerator_pool, weighted_layouts, tmp_path
):
    whole = {"strategy": "full", "algorithm": "1d-sparse", "train_features": 8, "cache": "none", "batch_size": 512}
    whole["fan_out"] = (-1, -1)
    path = weighted_layouts(2).path
    found = {}
    for each in (0, 1):
        config = config_for(path, tmp_path / str(each), device="sim", epochs=6, validate_every=each, **whole)
        found[each] = accelerator_pool.run(2, published_and_waits, config)
    for (never, without), (always, evaluated) in zip(found[0], found[1], strict=True):
        assert (never, always) == (0, 6), (never, always)
        assert len(without) == len(evaluated) == 5
        for one, other in zip(without, evaluated, strict=True):
            assert one["_local_scalar_dense"] < 8  # whether all weights are finite is one of them
            assert one["copy to the host"] < other["copy to the host"]
