"""Trainers on several hosts: each host with memory of its own, in the pool; and started one by one, over loopback."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.hosts import train_placed
from support.links import linked_layouts
from support.runs import all_equal, config_for, records
from support.runs_of_hosts import assert_same_run, counted, trained_on
from support.sent_between import assert_sent_between
from support.typed_graphs import lay_out_types, random_typed_graph, with_features

from experiments.micro.overlap import read_trace, trainers_of
from gsplit.config.train import TrainConfig
from gsplit.features.placement import prefixes
from gsplit.parallel.host_memory import by_first, complete
from gsplit.runs import checkpoint
from gsplit.train import epochs, saving
from gsplit.train.profiling import MINI_BATCHES

DEFAULTS: dict[str, Any] = {name: getattr(TrainConfig, name) for name in ("fan_out", "batch_size")}
"""What subgraphs take nothing of."""
SUBGRAPHS = {"num_layers": 2, **DEFAULTS}
SAINT = {"sampling": "saint", "subgraph": 40, "estimate": "unbiased", **SUBGRAPHS}
UNIFORM = {"sampling": "uniform", "subgraph": 40, **SUBGRAPHS}
CLUSTERS = {"sampling": "clusters", "clusters": 1, **SUBGRAPHS}
WHOLE = {"strategy": "full", **SUBGRAPHS}
LAYER_WISE = {"layer_sizes": (32, 32), "fan_out": TrainConfig.fan_out}
MEASURED = {"metrics": "mrr,hits@3,auroc,ap"}
CASES: dict[str, dict[str, Any]] = {
    "sage": {},
    "gat": {"model": "gat", "heads": 2},
    "gcn, steps of two mini-batches": {"model": "gcn", "accumulate": 2, "clip_grad_norm": 1.0},
    "data": {"strategy": "data"},
    "split over hosts": {"split_group": 4},
    "batch norm": {"norm": "batch"},
    "metrics": {"metrics": ("macro-f1",), "save_predictions": "logits"},
    "sampled evaluation": {"evaluate": "sampled", "metrics": ("micro-f1",)},
    "few validated": {"validate_every_batches": 2, "validate_vertices": 20},
    "rows copied": {"feature_dtype": "float16"},
    "caches": {"cache": "partitioned", "cache_size": "25%"},
    "replicated": {"strategy": "data", "cache": "replicated", "cache_size": "10%"},
    "layer-wise": {**LAYER_WISE, "sampling": "ladies"},
    "layers of all": {**LAYER_WISE, "sampling": "fastgcn", "estimate": "unbiased"},
    "subgraphs": UNIFORM,
    "fresh sets": {**UNIFORM, "estimate": "unbiased", "fresh": True},
    "saint": SAINT,
    "clusters": CLUSTERS,
    "a grid over hosts": {**UNIFORM, "grid": (2, 1, 2)},
    "a grid on each host, saint": {**SAINT, "grid": (1, 1, 2), "norm": "batch"},
    "a grid over hosts, clusters": {**CLUSTERS, "grid": (1, 4, 1), "model": "gcn"},
    "a grid over hosts, rotating": {**UNIFORM, "grid": (2, 1, 2), "algorithm": "rotate", "model": "gcn"},
    "a model of PyG's": {"model": "torch_geometric.nn:GraphSAGE", "model_args": "norm=batch_norm"},
    "whole graph by a grid": {**WHOLE, "grid": (2, 1, 2), "train_features": 6, "metrics": "macro-f1"},
    "whole graph, rotating": {**WHOLE, "algorithm": "rotate", "model": "gcn", "num_layers": 3},
    "whole graph by columns": {**WHOLE, "algorithm": "columns"},
    "whole graph, 1.5d": {**WHOLE, "algorithm": "1.5d"},
    "whole graph, 1d-sparse": {**WHOLE, "algorithm": "1d-sparse", "model": "gat", "heads": 2},
    "whole graph": {**WHOLE, "algorithm": "shared", "train_features": 6, "norm": "batch"},
    "links": {"task": "links", "negatives": "uniform:2,joint:6/10,in-batch,hard:2", "score": "mlp", **MEASURED},
    "links of few": {"task": "links", "validate_every_batches": 2, "validate_vertices": 20, **MEASURED},
}


@pytest.fixture(scope="module")
def links(tmp_path_factory):
    return linked_layouts(tmp_path_factory.mktemp("links"), given=True, hard=3)


PRECISE = {"64": 1e-10, "32": 1e-6, "bf16-mixed": 1e-6}
"""How far weights may be from those of one host, whose sums are in another order."""


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", CASES)
def test_two_hosts_train_as_one(pool, layouts, links, tmp_path, name):
    train_as_one(pool, layouts, links, tmp_path, CASES[name], 2, 2)


OF_SIX = {(2, 1, 2): (3, 1, 2), (1, 4, 1): (1, 6, 1)}
"""Grids of all trainers of three hosts, by those of two."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_three_hosts_train_as_one(pool_of_six, layouts, links, tmp_path, name):
    changes = dict(CASES[name])
    if "split_group" in changes:
        changes["split_group"] = 6
    if "grid" in changes:
        changes["grid"] = OF_SIX.get(changes["grid"], changes["grid"])
    train_as_one(pool_of_six, layouts, links, tmp_path, changes, 3, 2)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["32", "bf16-mixed"])
