"""What a user may do to a run: change flags when resuming, start two at once, lose files, forget the guard."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
import torch
from support.graphs import lay_out, random_graph
from support.messages import line_with, says
from support.runs import all_equal, config_for, records, train_in_trainer, trainer_of

import gsplit
from gsplit.atomic_folder import LOCK, locked
from gsplit.config.train import TrainConfig
from gsplit.errors import InputError
from gsplit.runs import checkpoint
from gsplit.runs.folder import held_run
from gsplit.train import loop
from gsplit.train.api import train
from gsplit.train.summary import summary_text


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(200, 8, seed=6), tmp_path_factory.mktemp("misuse"), parts=2)


@pytest.fixture
def run(pool, layout, tmp_path):
    """A run of one epoch with a checkpoint at its end."""
    config = config_for(layout.path, tmp_path / "run", epochs=1)
    config.out.mkdir()
    (config.out / "config.json").write_text(config.to_json())
    pool.run(2, train_in_trainer, config)
    return config


def resume(pool, config, **changes):
    config = TrainConfig(**{**config.__dict__, "epochs": 2, **changes})
    return pool.run(2, train_in_trainer, config, None, True)[0]


def test_a_new_learning_rate_counts_when_resuming(pool, run):
    start = checkpoint.load_state(run.out, "checkpoint")
    state = start["optimizer"]["param_groups"][0]
    assert (state["lr"], state["weight_decay"]) == (run.lr, run.weight_decay)
    resume(pool, run, lr=0.5, weight_decay=0.1)
    state = checkpoint.load_state(run.out, "checkpoint")["optimizer"]["param_groups"][0]
    assert (state["lr"], state["weight_decay"]) == (0.5, 0.1)


@pytest.mark.parametrize("damage", [b"", b"{", None])
def test_epochs_come_back_from_the_checkpoint(pool, run, damage):
    metrics = run.out / "metrics.jsonl"
    before = records(run.out)
    metrics.unlink() if damage is None else metrics.write_bytes(damage)
    summary = resume(pool, run)["summary"]
    epochs = records(run.out)
    assert epochs[:1] == before
    assert [record["epoch"] for record in epochs] == [1, 2]
    assert summary["traffic"]["sampled_edges"] == sum(r["traffic"]["sampled_edges"] for r in epochs)
    assert {record["epoch"] for record in records(run.out, "mini-batch")} == {2}  # those of the first are lost


def test_lines_behind_the_checkpoint_are_cut_off(pool, run):
    metrics = run.out / "metrics.jsonl"
    before = metrics.read_bytes()
    metrics.write_bytes(before + before.splitlines(keepends=True)[0] + b'{"kind": "half a li')
    resume(pool, run)
    assert metrics.read_bytes().startswith(before)
    assert [record["epoch"] for record in records(run.out)] == [1, 2]
    batches = [(r["epoch"], r["batch"], r["trainer"]) for r in records(run.out, "mini-batch")]
    assert len(set(batches)) == len(batches)


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 41},
        {"seed": 5},
        {"cache": "replicated", "cache_size": "10%", "strategy": "data"},
        {"strategy": "support.engines:Everything"},
    ],
)
def test_the_order_of_an_epoch_cannot_change_in_its_middle(run, change):
    described = checkpoint.describe_state(run.out, "checkpoint")
    (run.out / "checkpoint.json").write_text(json.dumps({**described, "batch": 1}))
    flag = "--" + next(iter(change)).replace("_", "-")
    with pytest.raises(InputError, match=line_with(flag, "epoch")):
        train(config=TrainConfig.resuming(run.out, **change))


def test_resuming_takes_the_configuration_of_the_run(run):
    config = TrainConfig.resuming(run.out, epochs=7)
    assert (config.batch_size, config.fan_out, config.hidden, config.epochs) == (40, (4, 4), 8, 7)
    assert config.resume == run.out


def test_a_run_in_use_is_left_alone(run):
    before = sorted(os.listdir(run.out))
    with locked(run.out):
        for config in (TrainConfig.resuming(run.out), TrainConfig(layout=run.layout, out=run.out, overwrite=True)):
            with pytest.raises(InputError, match=line_with(str(run.out))):
                train(config=config)
    assert sorted({*os.listdir(run.out)} - {LOCK}) == [name for name in before if name != LOCK]


def test_a_folder_in_which_nothing_was_saved_is_free(layout, tmp_path, in_pool):
    out = tmp_path / "run"
    out.mkdir()
    (out / "config.json").write_text('{"fan_out": [2, 2]}')  # as kill -9 before the first checkpoint leaves it
    config = TrainConfig(layout=layout.path, out=out, device="cpu", fan_out=(2, 2), epochs=1, samplers=0)
    with in_pool():
        assert train(config=config)["epochs"] == 1
    with pytest.raises(InputError, match=line_with("--out, --overwrite")):
        train(config=config)


def test_a_finished_run_says_so(run, capfd):
    train(config=TrainConfig.resuming(run.out, epochs=1))
    says(capfd.readouterr().out, "1, --epochs")


def test_leftovers_of_a_killed_writer_are_swept(pool, run):
    (run.out / ".checkpoint-0123.pt.99999").write_bytes(b"half")
    resume(pool, run)
    assert not list(run.out.glob(".checkpoint*"))


def dropout_draws(member, config):
    """For each mini-batch, the numbers that its first dropout layer would see."""
    trainer = trainer_of(member, config)
    draws = []
    trainer.model.register_forward_pre_hook(lambda *_: draws.append(tuple(torch.rand(4).tolist())))
    loop.train(trainer)
    return draws


def test_dropout_differs_between_epochs_batches_and_ranks_and_repeats(pool, layout, tmp_path):
    configs = [config_for(layout.path, tmp_path / f"{i}", seed=i // 2, validate_every=0) for i in range(3)]
    first, again, other = (pool.run(2, dropout_draws, config) for config in configs)
    assert first == again
    draws = [draw for ranks in (first, other) for rank in ranks for draw in rank]
    assert len(draws) == len(set(draws)) == 2 * 2 * 2 * 3  # seeds, ranks, epochs, mini-batches: all different


def test_all_weights_repeat_with_dropout(pool, layout, tmp_path):
    results = [
        pool.run(2, train_in_trainer, config_for(layout.path, tmp_path / f"{i}", dropout=0.5))[0] for i in range(2)
    ]
    assert all_equal(results[0]["after"], results[1]["after"])


def test_a_run_that_fails_before_it_saved_anything_leaves_the_one_it_was_to_replace(run, tmp_path, in_pool):
    graph = random_graph(100, 5, seed=1)
    layout = lay_out(replace(graph, features=graph.features * 1e6), tmp_path, parts=2)  # more than float16 holds
    config = TrainConfig(layout=layout.path, out=run.out, device="cpu", fan_out=(2, 2), epochs=2, overwrite=True)
    before = {path.name: path.read_bytes() for path in run.out.iterdir()}
    beside = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError, match=line_with("vertex #, float16, --feature-dtype")):
        train(config=replace(config, feature_dtype="float16"))
    after = {path.name: path.read_bytes() for path in run.out.iterdir() if path.name != LOCK}
    assert after == {name: content for name, content in before.items() if name != LOCK}
    assert sorted(os.listdir(tmp_path)) == beside
    with in_pool():
        assert train(config=replace(config, samplers=0))["epochs"] == 2
    assert sorted(os.listdir(tmp_path)) == beside


def test_a_run_that_cannot_begin_leaves_the_one_it_was_to_replace(run, tmp_path, monkeypatch):
    def no_memory(world):
        raise MemoryError("no descriptors")

    monkeypatch.setattr("gsplit.launch.start.Shared.create", no_memory)
    before = sorted(os.listdir(tmp_path)), (run.out / "summary.json").read_bytes()
    with pytest.raises(MemoryError):
        train(config=replace(run, overwrite=True))
    assert before == (sorted(os.listdir(tmp_path)), (run.out / "summary.json").read_bytes())


class WithWidths(torch.nn.Module):
    """A user's class that takes a width and arguments of its own, and no dropout."""

    def __init__(self, in_features, hidden, out_features, depth=1):
        super().__init__()
        self.linear = torch.nn.Linear(in_features, out_features)

    def forward(self, blocks, x):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("named", "used"),
    [
        ({"model": "gcn"}, {"hidden", "dropout", "input_dropout", "norm", "normalization"}),
        ({"model": "gat"}, {"hidden", "dropout", "input_dropout", "norm", "heads", "attention_dropout"}),
        ({"model": f"{__name__}:WithWidths", "model_args": "depth=2"}, {"hidden", "model_args"}),
        ({"model": f"{__name__}:WithWidths", "model_args": "hidden=3"}, {"model_args"}),
        (None, set()),
    ],
)
def test_settings_without_effect_are_refused_and_not_recorded(layout, tmp_path, monkeypatch, named, used):
    settings = {
        "hidden": 12,
        "dropout": 0.25,
        "input_dropout": 0.25,
        "attention_dropout": 0.25,
        "norm": "layer",
        "heads": 6,
        "normalization": "mean",
        **(named or {"model_args": "depth=2"}),
    }
    recorded = {}

    def begin(function, world, run, port, shared, own):
        recorded.update(json.loads((run.folder / "config.json").read_text()))
        raise InputError("enough")

    monkeypatch.setattr("gsplit.launch.start.start", begin)
    given = {name: value for name, value in settings.items() if name in used or name in (named or {})}
    config = TrainConfig(layout=layout.path, out=tmp_path / "run", device="cpu", fan_out=(2,), samplers=0, **given)
    model = None if named else WithWidths(layout.graph.num_features, 4, layout.graph.num_classes)
    with pytest.raises(InputError, match="enough"):
        train(config=config, model=model)
    for name in settings.keys() - {"model"}:
        assert (recorded[name] is None) == (name not in used), name
        if name not in given:
            with pytest.raises(InputError, match=line_with(f"--{name.replace('_', '-')}, drop it")):
                train(config=replace(config, **{name: settings[name]}), model=model)
    assert (recorded["model"] is None) == (named is None)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(recorded))
    assert TrainConfig.from_json(path).dropout == (0.25 if "dropout" in used else TrainConfig().dropout)


