"""Layers that are computed again on devices: with dropout of theirs, what is learned has the same bits."""

from __future__ import annotations

import pytest
import torch
from support.runs import config_for, train_in_trainer

pytestmark = pytest.mark.accelerator


@pytest.mark.parametrize("plan", [{"algorithm": "1d-sparse"}, {"grid": (1, 2, 1)}], ids=str)
def test_what_is_learned_on_devices_has_the_same_bits(controls, accelerator_pool, layouts, tmp_path, plan):
    learned = []
    for recompute in (False, True):
        flags = {"strategy": "full", "num_layers": 3, "fan_out": (-1,) * 3, "batch_size": 512, "device": "sim"}
        flags |= {"model": "gat", "dropout": 0.5, "attention_dropout": 0.3, "epochs": 2, "cache": "none", **plan}
        config = config_for(layouts(2).path, tmp_path / f"run-{recompute}", **flags, recompute=recompute)
        learned.append(accelerator_pool.run(2, train_in_trainer, config)[0])
    first, same = learned
    assert all(torch.equal(weight, same["after"][name]) for name, weight in first["after"].items())
    assert any(not torch.equal(weight, first["before"][name]) for name, weight in first["after"].items())
