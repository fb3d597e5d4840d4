"""What is NaN or infinite has no score, is kept as no model, is in no checkpoint, and is predicted only on request.

An argmax of NaN is the first class, so a broken model of rare classes looks like a good one.
"""

from __future__ import annotations

import csv
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import pool as pool_module
from support.graphs import lay_out, random_graph, regression_graph
from support.messages import line_with, says
from support.predictions import InPool
from support.runs import config_for, records, run_for, train_in_trainer, trainer_of

import gsplit
from gsplit.errors import InputError
from gsplit.runs import checkpoint
from gsplit.runs.kept import KeptWeights
from gsplit.train import epochs, loop
from gsplit.train.own_loop import train_by
from gsplit.train.summary import finish

GRAPHS = {
    "classes": random_graph(150, 6, seed=4),
    "labels": random_graph(150, 6, seed=4, multi_label=True),
    "regression": regression_graph(150, 6, seed=4),
}
METRICS = {
    "classes": (None, "accuracy,macro-f1,micro-f1,auroc,ap"),
    "labels": (None, "micro-f1,macro-f1,accuracy,auroc,ap"),
    "regression": (None, "mae,rmse"),
}
EXPLODES = {"lr": 1e30, "optimizer": "sgd"}
"""The first step makes weights so large that the next forward pass is infinite."""


@pytest.fixture(scope="module")
def layout_of(tmp_path_factory):
    folders = {task: tmp_path_factory.mktemp(task) for task in GRAPHS}
    return lambda task="classes": lay_out(GRAPHS[task], folders[task], parts=2)


def scores_of_broken(member, config):
    """Scores of validation vertices, and of training's logits, with one weight of the last layer not finite."""
    trainer = trainer_of(member, config)
    before = trainer.scores("valid")
    found = []
    for value in (float("nan"), float("inf")):
        weight = list(trainer.model.parameters())[-1]
        with torch.no_grad():
            kept = weight.flatten()[0].item()
            weight.view(-1)[0] = value
        after = trainer.scores("valid")
        said = next(trainer.feed)
        logits = said.logits(trainer.model)
        in_training = trainer.evaluator.scores_of([(logits.detach(), said.labels)]) if config.metrics else {}
        found.append((after, in_training))
        with torch.no_grad():
            weight.view(-1)[0] = kept
    trainer.close()
    return before, found


@pytest.mark.parametrize("evaluate", ["exact", "sampled"])
@pytest.mark.parametrize(
    ("task", "metrics"), [(task, metrics) for task, several in METRICS.items() for metrics in several]
)
def test_no_metric_scores_logits_that_are_not_finite(pool, layout_of, tmp_path, task, metrics, evaluate):
    config = config_for(layout_of(task).path, tmp_path / "run", metrics=metrics, evaluate=evaluate)
    for before, found in pool.run(2, scores_of_broken, config):
        assert all(value is not None for value in before.values())
        for after, in_training in found:
            assert after == dict.fromkeys(before)
            assert in_training == (dict.fromkeys(before) if metrics else {})


def ended_with(member, config, resume=False, own_loop=None):
    """The one line with which a run ends, or its summary."""
    try:
        if own_loop is None:
            result = train_in_trainer(member, config, resume=resume)
            return result["summary"]
        trainer = loop.ready(member, run_for(config, member.world), pool_module.SHARED)
        train_by(trainer, pickle.dumps(own_loop))
        return finish(trainer)
    except InputError as error:
        return str(error)


def of_run(run):
    """What a run has kept: epoch and score of the model, epoch of the checkpoint; all of it finite."""
    seen = []
    for name in (checkpoint.MODEL, checkpoint.CHECKPOINT):
        try:
            state = checkpoint.load_state(run, name)
        except InputError:
            seen.append(None)
            continue
        weights = state if name == checkpoint.MODEL else state["model"]
        assert all(weight.isfinite().all() for weight in weights.values())
        about = checkpoint.describe_state(run, name)
        seen.append((about["epoch"], about.get("score") is not None))
    return seen


