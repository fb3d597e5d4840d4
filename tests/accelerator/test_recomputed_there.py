"""Layers that are computed again on devices: with dropout of theirs, what is learned has the same bits."""

from __future__ import annotations

import pytest
import torch
from support.runs import config_for, train_in_trainer

pytestmark = pytest.mark.accelerator
PLANS = {
    "1d-sparse": (2, {"algorithm": "1d-sparse"}),
    "columns": (2, {"grid": (1, 2, 1)}),
    "features": (2, {"grid": (1, 1, 2)}),
    "rows": (2, {"algorithm": "3d", "grid": (2, 1, 1)}),
    "1d of four": (4, {"algorithm": "1d"}),
    "rows and columns": (4, {"grid": (2, 2, 1)}),
}
MODELS = {
    "gat": {"attention_dropout": 0.3, "heads": 2, "out_heads": 2},
    "gcn": {"hidden": 32},  # two slices of columns
    "sage": {"hidden": 32},
    "sage with norms": {"model": "sage", "hidden": 32, "norm": "layer", "residual": True},
    "gcn without dropout": {"model": "gcn", "hidden": 32, "dropout": 0.0},
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("model", MODELS)
def test_what_is_learned_on_devices_has_the_same_bits(controls, accelerator_pool, layouts, tmp_path, model, plan):
    learned, (world, flags) = [], PLANS[plan]
    for recompute in (False, True):
        given = {"strategy": "full", "num_layers": 3, "fan_out": (-1,) * 3, "batch_size": 512, "device": "sim"}
        given |= {"model": model, "dropout": 0.5, "epochs": 2, "cache": "none", **MODELS[model], **flags}
        config = config_for(layouts(world).path, tmp_path / f"run-{recompute}", **given, recompute=recompute)
        learned.append(accelerator_pool.run(world, train_in_trainer, config)[0])
    first, same = learned
    assert all(torch.equal(weight, same["after"][name]) for name, weight in first["after"].items())
    assert any(not torch.equal(weight, first["before"][name]) for name, weight in first["after"].items())
