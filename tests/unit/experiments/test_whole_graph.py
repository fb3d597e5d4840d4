"""PyG and DGL on the whole graph train what ours trains; rounds, failures and ratios of ``--systems``."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.dense import Dense
from support.libraries import HAS_DGL

from experiments.baselines import whole_graph
from experiments.baselines.whole_graph import FORMS, Epochs, Task
from experiments.full_graph import __main__ as full_graph
from experiments.full_graph import accuracy, epochs
from experiments.full_graph.epochs import Plan, differing, measure_all, our_command, ratio_rows
from experiments.shared.datasets import dealt_layout, store_of
from experiments.shared.processes import MEMORY, RunFailed
from gsplit.config.train import TrainConfig
from gsplit.data import open_layout, open_store
from gsplit.errors import InputError
from gsplit.launch.resolve import resolve
from gsplit.train.api import train

TASK = Task(store="", model="gcn", hidden=6, layers=2, epochs=4, lr=0.05, seed=3)
INSTALLED = [form for form in FORMS if form != "dgl" or HAS_DGL]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with a store of a small graph."""
    work = tmp_path_factory.mktemp("work")
    return work, store_of("synthetic:tiny", data=work, work=work)


def config_of(task: Task, **changes) -> TrainConfig:
    """The run of ours that trains a task in one mini-batch."""
    settings = {"hidden": task.hidden, "epochs": task.epochs, "lr": task.lr, "seed": task.seed, **changes}
    every = {"fan_out": (-1,) * task.layers, "batch_size": 10**6, "samplers": 0}
    return TrainConfig(model=task.model, dropout=0.0, checkpoint_every=0, device="cpu", **every, **settings)


@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_libraries_train_the_same(tiny, model):
    """The first loss is that of dense algebra with the weights that ours begins with; then the libraries agree."""
    task = replace(TASK, store=str(tiny[1]), model=model)
    graph = open_store(tiny[1]).graph
    convs = whole_graph.initial_convs(task, graph.num_features, graph.num_classes)
    state = {f"convs.{i}.{name}": value for i, conv in enumerate(convs) for name, value in conv.state_dict().items()}
    with torch.no_grad():
        logits = torch.from_numpy(Dense(config_of(task), state, graph).levels()[task.layers])
    targets = torch.tensor(graph.train_idx)
    first = F.cross_entropy(logits[targets], torch.tensor(graph.labels)[targets]).item()
    losses = [whole_graph.train(replace(task, form=form)).losses for form in INSTALLED]
    for found in losses:
        assert len(found) == task.epochs
        assert found[0] == pytest.approx(first, rel=1e-5)
        assert found == pytest.approx(losses[0], rel=1e-4)  # float32, in other orders, through four steps


@pytest.mark.parametrize("model", ["gcn", pytest.param("sage", marks=pytest.mark.slow)])
def test_ours_trains_the_same(tiny, model):
    work, store = tiny
    task = replace(TASK, store=str(store), model=model)
    config = config_of(task, out=work / f"run-{model}")
    train(dealt_layout(store, work, 1, 0), config)
    losses = [line["loss"] for line in records(config.out)]
    assert losses == pytest.approx(whole_graph.train(replace(task, form="pyg-edge-index")).losses, rel=1e-4)


def records(run):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == "epoch"]


def test_a_task_goes_through_its_folder(tiny, tmp_path):
    task = replace(TASK, store=str(tiny[1]), form="pyg-csr", epochs=2)
    task.write(tmp_path)
    assert Task.read(tmp_path) == task
    whole_graph.main(tmp_path)
    assert len(Epochs.read(tmp_path).losses) == 2


def test_every_parameter_moves(tiny):
    for form in INSTALLED:
        torch.manual_seed(0)
        stored = whole_graph.StoredGraph(tiny[1])
        net = whole_graph.net_of(replace(TASK, form=form), stored)
        net(stored.all_rows()).square().sum().backward()
        assert len(list(net.parameters())) == 4
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())


def plan(tmp_path, rounds=3):
    return Plan(dataset="tiny", task=TASK, rounds=rounds, work=tmp_path, data=tmp_path, limit_s=1.0)


SECONDS = {"full": 1.0, "pyg-csr": 3.0, "dgl": 2.0}


def faked(order, *, losses=None, broken=None):
    def run(system, plan, *, memory, epochs=None):
        order.append((system, memory, epochs))
        if system == broken:
            raise RunFailed("exit code 1: error: no")
        slow = 2.0 if memory == "as it comes" and system in FORMS else 1.0
        count = epochs or 4
        return Epochs(
            seconds=[100.0, 100.0] + [slow * SECONDS[system]] * (count - 2),
            losses=(losses or {}).get(system, [1.0, 0.5, 0.4, 0.3, 0.2])[:count],
        )

    return run


