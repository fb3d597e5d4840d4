"""The laws on accelerators: losses, weights, logits and traffic of whole runs are the CPU's, bit for bit."""

from __future__ import annotations

import pytest
from support.accelerators import SCHEDULES, differences
from support.runs import config_for

pytestmark = pytest.mark.accelerator

SAGE = {"model": "sage"}
GAT = {"model": "gat", "heads": 2, "norm": "batch", "residual": True}
GCN = {"model": "gcn", "norm": "layer"}
PYG = {"model": "torch_geometric.nn:GraphSAGE", "model_args": "norm=batch_norm"}
MODELS = {"sage": SAGE, "gat": GAT, "gcn": GCN, "pyg": PYG}
DATA = {"strategy": "data"}
STRATEGIES = {
    "split": {"cache": "none"},
    "split, cached": {"cache": "partitioned", "cache_size": "10%"},
    "split, all cached": {"cache": "partitioned", "cache_size": "100%"},
    "data": {**DATA, "cache": "none"},
    "data, replicated": {**DATA, "cache": "replicated", "cache_size": "10%"},
    "data, peers": {**DATA, "cache": "partitioned", "cache_size": "10%"},
    "data, all at peers": {**DATA, "cache": "partitioned", "cache_size": "100%"},
    "groups": {"split_group": 2, "cache": "none"},
    "groups, cached": {"split_group": 2, "cache": "partitioned", "cache_size": "10%"},
}
LOADERS = ("gather", "zero-copy")
SEEDS = range(20)


def worlds_of(strategy):
    return [4] if "groups" in strategy else [2, 3] if "peers" in strategy else [1, 2, 3]


SOME = [
    (1, "sage", "split", "gather"),
    (2, "sage", "split", "zero-copy"),
    (3, "gat", "split, cached", "gather"),
    (2, "gcn", "data, replicated", "zero-copy"),
    (3, "sage", "data, peers", "gather"),
    (2, "pyg", "data, all at peers", "gather"),
    (4, "sage", "groups, cached", "gather"),
]
ALL = [
    *((world, "sage", each, loader) for each in STRATEGIES for world in worlds_of(each) for loader in LOADERS),
    *((world, model, "split, cached", "gather") for model in ("gat", "gcn", "pyg") for world in (1, 2, 3)),
    *((3, model, "data, peers", "zero-copy") for model in ("gat", "gcn", "pyg")),
    *((4, model, "groups", "gather") for model in ("gat", "gcn", "pyg")),
]
"""Each strategy with each number of trainers and each loader; each model with each kind of group."""


def assert_equal(pool, weighted_layouts, tmp_path, case, schedules):
    world, model, strategy, loader = case
    changes = {**MODELS[model], **STRATEGIES[strategy], "loader": loader}
    if loader == "zero-copy":
        changes["feature_dtype"] = "float16"  # a copy, which can be registered on both
    layout = weighted_layouts(world)
    config = config_for(layout.path, tmp_path, dropout=0.3, epochs=1, prefetch=1, **changes)
    for rank, found in enumerate(pool.run(world, differences, config, schedules)):
        assert not found, f"trainer {rank}"


@pytest.mark.parametrize("case", SOME, ids=lambda case: "-".join(map(str, case)))
def test_runs_are_bit_equal_to_the_cpu_s(accelerator_pool, weighted_layouts, tmp_path, case):
    assert_equal(accelerator_pool, weighted_layouts, tmp_path, case, SCHEDULES)


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=lambda case: "-".join(map(str, case)))
def test_all_runs_are_bit_equal_under_all_seeds(accelerator_pool, weighted_layouts, tmp_path, case):
    schedules = ["lazy", "eager", *(f"random:{seed}" for seed in SEEDS)]
    assert_equal(accelerator_pool, weighted_layouts, tmp_path, case, schedules)