@pytest.mark.parametrize("name", ["sage", "gat", "split over hosts", "batch norm", "whole graph", "links"])
def test_weights_are_those_of_all_hosts_in_any_precision(pool, layouts, links, tmp_path, name, precision):
    # Adam would make steps of what is left of a gradient that is zero but for rounding, as of a bias before a norm.
    train_as_one(pool, layouts, links, tmp_path, {**CASES[name], "optimizer": "sgd"}, 2, 2, precision)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["links", "links of few"])
def test_pairs_on_hosts_of_one_trainer_each(pool, layouts, links, tmp_path, name):
    train_as_one(pool, layouts, links, tmp_path, CASES[name], 2, 1)


def train_as_one(pool, layouts, links, tmp_path, changes, hosts, here, precision="64"):
    """Train on hosts, and on one with as many trainers in as many groups: the same, but for what is rounded."""
    world = hosts * here
    layout = links(world) if changes.get("task") == "links" else layouts(world)
    config = config_for(layout.path, tmp_path / "one", precision=precision, **changes)
    (tmp_path / "one").mkdir()
    (tmp_path / "several").mkdir()
    group = {} if config.strategy != "split" or config.split_group or config.grid else {"split_group": here}
    group = {"strategy": "data"} if group == {"split_group": 1} else group
    one = pool.run(world, trained_on, replace(config, **group), 1)
    several = pool.run(world, trained_on, replace(config, out=tmp_path / "several"), hosts)
    apart = "exchange_" if config.algorithm == "shared" else "none"  # rows are read where they lie, in a host
    tolerance = PRECISE[precision]
    assert_same_run(several[0], one[0], tmp_path / "several", tmp_path / "one", tolerance=tolerance, apart=apart)
    assert all(all_equal(weights, several[0][0]) for weights, *_ in several)
    known = here > 1 or config.score == "dot"  # the formula knows no decoder's layers
    if config.grid is not None:  # nor groups of one host and a part of another
        known = math.prod(config.grid) % here == 0 or here % math.prod(config.grid) == 0
    if config.strategy != "full" and precision == "64" and known:
        assert_sent_between(tmp_path / "several", several[0][0], hosts, here, config)
    if config.save_predictions != "no":
        saved = (np.load(tmp_path / run / "predictions.npy") for run in ("one", "several"))
        np.testing.assert_allclose(*saved, rtol=0, atol=1e-7)


def test_trainers_of_a_host_read_each_other_s_caches(pool, layouts, tmp_path):
    """Two of each host hold the rows that each other host has, too; what is loaded and learned is the same."""
    data = {"strategy": "data", "cache": "partitioned", "cache_size": "25%", "precision": "64"}
    config = config_for(layouts(4).path, tmp_path / "one", **data)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = pool.run(4, trained_on, config, 1)
    two = pool.run(4, trained_on, replace(config, out=tmp_path / "two"), 2)
    for name, weight in two[0][0].items():
        torch.testing.assert_close(weight, one[0][0][name], rtol=0, atol=1e-10)
    of_two, of_one = (counted(tmp_path / name) for name in ("two", "one"))
    kinds = ("cache_hits", "peer_rows", "host_rows")
    for ours, theirs in zip(of_two, of_one, strict=True):
        assert sum(ours["traffic"][kind] for kind in kinds) == sum(theirs["traffic"][kind] for kind in kinds)
        assert ours["traffic"]["host_rows"] > theirs["traffic"]["host_rows"]
        assert ours["traffic"]["peer_rows"] > 0
    assert of_two[-1]["rows_cached"] == 2 * prefixes(layouts(4).offsets, 2, share=Fraction(1, 4)).sum()


