"""A run that is made twice on accelerators has the same bits, in whatever order atomic operations come.

Simulated devices have other numbers than the CPU's here, and another order in each run. What repeats, and what does
not, is law 6 of docs/architecture.md.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support.accelerators import computed, equal
from support.runs import config_for

pytestmark = pytest.mark.accelerator

WHOLE = {"strategy": "full", "batch_size": 512, "fan_out": (-1, -1, -1)}
REPEAT = {
    "sage": {"model": "sage"},
    "gcn": {"model": "gcn"},
    "gat": {"model": "gat", "heads": 2, "norm": "batch", "residual": True},
    "pyg, by blocks": {"model": "torch_geometric.nn:GraphSAGE"},
    "data": {"strategy": "data"},
    "sums of rows": {"exchange": "auto"},
    "estimates": {"sampling": "ladies", "fan_out": (-1, -1, -1), "layer_sizes": (40, 40, 40), "model": "gat"},
    "whole graph": {**WHOLE, "algorithm": "1d-sparse", "train_features": 8},
    "whole graph, gat": {**WHOLE, "algorithm": "1d", "model": "gat"},
}
DIFFER = {"gat": {"model": "torch_geometric.nn:GAT"}, "edges": {"model": "torch_geometric.nn:EdgeCNN"}}
"""PyG's own sums over edges, of convolutions that blocks do not compute."""


def differing(member, config):
    """What differs between two runs."""
    controls = torch.ops.sim if member.device.type == "sim" else None
    before = None if controls is None else controls.numbers()
    runs = []
    for seed in (1, 2):
        if controls is not None:
            controls.set_numbers("cuda")
            controls.set_schedule(f"random:{seed}")
        runs.append(computed(member, replace(config, out=config.out / str(seed))))
    if controls is not None:
        controls.set_numbers(before)
    one, other = runs
    return [name for name, value in one.items() if not equal(value, other[name])]


def run_of(layouts, out, kind, changes):
    many = {"fan_out": (10, 10, 10), "batch_size": 100, "hidden": 16, "dropout": 0.3}
    plain = {"cache": "none", "evaluate": "none", "device": kind}
    return config_for(layouts(3, "deal").path, out, **{**many, **plain, **changes})


@pytest.mark.parametrize(
    "name",
    ["sage", "gcn", *(pytest.param(name, marks=pytest.mark.slow) for name in REPEAT if name not in ("sage", "gcn"))],
)
def test_runs_repeat_bit_for_bit(accelerator_pool, weighted_layouts, kind, tmp_path, name):
    config = run_of(weighted_layouts, tmp_path, kind, REPEAT[name])
    assert accelerator_pool.run(3, differing, config) == 3 * [[]]


@pytest.mark.parametrize("name", ["gat", pytest.param("edges", marks=pytest.mark.slow)])
def test_what_adds_by_atomic_operations_does_not(controls, accelerator_pool, weighted_layouts, kind, tmp_path, name):
    config = run_of(weighted_layouts, tmp_path, kind, {**DIFFER[name], "epochs": 1})
    assert all(accelerator_pool.run(3, differing, config))
