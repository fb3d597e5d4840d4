"""The laws on accelerators: losses, weights, logits and traffic of whole runs are the CPU's, bit for bit."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from support.accelerators import SCHEDULES, differences
from support.runs import config_for
from support.typed_graphs import lay_out_types, random_typed_graph

from gsplit.config.features import FeaturesConfig
from gsplit.config.parallel import SAMPLED, ParallelConfig
from gsplit.config.parallel import STRATEGIES as NAMED
from gsplit.config.rules import Only, rules_of_kind
from gsplit.config.sampling import SamplingConfig
from gsplit.config.train import TrainConfig

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


WHOLE = {"strategy": "full", "batch_size": 512, "fan_out": (-1, -1)}
LAYERWISE = {"fan_out": (-1, -1), "layer_sizes": (40, 40)}
SUBGRAPH = {"batch_size": 512, "fan_out": (-1, -1), "subgraph": "30%"}
CACHED = {"cache": "partitioned", "cache_size": "20%"}
TURNING = {**GCN, **WHOLE, "norm": "none", "algorithm": "rotate", "fan_out": (-1, -1, -1)}
ROWS = {
    "1d": (2, {**WHOLE, "algorithm": "1d", "exchange_dtype": "bfloat16"}),
    "1d-sparse": (3, {**WHOLE, "algorithm": "1d-sparse", "train_features": 8}),
    "1d-sparse, sums of rows": (4, {**GCN, **WHOLE, "algorithm": "1d-sparse", "exchange": "auto"}),
    "1.5d": (4, {**WHOLE, "algorithm": "1.5d", "model": "gcn"}),
    "2d": (4, {**WHOLE, "algorithm": "2d"}),
    "3d": (4, {**WHOLE, "algorithm": "3d", "grid": (1, 2, 2), "exchange_dtype": "bfloat16"}),
    "columns": (3, {**WHOLE, "algorithm": "columns"}),
    "the graph moves": (4, {**WHOLE, "algorithm": "2d", "graph": "move", "model": "gcn"}),
    "rotate": (4, {**TURNING, "grid": (2, 2, 1), "epochs": 2}),
    "rotate, single": (
        2,
        {**TURNING, "grid": (1, 1, 2), "permutation": "single", "row_blocks": 3, "exchange_dtype": "bfloat16"},
    ),
    "ladies": (2, {**LAYERWISE, "sampling": "ladies"}),
    "ladies, unbiased": (2, {**LAYERWISE, **GCN, "sampling": "ladies", "estimate": "unbiased", "draw": "race"}),
    "fastgcn": (2, {**LAYERWISE, **DATA, **CACHED, "sampling": "fastgcn", "importance": "counts"}),
    "fastgcn, unbiased": (2, {**LAYERWISE, "sampling": "fastgcn", "estimate": "unbiased", "importance": "norms"}),
    "uniform": (2, {**SUBGRAPH, **CACHED, "sampling": "uniform"}),
    "uniform, unbiased": (2, {**SUBGRAPH, **DATA, "sampling": "uniform", "estimate": "unbiased"}),
    "uniform, fresh": (2, {**SUBGRAPH, "sampling": "uniform", "estimate": "unbiased", "fresh": True}),
    "saint": (2, {**SUBGRAPH, **GCN, "sampling": "saint"}),
    "saint, unbiased": (2, {**SUBGRAPH, "sampling": "saint", "estimate": "unbiased"}),
    "uniform, on a grid": (4, {**SUBGRAPH, "sampling": "uniform", "grid": (2, 1, 2), "prefetch": 2}),
    "saint, on grids": (4, {**SUBGRAPH, **GCN, "sampling": "saint", "grid": (1, 2, 1), "exchange_dtype": "bfloat16"}),
    "uniform, rotating": (
        4,
        {**SUBGRAPH, **GCN, "norm": "rms", "residual": True, "sampling": "uniform", "grid": (2, 1, 2), "prefetch": 2}
        | {"algorithm": "rotate"},
    ),
    "clusters": (2, {**SUBGRAPH, "sampling": "clusters", "subgraph": None, "clusters": 1}),
    "split, all cached": (2, {**STRATEGIES["split, all cached"], "evaluate": "sampled"}),
    "data": (2, {**STRATEGIES["data"], "feature_dtype": "float32"}),
    "groups": (4, STRATEGIES["groups"]),
    "sums of rows": (3, {**CACHED, "exchange": "auto", "feature_dtype": "bfloat16", "prefetch": 3}),
}
"""Each plan, rule and strategy once, by its name, with a number of trainers."""
NOT_HERE = {
    ("algorithm", "shared"): "reads the host's memory, and is refused on accelerators",
    ("feature_dtype", "float16"): "with zero-copy in SOME",
    ("order", "ready"): "of what samplers have finished first; trainers of a pool sample for themselves",
}
"""Choices without a row, and why. Those of ``auto`` are among the others, but for exchanges."""


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


@pytest.mark.parametrize("name", ROWS)
def test_every_choice_is_bit_equal_to_the_cpu_s(accelerator_pool, weighted_layouts, tmp_path, name):
    world, changes = ROWS[name]
    changes = {"epochs": 1, "dropout": 0.3, "evaluate": "none", "cache": "none", **changes}
    config = config_for(weighted_layouts(world).path, tmp_path, **changes)
    for rank, found in enumerate(accelerator_pool.run(world, differences, config, ("random:3",))):
        assert not found, f"trainer {rank}"


@pytest.mark.cases(1)
@pytest.mark.parametrize(("model", "world"), [("rgcn", 2), ("rgat", 3), ("sage", 1)])
def test_graphs_of_several_types_are_bit_equal_to_the_cpu_s(accelerator_pool, tmp_path, model, world):
    """One type of them has rows that are trained."""
    layout = lay_out_types(random_typed_graph(4, 6, seed=38), tmp_path, parts=world)
    flags = {"model": model, "train_features": 4, "batch_size": 6, "dropout": 0.3, "epochs": 1, "prefetch": 2}
    config = config_for(layout.path, tmp_path / "run", **flags)
    for rank, found in enumerate(accelerator_pool.run(world, differences, config, ("lazy", "random:3"))):
        assert not found, f"trainer {rank}"


def choices():
    """All that a row can be about: values of flags, and which go together."""
    hints = get_type_hints(TrainConfig)
    names = [field.name for config in (SamplingConfig, ParallelConfig, FeaturesConfig) for field in fields(config)]
    values = {name: get_args(hints[name]) for name in names if get_origin(hints[name]) is Literal}
    values["strategy"] = NAMED
    yield from (((name, value),) for name, each in values.items() for value in each)
    for strategy in SAMPLED:
        for cache in values["cache"]:
            if (strategy, cache) != ("split", "replicated"):  # refused
                yield (("strategy", strategy), ("cache", cache))
    for rule in rules_of_kind(TrainConfig, "estimate", Only)[-1].values["sampling"]:
        yield from ((("sampling", rule), ("estimate", value)) for value in values["estimate"])


def test_every_choice_has_a_row():
    """What ``make test`` runs on an accelerator, of what may be said."""
    some = [{**MODELS[model], **STRATEGIES[strategy], "loader": loader} for _, model, strategy, loader in SOME]
    changes = [*some, *(changes for _, changes in ROWS.values())]
    there = [{**vars(TrainConfig()), "cache": "none", **row} for row in changes]
    missing = [
        choice
        for choice in choices()
        if not any(each in NOT_HERE or (each[1] == "auto" and each[0] != "exchange") for each in choice)
        and not any(all(row[name] == value for name, value in choice) for row in there)
    ]
    assert not missing, "these have no row in ROWS"
    assert any(row["split_group"] == 2 for row in there)


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=lambda case: "-".join(map(str, case)))
def test_all_runs_are_bit_equal_under_all_seeds(accelerator_pool, weighted_layouts, tmp_path, case):
    schedules = ["lazy", "eager", *(f"random:{seed}" for seed in SEEDS)]
    assert_equal(accelerator_pool, weighted_layouts, tmp_path, case, schedules)