@pytest.mark.slow
@pytest.mark.parametrize("grid", [(3, 1, 1), (1, 3, 1), (1, 1, 3)])
def test_a_grid_of_some_trainers_of_a_host_and_some_of_another(pool_of_six, layouts, links, tmp_path, grid):
    train_as_one(pool_of_six, layouts, links, tmp_path, {**UNIFORM, "grid": grid}, 3, 2)


@pytest.mark.parametrize(
    ("hosts", "changes"),
    [
        (2, {"split_group": 2, "norm": "batch"}),
        (3, {}),
        (2, {**UNIFORM, "grid": (2, 1, 1), "norm": "batch"}),
        (2, {**SAINT, "grid": (1, 1, 1)}),
        (3, {**CLUSTERS, "grid": (1, 3, 1), "model": "gcn"}),
    ],
)
def test_hosts_of_one_trainer_each_train_as_one(pool, layouts, tmp_path, hosts, changes):
    config = config_for(layouts(4).path, tmp_path / "one", precision="64", **changes)
    for name in ("one", "several"):
        (tmp_path / name).mkdir()
    one = pool.run(hosts, trained_on, config if changes else replace(config, strategy="data"), 1)
    several = pool.run(hosts, trained_on, replace(config, out=tmp_path / "several"), hosts)
    assert_same_run(several[0], one[0], tmp_path / "several", tmp_path / "one")
    assert all(all_equal(weights, several[0][0]) for weights, *_ in several)
    assert_sent_between(tmp_path / "several", several[0][0], hosts, 1, config)


@pytest.mark.parametrize("changes", [{}, {**WHOLE, "train_features": 6}], ids=["sampled", "trained features"])
def test_a_run_goes_on_with_what_trainer_0_reads(pool, layouts, tmp_path, changes):
    whole = config_for(layouts(4).path, tmp_path / "whole", precision="64", **changes)
    for name in ("whole", "halves"):
        (tmp_path / name).mkdir()
    at_once = pool.run(4, trained_on, whole, 2)
    halves = replace(whole, out=tmp_path / "halves")
    pool.run(4, trained_on, replace(halves, epochs=1), 2)
    (weights, logits, _), *_ = pool.run(4, resumed_where_one_host_has_the_run, halves)
    assert all_equal(weights, at_once[0][0])
    assert np.array_equal(logits, at_once[0][1])


def resumed_where_one_host_has_the_run(member, config):
    """As trainers do whose host has no such folder: they must not read it."""
    with patch.object(checkpoint, "load_state", checkpoint.load_state if member.rank == 0 else no_folder):
        return trained_on(member, config, 2, resume=True)


def no_folder(*_):
    raise AssertionError("this host has no folder of the run")


@pytest.mark.slow
def test_a_trace_has_the_trainers_of_all_hosts(pool, layouts, tmp_path):
    config = config_for(layouts(4).path, tmp_path / "run", epochs=4, batch_size=16, profile=True)
    config.out.mkdir()
    pool.run(4, trained_on, config, 2)
    events = read_trace(config.out / "trace.json")
    assert trainers_of(events) == [0, 1, 2, 3]
    for name in ("forward", "reduce"):
        assert len([each for each in events if each["name"] == name]) == 4 * MINI_BATCHES
    assert not list(config.out.glob(".trace*"))


def rows_of_all(member, rows):
    """A table that each trainer fills its own rows of, as host memory is; what this trainer's host sees of it."""
    member = replace(member, hosts=2)
    shared = pool_module.shared_of(member).levels[0]
    if member.local == 0:
        shared.grow(8 * 3 * rows)
    member.barrier()
    table = shared.view((rows, 3), np.float64)
    if member.local == 0:
        table[:] = -1.0
    member.barrier()
    own = np.arange(member.rank, rows, 5)[::-1]  # rows of number 4, 9, ... are nobody's
    table[own] = own[:, None] + np.arange(3) / 10
    complete(member, torch.from_numpy(table), own.copy)
    return table.copy()


@pytest.mark.parametrize("rows", [2, 23])
def test_rows_of_other_hosts_arrive_where_they_belong(pool, rows):
    wanted = np.arange(rows)[:, None] + np.arange(3) / 10
    wanted[4::5] = -1.0
    for table in pool.run(4, rows_of_all, rows):
        assert np.array_equal(table, wanted)


