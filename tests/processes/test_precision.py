"""Mixed precision the whole way: losses near float32's, half the bytes, the same bits on all trainers and again."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.runs import all_equal, config_for, records, run_for, stopped_and_gone_on, train_in_trainer, trainer_of

import gsplit
import gsplit._core as _core
from gsplit.config.train import TrainConfig
from gsplit.engine.whole.fitting import chosen_of
from gsplit.engine.whole.plan_table import plan_of_run, priced_plans
from gsplit.errors import InputError
from gsplit.kernels import StoredRows
from gsplit.optim import loss_scale
from gsplit.runs import checkpoint
from gsplit.train import loop
from gsplit.train.epochs import Epochs
from gsplit.train.own_loop import train_by

MIXED = ("bf16-mixed", "16-mixed")
NEAR = 5e-3
"""Bound on the difference of losses, which are about 1, after a few steps; 2e-3 was seen with bfloat16."""
LOADED = ("host_to_device_bytes", "device_to_device_bytes")
EXCHANGED = ("exchange_forward_bytes", "exchange_backward_bytes")
WIDTH = 40
NOT_GIVEN = {name: getattr(TrainConfig, name) for name in ("fan_out", "batch_size")}
FULL = {"strategy": "full", "num_layers": 2, **NOT_GIVEN}
SUBGRAPHS = {"num_layers": 2, **NOT_GIVEN}
LAYERS = {"fan_out": TrainConfig.fan_out, "layer_sizes": (64, 64)}
CACHED = {"cache_size": "50%", "strategy": "data"}


def trained(pool, world, config):
    """Summary of a run whose trainers ended with the same weights, and its weights."""
    results = pool.run(world, train_in_trainer, config)
    assert all(all_equal(results[0]["after"], other["after"]) for other in results)
    assert not all_equal(results[0]["before"], results[0]["after"])
    assert {weight.dtype for weight in results[0]["after"].values()} == {torch.float32}
    return results[0]["summary"], results[0]["after"]


def compared(pool, layouts, folder, world, precision, **changes):
    """What was counted in float32 and in another precision, where losses are near each other."""
    summaries = []
    for name in ("32", precision):
        config = config_for(layouts(world).path, folder / name, precision=name, epochs=3, **changes)
        summaries.append(trained(pool, world, config)[0])
    wanted, found = ([record["loss"] for record in records(folder / name)] for name in ("32", precision))
    assert found == pytest.approx(wanted, abs=NEAR)
    assert found != wanted
    return [summary["traffic"] for summary in summaries]


@pytest.mark.cases(4)
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("model", ["sage", "gat", "gcn", "torch_geometric.nn:GraphSAGE", "torch_geometric.nn:GAT"])
def test_bfloat16_rows_are_half_the_bytes(pool, layouts, tmp_path, model, world):
    plain, mixed = compared(pool, layouts, tmp_path, world, "bf16-mixed", model=model)
    assert plain["host_to_device_bytes"] > 0
    assert (plain["exchange_forward_bytes"] > 0) == (plain["exchange_backward_bytes"] > 0) == (world > 1)
    for name in (*LOADED, *EXCHANGED):
        assert 2 * mixed[name] == plain[name]
    assert mixed["all_reduce_bytes"] == plain["all_reduce_bytes"]


@pytest.mark.cases(7)
@pytest.mark.parametrize("precision", MIXED)
@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "batch", "exchange": "auto"},
        {"norm": "layer", "residual": True, "output_projection": True},
        {"accumulate": 2, "clip_grad_norm": 1.0, "class_weights": "balanced", "stop_on_nan": "batch"},
        {"normalize_features": True, "evaluate": "sampled", "metrics": "accuracy,auroc"},
        {**CACHED, "cache": "replicated"},
        {"sampling": "uniform", "subgraph": "50%", **SUBGRAPHS},
        {"sampling": "saint", "subgraph": "50%", **SUBGRAPHS},
        {"sampling": "ladies", "model": "gcn", **LAYERS},
        *({**FULL, "algorithm": name} for name in ("shared", "1d", "1d-sparse", "1.5d", "2d", "3d", "columns")),
        *({**FULL, "model": "gcn", "algorithm": name} for name in ("shared", "2d", "rotate")),
        {**FULL, "model": "gat", "algorithm": "1d"},
        {**FULL, "model": "torch_geometric.nn:GraphSAGE", "algorithm": "1d-sparse"},
        {**FULL, "model": "torch_geometric.nn:GraphSAGE", "algorithm": "shared"},
        {**FULL, "model": "gat", "algorithm": "shared"},
        {**FULL, "train_features": 6},
    ],
    ids=str,
)
def test_other_ways_of_training_compute_in_it(pool, layouts, tmp_path, changes, precision):
    compared(pool, layouts, tmp_path, 2, precision, **changes)


def sent(member, config):
    """Bytes that this trainer sent in exchanges, forward and backward, by epoch."""
    trainer = trainer_of(member, config)
    epochs, found = Epochs(trainer), []
    while (mini_batch := epochs.next()) is not None:
        result, counters = loop.step(trainer, mini_batch), mini_batch.comm.counters
        found.append((counters.forward_bytes, counters.backward_bytes))
        epochs.record(mini_batch, result)
    trainer.close()
    return found


GRID, ROTATED = {"grid": (2, 2, 1)}, {"algorithm": "rotate", "grid": (2, 2, 1)}


@pytest.mark.cases(2)
@pytest.mark.parametrize("precision", MIXED)
@pytest.mark.parametrize(
    "changes",
    [
        GRID,
        {**GRID, "norm": "batch", "residual": True},
        {**GRID, "model": "gcn", "input_dropout": 0.3},
        {**GRID, "train_features": 24},
        {"grid": (1, 1, 4), "train_features": 6},
        {"grid": (2, 1, 2), "graph": "move"},
        {"algorithm": "1d-sparse", "input_dropout": 0.3},
        {"algorithm": "1d", "model": "gcn", "input_dropout": 0.3},
        {"algorithm": "1d", "model": "gat"},
        {**ROTATED, "model": "gcn"},
        {**ROTATED, "model": "gcn", "train_features": 6},
        {**ROTATED, "model": "gcn", "norm": "rms", "residual": True, "output_projection": True},
        {**ROTATED, "model": "gcn", "norm": "rms", "residual": True, "input_projection": True},
    ],
    ids=str,
)
def test_a_dry_run_of_the_whole_graph_says_what_is_sent(pool, layouts, tmp_path, changes, precision):
    config = config_for(layouts(4).path, tmp_path, **{**FULL, **changes}, precision=precision, epochs=2, hidden=16)
    run = run_for(config, 4)
    said = chosen_of(priced_plans(run), plan_of_run(run)).sent
    counted = max((later for _, later in pool.run(4, sent, config)), key=sum)
    assert counted == (said["exchange_forward_bytes"], said["exchange_backward_bytes"])
    assert min(counted) > 0


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["rows and columns", "features", "rotate"])
def test_every_move_takes_half_of_the_bytes_in_bfloat16(pool, layouts, tmp_path, name):
    moves = {"rows and columns": GRID, "features": {"grid": (1, 1, 4)}, "rotate": {**ROTATED, "model": "gcn"}}[name]
    found, losses = {}, {}
    for precision, dtype in (("32", "model"), ("32", "bfloat16"), ("16-mixed", "bfloat16")):
        flags = {**FULL, **moves, "precision": precision, "exchange_dtype": dtype, "epochs": 2, "hidden": 16}
        config = config_for(layouts(4).path, tmp_path / f"{precision}-{dtype}", **flags)
        run = run_for(config, 4)
        said = chosen_of(priced_plans(run), plan_of_run(run)).sent
        counted = max((later for _, later in pool.run(4, sent, config)), key=sum)
        assert counted == (said["exchange_forward_bytes"], said["exchange_backward_bytes"])
        found[precision, dtype], losses[precision, dtype] = counted, all_losses(config.out)
    assert found["32", "model"] == tuple(2 * number for number in found["32", "bfloat16"])
    assert found["16-mixed", "bfloat16"] == found["32", "bfloat16"]
    assert losses["32", "bfloat16"] != losses["32", "model"]
    assert losses["32", "bfloat16"] == pytest.approx(losses["32", "model"], rel=1e-2)


def all_losses(out):
    return [record["loss"] for record in records(out, "mini-batch")]


def rows_kept(member, config):
    """Type and bytes of this trainer's cache, and the rows that a model is given."""
    trainer = trainer_of(member, config)
    rows, x = trainer.loading._cache.rows, next(trainer.feed).x
    trainer.close()
    return rows.dtype, rows.nbytes, type(x), x.dtype