@pytest.fixture
def in_shares(pool, layout, tmp_path):
    """A run in the middle of an epoch in which each trainer has a share of its own."""
    config = config_for(
        layout.path,
        tmp_path / "shares",
        strategy="data",
        cache="replicated",
        cache_size="10%",
        epochs=1,
        checkpoint_every_batches=1,
        gpus=2,
    )
    (tmp_path / "shares").mkdir()
    (tmp_path / "shares" / "config.json").write_text(config.to_json())
    pool.run(2, train_in_trainer, config)
    path = config.out / "checkpoint.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "batch": 1}))
    return config.out


def another(layout, **how):
    """Another layout of the same store."""
    return lay_out(random_graph(200, 8, seed=6), layout.path.parent, **how)


def test_shares_of_another_layout_are_refused_in_mid_epoch(in_shares, layout):
    other = another(layout, parts=2, method="random")
    with pytest.raises(InputError, match=line_with("LAYOUT, metis-2-0")):
        train(config=TrainConfig.resuming(in_shares, layout=other.path, epochs=2))
    with pytest.raises(InputError, match=line_with("--gpus, 2")):
        train(config=TrainConfig.resuming(in_shares, gpus=3, epochs=2))
    with pytest.raises(InputError, match=line_with("--cache, replicated")):
        train(config=TrainConfig.resuming(in_shares, cache="none", cache_size=None, epochs=2))


