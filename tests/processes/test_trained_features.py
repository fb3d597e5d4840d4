"""Trained features: their gradients and updates are one dense process's, whoever owns the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.runs import all_equal, config_for, records, run_for
from support.whole import DenseBlock

import gsplit
from gsplit import TrainConfig
from gsplit.engine.objective import mini_batch_loss, objective_of
from gsplit.engine.rows.trained import initial_rows
from gsplit.errors import InputError
from gsplit.models import prepared, registry
from gsplit.runs import checkpoint
from gsplit.train import loop

WIDTH, EPOCHS = 6, 3
FULL = {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512, "dtype": "float64", "epochs": EPOCHS}
TRAINED = {**FULL, "train_features": WIDTH, "weight_decay": 0.01}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A layout of three parts of a graph without features."""
    graph = replace(random_graph(90, 6, seed=4, features=WIDTH), features=None)
    return lay_out(graph, tmp_path_factory.mktemp("bare"), parts=3)


def learned(member, config):
    """Weights before and after, and rows and their last gradient by global id (trainer 0)."""
    trainer = loop.ready(member, run_for(config, member.world), pool_module.SHARED)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    reduced = {id(p) for p in trainer.parameters}
    assert id(trainer.trained.own) not in reduced
    loop.train(trainer)
    after = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    gradient = trainer.trained._gathered(trainer.trained.own.grad)
    return before, after, trainer.trained.gathered(), gradient


def dense(layout, config, before):
    """The same of one process that has everything; rows are by layout id."""
    graph = replace(layout.graph, features=np.zeros((layout.graph.num_vertices, WIDTH), np.float32))
    described = registry.describe(replace(config, num_layers=2), graph, None)
    model = prepared.prepare(registry.build(described.signature, config)).model.double()
    model.load_state_dict(before)
    rows = torch.from_numpy(initial_rows(config.seed, layout.permutation, WIDTH)).requires_grad_()
    optimizer = torch.optim.Adam([*model.parameters(), rows], lr=config.lr, weight_decay=config.weight_decay)
    block, train = DenseBlock(graph, weighted=True), torch.from_numpy(np.array(graph.train_idx))
    labels, losses = torch.from_numpy(np.array(graph.labels))[train], []
    for _ in range(config.epochs):
        optimizer.zero_grad()
        logits = model({1: block, 2: block}, rows)[train]
        loss = mini_batch_loss(objective_of(graph.task), logits, labels, len(train))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, dict(model.named_parameters()), rows


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("trainers", "algorithm"), [(1, "shared"), (2, "1d-sparse"), (3, "columns"), (3, "shared"), (2, "1.5d")]
)
@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_gradients_and_updates_are_those_of_one_process(pool, bare, tmp_path, trainers, algorithm, model):
    layout = lay_out(None, bare.path.parent, parts=2) if algorithm == "1d-sparse" else bare
    config = config_for(layout.path, tmp_path / "run", **TRAINED, model=model, algorithm=algorithm)
    results = pool.run(trainers, learned, config)
    before, after, found, gradient = results[0]
    losses, weights, rows = dense(layout, config, before)
    order = np.array(layout.permutation)
    assert [record["loss"] for record in records(tmp_path / "run")] == pytest.approx(losses, rel=1e-10)
    for name, value in after.items():
        torch.testing.assert_close(value, weights[name].detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(gradient[order], rows.grad, rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(found[order], rows.detach(), rtol=1e-10, atol=1e-10)
    assert all(all_equal(after, other) for _, other, _, _ in results)
    counts = records(tmp_path / "run")[-1]["traffic"]
    assert counts["all_reduce_bytes"] == trainers * 8 * (1 + sum(value.numel() for value in after.values()))
    assert counts["host_rows"] == 0


def state(run):
    return checkpoint.load_state(run, checkpoint.CHECKPOINT)


def test_a_run_goes_on_with_its_features(here, bare, tmp_path):
    """Bit-identical with as many trainers, and right with others; predictions are those of the rows that are kept."""
    straight, stopped, other = (tmp_path / name for name in ("straight", "stopped", "other"))
    flags = {**TRAINED, "epochs": 4, "input_dropout": 0.2}
    gsplit.train(config=config_for(bare.path, straight, **flags))
    gsplit.train(config=config_for(bare.path, stopped, **{**flags, "epochs": 2}))
    gsplit.train(config=TrainConfig.resuming(stopped, epochs=4))
    first, second = state(straight), state(stopped)
    for of_trained in (lambda state: state["trained"], lambda state: state["best"]):
        one, two = of_trained(first), of_trained(second)
        rows = "rows" if "rows" in one else "trained"
        assert torch.equal(one[rows], two[rows])
    assert all_equal(first["trained"]["optimizer"], second["trained"]["optimizer"])
    assert all_equal(first["model"], second["model"])
    gsplit.train(config=config_for(bare.path, other, **{**flags, "epochs": 1, "input_dropout": 0.0}))
    gsplit.train(config=TrainConfig.resuming(other, epochs=4, gpus=2, algorithm="columns"))
    gsplit.train(config=config_for(bare.path, tmp_path / "wanted", **{**flags, "input_dropout": 0.0}, gpus=1))
    torch.testing.assert_close(
        state(other)["trained"]["rows"], state(tmp_path / "wanted")["trained"]["rows"], rtol=0, atol=1e-8
    )


def test_predictions_are_of_the_rows_that_are_kept(here, bare, tmp_path):
    run = tmp_path / "run"
    flags = {**TRAINED, "lr": 0.5, "epochs": 5}  # so that the best epoch is not the last
    summary = gsplit.train(config=config_for(bare.path, run, **flags, save_predictions="logits"))
    assert summary["best_epoch"] < 5
    kept = checkpoint.load_state(run, checkpoint.MODEL)[checkpoint.TRAINED]
    assert not torch.equal(kept, state(run)["trained"]["rows"])
    assert torch.equal(kept, state(run)["best"]["trained"])
    one_part = lay_out(None, bare.path.parent, parts=2)
    for layout in (bare, one_part):
        found = gsplit.predict(run, layout.path, what="logits", device="cpu", out=tmp_path / f"{layout.parts}.npy")
        np.testing.assert_allclose(found, np.load(run / "predictions.npy"), rtol=0, atol=1e-12)
    assert isinstance(gsplit.load(run), torch.nn.Module)


def test_what_features_are_trained_for_is_another_graph_s_vertices(here, bare, layouts, tmp_path):
    run = tmp_path / "run"
    gsplit.train(config=config_for(bare.path, run, **TRAINED))
    with pytest.raises(InputError, match=line_with("--train-features")):
        gsplit.predict(run, layouts(2).path, device="cpu")
    with pytest.raises(InputError, match=line_with("in_features, 6, 5")):
        gsplit.train(config=TrainConfig.resuming(run, train_features=5, epochs=9))


def test_initial_rows_follow_from_seed_and_vertex():
    ids = np.random.default_rng(0).permutation(1000)
    rows = initial_rows(3, ids, 8)
    np.testing.assert_array_equal(rows[np.argsort(ids)], initial_rows(3, np.arange(1000), 8))
    assert not (rows == initial_rows(4, ids, 8)).any()
    assert len(np.unique(rows)) == rows.size
    assert abs(rows.mean()) < 0.05
    assert rows.std() == pytest.approx(1, abs=0.02)
