"""Optimizers, rates, clipping and accumulation: what one process with PyTorch's own classes learns, to the bit again
after a kill.

Recipes run on mini-batches with all neighbours, so that the reference is dense algebra over the whole graph.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.commands import children_of
from support.dense_sage import DenseSage, mini_batches
from support.graphs import lay_out, random_graph
from support.messages import line_with, says
from support.runs import all_equal, config_for, records, stopped_and_gone_on, train_in_trainer
from torch.optim import lr_scheduler

import gsplit
from gsplit import TrainConfig
from gsplit.data import open_layout
from gsplit.errors import InputError
from gsplit.launch.resolve import resolve
from gsplit.launch.resume import Resumed, resume_config
from gsplit.runs import checkpoint

EPOCHS = 5
BASE = {"epochs": EPOCHS, "dtype": "float64", "fan_out": (-1, -1), "batch_size": 24, "lr": 0.05, "seed": 3}
RECIPES: dict[str, dict[str, Any]] = {
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1},
    "sgd": {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.01},
    "cosine": {"lr_schedule": "cosine", "warmup": 1.5},
    "step": {"lr_schedule": "step", "lr_step_size": 2, "lr_gamma": 0.3, "optimizer": "sgd"},
    "plateau": {"lr_schedule": "plateau", "lr_patience": 0, "lr_gamma": 0.5, "lr": 0.001},
    "clipped": {"clip_grad_norm": 0.05, "optimizer": "sgd"},
    "accumulated": {"accumulate": 3},
    "balanced": {"class_weights": "balanced", "label_smoothing": 0.1},
    "weighted": {"class_weights": "1,5,0.2", "accumulate": 3, "clip_grad_norm": 0.1},
    "all": {
        **{"optimizer": "adamw", "lr_schedule": "cosine", "warmup": 1, "clip_grad_norm": 0.1, "accumulate": 2},
        "weight_decay": 0.05,
    },
}


def optimizer_like(config, weights):
    if config.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay)
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    return make(weights, lr=config.lr, weight_decay=config.weight_decay)


def scheduler_like(config, optimizer, steps):
    """PyTorch's scheduler, called after each step, or for a plateau after each validation."""
    if config.lr_schedule == "plateau":
        return lr_scheduler.ReduceLROnPlateau(
            optimizer, mode="max", factor=config.lr_gamma, patience=config.lr_patience
        )
    rise = round(config.warmup * steps)
    then = {
        "constant": lambda: lr_scheduler.ConstantLR(optimizer, factor=1.0),
        "cosine": lambda: lr_scheduler.CosineAnnealingLR(optimizer, T_max=config.epochs * steps - rise),
        "step": lambda: lr_scheduler.StepLR(optimizer, config.lr_step_size * steps, config.lr_gamma),
    }[config.lr_schedule]()
    if not rise:
        return then
    first = lr_scheduler.LinearLR(optimizer, start_factor=1 / rise, total_iters=rise - 1)
    return lr_scheduler.SequentialLR(optimizer, [first, then], milestones=[rise])


def class_weights_like(config, layout):
    """What ``torch.nn.CrossEntropyLoss`` takes as ``weight``."""
    if config.class_weights == "balanced":
        labels = layout.graph.labels[layout.graph.train_idx]
        return torch.from_numpy(len(labels) / (3 * np.bincount(labels, minlength=3)))
    return config.class_weights and torch.tensor(list(map(float, config.class_weights.split(",")))).double()


def learned_by_pytorch(layout, config, before):
    """Weights by name, and of each epoch the last rate and the mean loss."""
    dense, each, weights = DenseSage(layout, before), config.accumulate, class_weights_like(config, layout)
    optimizer = optimizer_like(config, list(dense.weights.values()))
    epochs = mini_batches(layout, config)
    assert each == 1 or len(epochs[0]) % each == 1  # the last step of an epoch is of what is left
    scheduler = scheduler_like(config, optimizer, math.ceil(len(epochs[0]) / each))
    rates, losses = [], []
    for batches in epochs:
        total = weight = 0.0
        for first in range(0, len(batches), each):
            targets = np.concatenate(batches[first : first + each])
            optimizer.zero_grad()
            said, true = dense.logits()[targets], dense.labels[targets]
            loss = F.cross_entropy(said, true, weights, label_smoothing=config.label_smoothing)
            loss.backward()
            of_targets = len(targets) if weights is None else weights[true].sum().item()
            total, weight = total + loss.item() * of_targets, weight + of_targets
            if config.clip_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_(dense.weights.values(), config.clip_grad_norm)
            rate = optimizer.param_groups[0]["lr"]
            optimizer.step()
            if config.lr_schedule != "plateau":
                scheduler.step()
        rates.append(rate)
        losses.append(total / weight)
        if config.lr_schedule == "plateau":
            valid = layout.graph.valid_idx
            said = dense.logits()[np.array(valid)].argmax(dim=1)
            scheduler.step((said == dense.labels[np.array(valid)]).double().mean().item())
    return {name: weight.detach() for name, weight in dense.weights.items()}, rates, losses


