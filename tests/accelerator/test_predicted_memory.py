"""Memory that a dry run predicts, beside the peak of the device in the training itself."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.runs import run_for
from support.typed_graphs import lay_out_types, random_typed_graph

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


OF_TYPES = {
    "rgcn": {},
    "narrow": {"hidden": 16, "norm": "layer", "residual": True},
    "bases": {"bases": 3, "hidden": 64, "optimizer": "sgd", "prefetch": 2},
    "rgat": {"model": "rgat", "hidden": 64},
    "untyped": {"model": "sage"},
    "mixed": {"precision": "bf16-mixed"},
}


@pytest.mark.cases(2)
@pytest.mark.parametrize(("name", "parts"), list(product(OF_TYPES, (1, 2))))
def test_of_several_types_with_rows_that_are_trained(controls, accelerator_pool, tmp_path, name, parts):
    graph = random_typed_graph(4, 8, seed=2, vertices=3000, mean_degree=12)
    layout = lay_out_types(graph, tmp_path, parts=parts)
    plain = {"fan_out": (10, 10), "hidden": 128, "evaluate": "none", "checkpoint_every": 0, "train_features": 48}
    given = {"batch_size": 512, "epochs": 2, "device": "sim", "model": "rgcn", **plain, **OF_TYPES[name]}
    config = TrainConfig(layout=layout.path, out=tmp_path / "run", **given)
    found = accelerator_pool.run(parts, peak_of_device, config)
    peak = max(taken for _, taken in found)
    # Autocast of the CPU, by which a mixed step is counted, casts other rows than a device's.
    assert found[0][0] == pytest.approx(peak, rel=WITHIN if "precision" in OF_TYPES[name] else 0.05)
