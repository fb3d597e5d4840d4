"""``--algorithm auto`` on the whole graph: plans by price and by trial, which leave no trace in what is trained."""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import signal
import time
from pathlib import Path
from unittest import mock

import pytest
from support.commands import assert_no_new_shared_memory, children_here
from support.prices import PRICES
from support.runs import all_equal, config_for, records

import gsplit
from gsplit import TrainConfig
from gsplit.callbacks import Callback
from gsplit.engine.whole import machine_prices
from gsplit.engine.whole.fitting import chosen_of, fitting_plans
from gsplit.engine.whole.plan_table import priced_plans
from gsplit.errors import InputError
from gsplit.full import GridPlan
from gsplit.launch.resolve import resolve
from gsplit.runs import checkpoint
from gsplit.train import plan_trials

FULL = {"strategy": "full", "dropout": 0.5, "validate_every": 1, "fan_out": (-1, -1), "batch_size": 512}


SECONDS_OF, TRIED = plan_trials.seconds_of, plan_trials.tried


class Epochs(Callback):
    """Writes down which epochs it is told of."""

    def __init__(self, path):
        self.path = path

    def on_epoch_end(self, record):
        with self.path.open("a") as file:
            file.write(f"{record['epoch']} ")


@pytest.fixture
def long(monkeypatch):
    """Every run is long enough for trials, and two epochs are timed; the last plan that was tried is the quickest."""

    def last_first(runs, start_s):
        seconds = SECONDS_OF(runs, start_s)
        assert len(seconds) == len(runs)
        assert all(0 < each < 60 for each in seconds)
        return [float(len(runs) - number) for number in range(len(runs))]

    for name, value in {"WORTH": 1e-9, "MOST_EPOCHS": 2, "seconds_of": last_first}.items():
        monkeypatch.setattr(plan_trials, name, value)


def state_of(run):
    return checkpoint.load_state(run, checkpoint.CHECKPOINT)


def same_training(run, other):
    states = state_of(run), state_of(other)
    assert all_equal(states[0]["model"], states[1]["model"])
    scores = [[(each["loss"], each["valid_accuracy"]) for each in records(folder)] for folder in (run, other)]
    assert scores[0] == scores[1]


def plans_of(run):
    return json.loads((run / "plans.json").read_text())


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("trainers", "flags"),
    [
        (2, {"model": "sage"}),
        (2, {"model": "gcn", "norm": "batch", "precision": "bf16-mixed"}),
        (4, {"model": "gcn", "train_features": 8}),
        (2, {"model": "gat", "heads": 2, "init_from": "before"}),
    ],
    ids=lambda value: value["model"] if isinstance(value, dict) else str(value),
)
def test_what_is_trained_after_trials_is_as_if_the_plan_were_named(long, layouts, tmp_path, trainers, flags):
    """Also by a run that goes on, without a new trial; and callbacks hear of no trial."""
    layout, auto, named, heard = layouts(trainers).path, tmp_path / "auto", tmp_path / "named", tmp_path / "heard"
    if "init_from" in flags:
        before = {**FULL, **flags, "init_from": None, "algorithm": "shared", "epochs": 1, "seed": 5}
        gsplit.train(config=config_for(layout, tmp_path / "before", **before))
        flags = {**flags, "init_from": tmp_path / "before"}
    config = config_for(layout, auto, **FULL, **flags)
    gsplit.train(config=config, callbacks=[Epochs(heard)])
    found = plans_of(auto)
    assert heard.read_text().split() == [str(record["epoch"]) for record in records(auto)]
    tried = [plan for plan in found["plans"] if plan["measured_s"] is not None]
    assert tried == found["plans"][:3]  # quickest first, as predicted
    assert found["chosen"] == tried[-1]["plan"] != f"shared {trainers}x1x1"
    assert sorted(plan["predicted_s"] for plan in found["plans"]) == [plan["predicted_s"] for plan in found["plans"]]
    resolved = TrainConfig.from_json(auto / "resolved.json")
    assert TrainConfig.from_json(auto / "config.json").algorithm == "auto"
    chosen = {"algorithm": resolved.algorithm, "grid": resolved.grid}
    gsplit.train(config=config_for(layout, named, **FULL, **flags, **chosen))
    same_training(auto, named)
    with mock.patch.object(plan_trials, "seconds_of", side_effect=AssertionError):
        gsplit.train(config=TrainConfig.resuming(auto, epochs=3))
    gsplit.train(config=TrainConfig.resuming(named, epochs=3))
    same_training(auto, named)
    assert TrainConfig.from_json(auto / "resolved.json").grid == resolved.grid
    assert plans_of(auto) == found


