"""Runs that predict numbers: what one process with PyTorch learns, whoever has the entries that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics
from support.dense_sage import DenseSage, mini_batches
from support.graphs import lay_out, regression_graph
from support.messages import line_with, says
from support.runs import all_equal, config_for, records, stopped_and_gone_on, train_in_trainer
from torch.optim.lr_scheduler import ReduceLROnPlateau

import gsplit
from gsplit import TrainConfig
from gsplit.errors import InputError

FULL = {"strategy": "full", "batch_size": 512}
BASE = {"dtype": "float64", "fan_out": (-1, -1)}
LOSSES = {"mse": F.mse_loss, "mae": F.l1_loss, "huber": lambda said, true: F.huber_loss(said, true, delta=0.5)}


def uneven(folder, parts, outputs=2, seed=4):
    """A layout of which trainer 0 has no target where there are others, and of trainer 1's little is known."""
    graph = regression_graph(120, 5, seed=seed, outputs=outputs, features=6)
    first = lay_out(graph, folder / "first", parts=parts, method="random")
    part_of = np.empty(120, int)
    part_of[first.permutation] = np.repeat(np.arange(parts), np.diff(first.offsets))
    if parts > 1:
        graph.labels[(part_of == 1) & (np.arange(120) % 7 > 0)] = np.nan
        graph = replace(graph, train_idx=graph.train_idx[part_of[graph.train_idx] > 0])
    layout = lay_out(graph, folder, parts=parts, method="random")
    assert (layout.permutation == first.permutation).all()
    return layout


def loss_of(config, said, true):
    known = ~true.isnan()
    return LOSSES[config.loss or "mse"](said[known], true[known].double())


@pytest.mark.parametrize(
    ("world", "loss", "outputs", "changes"),
    [
        (2, "mse", 1, {}),
        (3, "mae", 3, {}),
        (4, "huber", 2, {}),
        (4, "mse", 2, {"strategy": "data"}),
        (2, "huber", 3, FULL),
        (3, "mse", 2, FULL),
        (4, "mae", 1, FULL),
    ],
)
def test_the_gradient_is_pytorchs_of_the_whole_mini_batch(pool, tmp_path, world, loss, outputs, changes):
    """One step of SGD at rate 1 takes the gradient off the weights."""
    layout = uneven(tmp_path, world, outputs)
    more = {"batch_size": 512, "epochs": 1, "optimizer": "sgd", "lr": 1.0, "loss": loss}
    more |= {"huber_delta": 0.5} if loss == "huber" else {}
    config = config_for(layout.path, tmp_path / "run", **{**BASE, **more, **changes})
    result = pool.run(world, train_in_trainer, config)[0]
    dense, train = DenseSage(layout, result["before"]), np.array(layout.graph.train_idx)
    wanted = loss_of(config, dense.logits()[train], dense.labels[train])
    wanted.backward()
    for name, weight in dense.weights.items():
        gradient = result["before"][name] - result["after"][name]
        torch.testing.assert_close(gradient, weight.grad, rtol=0, atol=1e-10)
    assert records(tmp_path / "run")[0]["loss"] == pytest.approx(wanted.item(), rel=1e-12)


@pytest.mark.parametrize("world", [1, 3])
def test_what_is_learned_and_at_which_rates_is_what_one_process_learns(pool, tmp_path, world):
    """With a plateau that counts a lower score as the better one, and steps of several mini-batches."""
    layout = uneven(tmp_path, world)
    more = {"epochs": 8, "batch_size": 12, "lr": 0.2, "seed": 3, "accumulate": 2, "lr_schedule": "plateau"}
    config = config_for(layout.path, tmp_path / "run", **BASE, **more, lr_patience=0, lr_gamma=0.5)
    result = pool.run(world, train_in_trainer, config)[0]
    dense, valid = DenseSage(layout, result["before"]), np.array(layout.graph.valid_idx)
    optimizer = torch.optim.Adam(dense.weights.values(), lr=config.lr)
    scheduler = ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=0)
    rates, scores = [], []
    for batches in mini_batches(layout, config):
        for first in range(0, len(batches), 2):
            targets = np.concatenate(batches[first : first + 2])
            optimizer.zero_grad()
            loss_of(config, dense.logits()[targets], dense.labels[targets]).backward()
            optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
        scores.append(rmse(dense.logits()[valid].detach().numpy(), layout.graph.labels[valid]))
        scheduler.step(scores[-1])
    for name, weight in dense.weights.items():
        torch.testing.assert_close(result["after"][name], weight.detach(), rtol=0, atol=1e-8)
    assert [record["lr"] for record in records(tmp_path / "run")] == pytest.approx(rates, rel=1e-12)
    assert [record["valid_rmse"] for record in records(tmp_path / "run")] == pytest.approx(scores, rel=1e-8)
    assert 1 < len(set(rates)) < len(rates)  # some scores were better and some were not
    assert result["summary"]["best_epoch"] == scores.index(min(scores)) + 1 < 8
    assert result["summary"]["valid_rmse"] == min(record["valid_rmse"] for record in records(tmp_path / "run"))


