"""Metrics of whole runs: scikit-learn's of the predictions, for any number of trainers and any strategy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.runs import config_for, records, train_in_trainer

import gsplit
from gsplit import TrainConfig
from gsplit.errors import InputError

ALL = "macro-f1,accuracy,auroc,ap,micro-f1"
FULL = {"strategy": "full", "fan_out": (-1, -1), "batch_size": 512}


def by_sklearn(logits, labels):
    """The metrics of ``ALL``, by their keys in files."""
    said = logits.argmax(axis=1)
    shares = torch.from_numpy(logits).softmax(dim=1).numpy()
    return {
        "macro_f1": metrics.f1_score(labels, said, average="macro"),
        "accuracy": metrics.accuracy_score(labels, said),
        "auroc": metrics.roc_auc_score(labels, shares, multi_class="ovr"),
        "ap": metrics.average_precision_score(np.eye(3)[labels], shares, average="macro"),
        "micro_f1": metrics.f1_score(labels, said, average="micro"),
    }


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("world", "changes"),
    [(1, {}), (2, {}), (4, {}), (3, FULL), (2, {"model": "torch_geometric.nn:GraphSAGE", "strategy": "data"})],
)
def test_scores_are_those_of_all_logits(pool, layouts, tmp_path, world, changes):
    config = config_for(layouts(world).path, tmp_path / "run", dtype="float64", metrics=ALL, epochs=3, **changes)
    result = pool.run(world, train_in_trainer, config)[0]
    graph, order = layouts(world).graph, layouts(world).permutation
    last = records(tmp_path / "run")[-1]
    valid = by_sklearn(result["logits"][order[graph.valid_idx]], graph.labels[graph.valid_idx])
    assert {key: last[f"valid_{key}"] for key in valid} == pytest.approx(valid, abs=1e-12)
    summary = result["summary"]
    assert summary["metrics"] == list(valid)
    best = max(records(tmp_path / "run"), key=lambda record: record["valid_macro_f1"])
    assert summary["best_epoch"] == best["epoch"]
    assert {key: summary[f"valid_{key}"] for key in valid} == {key: best[f"valid_{key}"] for key in valid}
    assert all(0 < summary[f"test_{key}"] <= 1 for key in valid)


@pytest.mark.parametrize("world", [1, 3])
def test_scores_of_training_are_those_of_the_mini_batches_own_logits(pool, layouts, tmp_path, world):
    """Rates of almost 0 and no dropout: the model says of all mini-batches what it says at the end."""
    changes = {**FULL, "lr": 1e-300, "dtype": "float64", "metrics": ALL, "epochs": 2}
    for name, more in (("whole", {}), ("sampled", {"strategy": "split", "batch_size": 40})):
        config = config_for(layouts(world).path, tmp_path / name, **{**changes, **more})
        result = pool.run(world, train_in_trainer, config)[0]
        graph, order = layouts(world).graph, layouts(world).permutation
        wanted = by_sklearn(result["logits"][order[graph.train_idx]], graph.labels[graph.train_idx])
        for record in records(tmp_path / name):
            assert {key: record[f"train_{key}"] for key in wanted} == pytest.approx(wanted, abs=1e-12)


def test_several_labels_on_three_trainers(pool, tmp_path):
    graph = random_graph(80, 6, seed=2, classes=4, multi_label=True)
    layout = lay_out(graph, tmp_path, parts=3)
    config = config_for(layout.path, tmp_path / "run", metrics="ap,accuracy", dtype="float64")
    result = pool.run(3, train_in_trainer, config)[0]
    logits, labels = result["logits"][graph.valid_idx], graph.labels[graph.valid_idx]
    last = records(tmp_path / "run")[-1]
    assert last["valid_ap"] == pytest.approx(metrics.average_precision_score(labels, logits), abs=1e-12)
    assert last["valid_accuracy"] == pytest.approx(metrics.accuracy_score(labels, logits > 0), abs=1e-12)
    assert 0 < last["train_ap"] < 1


def test_a_first_metric_that_is_not_defined_is_refused(pool, tmp_path):
    graph = random_graph(60, 5, seed=2)
    graph.labels[graph.valid_idx] = 1
    layout = lay_out(graph, tmp_path, parts=2)
    with pytest.raises(InputError, match=line_with("auroc, --metrics")):
        gsplit.train(config=config_for(layout.path, tmp_path / "run", metrics="auroc,accuracy"))
    assert not (tmp_path / "run").exists()
    second = config_for(layout.path, tmp_path / "second", metrics="accuracy,auroc")
    pool.run(2, train_in_trainer, second)
    assert records(tmp_path / "second")[-1]["valid_auroc"] is None


def test_what_chooses_the_best_model_cannot_change(here, layouts, tmp_path):
    gsplit.train(config=config_for(layouts(2).path, tmp_path / "run", metrics="ap,accuracy"))
    with pytest.raises(InputError, match=line_with("--metrics, ap")):
        gsplit.train(config=TrainConfig.resuming(tmp_path / "run", epochs=3, metrics="accuracy,ap"))
    summary = gsplit.train(config=TrainConfig.resuming(tmp_path / "run", epochs=3, metrics="ap"))
    assert summary["metrics"] == ["ap"]
    gsplit.train(config=config_for(layouts(2).path, tmp_path / "plain"))
    summary = gsplit.train(config=TrainConfig.resuming(tmp_path / "plain", epochs=3, metrics="accuracy,ap"))
    assert summary["metrics"] == ["accuracy", "ap"]  # accuracy is what it was chosen by


def test_a_run_that_goes_on_in_mid_epoch_does_not_make_up_what_it_did_not_see(pool, layouts, tmp_path):
    config = config_for(layouts(2).path, tmp_path / "run", metrics="accuracy", epochs=2, checkpoint_every_batches=2)
    pool.run(2, stopped, config)
    pool.run(2, train_in_trainer, config, None, True)
    first, second = records(tmp_path / "run")
    assert first["train_accuracy"] is None
    assert 0 < second["train_accuracy"] < 1


def stopped(member, config):
    from support.runs import trainer_of

    from gsplit.train import loop

    trainer = trainer_of(member, config)
    feed = trainer.feed
    trainer.feed = (next(feed) for _ in range(2))
    assert not loop.train(trainer)