def begun(pool, layout_of, out, **changes):
    """A run of two epochs that learn, and the configuration that goes on with it."""
    config = config_for(layout_of().path, out, optimizer="sgd", **changes)
    pool.run(2, train_in_trainer, config)
    return replace(config, epochs=4, **EXPLODES)


@pytest.mark.parametrize("validate_every", [1, 0])
def test_a_run_ends_with_the_epoch_that_is_not_finite(pool, layout_of, tmp_path, validate_every):
    run = tmp_path / "run"
    config = begun(pool, layout_of, run, validate_every=validate_every)
    first, second = pool.run(2, ended_with, config, True)
    assert first == second
    says(first, f"mini-batch 2 of 2 of epoch 3, loss, convs.*, epoch 2, --resume {run}")
    epochs = records(run)
    assert [record["loss"] is None for record in epochs] == [False, False, True]
    assert epochs[-1]["valid_accuracy"] is None
    (model_epoch, scored), kept = of_run(run)
    assert scored == bool(validate_every)
    assert (model_epoch <= 2) if validate_every else (model_epoch == 2)
    assert kept is not None
    assert kept[0] == 2
    says(first, f"model of epoch {model_epoch}, {'best' if validate_every else 'last'}")


def test_a_run_ends_before_the_step_of_the_mini_batch_where_that_is_asked_for(pool, layout_of, tmp_path):
    config = replace(begun(pool, layout_of, tmp_path / "run"), stop_on_nan="batch")
    first, second = pool.run(2, ended_with, config, True)
    assert first == second
    says(first, "mini-batch 2 of 2 of epoch 3, layer convs.*")


def test_a_run_that_is_never_ended_keeps_the_last_finite_model(pool, layout_of, tmp_path):
    config = replace(begun(pool, layout_of, tmp_path / "run"), stop_on_nan="never")
    config = replace(config, checkpoint_every_batches=2)
    summary, _ = pool.run(2, ended_with, config, True)
    assert summary["epochs"] == 4
    assert summary["loss"] is None
    assert summary["best_epoch"] in (1, 2)
    assert summary["test_accuracy"] is not None
    (model_epoch, scored), kept = of_run(tmp_path / "run")
    assert (model_epoch, scored, kept[0]) == (summary["best_epoch"], True, 2)


def test_a_loss_that_is_not_finite_stays_json(pool, layout_of, tmp_path):
    config = replace(begun(pool, layout_of, tmp_path / "run"), stop_on_nan="never")
    pool.run(2, ended_with, config, True)
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    lines = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    assert lines[-1]["loss"] is None


def test_an_older_checkpoint_with_nan_for_the_best_is_not_believed(tmp_path):
    best = {"score": 0.94, "scores": {}, "epoch": 2, "batch": None, "model": {"w": torch.full((2,), torch.nan)}}
    state = {"best": best, "validated": 2, "waited": 0, "progress": {"epoch": 2}}
    for weight, kept_one in ((torch.nan, False), (-torch.inf, True)):  # a mask may be infinite on purpose
        best["model"] = {"w": torch.tensor([1.0, weight])}
        kept = KeptWeights(tmp_path, {}, writes=False)
        kept.restore(state, [], "valid_accuracy")
        assert (kept.best is not None) == kept_one


def test_where_nothing_was_finite_nothing_is_kept(pool, layout_of, tmp_path):
    config = config_for(layout_of().path, tmp_path / "run", stop_on_nan="never", evaluate="none", **EXPLODES)
    first, _ = pool.run(2, ended_with, config)
    says(first, "epoch 2, weights")
    assert of_run(tmp_path / "run") == [None, None]


def plain(run):
    for batch in run:
        run.backward(F.cross_entropy(run.model(batch.blocks, batch.x), batch.labels, reduction="sum"))
        run.step()


@pytest.mark.parametrize(("stops", "message"), [("epoch", "had a loss that is"), ("batch", "the layer convs.")])
def test_loops_of_ones_own_end_alike(pool, layout_of, tmp_path, stops, message):
    config = config_for(layout_of().path, tmp_path / "run", stop_on_nan=stops, **EXPLODES)
    first, second = pool.run(2, ended_with, config, False, plain)
    assert first == second
    assert message in first


HUGE = 3e38
"""The largest features of float32 have sums that it cannot hold."""
BROKEN = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("partly")