def test_rounds_go_in_turn_and_ratios_are_of_one_round(tmp_path, monkeypatch):
    ticks = iter([1.0] * 3 + [2.0] * 3 + [1.0] * 3)
    monkeypatch.setattr(epochs, "calibrate", lambda: next(ticks))
    order = []
    found = measure_all(plan(tmp_path), list(SECONDS), faked(order))
    trials, runs = order[:5], order[5:]
    assert trials == [
        ("full", "as it comes", 7),
        *[("pyg-csr", way, 7) for way in MEMORY],
        *[("dgl", way, 7) for way in MEMORY],
    ]
    assert found.memory == {"full": "as it comes", "pyg-csr": "kept", "dgl": "kept"}
    assert [system for system, _, _ in runs] == [
        *("full", "pyg-csr", "dgl"),
        *("pyg-csr", "dgl", "full"),
        *("dgl", "full", "pyg-csr"),
    ]
    rows = ratio_rows(found, "full")
    assert [(row["system"], row["ratio"], row["rounds"], row["quiet_rounds"]) for row in rows] == [
        ("pyg-csr", 3.0, 3, 2),
        ("dgl", 2.0, 3, 2),
    ]


def test_who_fails_or_trains_something_else_is_out(tmp_path, monkeypatch):
    monkeypatch.setattr(epochs, "calibrate", lambda: 1.0)
    other = {"dgl": [1.0, 0.5, 0.41, 0.3, 0.2]}
    found = measure_all(plan(tmp_path, rounds=1), list(SECONDS), faked([], losses=other, broken="pyg-csr"))
    assert found.failures == {"pyg-csr": "exit code 1: error: no", "dgl": "loss of epoch 3 is 0.41, not 0.4"}
    assert list(found.rounds[0]) == ["full"]
    assert ratio_rows(found, "full") == []


def test_losses_that_differ():
    assert differing([1.0, 0.5], [1.001, 0.5001]) is None
    assert differing([1.0, 0.5], [1.0, 0.6]) == 2
    assert differing([0.5] * 9, [0.5] * 5 + [9.0] * 4) is None  # only the first are compared
    assert differing([0.5, 0.5], [0.5, float("nan")]) == 2
    assert differing([0.5, 0.5], [0.5]) == 2
    assert differing([], []) == 1


def test_our_command_says_what_the_task_says(tmp_path):
    layout = tmp_path / "layout"
    for system, trainers in (("full", "2"), ("full-1", "1"), ("split", "2")):
        words = our_command(system, TASK, layout, tmp_path)
        flags = dict(zip(words[5::2], words[6::2], strict=True))
        assert words[1:5] == ["-m", "gsplit", "train", str(layout)]
        assert (flags["--gpus"], flags["--threads"], flags["--hidden"], flags["--seed"]) == (trainers, "1", "6", "3")
        assert flags["--strategy"] == ("split" if system == "split" else "full")
        assert flags.get("--num-layers", "2") == "2"
        assert flags.get("--fan-out", "-1,-1") == "-1,-1"


def test_stores_and_layouts_are_made_once(tiny):
    work, store = tiny
    layout = dealt_layout(store, work, 2, 0)
    made = (layout / "layout.json").stat().st_mtime_ns
    assert dealt_layout(store, work, 2, 0) == layout
    assert (layout / "layout.json").stat().st_mtime_ns == made
    assert open_layout(layout).description["method"] == "deal"
    assert open_store(store).graph.features.dtype == np.float32
    with pytest.raises(InputError, match="no nothing"):
        store_of("nothing", data=work, work=work)


@pytest.mark.parametrize("strategy", ["full", "split"])
def test_recipes_of_accuracy_can_be_trained(tiny, strategy):
    work, store = tiny
    config = replace(accuracy.recipe_of("gcn", strategy, 3), layout=dealt_layout(store, work, 2, 0), out=work / "run")
    assert resolve(config).config.epochs == 3


def test_rows_of_accuracy():
    row = accuracy.row_of("gcn", "cora", [0.8, 0.82], [0.78, 0.82])
    assert (row["gsplit_mean"], row["pyg_mean"]) == (pytest.approx(0.81), pytest.approx(0.80))
    assert row["apart"] == pytest.approx(0.01 / row["pyg_stdev"])
    assert accuracy.row_of("gcn", "cora", [0.8], [0.8])["apart"] is None


def test_the_exit_code_says_that_a_system_did_not_run(monkeypatch, capsys):
    def measured(plan, systems):
        assert (plan.dataset, plan.rounds, list(systems)) == ("synthetic:tiny", 2, ["full", "dgl"])
        return {
            "ratios": [],
            "losses": [],
            "not_run": [{"system": "dgl", "reason": "it is not here"}],
            "settings": [],
        }

    monkeypatch.setattr(epochs, "measure", measured)
    with pytest.raises(SystemExit) as end:
        full_graph.command(["--systems", "--quick", "--only", "full,dgl"])
    assert end.value.code == 1
    assert "| dgl | it is not here |" in capsys.readouterr().out
