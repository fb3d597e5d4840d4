"""Whole runs by every sampling rule: bit-equal for any samplers, gone on with, and what an epoch loads."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.messages import says
from support.runs import all_equal, config_for, records, stopped_and_gone_on, train_in_trainer

import gsplit
from gsplit.errors import InputError
from gsplit.runs import checkpoint
from gsplit.sampling import Saint

NONE = {"fan_out": (-1, -1)}
RULES = {
    "ladies": {"sampling": "ladies", "layer_sizes": (30, 40), **NONE},
    "fastgcn": {"sampling": "fastgcn", "layer_sizes": (60, 60), "estimate": "unbiased", **NONE},
    "uniform": {"sampling": "uniform", "subgraph": "17%", "num_layers": 2, "batch_size": 512, **NONE},
    "fresh": {
        "sampling": "uniform",
        "subgraph": "17%",
        "fresh": True,
        "estimate": "unbiased",
        "num_layers": 2,
        "batch_size": 512,
        **NONE,
    },
    "saint": {
        "sampling": "saint",
        "subgraph": "17%",
        "estimate": "unbiased",
        "num_layers": 2,
        "batch_size": 512,
        **NONE,
    },
    "clusters": {"sampling": "clusters", "clusters": 1, "num_layers": 2, "batch_size": 512, **NONE},
}


def trained(layout, run, rule, **changes):
    config = config_for(layout, run, **{"dropout": 0.3, **RULES[rule], **changes})
    summary = gsplit.train(config=config)
    return {
        "losses": [record["loss"] for record in records(run)],
        "traffic": summary["traffic"],
        "model": checkpoint.describe_state(run, checkpoint.MODEL)["sha256"],
    }


@pytest.mark.parametrize("rule", ["ladies", "saint", pytest.param("fresh", marks=pytest.mark.slow)])
def test_runs_are_bit_equal_with_samplers_and_without(layouts, tmp_path, in_pool, rule):
    path = layouts(2).path
    with in_pool():
        without = trained(path, tmp_path / "0", rule, samplers=0)
    assert all(np.isfinite(without["losses"]))
    changes = {"samplers": 2, "sampler_memory": "0", "sampler_threads": 2, "bulk": "2"}
    assert trained(path, tmp_path / "2", rule, **changes) == without


@pytest.mark.parametrize("weights", [None, "balanced"])
def test_thirds_of_what_losses_are_divided_by_are_added_up_in_the_type_of_the_model(tmp_path, in_pool, weights):
    layout, losses = lay_out(random_graph(200), tmp_path, parts=3), []
    assert len(layout.graph.train_idx) % 3
    flags = {"samplers": 0, "dropout": 0.0, "dtype": "float64", "class_weights": weights}
    with in_pool():
        for gpus in (1, 3):
            losses.append(trained(layout.path, tmp_path / f"{gpus}", "saint", gpus=gpus, **flags)["losses"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)


def test_weights_make_masses_and_travel_by_edge_ids(weighted_layouts, layouts, tmp_path, in_pool):
    changes = {"model": "gcn", "samplers": 0}
    with in_pool():
        weighted = trained(weighted_layouts(2).path, tmp_path / "weighted", "ladies", **changes)
        plain = trained(layouts(2).path, tmp_path / "plain", "ladies", **changes)
        sage = [
            trained(of(2).path, tmp_path / f"sage-{i}", "ladies", samplers=0)
            for i, of in enumerate((weighted_layouts, layouts))
        ]
    assert weighted["traffic"]["sampled_edges"] != plain["traffic"]["sampled_edges"]
    assert sage[0]["traffic"]["sampled_edges"] == sage[1]["traffic"]["sampled_edges"]  # takes no weights


@pytest.mark.parametrize(
    "changes", [{"gpus": world} for world in (1, 2, 3, 4)] + [{"gpus": 4, "split_group": 2}], ids=str
)
def test_subgraphs_load_every_row_once_an_epoch(layouts, tmp_path, in_pool, changes):
    layout = layouts(changes["gpus"])
    with in_pool():
        run = trained(layout.path, tmp_path / "run", "uniform", samplers=0, epochs=3, **changes)
    assert run["traffic"]["host_rows"] == 3 * layout.graph.num_vertices


@pytest.mark.cases(2)
@pytest.mark.parametrize("rule", RULES)
def test_stopped_in_mid_epoch_and_gone_on_with_is_bit_identical(pool, layouts, tmp_path, rule):
    changes = {"dropout": 0.3, **RULES[rule]}
    whole = pool.run(3, train_in_trainer, config_for(layouts(3).path, tmp_path / "whole", **changes))
    parts = pool.run(3, stopped_and_gone_on, config_for(layouts(3).path, tmp_path / "parts", **changes), 4)
    for ours, theirs in zip(parts, whole, strict=True):
        assert all_equal(ours["after"], theirs["after"])


def test_steps_without_a_training_vertex_change_nothing(tmp_path, in_pool):
    graph = random_graph(60, 4, seed=1)
    layout = lay_out(replace(graph, train_idx=graph.train_idx[:2]), tmp_path / "few", parts=2)
    with in_pool():
        config = config_for(layout.path, tmp_path / "run", **{**RULES["uniform"], "subgraph": "30", "epochs": 6})
        gsplit.train(config=config)
    batches = records(tmp_path / "run", "mini-batch")
    assert any(batch["targets"] == 0 for batch in batches)
    assert all(batch["loss"] == 0 for batch in batches if batch["targets"] == 0)
    assert all(np.isfinite(record["loss"]) for record in records(tmp_path / "run"))


@pytest.mark.parametrize("weights", [None, "2,3,7"])
def test_losses_of_drawn_targets_are_a_ratio_or_unbiased(tmp_path, in_pool, weights):
    graph = random_graph(120, 0, seed=1)  # no edges, so that logits are the same by either estimate
    layout = lay_out(graph, tmp_path / "none", parts=4)
    losses = {}
    for estimate in ("ratio", "unbiased"):
        changes = {**RULES["saint"], "estimate": estimate, "split_group": 2, "lr": 1e-12, "samplers": 0}
        changes["class_weights"] = weights
        with in_pool():
            gsplit.train(config=config_for(layout.path, tmp_path / estimate, **changes))
        of_all = records(tmp_path / estimate, "mini-batch")
        losses[estimate] = [batch["loss"] for batch in of_all if batch["trainer"] == 0]
    rule = Saint(subgraph="17%", layers=2)
    plan = rule.plan(layout, batch_size=1, seed=records(tmp_path / "ratio")[0]["settings"]["seed"], micro_batches=2)
    batches = [plan.micro_batches(epoch, batch) for epoch in range(2) for batch in range(3)]
    chances = -np.expm1(-20 / 120)  # all masses are alike
    of_class = np.ones(3) if weights is None else np.array([2.0, 3.0, 7.0])
    of_all = of_class[graph.labels[graph.train_idx]].sum()
    shares = []
    for both in batches:
        labels = layout.graph.labels[np.concatenate(both)]
        shares.append(of_class[labels].sum() / chances / (2 * of_all))
    assert len(losses["ratio"]) == len(shares)
    assert min(losses["ratio"]) > 0
    wanted = [loss * share for loss, share in zip(losses["ratio"], shares, strict=True)]
    assert losses["unbiased"] == pytest.approx(wanted, rel=1e-4)


def test_a_run_goes_on_by_another_rule_with_as_many_layers(layouts, tmp_path, in_pool):
    path = layouts(2).path
    with in_pool():
        trained(path, tmp_path / "run", "ladies", samplers=0, epochs=1)
        rule = {"sampling": "uniform", "subgraph": "50%"}
        summary = gsplit.train(config=gsplit.TrainConfig.resuming(tmp_path / "run", epochs=2, **rule))
        assert summary["epochs"] == 2
        rule = {"sampling": "neighbours", "fan_out": (3, 3)}
        summary = gsplit.train(config=gsplit.TrainConfig.resuming(tmp_path / "run", epochs=3, **rule))
    assert summary["epochs"] == 3
    settings = [record["settings"] for record in records(tmp_path / "run")]
    assert [each["sampling"] for each in settings] == ["ladies", "uniform", "neighbours"]


def test_a_prediction_says_that_its_neighbours_are_not_what_the_run_sampled(layouts, tmp_path, in_pool, caplog):
    path = layouts(2).path
    with in_pool():
        trained(path, tmp_path / "run", "ladies", samplers=0, epochs=1)
    with pytest.raises(InputError, match="nowhere"):  # nothing has started yet
        gsplit.predict(tmp_path / "run", path, vertices=tmp_path / "nowhere.npy", fan_out=(3, 3))
    says(caplog.text, "--sampling ladies, --fan-out")


def warnings_of(member, config):
    with mock.patch("gsplit.train.epochs.logger.warning") as warning:
        train_in_trainer(member, config)
    return [call.args[0] % call.args[1:] for call in warning.call_args_list]


def test_an_epoch_without_a_training_vertex_is_said(tmp_path, pool):
    n = 60  # one training vertex, which is a source of nobody, beside one that is of all
    graph = random_graph(n, 0, seed=1)
    indptr = np.concatenate([[0, 0], np.arange(1, n)])
    graph = replace(graph, indptr=indptr, indices=np.ones(n - 1, graph.indices.dtype), train_idx=np.array([2]))
    layout = lay_out(graph, tmp_path / "star", parts=2)
    changes = {**RULES["saint"], "subgraph": "1", "epochs": 1, "importance": "counts", "estimate": "ratio"}
    (said,), nothing = pool.run(2, warnings_of, config_for(layout.path, tmp_path / "run", **changes))
    says(said, "epoch 1, training vertex")
    assert nothing == []
    assert records(tmp_path / "run")[0]["loss"] is None