def test_trainers_follow_another_layout(run, layout, in_pool):
    before = (run.out / "config.json").read_text()
    (run.out / "config.json").write_text(json.dumps({**json.loads(before), "gpus": 2}))
    with in_pool():
        summary = train(config=TrainConfig.resuming(run.out, layout=another(layout, parts=3).path, epochs=2))
    assert summary["trainers"] == 3


def test_a_checkpoint_of_an_earlier_release_is_refused(run):
    path = run.out / "checkpoint.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 1}))
    with pytest.raises(InputError, match=line_with("checkpoint.json, 1, 2")):
        train(config=TrainConfig.resuming(run.out))


def test_traces_that_were_not_finished_are_swept(run):
    for name in (".trace-0.json", ".trace-1.json.tmp"):
        (run.out / name).write_text("{")
    with held_run(
        run.out, resumes=True
    ):  # as every run is that goes on; tests/faults/test_resume.py has one that was killed
        assert not list(run.out.glob(".trace*"))


@pytest.mark.parametrize(("name", "value"), [("split_group", True), ("gpus", 1000), ("cache_size", 0.1)])
def test_values_of_a_wrong_kind_are_refused(layout, tmp_path, name, value):
    complaint = {
        "split_group": "--split-group, True",
        "gpus": "--gpus, 1000",
        "cache_size": "--cache-size, 0 bytes, 10%",
    }
    with pytest.raises(InputError, match=line_with(complaint[name])):
        train(config=TrainConfig(layout=layout.path, out=tmp_path / "new", strategy="data", **{name: value}))
    assert not (tmp_path / "new").exists()


def test_a_run_that_goes_on_in_another_way_says_so(run, in_pool):
    with in_pool():
        summary = train(config=TrainConfig.resuming(run.out, strategy="data", epochs=2))
    assert (summary["strategy"], summary["split_group"], summary["changed"]) == ("data", 1, True)
    assert [(r["strategy"], r["split_group"]) for r in records(run.out)] == [("split", 2), ("data", 1)]
    text = summary_text(summary)
    assert "in different ways since the run was resumed" in text
    assert "none twice" not in text
    assert "each by one trainer" not in text


def test_a_run_may_go_on_with_sums_of_rows(pool, run):
    summary = resume(pool, run, exchange="auto")["summary"]
    assert [record["settings"]["exchange"] for record in records(run.out)] == ["rows", "auto"]
    traffic = [record["traffic"] for record in records(run.out)]
    of_sums = [epoch["computed_edges"] - epoch["sampled_edges"] for epoch in traffic]
    assert of_sums[0] == 0 < of_sums[1]
    says(summary_text(summary), f"{of_sums[1]:,}, sums")


@pytest.mark.parametrize("name", ["predict", "partition"])
def test_what_one_process_does_is_refused_in_trainers_of_torchrun(layout, tmp_path, monkeypatch, name):
    for variable, value in {
        "RANK": 1,
        "WORLD_SIZE": 2,
        "LOCAL_RANK": 1,
        "LOCAL_WORLD_SIZE": 2,
        "MASTER_PORT": 1,
    }.items():
        monkeypatch.setenv(variable, str(value))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(InputError, match=line_with(f"gsplit.{name}, one process, torchrun, 2")):
        getattr(gsplit, name)(tmp_path / "old", tmp_path / "new")
    assert not (tmp_path / "new").exists()