def dying(rank, *_, **__):
    """The life of a trainer that is killed in a trial."""
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def told(number, parent, rank, *_, **__):
    """The life of a trainer in a trial, while whoever started the run is sent a signal."""
    if rank == 0:
        os.kill(parent, number)
    signal.pause()


def test_a_trial_that_fails_leaves_the_plan_that_is_predicted(long, layouts, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(plan_trials, "seconds_of", SECONDS_OF)
    monkeypatch.setattr(plan_trials, "tried", dying)
    gsplit.train(config=config_for(layouts(2).path, tmp_path / "run", **FULL))
    found = plans_of(tmp_path / "run")
    assert found["chosen"] == found["plans"][0]["plan"]
    assert {plan["measured_s"] for plan in found["plans"]} == {None}
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "SIGKILL" in warning
    assert len(records(tmp_path / "run")) == 2


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_in_a_trial_ends_it_all(long, layouts, tmp_path, monkeypatch, number, raised):
    others, shared = children_here(), set(os.listdir("/dev/shm"))
    monkeypatch.setattr(plan_trials, "seconds_of", SECONDS_OF)
    monkeypatch.setattr(plan_trials, "tried", functools.partial(told, number, os.getpid()))
    with pytest.raises(raised):
        gsplit.train(config=config_for(layouts(2).path, tmp_path / "run", **FULL))
    assert children_here() <= others
    assert_no_new_shared_memory(shared)
    assert not (tmp_path / "run").exists()


def test_trials_write_nothing_and_end_where_they_take_too_long(layouts, tmp_path):
    """The first plan is tried in any case."""
    run = resolve(config_for(layouts(2).path, tmp_path / "run", **{**FULL, "epochs": 3}))
    (tmp_path / "run").mkdir()
    (seconds,) = plan_trials.seconds_of([run, run], time.monotonic())
    assert 0 < seconds < 60
    assert os.listdir(tmp_path / "run") == []


def warned(member, run, shared):
    """Seconds of a plan that something is wrong with."""
    logging.getLogger("gsplit").warning("of %s", run.config.algorithm)
    logging.getLogger("gsplit").error("begun")
    return 1.0


def tried_and_warned(*arguments, **named):
    """The life of a trainer in trials of such plans."""
    with mock.patch.object(plan_trials, "_seconds_of", warned):
        return TRIED(*arguments, **named)


def test_trials_say_nothing_that_training_says_again(layouts, tmp_path, monkeypatch, caplog, capfd):
    run = resolve(config_for(layouts(2).path, tmp_path / "run", **FULL))
    monkeypatch.setattr(plan_trials, "tried", tried_and_warned)
    with caplog.at_level("INFO"):
        assert plan_trials.seconds_of([run, run], -1e9) == [1.0]
    assert not caplog.records
    said = "".join(capfd.readouterr())
    assert "begun" in said
    assert "of shared" not in said


def test_a_plan_that_does_not_fit_is_never_tried(long, layouts, tmp_path, monkeypatch):
    run = resolve(config_for(layouts(4).path, tmp_path / "run", **FULL))
    monkeypatch.setattr("gsplit.engine.whole.plan_prices.process_bytes", lambda: 0)  # it differs from call to call
    everything = fitting_plans(run, PRICES)
    most = sorted(price.host_bytes for price in everything)[1]
    monkeypatch.setattr("gsplit.engine.whole.fitting.host_memory", lambda: mock.Mock(available_bytes=most))
    monkeypatch.setattr(plan_trials, "seconds_of", lambda runs, start_s: [1.0 for _ in runs])
    (tmp_path / "run").mkdir()
    tried = []
    plan_trials.with_plan_chosen(run, lambda plan: tried.append(plan) or run)
    assert 0 < len(tried) == sum(price.host_bytes <= most for price in everything) < len(everything)
    assert all(chosen_of(everything, plan).host_bytes <= most for plan in tried)


def test_a_short_run_measures_nothing_and_a_named_plan_stays(layouts, tmp_path):
    many = {"epochs": 10**9}
    with mock.patch.object(plan_trials, "prices_for", side_effect=AssertionError):
        for flags in ({}, many | {"early_stop": 5}, many | {"algorithm": "1d"}, many | {"gpus": 1}):
            run = resolve(config_for(layouts(2).path, tmp_path / "run", **{**FULL, **flags}))
            assert plan_trials.with_plan_chosen(run, None) is run
        run = resolve(config_for(layouts(2).path, tmp_path / "run", **FULL, **many))
        with pytest.raises(AssertionError):
            plan_trials.with_plan_chosen(run, None)


def test_what_cannot_be_tried_ends_no_run(long, layouts, tmp_path, caplog):
    run = resolve(config_for(layouts(2).path, tmp_path / "run", **FULL))

    def named(plan):
        raise InputError(f"{plan} is refused")

    assert plan_trials.with_plan_chosen(run, named) is run
    assert "is refused" in caplog.text


def test_what_a_run_was_warned_of_is_not_said_again_for_each_plan(layouts, tmp_path, caplog):
    """But what is refused is raised."""
    run = resolve(config_for(layouts(2).path, tmp_path / "run", **FULL, check_model=False))
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "--no-check-model has no effect" in warning
    caplog.clear()
    plan = GridPlan(algorithm="1d", sizes=(2, 1, 1))
    assert plan_trials.by_plan(resolve, run.asked, plan).config.algorithm == "1d"
    assert not caplog.records
    with pytest.raises(InputError):
        plan_trials.by_plan(resolve, run.asked, GridPlan(algorithm="3d", sizes=(3, 1, 1)))
    logging.getLogger("gsplit").warning("of later")
    assert "of later" in caplog.text


def test_a_run_that_goes_on_says_where_nobody_knows_its_plan(layouts, tmp_path, caplog):
    run = resolve(config_for(layouts(2).path, tmp_path / "run", **FULL))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "resolved.json").write_text("{")
    assert plan_trials.with_plan_before(run, run.asked, None) is run
    assert "resolved.json does not say by which plan" in caplog.text
    before = TrainConfig(layout=run.layout)  # on sampled mini-batches
    caplog.clear()
    assert plan_trials.with_plan_before(run, before, None) is run
    assert not caplog.records


