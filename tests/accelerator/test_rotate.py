"""Rotating layers on accelerators: what is dropped is what the CPU drops, whoever draws there; and nothing waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from support import pool as pool_module
from support.accelerators import ROUNDING, apart_by, computed
from support.runs import config_for, run_for
from support.steps import CPU
from torch import nn

from gsplit.nn.rowwise.activation import activated
from gsplit.train import loop

pytestmark = pytest.mark.accelerator
ROTATE = {"strategy": "full", "algorithm": "rotate", "model": "gcn", "norm": "none", "cache": "none"}
ROTATE |= {"batch_size": 512, "fan_out": (-1, -1, -1), "dropout": 0.3, "row_blocks": 3, "evaluate": "none"}


@pytest.fixture
def other_numbers(kind):
    """Other numbers than the CPU's, which real devices have anyway."""
    if kind != "sim":
        yield
        return
    before = torch.ops.sim.numbers()
    torch.ops.sim.set_numbers("cuda")
    yield
    torch.ops.sim.set_numbers(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_seed_drops_the_same_on_every_device(other_numbers, device, dtype):
    x, dropout = torch.randn(300, 77, dtype=dtype), nn.Dropout(0.4)
    wanted = activated(x, torch.relu, dropout, seed=2**62 + 5)
    found = activated(x.to(device), torch.relu, dropout, seed=2**62 + 5).cpu()
    assert torch.equal(found == 0, wanted == 0)
    torch.testing.assert_close(found, wanted)


def apart(member, config):
    """How far a run on the accelerator, with other numbers, is from the CPU's."""
    controls = torch.ops.sim if member.device.type == "sim" else None
    before = None if controls is None else controls.numbers()
    wanted = computed(replace(member, device=CPU), replace(config, device="cpu", out=config.out / "cpu"))
    if controls is not None:
        controls.set_numbers("cuda")
    found = computed(member, replace(config, out=config.out / "accelerator"))
    if controls is not None:
        controls.set_numbers(before)
    return apart_by(found, wanted)


SCALEGNN = {"norm": "rms", "residual": True, "residual_after": True}
SCALEGNN |= {"input_projection": True, "output_projection": True, "dropout": 0.0}


@pytest.mark.parametrize(
    ("world", "grid", "changes"),
    [(2, (2, 1, 1), {}), (4, (2, 1, 2), SCALEGNN)],
    ids=["dropout", "as ScaleGNN has it"],
)
def test_a_run_equals_the_cpu_s(accelerator_pool, weighted_layouts, kind, tmp_path, world, grid, changes):
    flags = {**ROTATE, **changes, "dtype": "float64", "grid": grid}
    config = config_for(weighted_layouts(world).path, tmp_path, device=kind, **flags)
    assert max(accelerator_pool.run(world, apart, config)) <= ROUNDING


def waits_of_layers(member, config):
    """What the host waited for while a trainer computed the logits of the second epoch, by name."""
    trainer = loop.ready(member, run_for(config, member.world), pool_module.SHARED)
    first, second = (next(trainer.feed) for _ in range(2))
    model: Any = trainer.model
    first.logits(model)
    torch.ops.sim.reset_waits()
    second.logits(model)
    waits = dict(torch.ops.sim.waits(False))
    trainer.close()
    return waits


def test_layers_wait_for_nothing(controls, accelerator_pool, weighted_layouts, kind, tmp_path):
    config = config_for(weighted_layouts(2).path, tmp_path, device=kind, grid=(1, 1, 2), **ROTATE)
    assert accelerator_pool.run(2, waits_of_layers, config) == [{}, {}]