def rmse(logits, labels, metric=metrics.root_mean_squared_error):
    """The mean over the outputs, each of what is known of it."""
    known = ~np.isnan(labels)
    return np.mean([metric(labels[k, c].astype(float), logits[k, c]) for c, k in enumerate(known.T)])


@pytest.mark.cases(2)
@pytest.mark.parametrize(("world", "changes"), [(1, {}), (2, {}), (4, {"strategy": "data"}), (3, FULL)])
def test_scores_are_scikit_learns_of_all_that_is_said(pool, tmp_path, world, changes):
    layout = uneven(tmp_path, world)
    graph, order = layout.graph, layout.permutation
    for name, asked in (("given", "mae,rmse"), ("plain", None)):
        config = config_for(layout.path, tmp_path / name, **{**BASE, "epochs": 3, "metrics": asked, **changes})
        result = pool.run(world, train_in_trainer, config)[0]
        said, true = result["logits"][order[graph.valid_idx]], graph.labels[graph.valid_idx]
        last, summary = records(tmp_path / name)[-1], result["summary"]
        assert last["valid_rmse"] == pytest.approx(rmse(said, true), abs=1e-12)
        if asked is None:
            assert summary["metrics"] == ["rmse"]
            assert summary["test_rmse"] > 0
            continue
        assert last["valid_mae"] == pytest.approx(rmse(said, true, metrics.mean_absolute_error), abs=1e-12)
        best = min(records(tmp_path / name), key=lambda record: record["valid_mae"])
        assert (summary["metrics"], summary["best_epoch"]) == (["mae", "rmse"], best["epoch"])


def test_scores_of_training_are_of_the_entries_that_are_known(pool, tmp_path):
    layout = uneven(tmp_path, 3)
    config = config_for(layout.path, tmp_path / "run", **BASE, lr=1e-300, metrics="rmse", epochs=1)
    result = pool.run(3, train_in_trainer, config)[0]
    train = layout.graph.train_idx
    wanted = rmse(result["logits"][layout.permutation[train]], layout.graph.labels[train])
    assert records(tmp_path / "run")[0]["train_rmse"] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("world", [1, 3])
def test_a_run_ends_early_where_no_score_is_lower(pool, tmp_path, world):
    layout = uneven(tmp_path, world)
    changes = {**BASE, "epochs": 40, "early_stop": 3, "lr": 0.1, "loss": "mae"}
    result = pool.run(world, train_in_trainer, config_for(layout.path, tmp_path / "run", **changes))[0]
    scores = [record["valid_rmse"] for record in records(tmp_path / "run")]
    best = scores.index(min(scores))
    assert 1 < len(scores) == best + 1 + 3 < 40
    assert result["summary"]["best_epoch"] == best + 1


def test_what_goes_on_from_any_mini_batch_is_bit_equal(pool, tmp_path):
    layout = uneven(tmp_path, 2)
    more = {"epochs": 4, "batch_size": 12, "accumulate": 3, "lr_schedule": "plateau", "lr_patience": 0, "lr": 0.2}
    whole = pool.run(2, train_in_trainer, config_for(layout.path, tmp_path / "whole", **BASE, **more))
    parts = pool.run(2, stopped_and_gone_on, config_for(layout.path, tmp_path / "parts", **BASE, **more), 7)
    assert all_equal(whole[0]["after"], parts[0]["after"])
    assert whole[0]["summary"]["valid_rmse"] == parts[0]["summary"]["valid_rmse"]
    rates = [[record["lr"] for record in records(tmp_path / run)] for run in ("whole", "parts")]
    assert rates[0] == rates[1]
    assert len(set(rates[0])) > 1


