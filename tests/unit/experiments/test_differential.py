"""The campaign counts what it is there to count, and draws what it says that it draws."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
import torch
from support.libraries import HAS_DGL
from support.messages import says

from experiments.differential import __main__ as differential
from experiments.differential import judge as judging
from experiments.differential.convolutions import kinds
from experiments.differential.draw import NORMS, draw, make_model
from experiments.differential.judge import Outcome, difference
from experiments.differential.nets import BY_HAND, FORMS
from experiments.differential.trainers import TrainerFailed
from experiments.differential.whole import step_on_whole


def test_a_model_depends_on_its_number_and_the_seed_alone():
    def all_of(seed):
        return [draw(number, seed) for number in range(40)]

    assert all_of(1) == all_of(1)
    assert len({str(drawn) for drawn in all_of(1)} | {str(drawn) for drawn in all_of(2)}) == 80
    one, other = (make_model(draw(3, 1)).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_everything_is_drawn_in_the_end():
    some = [draw(number, 0) for number in range(4000)]
    assert {drawn.convolution for drawn in some} == kinds().keys()
    assert {drawn.norm for drawn in some} == NORMS.keys()
    assert {drawn.form for drawn in some} == {form for form in FORMS if HAS_DGL or not form.startswith(("b", "g"))}
    assert {drawn.by_hand for drawn in some} == {None, *BY_HAND}
    for name, wanted in {
        "jumping": {None, "cat", "max", "lstm"},
        "targets": {"all", "half", "few"},
        **{name: {True, False} for name in ("weighted", "loops", "isolated", "residual")},
    }.items():
        assert {getattr(drawn, name) for drawn in some} == wanted


@pytest.fixture(scope="module")
def steps():
    """A drawn model of float32, and its steps in float64 and in float32."""
    drawn = next(d for d in map(draw, range(100), [0] * 100) if d.dtype == "float32" and "by hand" in d.convolution)
    model = make_model(drawn)
    return [step_on_whole(drawn, model, dtype) for dtype in (torch.float64, torch.float32)]


def changed(step, part, by, name=None):
    table = {**getattr(step, part)}
    name = name or max(table, key=lambda name: table[name].norm().item())
    table[name] = table[name] * (1 + by)
    return replace(step, **{part: table})


def test_nothing_but_rounding_is_equal(steps):
    exact, whole = steps
    assert difference([exact, exact], exact, exact) == ""
    assert difference([changed(exact, "gradients", 1e-12)] * 2, exact, exact) == ""
    assert difference([whole] * 2, whole, exact) == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda step: changed(step, "gradients", 1e-6), "gradient, #"),
        (lambda step: changed(step, "state", 1e-6), "after the step, #"),
        (lambda step: replace(step, logits=step.logits * (1 + 1e-6)), "logits, #"),
        (lambda step: replace(step, logits=step.logits * torch.nan), "logits, inf"),
        (lambda step: replace(step, logits=step.logits[1:]), "logits, shape"),
        (lambda step: replace(step, gradients=dict(list(step.gradients.items())[1:])), "other parameters"),
    ],
)
def test_what_differs_is_named(steps, change, words):
    exact = steps[0]
    says(difference([change(exact)] * 2, exact, exact), words)


def test_trainers_with_other_parameters_are_found(steps):
    exact = steps[0]
    says(difference([exact, changed(exact, "state", 1e-15)], exact, exact), "trainers, parameters")


class Broken:
    def step(self, world, order):
        raise TrainerFailed("trainer 1 of 2: IndexError: nothing there")


def test_a_trainer_that_fails_is_wrong_and_a_refusal_is_none(tmp_path):
    ends = Counter()
    for number in range(8):
        drawn = replace(draw(number, 5), loops=True, isolated=True)  # on two graphs
        outcome = judging.judge(drawn, Broken(), tmp_path)
        ends[outcome.end] += 1
        assert outcome.end != "wrong" or "2 trainers: trainer 1 of 2: IndexError" in outcome.why
        assert drawn.by_hand is None or outcome.end == "refused"
    assert ends["wrong"] > 3


def test_the_command_counts_and_exits_with_1_where_any_is_wrong(tmp_path, monkeypatch, capsys):
    ends = [Outcome(end="equal"), Outcome(end="refused", why="the model's convs.0 is a X, which cannot be split: y")]
    ends += [Outcome(end="wrong", why="logits"), Outcome(end="impossible", why="no")]
    monkeypatch.setattr(judging, "judge", lambda drawn, *_: ends[drawn.number])
    monkeypatch.setattr("experiments.differential.trainers.quiet", lambda: None)  # for the tests that follow
    with pytest.raises(SystemExit) as stopped:
        differential.command(["--models", "4", "--json", str(tmp_path / "out.json")])
    assert stopped.value.code == 1
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["counted"] == {"equal": 1, "refused": 1, "wrong": 1, "impossible": 1}
    assert result["refused"] == {"X, which cannot be split: y": 1}
    assert [(case["number"], case["end"]) for case in result["found"]] == [(2, "wrong"), (3, "impossible")]
    differential.command(["--only", "1"])
    assert "refused: 1: " in capsys.readouterr().out