@pytest.fixture
def partly(pool, folder):
    """Of a task: a run without an epoch, and a layout where one vertex has huge features; made once."""

    def made(task):
        place = folder / task
        place.mkdir(exist_ok=True)
        features = GRAPHS[task].features.copy()
        features[BROKEN] = HUGE
        layout = lay_out(replace(GRAPHS[task], features=features), place, parts=2)
        config = config_for(layout.path, place / "run", epochs=0, evaluate="none")
        if not config.out.exists():
            config.out.mkdir()
            (config.out / "config.json").write_text(config.to_json())
            pool.run(2, train_in_trainer, config)
        return config.out, layout

    return made


@pytest.mark.parametrize(
    ("task", "what", "missing"),
    [
        ("classes", "classes", -1),
        ("classes", "logits", np.nan),
        ("classes", "probabilities", np.nan),
        ("classes", "embeddings", np.nan),
        ("labels", "classes", 255),
        ("regression", "values", np.nan),
    ],
)
def test_predictions_that_are_not_finite_are_refused_or_missing(
    pool, partly, tmp_path, monkeypatch, task, what, missing
):
    monkeypatch.setattr("gsplit.predict.api.start", InPool(pool))
    run, layout = partly(task)
    out = tmp_path / "out.csv"
    with pytest.raises(InputError, match=line_with("# of the 150, first #, --allow-nan")):
        gsplit.predict(run, layout.path, what=what, device="cpu", out=out)
    assert list(tmp_path.iterdir()) == []
    values = gsplit.predict(run, layout.path, what=what, device="cpu", out=out, allow_nan=True)
    rows = values.reshape(len(values), -1)
    gone = np.isnan(rows) if np.isnan(missing) else rows == missing
    assert (gone.any(axis=1) == gone.all(axis=1)).all()
    assert 0 < gone[:, 0].sum() < 150
    with out.open(newline="") as file:
        _, *lines = csv.reader(file)
    assert [all(field == "" for field in line[1:]) for line in lines] == gone[:, 0].tolist()
    whole = np.flatnonzero(~gone[:, 0])
    alone = gsplit.predict(run, layout.path, what=what, device="cpu", vertices=whole)
    assert np.allclose(alone, values[whole], rtol=1e-4)


def validated_with(member, config, name, value):
    """Scores of validation vertices, and whether weights are kept, with values of one tensor of the model changed."""
    trainer = trainer_of(member, config)
    with torch.no_grad():
        dict([*trainer.model.named_parameters(), *trainer.model.named_buffers()])[name].fill_(value)
    logits = trainer.scores("valid")["accuracy"]
    scores = epochs.validate(trainer, 1)
    trainer.close()
    return logits is not None, scores, trainer.kept.best is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("convs.0.lin_self.bias", -float("inf")),  # a ReLU makes 0 of it
        ("norms.0.running_var", float("inf")),  # rows are divided by its root
        ("convs.0.lin_self.bias", 0.0),
        ("norms.0.running_var", 1e-30),
    ],
)
def test_infinite_weights_that_give_finite_logits_have_no_score(pool, layout_of, tmp_path, name, value):
    norm = "batch" if name.startswith("norms") else "none"
    config = config_for(layout_of().path, tmp_path / "run", norm=norm)
    finite = bool(np.isfinite(value))
    for looks_finite, scores, kept in pool.run(2, validated_with, config, name, value):
        assert looks_finite
        assert (scores["accuracy"] is not None, kept) == (finite, finite)


def test_statistics_of_a_norm_that_overflow_end_a_run_and_are_kept_nowhere(pool, tmp_path):
    """Squares of 1e30 are infinite in float32; divided by them, rows are 0, and logits finite."""
    graph = replace(GRAPHS["classes"], features=np.full_like(GRAPHS["classes"].features, 1e30))
    layout = lay_out(graph, tmp_path, parts=2)
    config = config_for(layout.path, tmp_path / "run", norm="batch", dtype="float32")
    first, _ = pool.run(2, ended_with, config)
    says(first, "norms.0.running_var")
    assert of_run(tmp_path / "run") == [None, None]