@pytest.mark.parametrize("cache", ["partitioned", "replicated"])
def test_caches_hold_bfloat16(pool, layouts, tmp_path, cache):
    seen = [
        pool.run(2, rows_kept, config_for(layouts(2).path, tmp_path / name, precision=name, cache=cache, **CACHED))
        for name in ("32", "bf16-mixed")
    ]
    for (plain, its_bytes, *_), (mixed, half, kind, given) in zip(*seen, strict=True):
        assert (plain, mixed) == (torch.float32, torch.bfloat16)
        assert its_bytes == 2 * half > 0
        assert (kind, given) == (torch.Tensor, torch.bfloat16)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A layout whose features are wider than hidden layers, which a first layer of ours reads where they lie."""
    graph = random_graph(300, 10, seed=3, features=WIDTH)
    return lay_out(graph, tmp_path_factory.mktemp("wide"), parts=2).path


@pytest.mark.parametrize(
    ("changes", "kind", "kept"),
    [
        ({}, StoredRows, torch.bfloat16 if _core.has_tiles() else torch.float32),
        ({"feature_dtype": "float32"}, StoredRows, torch.float32),
        ({"model": "gcn"}, torch.Tensor, torch.bfloat16),
        ({"model": "torch_geometric.nn:GraphSAGE"}, torch.Tensor, torch.bfloat16),
        ({"feature_dtype": "float32", "model": "gcn"}, torch.Tensor, torch.bfloat16),
        ({"precision": "16-mixed"}, StoredRows, torch.float32),
    ],
    ids=str,
)
def test_rows_that_a_first_layer_reads_stay_where_they_lie(pool, wide, tmp_path, changes, kind, kept):
    config = config_for(wide, tmp_path / "run", **{"precision": "bf16-mixed", **changes})
    assert [seen[2:] for seen in pool.run(2, rows_kept, config)] == [(kind, kept)] * 2


@pytest.mark.parametrize(("precision", "scale"), [("bf16-mixed", None), ("16-mixed", None), ("16-mixed", 2.0**34)])
def test_a_run_that_goes_on_repeats_it_to_the_bit(pool, wide, tmp_path, precision, scale):
    """With so large a scale steps are left out before the run is stopped, and afterwards."""
    config = config_for(wide, tmp_path / "whole", precision=precision, epochs=3, dropout=0.3)
    whole = pool.run(2, with_scale, scale, train_in_trainer, config)
    again = pool.run(2, with_scale, scale, stopped_and_gone_on, replace(config, out=tmp_path / "stopped"), 4)
    assert all_equal(whole[0]["after"], again[0]["after"])
    kept = ("loss", "valid_accuracy", "loss_scale", "skipped_steps")
    one, other = ([[r.get(k) for k in kept] for r in records(tmp_path / at)] for at in ("whole", "stopped"))
    assert one == other
    if scale is not None:
        skipped = [record["skipped_steps"] for record in records(tmp_path / "whole")]
        assert whole[0]["summary"]["skipped_steps"] == sum(skipped) > 4
        assert whole[0]["summary"]["loss_scale"] == scale / 2 ** sum(skipped)


def with_scale(member, scale, function, *arguments):
    """Call a function where runs begin with another scale."""
    with nullcontext() if scale is None else mock.patch.object(loss_scale, "INITIAL", scale):
        return function(member, *arguments)


def overflowing_on_one(member, config):
    """Train while one mini-batch has a gradient on the last trainer alone that is not finite."""
    trainer = trainer_of(member, config)
    reduce, seen = trainer.steps.reduce, []

    def spoilt(*arguments):
        seen.append(trainer.steps.scale.factor)
        if len(seen) == 2 and member.rank == member.world - 1:
            trainer.parameters[0].grad.view(-1)[0] = torch.inf
        return reduce(*arguments)

    with mock.patch.object(trainer.steps, "reduce", spoilt):
        loop.train(trainer)
    weights = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    steps = {int(state["step"]) for state in trainer.optimizer.state.values()}
    trainer.close()
    return weights, seen, steps


@pytest.mark.parametrize("world", [2, 3])
def test_a_gradient_that_overflows_on_one_trainer_is_no_step_on_any(pool, layouts, tmp_path, world):
    config = config_for(layouts(world).path, tmp_path / "run", precision="16-mixed", epochs=1)
    results = pool.run(world, overflowing_on_one, config)
    weights, factors, steps = results[0]
    assert factors[:3] == [2.0**16, 2.0**16, 2.0**15]
    assert steps == {len(factors) - 1}
    for other, *rest in results:
        assert all_equal(weights, other)
        assert rest == [factors, steps]
    (record,) = records(tmp_path / "run")
    assert (record["skipped_steps"], record["loss_scale"]) == (1, 2.0**15)


@pytest.mark.parametrize("precision", MIXED)
def test_predictions_are_the_classes_that_evaluation_saw(here, layouts, tmp_path, precision):
    config = config_for(layouts(2).path, tmp_path / "run", precision=precision, samplers=0)
    gsplit.train(config=replace(config, save_predictions="logits"))
    logits = np.load(tmp_path / "run" / "predictions.npy")
    assert logits.dtype == np.float32
    values = gsplit.predict(tmp_path / "run", layouts(2).path, what="logits", device="cpu")
    classes = gsplit.predict(tmp_path / "run", layouts(2).path, device="cpu")
    drawn = gsplit.predict(tmp_path / "run", layouts(2).path, what="embeddings", fan_out=(3, 3), device="cpu")
    assert np.array_equal(values, logits)
    assert np.array_equal(classes, logits.argmax(axis=1))
    assert drawn.dtype == np.float32


def by_own_loop(member, config):
    trainer = loop.ready(member, run_for(config, member.world), pool_module.SHARED)
    train_by(trainer, pickle.dumps(own))
    return {name: p.detach().clone() for name, p in trainer.model.named_parameters()}


def own(run):
    for batch in run:
        logits = run.model(batch.blocks, batch.x)
        assert logits.dtype == torch.bfloat16
        run.backward(F.cross_entropy(logits, batch.labels, reduction="sum"))
        assert not torch.is_autocast_enabled("cpu")
        run.step()


def test_a_loop_of_ones_own_computes_in_it(pool, layouts, tmp_path):
    config = config_for(layouts(2).path, tmp_path / "engine", precision="bf16-mixed")
    _, weights = trained(pool, 2, config)
    for other in pool.run(2, by_own_loop, replace(config, out=tmp_path / "own")):
        assert all_equal(weights, other)


def test_a_change_of_precision_is_told_and_that_of_parameters_refused(here, layouts, tmp_path, caplog):
    config = config_for(layouts(1).path, tmp_path / "run", epochs=1, samplers=0)
    again = {"samplers": 0, "epochs": 2}
    gsplit.train(config=config)
    with pytest.raises(InputError, match="dtype"):
        gsplit.train(config=TrainConfig.resuming(config.out, precision="64", **again))
    caplog.clear()
    gsplit.train(config=TrainConfig.resuming(config.out, precision="bf16-mixed", **again))
    assert "resuming with precision bf16-mixed instead of 32" in [record.getMessage() for record in caplog.records]
    assert [record["settings"]["precision"] for record in records(config.out)] == ["32", "bf16-mixed"]
    assert checkpoint.describe_state(config.out, checkpoint.MODEL)["signature"]["dtype"] == "float32"


def test_a_run_of_an_earlier_release_goes_on_as_it_was(here, layouts, tmp_path, caplog):
    config = config_for(layouts(1).path, tmp_path / "run", epochs=1, samplers=0)
    gsplit.train(config=config)
    file = config.out / "config.json"
    now = file.read_text()
    before = now.replace('  "precision": "32",\n', "").replace('"dtype": null', '"dtype": "float32"')
    assert before != now
    file.write_text(before)
    caplog.clear()
    gsplit.train(config=TrainConfig.resuming(config.out, epochs=2))
    assert not [record for record in caplog.records if "instead of" in record.getMessage()]
    assert TrainConfig.from_json(file).precision == "32"


def test_what_travels_is_bfloat16_already(here, layouts, tmp_path, caplog):
    config = config_for(layouts(2).path, tmp_path / "run", epochs=1, samplers=0)
    gsplit.train(config=replace(config, precision="bf16-mixed", exchange_dtype="bfloat16"))
    line = "--exchange-dtype bfloat16 has no effect with --precision bf16-mixed, only with 32, 16-mixed and 64"
    assert line in [record.getMessage() for record in caplog.records]