def read_by_first(member):
    member = replace(member, hosts=2)
    calls = []
    return by_first(member, lambda: calls.append(member.rank) or f"read by {member.rank}"), calls


def test_files_are_read_by_trainer_0_alone(pool):
    results = pool.run(4, read_by_first)
    assert [result for result, _ in results] == ["read by 0"] * 4
    assert [calls for _, calls in results] == [[0], [], [], []]


def test_scripts_that_somebody_starts_once_a_trainer(pool, layouts, tmp_path):
    """With samplers, memory by sockets and a run after the other, held against trainers that GSplit starts."""
    typed = lay_out_types(with_features(random_typed_graph(4, 6, seed=38)), tmp_path / "typed", parts=4).path
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "over": {"split_group": 4},
        "alone": {"samplers": 0, "evaluate": "sampled"},
        "types": {"layout": typed, "model": "rgcn"},
    }
    common = {"layout": layouts(4).path, "precision": "64", "epochs": 1, "samplers": 1}
    configs = {name: config_for(out=tmp_path / name, **{**common, **each}) for name, each in changes.items()}
    summaries = train_placed(tmp_path / "placed", 2, 2, [given(config) for config in configs.values()])
    for left in (tmp_path / "placed").glob("rank-*-memory"):
        memory = json.loads(left.read_text())  # of that training alone, and no slots
        assert memory.count("gsplit-checker") <= 1, (left, memory)
        assert not any(name.startswith("gsplit-slot") for name in memory), (left, memory)
    for (name, config), of_ranks in zip(configs.items(), summaries, strict=True):
        assert all(summary == of_ranks[0] for summary in of_ranks)
        assert json.loads((tmp_path / name / "resolved.json").read_text())["hosts"] == 2
        one = tmp_path / f"{name} by the pool"
        one.mkdir()
        group = {} if config.split_group else {"split_group": 2}
        weights, *_ = pool.run(4, trained_on, replace(config, out=one, samplers=None, **group), 1)[0]
        assert counted(tmp_path / name) == counted(one)
        saved = torch.load(tmp_path / name / last_checkpoint(tmp_path / name))["model"]
        for key, weight in weights.items():
            torch.testing.assert_close(saved[key], weight, rtol=0, atol=1e-10)


def given(config):
    """What a configuration gives beside the defaults, for JSON."""
    return {name: value for name, value in vars(config).items() if value != getattr(TrainConfig(), name)}


def last_checkpoint(run):
    return json.loads((run / "checkpoint.json").read_text())["file"]


@pytest.mark.parametrize(("hosts", "world"), [(1, 2), (3, 3)])
def test_a_run_goes_on_with_another_number_of_hosts(pool, layouts, tmp_path, hosts, world):
    """From the middle of an epoch. All neighbours count, so that other micro-batches have the same gradient."""
    config = config_for(layouts(4).path, tmp_path / "of one", precision="64", fan_out=(-1, -1), epochs=2)
    for name in ("of one", "of two"):
        (tmp_path / name).mkdir()
    weights, *_ = pool.run(1, trained_on, config, 1)[0]
    pool.run(4, trained_and_kept, replace(config, out=tmp_path / "of two", checkpoint_every_batches=2))
    kept = tmp_path / "kept"
    about = json.loads((kept / "checkpoint.json").read_text())
    assert (about["epoch"], about["batch"], about["hosts"], about["trainers"]) == (1, 2, 2, 4)
    for of_trainer, *_ in pool.run(world, resumed_on, replace(config, out=kept), hosts):
        for name, weight in weights.items():
            torch.testing.assert_close(of_trainer[name], weight, rtol=0, atol=1e-10)
    targets = [
        {(each["epoch"], each["batch"]): each["targets"] for each in records(run, "mini-batch")}
        for run in (tmp_path / "of one", kept)
    ]
    assert targets[0] == targets[1]


def trained_and_kept(member, config):
    """Train on two hosts; what the folder of the run is in the middle of the second epoch is kept beside it."""

    def save(trainer):
        saved = saving.save_checkpoint(trainer)
        if member.rank == 0 and (trainer.progress.epoch, trainer.progress.batch) == (1, 2):
            shutil.copytree(config.out, config.out.with_name("kept"))
        return saved

    with patch.object(epochs, "save_checkpoint", save):
        trained_on(member, config, 2)


def resumed_on(member, config, hosts):
    return trained_on(member, config, hosts, resume=True)
