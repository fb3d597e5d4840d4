"""What a run keeps is the model of its own history: the one that its summary names, whichever way it got there."""

from __future__ import annotations

import io
import json
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from support.graphs import lay_out, random_graph
from support.messages import line_with, says
from support.runs import all_equal, config_for, records, trainer_of

import gsplit
from gsplit.config.rules import RESULTS, marked
from gsplit.config.train import TrainConfig
from gsplit.errors import InputError
from gsplit.runs import checkpoint
from gsplit.train import epochs, loop, summary
from gsplit.train.api import train


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(120, 6, seed=2), tmp_path_factory.mktemp("history"), parts=2)


def train_scored(member, config, scores, resume):
    """Trains as if the weights after epoch i scored ``scores[i]``.

    Returns the summary, the weights that were tested, and what was said.
    """
    trainer = trainer_of(member, config, resume=resume)
    kept: Any = trainer.kept
    tested = {}

    def score(model, ids):
        tested.update({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return scores[kept.validating]

    validate = epochs.validate

    def noted(trainer, epoch, batch=None):
        kept.validating = epoch if batch is None else (epoch, batch)
        return validate(trainer, epoch, batch)

    kept.validating = 0
    trainer.evaluator.score = score
    with (
        mock.patch.object(epochs, "validate", noted),
        mock.patch.object(summary, "validate", noted),
        redirect_stdout(io.StringIO()) as said,
    ):
        loop.train(trainer)
        return summary.finish(trainer), tested, said.getvalue()


class Run:
    """A run of two trainers whose scores are made up."""

    def __init__(self, pool, layout, out):
        self.pool, self.out = pool, out
        self.config = config_for(layout.path, out, batch_size=30, epochs=1)

    def train(self, scores, *, resume=False, **changes):
        config = replace(self.config, **changes)
        self.out.mkdir(exist_ok=True)
        (self.out / "config.json").write_text(config.to_json())
        scored = scores if isinstance(scores, dict) else dict(enumerate(scores, start=1))
        results = self.pool.run(2, train_scored, config, {0: 0.5, **scored}, resume)
        self.summary, tested, self.said = results[0]
        assert all_equal(tested, results[1][1])
        self.assert_one_model(tested)
        return self.summary

    def assert_one_model(self, tested):
        """What was tested, what the summary names and what a user loads are the same."""
        described = checkpoint.describe_state(self.out, "model")
        summary = json.loads((self.out / "summary.json").read_text())
        assert summary == self.summary
        assert described["epoch"] == summary["model_epoch"]
        assert described["score"] == summary["valid_accuracy"]
        assert summary["best_epoch"] == (None if described["score"] is None else described["epoch"])
        assert all_equal(gsplit.load(self.out).state_dict(), tested)


@pytest.fixture
def run(pool, layout, tmp_path):
    return Run(pool, layout, tmp_path / "run")


def test_the_saved_model_follows_a_resume_to_an_earlier_epoch(run):
    scores = [0.1, 0.2, 0.3, 0.4, 0.5]
    assert run.train(scores, epochs=5, checkpoint_every=2)["best_epoch"] == 5
    assert run.train(scores, resume=True, epochs=4)["best_epoch"] == 4


def test_a_model_of_a_past_that_no_longer_is_goes_when_the_run_goes_on(run, pool):
    run.train([0.1, 0.2, 0.9], epochs=3, checkpoint_every=2)
    at = checkpoint.load_state(run.out, "checkpoint")["best"]
    pool.run(2, start_again, replace(run.config, epochs=9))
    assert all_equal(gsplit.load(run.out).state_dict(), at["model"])
    assert checkpoint.describe_state(run.out, "model")["epoch"] == at["epoch"] == 2
    assert not (run.out / "summary.json").exists()  # it named epoch 3


def start_again(member, config):
    trainer_of(member, config, resume=True)


def test_an_unvalidated_model_of_a_past_that_no_longer_is_goes_as_well(run, pool):
    run.train([0.1] * 3, epochs=3, checkpoint_every=2, validate_every=0)
    pool.run(2, start_again, replace(run.config, epochs=9, validate_every=0))
    with pytest.raises(InputError, match=line_with("model.json")):
        gsplit.load(run.out)
    assert not (run.out / "summary.json").exists()


def test_the_last_weights_of_a_run_stay_until_there_are_others(run, pool):
    run.train([0.1] * 2, epochs=2, validate_every=0)
    pool.run(2, start_again, replace(run.config, epochs=9, validate_every=0))
    assert checkpoint.describe_state(run.out, "model")["epoch"] == 2
    assert (run.out / "summary.json").exists()


def test_epochs_that_nobody_validated_are_kept_and_the_log_says_why(run):
    assert run.train([0.9], epochs=1)["best_epoch"] == 1
    summary = run.train([0.9] * 3, resume=True, epochs=3, validate_every=0)
    assert (summary["best_epoch"], summary["model_epoch"], summary["valid_accuracy"]) == (None, 3, None)
    said = "keeping the weights of epoch 3, the last: nothing was validated after epoch 1 (--validate-every 0)"
    assert run.said.count(said) == 1
    # Validated again, the best of all that were counts again.
    summary = run.train([0.9, 0, 0, 0.5], resume=True, epochs=4)
    assert (summary["best_epoch"], summary["model_epoch"]) == (1, 1)


def test_the_last_epoch_is_validated(run):
    assert run.train([0, 0.2, 0.9], epochs=3, validate_every=2)["best_epoch"] == 3
    assert [record["valid_accuracy"] for record in records(run.out)] == [None, 0.2, 0.9]


def test_weights_of_the_middle_of_an_epoch_are_kept_where_they_are_best(run):
    # Three mini-batches an epoch: two are validated, and the end.
    scores = {(1, 1): 0.1, (1, 2): 0.2, 1: 0.3, (2, 1): 0.9, (2, 2): 0.5, 2: 0.4}
    summary = run.train(scores, epochs=2, validate_every_batches=1, batch_size=20)
    assert (summary["best_epoch"], summary["model_batch"], summary["valid_accuracy"]) == (2, 1, 0.9)
    described = checkpoint.describe_state(run.out, "model")
    assert (described["epoch"], described["batch"], described["score"]) == (2, 1, 0.9)
    within = [(r["epoch"], r["batch"], r["valid_accuracy"]) for r in records(run.out, "validation")]
    assert within == [(1, 1, 0.1), (1, 2, 0.2), (2, 1, 0.9), (2, 2, 0.5)]
    assert "Epoch 02 [1/3] | valid 0.9000" in run.said
    # Without epochs that are validated: the last one is, as ever.
    summary = run.train(scores | {2: 0.95}, epochs=2, validate_every_batches=2, validate_every=0, batch_size=20)
    assert (summary["best_epoch"], summary["model_batch"], summary["valid_accuracy"]) == (2, None, 0.95)


def test_early_stop_counts_validations_in_the_middle_of_epochs(run):
    scores = {(1, 1): 0.9, (1, 2): 0.2, 1: 0.3, (2, 1): 0.1, (2, 2): 0.5, 2: 0.4}
    summary = run.train(scores, epochs=9, validate_every_batches=1, batch_size=20, early_stop=4)
    assert (summary["epochs"], summary["model_epoch"], summary["model_batch"]) == (2, 1, 1)


@contextmanager
def rewriting_checkpoint(run):
    about, state = checkpoint.read_state(run, "checkpoint")
    yield state
    about = {key: value for key, value in about.items() if key not in ("file", "sha256")}
    checkpoint.save_state(run, "checkpoint", state, about)


def test_the_last_epoch_is_validated_where_it_was_not_to_be_the_last(run, pool):
    run.train([0, 0.2, 0.9], epochs=3, validate_every=2)
    with rewriting_checkpoint(run.out) as state:
        state["validated"], state["best"]["epoch"], state["best"]["score"] = 2, 2, 0.2  # as of a run to 4 epochs
    (run.out / "summary.json").unlink()
    assert run.train([0, 0.2, 0.9], resume=True, epochs=3, validate_every=2)["best_epoch"] == 3


def test_checkpoints_of_earlier_releases_know_what_was_validated(run):
    run.train([0.3, 0.2], epochs=2)
    with rewriting_checkpoint(run.out) as state:
        del state["validated"]
    (run.out / "summary.json").unlink()
    summary = run.train([0.3, 0.2], resume=True, epochs=2)
    assert summary["best_epoch"] == 1


def test_each_epoch_says_with_which_settings_it_was_trained(run):
    run.train([0.1], epochs=1)
    run.train([0.1, 0.2], resume=True, epochs=2, lr=0.5, dropout=0.25)
    settings = [record["settings"] for record in records(run.out)]
    assert [s["lr"] for s in settings] == [0.01, 0.5]
    assert [s["dropout"] for s in settings] == [0.0, 0.25]
    assert all(set(s) == set(marked(TrainConfig, RESULTS)) for s in settings)


def test_a_resume_with_nothing_left_to_train_changes_nothing(run, caplog, capfd):
    run.train([0.1, 0.2], epochs=2)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in run.out.iterdir()}
    summary = train(config=TrainConfig.resuming(run.out, epochs=1, lr=0.7, threads=2, gpus=1))
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in run.out.iterdir()}
    assert {**after, ".lock": None} == {**before, ".lock": None}
    assert summary == run.summary
    says(capfd.readouterr().out, "2, --epochs, 1")
    assert not [r for r in caplog.records if "resuming with" in r.message]


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    about = {"signature": {}, "epoch": 1}
    checkpoint.save_state(tmp_path, "model", {"w": torch.zeros(3)}, about)
    describe = checkpoint.describe_state

    def then_replaced(run, name):
        described = describe(run, name)
        monkeypatch.setattr(checkpoint, "describe_state", describe)
        checkpoint.save_state(tmp_path, "model", {"w": torch.ones(3)}, {**about, "epoch": 2})
        return described

    monkeypatch.setattr(checkpoint, "describe_state", then_replaced)
    described, state = checkpoint.read_state(tmp_path, "model")
    assert (described["epoch"], state["w"].tolist()) == (2, [1, 1, 1])
