"""Data parallelism and split groups: law 2 for all of them, and what they count against brute force."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from support import traffic
from support.gradients import assert_near_step, assert_same_step
from support.graphs import lay_out, random_graph
from support.runs import all_equal, config_for, records, train_in_trainer
from support.steps import ALONE, CPU, Step, targets_of

import gsplit
from gsplit.data import open_layout
from gsplit.launch.resolve import resolve
from gsplit.parallel import Member, trainer_grid
from gsplit.runs import checkpoint

FAN_OUTS = [4, 3]
GROUPS = [(2, 1), (3, 1), (4, 1), (4, 2)]
"""(trainers, trainers of a group)"""


def step_in_pool(member, path, targets, dtype, name, grid, fan_outs=FAN_OUTS):
    return Step(member, open_layout(path), targets, fan_outs, dtype, name, grid).gradients()


def sum_over_micro_batches(layout, targets, dtype, name, number):
    """Loss and gradients of one process that computes one micro-batch after the other, unsplit."""
    grid = trainer_grid(number, 1)
    loss, gradients = 0.0, {}
    for group in range(number):
        alone = Member(rank=group, world=1, device=CPU)
        own_loss, own = Step(alone, layout, targets, FAN_OUTS, dtype, name, grid).gradients()
        loss += own_loss
        gradients = {key: gradients.get(key, 0) + gradient for key, gradient in own.items()}
    return loss, gradients


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", ["sage", "gat", "gcn", "dgl-GraphConv-both", "pyg-GATConv"])
@pytest.mark.parametrize(("trainers", "size"), GROUPS)
def test_law_2_gradients_are_those_of_the_union_of_the_micro_batches(pool, layouts, trainers, size, name):
    whole, layout = layouts(1), layouts(4 if size == 2 else 1)
    grid = trainer_grid(trainers, size)
    for count in (61, 2):  # unequal micro-batches; for some no target at all
        targets = targets_of(whole, count)
        for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
            loss, wanted = sum_over_micro_batches(whole, targets, dtype, name, grid.size("data"))
            results = pool.run(trainers, step_in_pool, layout.path, targets, dtype, name, grid)
            assert_same_step(results, loss, wanted, tolerance)


def two_islands():
    """Two graphs without an edge between them."""
    graph = random_graph(120, 6, seed=8)
    n, e = 120, len(graph.indices)
    ids = [
        np.concatenate([getattr(graph, f"{s}_idx"), getattr(graph, f"{s}_idx") + n])
        for s in ("train", "valid", "test")
    ]
    return replace(
        graph,
        indptr=np.concatenate([graph.indptr, graph.indptr[1:] + e]),
        indices=np.concatenate([graph.indices, graph.indices + n]).astype(np.int32),
        features=np.concatenate([graph.features, graph.features + 1]),
        labels=np.concatenate([graph.labels, graph.labels]),
        train_idx=ids[0],
        valid_idx=ids[1],
        test_idx=ids[2],
    )


@pytest.mark.parametrize("name", ["gcn-batch-norm", "pyg-own-batch-norm"])
@pytest.mark.parametrize(("trainers", "size"), [(2, 1), (4, 2)])
def test_batch_normalisation_goes_over_all_micro_batches(pool, tmp_path, trainers, size, name):
    """Where micro-batches share no vertex, data parallelism computes what one process does."""
    layout = lay_out(two_islands(), tmp_path, parts=size)
    whole = lay_out(two_islands(), tmp_path, parts=1)
    ids = np.sort(whole.permutation[whole.graph.train_idx])
    targets = np.concatenate([ids[ids < 120][:20], ids[ids >= 120][:20]])  # a micro-batch on each island
    fan_outs = [-1] * 2
    loss, wanted = Step(ALONE, whole, targets, fan_outs, torch.float64, name).gradients()
    grid = trainer_grid(trainers, size)
    results = pool.run(trainers, step_in_pool, layout.path, targets, torch.float64, name, grid, fan_outs)
    assert_near_step(results, loss, wanted, rtol=1e-8, atol=1e-10)


DATA = {"strategy": "data"}


@pytest.mark.cases(6)
@pytest.mark.parametrize(
    ("parts", "trainers", "changes"),
    [
        (2, 2, {}),
        (4, 4, {}),
        (1, 2, DATA),
        (1, 3, DATA),
        (4, 4, DATA),
        (4, 4, {"split_group": 2}),
        (3, 3, {"cache_size": "10%"}),
        (4, 4, {"cache_size": "12%"}),
        (4, 4, {"cache_size": "25%"}),
        (4, 2, {"cache_size": "10%", "feature_dtype": "bfloat16"}),
        (4, 4, {"cache_size": "20%", "split_group": 2}),
        (2, 2, {**DATA, "cache": "partitioned", "cache_size": "10%"}),
        (4, 4, {**DATA, "cache": "partitioned", "cache_size": "10%", "feature_dtype": "float16"}),
        (4, 4, {**DATA, "cache": "partitioned", "cache_size": "25%"}),
        (4, 2, {**DATA, "cache": "partitioned", "cache_size": "10%"}),
        (4, 4, {**DATA, "cache": "replicated", "cache_size": "10%"}),
        (1, 3, {**DATA, "cache": "replicated", "cache_size": "25%"}),
    ],
    ids=lambda value: " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value),
)
def test_law_3_and_counters_are_those_of_brute_force(pool, layouts, tmp_path, parts, trainers, changes):
    layout = layouts(parts)
    config = config_for(layout.path, tmp_path / "run", gpus=trainers, batch_size=47, fan_out=(4, 3), **changes)
    results = pool.run(trainers, train_in_trainer, config)
    assert all(all_equal(result["after"], results[0]["after"]) for result in results)
    strategy = resolve(config).strategy
    assert strategy.splits == changes.get("split_group", 1 if "strategy" in changes else trainers)
    row_bytes = layout.graph.num_features * (2 if "feature_dtype" in changes else 4)
    wanted = traffic.count(layout, strategy, config, row_bytes)
    lines = records(config.out, "mini-batch")
    assert sorted((r["epoch"], r["batch"], r["trainer"]) for r in lines) == sorted(wanted)
    gradients = sum(p.numel() for p in results[0]["after"].values()) + 1  # and the loss
    for record in lines:
        counts = record["traffic"]
        assert counts.pop("segment_bytes") > 0
        assert counts.pop("all_reduce_bytes") == 4 * gradients
        assert counts == wanted[record["epoch"], record["batch"], record["trainer"]]
        assert set(record["stages"]) == {"sample", "load", "wait", "forward", "backward", "reduce", "step"}
        assert min(record["stages"].values()) >= 0
    summary = results[0]["summary"]["traffic"]
    for name in wanted[1, 0, 0]:
        assert summary[name] == sum(counts[name] for counts in wanted.values())
    own, _ = traffic.cached_sets(layout, strategy.grid, config)
    assert results[0]["summary"]["cache_rows"] == [len(cached) for cached in own]
    if changes.get("cache_size") == "25%" and changes.get("cache") != "replicated":
        assert summary["host_rows"] == 0  # every part fits
    for epoch in records(config.out):
        own = [r for r in lines if r["epoch"] == epoch["epoch"]]
        assert epoch["loss"] == pytest.approx(
            sum(r["loss"] * r["targets"] for r in own) / sum(r["targets"] for r in own)
        )


@pytest.mark.slow
def test_a_run_does_not_depend_on_its_samplers(layouts, tmp_path, in_pool):
    """Groups and all: each mini-batch is two micro-batches, and each of them two splits."""
    runs = []
    for samplers in (0, 2):
        config = config_for(
            layouts(2).path, tmp_path / f"{samplers}", gpus=4, split_group=2, epochs=1, samplers=samplers, dropout=0.3
        )
        with in_pool() if samplers == 0 else contextlib.nullcontext():
            summary = gsplit.train(config=config)
        digest = checkpoint.describe_state(config.out, checkpoint.MODEL)["sha256"]
        runs.append((summary["traffic"], summary["loss"], summary["test_accuracy"], digest))
    assert runs[0] == runs[1]


@pytest.mark.parametrize(("trainers", "changes"), [(3, {"strategy": "data"}), (4, {"split_group": 2})])
def test_evaluation_does_not_depend_on_the_strategy(pool, layouts, tmp_path, trainers, changes):
    layout = layouts(2)
    alone = config_for(layouts(1).path, tmp_path / "one", epochs=0, dtype="float64")
    many = config_for(layout.path, tmp_path / "many", epochs=0, dtype="float64", gpus=trainers, **changes)
    wanted = pool.run(1, train_in_trainer, alone)[0]
    got = pool.run(trainers, train_in_trainer, many)[0]
    np.testing.assert_allclose(got["logits"], wanted["logits"], rtol=0, atol=1e-10)
    assert got["summary"]["test_accuracy"] == wanted["summary"]["test_accuracy"]


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "changes",
    [
        {"cache_size": "10%"},
        {**DATA, "cache": "partitioned", "cache_size": "10%"},
        {"split_group": 2, "cache_size": "300B"},
        {"feature_dtype": "float32"},
    ],
    ids=str,
)
def test_where_rows_lie_changes_no_result(pool, layouts, tmp_path, changes):
    """Bit for bit: cached, read from a peer or copied beforehand, a row is a row."""
    path = layouts(4).path
    plain = {key: value for key, value in changes.items() if key in ("strategy", "split_group")}
    runs = [
        pool.run(4, train_in_trainer, config_for(path, tmp_path / f"{i}", gpus=4, dropout=0.3, **options))[0]
        for i, options in enumerate((plain, changes))
    ]
    assert all_equal(runs[0]["after"], runs[1]["after"])
    assert (runs[0]["logits"] == runs[1]["logits"]).all()


def test_rows_in_bfloat16_train_nearly_the_same(pool, layouts, tmp_path):
    path = layouts(2).path
    configs = [config_for(path, tmp_path / dtype, feature_dtype=dtype) for dtype in ("stored", "bfloat16")]
    exact, rounded = (pool.run(2, train_in_trainer, config)[0]["logits"] for config in configs)
    assert not np.array_equal(exact, rounded)
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=0.05 * np.abs(exact).max())


def test_a_run_of_the_command_normalises_over_all_trainers(pool, layouts, tmp_path):
    """As trainers in the pool do, whose process groups are made by the tests."""
    options = {"strategy": "data", "model": "gcn", "norm": "batch", "epochs": 1, "validate_every": 0}
    path = layouts(2).path
    gsplit.train(config=config_for(path, tmp_path / "command", **options))
    pool.run(2, train_in_trainer, config_for(path, tmp_path / "pool", **options))
    ours, theirs = (checkpoint.load_state(tmp_path / run, checkpoint.MODEL) for run in ("command", "pool"))
    assert any("running_mean" in name for name in ours)
    assert all_equal(ours, theirs)


def test_one_trainer_may_cache(pool, layouts, tmp_path):
    config = config_for(layouts(1).path, tmp_path / "run", epochs=1, cache_size="100%")
    traffic = pool.run(1, train_in_trainer, config)[0]["summary"]["traffic"]
    assert (traffic["host_rows"], traffic["peer_rows"]) == (0, 0)
    assert traffic["cache_hits"] == traffic["level_0_vertices"] > 0


def test_predictions_are_made_from_rows_as_they_were_trained_on(layouts, tmp_path, in_pool):
    path = layouts(2).path
    config = config_for(path, tmp_path / "run", epochs=1, feature_dtype="bfloat16", save_predictions="logits")
    with in_pool():
        gsplit.train(config=config)
        saved = np.load(config.out / "predictions.npy")
        np.testing.assert_array_equal(gsplit.predict(config.out, path, what="logits"), saved)