def test_numbers_are_predicted_of_any_vertex(here, tmp_path):
    layout = uneven(tmp_path, 2)
    config = config_for(layout.path, tmp_path / "run", **BASE, save_predictions="values")
    gsplit.train(config=config)
    values = gsplit.predict(tmp_path / "run", layout.path, device="cpu")
    assert (values.shape, values.dtype) == ((120, 2), np.float64)
    np.testing.assert_allclose(np.load(tmp_path / "run" / "predictions.npy"), values, rtol=1e-12)
    logits = gsplit.predict(tmp_path / "run", layout.path, what="logits", device="cpu")
    np.testing.assert_array_equal(logits, values)
    gsplit.predict(tmp_path / "run", layout.path, vertices="valid", out=tmp_path / "said.csv", device="cpu")
    assert (tmp_path / "said.csv").read_text().startswith("vertex,value_0,value_1\n")
    with pytest.raises(InputError, match=line_with("--what classes, --what values")):
        gsplit.predict(tmp_path / "run", layout.path, what="classes", device="cpu")


def test_values_of_classes_are_refused(here, layouts, tmp_path):
    config = config_for(layouts(2).path, tmp_path / "run")
    with pytest.raises(InputError, match=line_with("--save-predictions values")):
        gsplit.train(config=replace(config, save_predictions="values"))
    assert not (tmp_path / "run").exists()
    gsplit.train(config=config)
    with pytest.raises(InputError, match=line_with("--what values, --what")):
        gsplit.predict(tmp_path / "run", layouts(2).path, what="values", device="cpu")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metrics": "accuracy"}, "--metrics accuracy"),
        ({"save_predictions": "classes"}, "--save-predictions classes"),
        ({"loss": "cross-entropy"}, "--loss cross-entropy"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path, given, message):
    layout = uneven(tmp_path, 2)
    with pytest.raises(InputError, match=line_with(message)):
        gsplit.train(config=config_for(layout.path, tmp_path / "run", **given))
    assert not (tmp_path / "run").exists()


def test_what_chooses_the_best_model_cannot_change(here, tmp_path, caplog):
    layout = uneven(tmp_path, 2)
    gsplit.train(config=config_for(layout.path, tmp_path / "run"))
    with pytest.raises(InputError, match=line_with("--metrics, rmse")):
        gsplit.train(config=TrainConfig.resuming(tmp_path / "run", epochs=3, metrics="mae"))
    gsplit.train(config=TrainConfig.resuming(tmp_path / "run", epochs=3, metrics="rmse,mae", loss="huber"))
    says(caplog.text, "loss huber, None")


def test_a_mini_batch_of_which_nothing_is_known_has_no_gradient(pool, tmp_path):
    graph = regression_graph(60, 4, seed=2)
    graph.labels[graph.train_idx[1:]] = np.nan
    graph.labels[graph.train_idx[0]] = [np.nan, 4.0]
    layout = lay_out(graph, tmp_path, parts=2)
    config = config_for(layout.path, tmp_path / "run", batch_size=10, epochs=1, optimizer="sgd", dtype="float64")
    result = pool.run(2, train_in_trainer, config)[0]
    assert all(weight.isfinite().all() for weight in result["after"].values())
    losses = [record["loss"] for record in records(tmp_path / "run", "mini-batch") if record["trainer"] == 0]
    assert sum(loss > 0 for loss in losses) == 1
    assert records(tmp_path / "run")[0]["loss"] == pytest.approx(max(losses), rel=1e-12)


def test_vertices_to_validate_of_which_nothing_is_known_are_refused(tmp_path):
    graph = regression_graph(60, 4, seed=2)
    graph.labels[graph.valid_idx[:-1]] = np.nan
    layout = lay_out(graph, tmp_path, parts=2)
    config = config_for(layout.path, tmp_path / "run", validate_vertices=1, metrics=None)
    with pytest.raises(InputError, match=line_with("rmse, 1, --validate-vertices")):
        gsplit.train(config=config)
    assert not (tmp_path / "run").exists()


def test_scores_of_samples_and_in_the_middle_of_epochs_are_errors_too(pool, tmp_path):
    layout = uneven(tmp_path, 2)
    more = {"evaluate": "sampled", "validate_every_batches": 1, "batch_size": 15, "lr": 0.2, "epochs": 3}
    config = config_for(layout.path, tmp_path / "run", **BASE | {"fan_out": (4, 4)} | more)
    summary = pool.run(2, train_in_trainer, config)[0]["summary"]
    scores = [record["valid_rmse"] for kind in ("validation", "epoch") for record in records(config.out, kind)]
    assert len(scores) > 6
    assert summary["valid_rmse"] == min(scores)
