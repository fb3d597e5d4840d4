"""A second engine plugs in: loop, launcher, checkpoints, metrics, evaluation and predictions do not know it."""

from __future__ import annotations

import json
from unittest import mock

import numpy as np
import pytest
import torch
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.runs import config_for, records, train_in_trainer

import gsplit
from gsplit import TrainConfig
from gsplit.data import open_layout
from gsplit.engine.objective import OBJECTIVES
from gsplit.engine.objectives.classification import MultiClass
from gsplit.errors import InputError
from gsplit.optim.optimizers import OPTIMIZERS

OTHER = "support.engines:Everything"


@pytest.fixture
def path(here, tmp_path):
    """The layout of a graph for two trainers."""
    return lay_out(random_graph(120, 5, seed=5), tmp_path, parts=2).path


def trained(layout, out, strategy, **changes):
    sizes = {"dtype": "float64", "fan_out": (-1, -1), "batch_size": 1000, "samplers": 0}
    config = config_for(layout, out, strategy=strategy, **{**sizes, **changes})
    gsplit.train(config=config)
    return [record["loss"] for record in records(out)]


def test_another_engine_learns_what_the_first_one_learns(path, tmp_path):
    """All targets, all neighbours: the gradient is the same however it is laid over the trainers (law 2)."""
    wanted = trained(path, tmp_path / "split", "split", epochs=4)
    other = tmp_path / "other"
    trained(path, other, OTHER, epochs=2)
    assert not any(record["traffic"]["exchange_forward_messages"] for record in records(other))
    gsplit.train(config=TrainConfig.resuming(other, epochs=4))
    assert [record["loss"] for record in records(other)] == pytest.approx(wanted, rel=1e-10)
    assert json.loads((other / "resolved.json").read_text())["strategy"] == OTHER
    logits = [
        gsplit.predict(run, path, out=tmp_path / f"{run.name}.npy", what="logits", device="cpu")
        for run in (tmp_path / "split", other)
    ]
    np.testing.assert_allclose(*logits, rtol=0, atol=1e-9)


def test_another_sampling_rule_trains_and_resumes(path, tmp_path):
    """All vertices start, each with its first two neighbours: all trainers together compute every such edge."""
    run = tmp_path / "run"
    trained(path, run, "support.engines:ByFirstNeighbours", epochs=1, batch_size=50)
    gsplit.train(config=TrainConfig.resuming(run, epochs=2))
    layout = open_layout(path)
    graph, ids = layout.graph, np.argsort(layout.permutation).tolist()
    edges = 0
    for begin in range(0, graph.num_vertices, 50):
        targets = set(ids[begin : begin + 50])
        for _ in range(2):
            drawn = [(u, v) for v in targets for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]][:2]]
            edges += len(drawn)
            targets |= {int(u) for u, _ in drawn}
    assert [record["traffic"]["computed_edges"] for record in records(run)] == [edges, edges]
    first, second = (record["loss"] for record in records(run))
    assert second < first


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("support.engines:Nothing", "--strategy support.engines:Nothing, resolve"),
        ("support.nowhere:Engine", "--strategy support.nowhere:Engine, support.nowhere"),
    ],
)
def test_what_is_no_engine_is_refused(path, tmp_path, strategy, message):
    with pytest.raises(InputError, match=line_with(message)):
        trained(path, tmp_path / "run", strategy)
    assert not (tmp_path / "run").exists()


class Doubled(MultiClass):
    """Twice the cross-entropy."""

    def losses(self, logits, labels):
        return 2 * super().losses(logits, labels)


def doubled_objective(loss, config, graph, placing):
    return Doubled()


class Halving(torch.optim.SGD):
    """Steps of half the rate."""

    def __init__(self, parameters, lr, weight_decay, momentum):
        super().__init__(parameters, lr=lr / 2, weight_decay=weight_decay)


def train_with(member, config, objectives, optimizers):
    with mock.patch.dict(OBJECTIVES, objectives), mock.patch.dict(OPTIMIZERS, optimizers):
        trained = train_in_trainer(member, config)
    return trained["after"], [record["loss"] for record in records(config.out)]


@pytest.mark.parametrize(
    ("strategy", "doubled", "halved", "times"),
    [
        ("split", False, False, 1),
        ("split", True, True, 2),  # half a step along twice the gradient
        ("support.engines:OnMirrors", False, False, 1),
    ],
    ids=["none", "objective and optimizer", "blocks"],
)
def test_others_of_each_kind_plug_in_by_one_entry(pool, tmp_path, strategy, doubled, halved, times):
    """Objectives and optimizers by an entry of their tables, blocks by the engine that makes them."""
    layout = lay_out(random_graph(120, 5, seed=5), tmp_path, parts=2).path
    sizes = {"dtype": "float64", "epochs": 2, "batch_size": 50, "optimizer": "sgd", "lr": 0.1}
    wanted = pool.run(2, train_with, config_for(layout, tmp_path / "wanted", **sizes), {}, {})
    found = pool.run(
        2,
        train_with,
        config_for(layout, tmp_path / "found", **sizes, strategy=strategy),
        {"classes": doubled_objective} if doubled else {},
        {"sgd": Halving} if halved else {},
    )
    for (after, losses), (wanted_after, wanted_losses) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(losses, times * np.array(wanted_losses), rtol=1e-9)
        for name, weights in wanted_after.items():
            torch.testing.assert_close(after[name], weights)
