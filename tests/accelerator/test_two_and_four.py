"""Ways to train on the whole graph and on subgraphs, each on two and on four devices: the CPU's bits.

What ``test_bit_equal.py`` has every day on one of both is slow here.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.accelerators import differences
from support.runs import config_for

pytestmark = pytest.mark.accelerator

WHOLE = {"strategy": "full", "batch_size": 512, "fan_out": (-1, -1)}
UNIFORM = {"sampling": "uniform", "subgraph": "30%", "batch_size": 512, "fan_out": (-1, -1)}
GAT = {"model": "gat", "heads": 2, "out_heads": 2, "attention_dropout": 0.2}
TURNING = {**WHOLE, "algorithm": "rotate", "model": "gcn", "fan_out": (-1, -1, -1)}
AGAIN = {**WHOLE, "model": "gcn", "norm": "layer", "recompute": True, "fan_out": (-1, -1, -1)}
WAYS: dict[str, dict[int, dict[str, Any]]] = {
    "a grid on subgraphs": {2: {**UNIFORM, "grid": (2, 1, 1)}, 4: {**UNIFORM, "grid": (2, 2, 1)}},
    "another set for each layer": {2: {**UNIFORM, "fresh": True}, 4: {**UNIFORM, "fresh": True, "model": "gcn"}},
    "attention on a grid": {2: {**WHOLE, **GAT, "grid": (1, 2, 1)}, 4: {**WHOLE, **GAT, "grid": (1, 2, 2)}},
    "attention on a grid on subgraphs": {
        2: {**UNIFORM, **GAT, "grid": (1, 1, 2)},
        4: {**UNIFORM, **GAT, "grid": (2, 2, 1)},
    },
    "the graph moves": {
        2: {**WHOLE, "algorithm": "columns", "graph": "move"},
        4: {**WHOLE, "grid": (1, 2, 2), "graph": "move"},
    },
    "computed again": {2: {**AGAIN, "algorithm": "1d-sparse"}, 4: {**AGAIN, "grid": (2, 2, 1)}},
    "covers": {
        2: {**WHOLE, "algorithm": "1d-sparse", "exchange": "auto"},
        4: {**WHOLE, "algorithm": "1d-sparse", "exchange": "auto", "model": "gcn", "norm": "layer"},
    },
    "rotating": {2: {**TURNING, "grid": (2, 1, 1)}, 4: {**TURNING, "grid": (2, 1, 2)}},
    "rotating on subgraphs": {
        2: {**TURNING, **UNIFORM, "strategy": "split", "grid": (1, 2, 1), "norm": "rms"},
        4: {**TURNING, **UNIFORM, "strategy": "split", "grid": (1, 2, 1), "residual": True, "row_blocks": 2},
    },
}
DAILY = {
    ("another set for each layer", 4),
    ("attention on a grid", 4),
    ("attention on a grid on subgraphs", 2),
    ("computed again", 4),
    ("covers", 2),
}
"""What no other test has every day."""
CASES = [
    pytest.param(name, world, marks=[] if (name, world) in DAILY else pytest.mark.slow)
    for name, worlds in WAYS.items()
    for world in worlds
]


@pytest.mark.parametrize(("name", "world"), CASES)
def test_two_and_four_devices_have_the_bits_of_the_cpu(accelerator_pool, weighted_layouts, tmp_path, name, world):
    changes = {"epochs": 2, "dropout": 0.3, "evaluate": "none", "cache": "none", **WAYS[name][world]}
    config = config_for(weighted_layouts(world).path, tmp_path, **changes)
    for rank, found in enumerate(accelerator_pool.run(world, differences, config, ("random:3",))):
        assert not found, f"trainer {rank}"