@pytest.mark.cases(2)
@pytest.mark.parametrize(("world", "name"), [*((3, name) for name in RECIPES), (2, "all"), (4, "all")])
def test_weights_and_rates_are_those_of_one_process(pool, layouts, tmp_path, world, name):
    layout = layouts(world)
    config = config_for(layout.path, tmp_path / "run", **{**BASE, **RECIPES[name]})
    results = pool.run(world, train_in_trainer, config)
    wanted, rates, losses = learned_by_pytorch(layout, config, results[0]["before"])
    assert results[0]["after"].keys() == wanted.keys()
    for key, weight in wanted.items():
        torch.testing.assert_close(results[0]["after"][key], weight, rtol=0, atol=1e-8)
    assert all(all_equal(results[0]["after"], other["after"]) for other in results)
    assert [record["lr"] for record in records(tmp_path / "run")] == pytest.approx(rates, rel=1e-12)
    assert [record["loss"] for record in records(tmp_path / "run")] == pytest.approx(losses, rel=1e-8)
    assert len(set(rates)) > 1 or config.lr_schedule == "constant"


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("name", "after", "more"),
    [("all", 5, {}), ("plateau", 24, {}), ("sgd", 4, {"strategy": "data"}), ("weighted", 5, {})],
)
def test_what_goes_on_from_any_mini_batch_is_bit_equal(pool, layouts, tmp_path, name, after, more):
    changes = {**BASE, **RECIPES[name], **more}
    whole = pool.run(2, train_in_trainer, config_for(layouts(2).path, tmp_path / "whole", **changes))
    parts = pool.run(2, stopped_and_gone_on, config_for(layouts(2).path, tmp_path / "parts", **changes), after)
    assert all_equal(whole[0]["after"], parts[0]["after"])
    assert all_equal(whole[1]["after"], parts[1]["after"])
    rates = [[record["lr"] for record in records(tmp_path / run)] for run in ("whole", "parts")]
    assert rates[0] == rates[1]


def test_clipping_sees_the_rows_that_other_trainers_own(pool, tmp_path):
    """The norm is that of weights and trained features together, whoever owns the rows."""
    graph = replace(random_graph(60, 5, seed=4, features=6), features=None)
    changes = {
        **{"strategy": "full", "fan_out": (-1, -1), "batch_size": 512, "train_features": 6, "dtype": "float64"},
        **{"epochs": 4, "clip_grad_norm": 0.03, "optimizer": "sgd", "lr": 1.0},
    }
    results = {}
    for world in (1, 3):
        layout = lay_out(graph, tmp_path / str(world), parts=world)
        config = config_for(layout.path, tmp_path / f"run {world}", **changes)
        results[world] = pool.run(world, train_in_trainer, config)
    for name, weight in results[1][0]["after"].items():
        torch.testing.assert_close(results[3][0]["after"][name], weight, rtol=0, atol=1e-12)
    assert all(all_equal(results[3][0]["after"], other["after"]) for other in results[3])


@pytest.mark.cases(1)
@pytest.mark.parametrize("world", [1, 2, 3])
def test_a_run_ends_early_after_the_same_epoch_for_any_number_of_trainers(pool, layouts, tmp_path, capsys, world):
    changes = {**BASE, "epochs": 40, "early_stop": 3}
    result = pool.run(world, train_in_trainer, config_for(layouts(world).path, tmp_path / "run", **changes))[0]
    scores = [record["valid_accuracy"] for record in records(tmp_path / "run")]
    best = scores.index(max(scores))
    assert len(scores) == best + 1 + 3 < 40
    assert result["summary"]["epochs"] == len(scores)
    assert result["summary"]["best_epoch"] == best + 1
    again = config_for(layouts(world).path, tmp_path / "run", **changes)
    gone_on = pool.run(world, train_in_trainer, again, None, True)[0]
    assert gone_on["summary"]["epochs"] == len(scores)
    assert all_equal(gone_on["before"], gone_on["after"])


