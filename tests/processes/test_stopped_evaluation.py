"""A run that is asked to stop while it evaluates leaves off at the next chunk, and loses nothing."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.runs import config_for, trainer_of

from experiments.shared.same_run import difference
from gsplit.engine.evaluation import sampled_targets
from gsplit.runs import checkpoint
from gsplit.train import loop
from gsplit.train.summary import finish

WHOLE = {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512, "validate_every_batches": 0}
KINDS = {
    "by level": {},
    "sampled": {"evaluate": "sampled"},
    "trained features": {**WHOLE, "train_features": 3},
    "whole graph": {**WHOLE, "metrics": "accuracy,macro-f1"},
}


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(120, 6, seed=4), tmp_path_factory.mktemp("layout"), parts=2)


def trained(member, config, stop_at=None, resume=False):
    """Train, and stop the evaluation that comes to chunk ``stop_at`` of trainer 1. The summary, and the chunks."""
    trainer = trainer_of(member, config, resume=resume)
    shared, seen = pool_module.SHARED, [0]

    def stops():
        if member.rank == 1 and seen[0] == stop_at:
            shared.ask_to_stop()
        seen[0] += 1
        return shared.asked_to_stop()

    trainer.evaluator._stops, sampled_targets.TARGETS = stops, 16
    try:
        return (finish(trainer) if loop.train(trainer) else None), seen[0]
    finally:
        sampled_targets.TARGETS = 1024
        member.barrier()
        os.ftruncate(shared.stop.fileno(), 0)
        member.barrier()


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_as_if_nobody_had_stopped_it(pool, layout, tmp_path, kind):
    """Stopped in the middle of an epoch, at the end of one, and at the test of the best model."""
    options = {"epochs": 2, "batch_size": 30, "validate_every_batches": 1, **KINDS[kind]}
    config = config_for(layout.path, tmp_path / "whole", **options)
    whole, (_, chunks) = pool.run(2, trained, config)
    assert whole[0]["epochs"] == 2
    for stop_at in sorted({0, chunks // 2, chunks - 1}):
        here = replace(config, out=tmp_path / f"stopped-{stop_at}")
        stopped = pool.run(2, trained, replace(here, checkpoint_every=0), stop_at)
        assert [summary for summary, _ in stopped] == [None, None]
        at = checkpoint.describe_state(here.out, checkpoint.CHECKPOINT)
        assert (at["epoch"], at["batch"]) == ((0, 1) if stop_at == 0 else (2, 0)) or 0 < stop_at < chunks - 1
        again, _ = pool.run(2, trained, here, None, True)
        assert again[0]["epochs"] == 2
        differs = difference(here.out, tmp_path / "whole")
        assert differs in ("", "traffic of the summary" if kind == "whole graph" else "")  # it loads the graph again