def test_plans_are_priced_as_they_would_run(layouts, tmp_path):
    """With sums in the place of rows, which the default plan has no use for; and none that is refused."""

    def sparse(**flags):
        run = resolve(config_for(layouts(2).path, tmp_path / "run", **{**FULL, "exchange": "auto", **flags}))
        return next(price.sent for price in priced_plans(run) if price.plan.algorithm == "1d-sparse")

    assert sparse() == sparse(algorithm="1d-sparse") != sparse(algorithm="1d-sparse", exchange="rows")
    flags = {"model": "gat", "heads": 2, "out_heads": 2, "graph": "move"}
    run = resolve(config_for(layouts(2).path, tmp_path / "run", **FULL, **flags))
    assert not any(price.plan.graph_moves for price in priced_plans(run))


def test_prices_are_measured_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine_prices, "OF_EACH_S", 0.0)
    monkeypatch.setattr(machine_prices, "ALL_BYTES", (1 << 17, 1 << 19, 1 << 21))
    with caplog.at_level("INFO"):
        prices = machine_prices.machine_prices(1)
        path = tmp_path / "gsplit" / "prices.json"
        assert str(path) in caplog.text
        assert min(prices.multiply, prices.copied_byte, prices.message, *map(min, prices.edges)) > 0
        assert prices.of_edge(256, 1) == pytest.approx(2 * prices.edges[2][0])
        with mock.patch.object(machine_prices, "measured", side_effect=AssertionError):
            assert machine_prices.machine_prices(1) == prices
        mine, good = machine_prices.key_of(1), json.loads(path.read_text())
        wrong = [
            {"message": None},
            {"multiply": "x"},
            {"edges": [[0.0] * 3] * 3},
            {"copied_byte": math.nan},
            {"sent_byte": -1},
        ]
        damaged = [json.dumps({mine: good[mine] | each}) for each in wrong]
        for text in ("", "[]", path.read_text().replace("message", "other"), *damaged):
            path.write_text(text)  # of nobody, of another release, or what nobody could measure
            with mock.patch.object(machine_prices, "measured", return_value=PRICES) as again:
                assert machine_prices.machine_prices(1) == PRICES == machine_prices.machine_prices(1)
            again.assert_called_once()
        monkeypatch.setattr(Path, "home", mock.Mock(side_effect=RuntimeError))  # a user without one
        monkeypatch.setenv("XDG_CACHE_HOME", "caches")  # of the current folder, which the standard does not have
        with mock.patch.object(machine_prices, "measured", return_value=PRICES):
            assert machine_prices.machine_prices(1) == PRICES
        monkeypatch.setenv("XDG_CACHE_HOME", str(path))  # no folder can be made there
        with mock.patch.object(machine_prices, "measured", return_value=PRICES):
            assert machine_prices.machine_prices(1) == PRICES
    assert "not kept" in caplog.text