def resumable(config):
    """What ``Resumed.checked`` takes."""
    config, before = resume_config(config)
    return resolve(config), before


def test_a_run_with_samplers_ends_early_and_is_finished(layouts, tmp_path, capfd):
    """Trainers have asked for mini-batches of an epoch that does not come, and samplers are at work on them."""
    changes = {"epochs": 40, "early_stop": 1, "samplers": 2, "prefetch": 3, "lr": 1e-9, "order": "ready"}
    config = config_for(layouts(2).path, tmp_path / "run", **changes, log_every=1e-9)
    others = children_of(os.getpid())
    summary = gsplit.train(config=config)
    ended_s = (tmp_path / "run" / "metrics.jsonl").stat().st_mtime
    assert time.time() - ended_s < 10
    assert [each for each in children_of(os.getpid()) if each not in others] == []
    assert summary["ended_early"]
    assert summary["epochs"] == 2
    lines = capfd.readouterr().out.splitlines()  # which is no terminal
    says("\n".join(lines), "early, epoch 2, 1 validations")
    line = r"Epoch 0[12] \| mini-batch [1-4] of 4 \| loss \d\.\d{4} \| [\d,]+ targets/s \| \d\d:\d\d left"
    assert sum(re.fullmatch(line, said) is not None for said in lines) == 8
    asked = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**asked, "early_stop": 9}))  # asked for, and killed
    resumed = Resumed.checked(*resumable(TrainConfig.resuming(tmp_path / "run")))
    assert resumed.finished() is None
    (tmp_path / "run" / "config.json").write_text(json.dumps(asked))
    assert gsplit.train(config=TrainConfig.resuming(tmp_path / "run")) == summary
    says(capfd.readouterr().out, "2, --early-stop 1")


def test_weights_of_another_run_are_where_training_begins(here, layouts, tmp_path):
    first = config_for(layouts(2).path, tmp_path / "first", **BASE)
    gsplit.train(config=first)
    second = replace(first, out=tmp_path / "second", init_from=tmp_path / "first", epochs=0, seed=99)
    gsplit.train(config=second)
    kept = [checkpoint.load_state(tmp_path / name, checkpoint.MODEL) for name in ("first", "second")]
    assert all_equal(*kept)


