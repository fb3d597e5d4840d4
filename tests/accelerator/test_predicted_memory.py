"""Memory that a dry run predicts, beside the peak of the device in the training itself."""

from __future__ import annotations

import pytest
import torch
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.runs import run_for

from gsplit.config.train import TrainConfig
from gsplit.train import loop

pytestmark = pytest.mark.accelerator

WITHIN = 0.15
"""What a prediction may be off by, relative to the peak."""
CASES = {
    "sage": {},
    "narrow": {"hidden": 8},  # where edges take as much as rows
    "wide": {"hidden": 512, "dropout": 0.0},
    "gat": {"model": "gat", "heads": 8},
    "gcn": {"model": "gcn", "norm": "batch"},
    "two ahead": {"prefetch": 2},
    "three layers": {"fan_out": (5, 5, 5), "norm": "layer", "residual": True},
}


def peak_of_device(member, config):
    """What the run's dry run says, and the most bytes of tensors on this trainer's device."""
    run = run_for(config, member.world)
    assert run.step is not None
    torch.accelerator.reset_peak_memory_stats(member.device)
    before = torch.accelerator.memory_allocated(member.device)
    trainer = loop.ready(member, run, pool_module.SHARED)
    loop.train(trainer)
    trainer.close()
    return run.step.peak(config.prefetch), torch.accelerator.max_memory_allocated(member.device) - before


@pytest.mark.cases(7)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_training_takes_what_a_dry_run_says(controls, accelerator_pool, tmp_path, name, parts):
    """On simulated devices alone: of a real one, libraries take workspaces out of the same allocator."""
    graph = random_graph(3000, 30, seed=3)
    layout = lay_out(graph, tmp_path, parts=parts, method="deal")
    plain = {"fan_out": (10, 10), "hidden": 128, "evaluate": "none", "cache": "none", "checkpoint_every": 0}
    given = {"batch_size": 512, "epochs": 2, "device": "sim", "loader": "gather", **plain, **CASES[name]}
    config = TrainConfig(layout=layout.path, out=tmp_path / "run", **given)
    found = accelerator_pool.run(parts, peak_of_device, config)
    peak = max(taken for _, taken in found)
    assert found[0][0] == pytest.approx(peak, rel=WITHIN)
