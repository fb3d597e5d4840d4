"""What training on the whole graph holds of its inputs on an accelerator, and registers for it."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from support import pool as pool_module
from support.runs import config_for, run_for

from gsplit.train import loop

pytestmark = pytest.mark.accelerator
WHOLE = {"strategy": "full", "batch_size": 512, "model": "gcn", "cache": "none"}


def registered(member, config):
    """Whether a trainer has registered memory of the host when its features are loaded."""
    gc.collect()  # what other runs had registered in this process
    before = torch.ops.sim.registered_bytes()
    trainer = loop.ready(member, run_for(config, member.world), pool_module.SHARED)
    loop.train(trainer)
    there = torch.ops.sim.registered_bytes()
    trainer.close()
    return there > before


@pytest.mark.parametrize(("loader", "registers"), [("auto", False), ("zero-copy", True)])
def test_rows_that_are_read_once_are_not_registered(controls, accelerator_pool, layouts, tmp_path, loader, registers):
    config = config_for(
        layouts(2).path,
        tmp_path / "run",
        device="sim",
        fan_out=(-1, -1),
        loader=loader,
        feature_dtype="float16",
        **WHOLE,
    )
    assert accelerator_pool.run(2, registered, config) == [registers] * 2


def addresses(member, config):
    """Where the edges of each layer lie on the device."""
    trainer = loop.ready(member, run_for(config, member.world), pool_module.SHARED)
    mini_batch: Any = next(iter(trainer.feed))
    layers = mini_batch.rotated.layers
    there = [(each.pieces[0].edges.indices.data_ptr(), each.turned[0].edges.indices.data_ptr()) for each in layers]
    trainer.close()
    return there


def test_layers_with_the_same_block_of_the_adjacency_hold_it_once(accelerator_pool, kind, layouts, tmp_path):
    config = config_for(
        layouts(2).path, tmp_path / "run", device=kind, fan_out=(-1,) * 5, algorithm="rotate", permutation="single",
        grid=(2, 1, 1), norm="none", **WHOLE,
    )  # fmt: skip
    for there in accelerator_pool.run(2, addresses, config):
        assert there[0] == there[3]
        assert there[1] == there[4]
        assert len(set(there)) == 3