def test_a_last_layer_for_other_classes_is_drawn_afresh_and_said(here, layouts, tmp_path, caplog):
    first = config_for(layouts(2).path, tmp_path / "first", **BASE)
    gsplit.train(config=first)
    classes = layouts(2).graph.num_classes
    other = lay_out(random_graph(60, 5, seed=9, features=5, classes=classes + 2), tmp_path / "other", parts=2)
    second = replace(first, layout=other.path, out=tmp_path / "second", init_from=tmp_path / "first", epochs=0)
    gsplit.train(config=second)
    says(caplog.text, f"convs.1.lin_self.weight, [{classes + 2}, 8], [{classes}, 8]")
    kept = [checkpoint.load_state(tmp_path / name, checkpoint.MODEL) for name in ("first", "second")]
    same = {name for name in kept[0] if kept[0][name].shape == kept[1][name].shape}
    assert same == {name for name in kept[0] if name.startswith("convs.0.")}
    assert all(torch.equal(kept[0][name], kept[1][name]) for name in same)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"model": "gcn"}, "--init-from, convs.0.bias"), ({"hidden": 4}, "convs.0.lin_self.weight, [8, 5], [4, 5]")],
)
def test_weights_of_another_model_are_refused(here, layouts, tmp_path, changes, message):
    gsplit.train(config=config_for(layouts(2).path, tmp_path / "first", epochs=0))
    config = config_for(layouts(2).path, tmp_path / "second", init_from=tmp_path / "first", **changes)
    with pytest.raises(InputError, match=line_with(message)):
        gsplit.train(config=config)
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"early_stop": 2, "evaluate": "none"}, "--early-stop, 2, --evaluate none"),
        ({"lr_schedule": "plateau", "validate_every": 0}, "--lr-schedule plateau, --validate-every, 0"),
        ({"init_from": "nowhere"}, "nowhere, model.json"),
        ({"lr_gamma": 1}, "--lr-gamma, 0, 1"),
        ({"momentum": 1}, "--momentum, 0, 1"),
        ({"accumulate": 0}, "--accumulate, 1, 0"),
        ({"clip_grad_norm": 0.0}, "--clip-grad-norm, 0, 0.0"),
        ({"optimizer": "lion"}, "--optimizer, adam, adamw, sgd, lion"),
    ],
)
def test_mistakes_get_one_line(layouts, tmp_path, changes, message):
    with pytest.raises(InputError, match=line_with(message)):
        gsplit.train(config=config_for(layouts(2).path, tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


def test_features_that_are_trained_get_the_gradient_of_the_weighted_mean(pool, tmp_path):
    """Their rows are in no all-reduce, and are divided by the weights of all targets all the same."""
    graph = replace(random_graph(60, 5, seed=4, features=6, classes=3), features=None)
    changes = {
        **{"strategy": "full", "fan_out": (-1, -1), "batch_size": 512, "train_features": 6, "dtype": "float64"},
        **{"epochs": 4, "optimizer": "sgd", "lr": 1.0, "class_weights": "1,7,0.1"},
    }
    results: dict[Any, Any] = {}
    for world in (1, 3):
        layout = lay_out(graph, tmp_path / str(world), parts=world)
        config = config_for(layout.path, tmp_path / f"run {world}", **changes)
        results[world] = pool.run(world, train_in_trainer, config)[0]
        scaled = replace(config, class_weights="10,70,1", out=tmp_path / f"scaled {world}")
        results[world, "scaled"] = pool.run(world, train_in_trainer, scaled)[0]
    for name, weight in results[1]["after"].items():
        for other in (3, (1, "scaled"), (3, "scaled")):
            torch.testing.assert_close(results[other]["after"][name], weight, rtol=0, atol=1e-12)


def test_early_stop_without_validation_vertices_is_refused(tmp_path):
    graph = replace(random_graph(40, 4, seed=1), valid_idx=np.empty(0, np.int64))
    layout = lay_out(graph, tmp_path, parts=2)
    with pytest.raises(InputError, match=line_with("--early-stop 1")):
        gsplit.train(config=config_for(layout.path, tmp_path / "run", early_stop=1))


def test_another_optimizer_cannot_go_on(here, layouts, tmp_path):
    config = config_for(layouts(2).path, tmp_path / "run", **BASE)
    gsplit.train(config=config)
    with pytest.raises(InputError, match=line_with("--optimizer, adam")):
        gsplit.train(config=TrainConfig.resuming(tmp_path / "run", epochs=9, optimizer="sgd"))


def test_settings_are_in_the_metrics(here, layouts, tmp_path):
    gsplit.train(config=config_for(layouts(2).path, tmp_path / "run", **{**BASE, **RECIPES["all"]}))
    settings = records(tmp_path / "run")[0]["settings"]
    assert {name: settings[name] for name in RECIPES["all"]} == RECIPES["all"]
    assert json.loads((tmp_path / "run" / "config.json").read_text())["accumulate"] == 2
    assert open_layout(layouts(2).path).parts == 2


def test_layers_that_rotate_learn_and_measure_the_same(pool, layouts, tmp_path):
    """Each target counts once, wherever its row lies."""
    changes = {
        **{"strategy": "full", "fan_out": (-1, -1), "batch_size": 512, "dtype": "float64", "model": "gcn"},
        **{"epochs": 3, "class_weights": "1,7,0.1", "label_smoothing": 0.1, "metrics": "accuracy,auroc"},
    }
    results, measured = {}, {}
    for world, algorithm in ((1, "shared"), (4, "shared"), (4, "rotate")):
        out = tmp_path / f"{algorithm}-{world}"
        config = config_for(layouts(world).path, out, **changes, algorithm=algorithm)
        results[world, algorithm] = pool.run(world, train_in_trainer, config)[0]["after"]
        measured[world, algorithm] = [
            [record[key] for key in ("loss", "train_accuracy", "train_auroc", "valid_auroc")]
            for record in records(out)
        ]
    for key in ((4, "shared"), (4, "rotate")):
        assert measured[key] == [pytest.approx(values, rel=1e-9) for values in measured[1, "shared"]]
        for name, weight in results[1, "shared"].items():
            torch.testing.assert_close(results[key][name], weight, rtol=0, atol=1e-8)
