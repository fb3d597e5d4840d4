"""The campaign counts what it is there to count: each thing it must see is planted, and nothing else is seen."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from experiments.odd_numbers import __main__ as odd_numbers
from experiments.odd_numbers import expected, judge
from experiments.odd_numbers.checks import Outcome, check_json, check_value
from experiments.odd_numbers.draw import METRICS, ODDITIES, WAYS, draw
from experiments.odd_numbers.forked import Ended
from gsplit import cli
from gsplit.engine.metrics import values_of


def test_cases_depend_on_number_and_seed_alone_and_take_every_way_and_oddity_in_turn():
    cases = [draw(number, 0) for number in range(len(WAYS) * len(ODDITIES))]
    assert [str(case) for case in cases[:40]] == [str(draw(number, 0)) for number in range(40)]
    assert str(draw(3, 0)) != str(draw(3, 1))
    words = {" ".join(case.training) for case in cases}
    for way, _, _ in WAYS:
        assert any(way in each for each in words), way
    said = "; ".join("; ".join(case.odd) for case in cases)
    for what in ("nan", "inf", "-0.0", "5e-324", "1e+30", "constant", "balanced", "sum to 0.0", "alike", "unknown"):
        assert what in said, what
    for task, metrics in METRICS.items():
        asked = ",".join(case.value("--metrics") or "" for case in cases if case.task == task)
        assert all(metric in asked for metric in metrics)


@pytest.mark.parametrize(("task", "classes"), [("classes", 2), ("classes", 4), ("labels", 3), ("regression", 2)])
def test_scores_are_those_of_the_engine_s(task, classes):
    """Two ways to the same number: formulas here, scikit-learn there."""
    random = np.random.default_rng(3)
    logits, labels = random.standard_normal((40, classes)), random.integers(classes, size=40).astype(np.float64)
    if task == "labels":
        labels = (random.random((40, classes)) < 0.3).astype(np.float64)
    elif task == "regression":
        labels = random.standard_normal((40, classes))
        labels[:7, 0] = np.nan
    names = METRICS[task]
    assert [expected.score(name, logits, labels, task) for name in names] == pytest.approx(
        values_of(names, logits, labels if labels.ndim == 2 else labels.astype(np.int64)), rel=1e-12
    )
    for broken in (np.nan, np.inf):
        odd = logits.copy()
        odd[3, 1] = broken
        assert [expected.score(name, odd, labels, task) for name in names] == [None] * len(names)
    least, most = expected.bounds(names[0], logits, labels, task, 0.0) if task != "regression" else (0, 0)
    assert least == most


def test_losses_are_pytorch_s():
    random = np.random.default_rng(4)
    logits, labels = random.standard_normal((30, 3)) * 3, random.integers(3, size=30)
    x, y, w = torch.tensor(logits), torch.tensor(labels), torch.tensor([0.5, 2.0, 0.0]).double()
    flags = {"class_weights": w.numpy(), "label_smoothing": 0.2}
    wanted = F.cross_entropy(x, y, w, label_smoothing=0.2).item()
    assert expected.loss(logits, labels.astype(float), "classes", flags) == pytest.approx(wanted, rel=1e-12)
    have, weight = torch.tensor(random.random((30, 3)) < 0.5).double(), torch.tensor([1.0, 5.0, 0.1]).double()
    wanted = F.binary_cross_entropy_with_logits(x, have, pos_weight=weight).item()
    flags = {"pos_weight": weight.numpy()}
    assert expected.loss(logits, have.numpy(), "labels", flags) == pytest.approx(wanted, rel=1e-12)
    numbers = torch.tensor(random.standard_normal((30, 3)))
    for name, theirs in (("mse", F.mse_loss), ("mae", F.l1_loss)):
        got = expected.loss(logits, numbers.numpy(), "regression", {"loss": name})
        assert got == pytest.approx(theirs(x, numbers).item(), rel=1e-12)
    got = expected.loss(logits, numbers.numpy(), "regression", {"loss": "huber", "huber_delta": 0.3})
    assert got == pytest.approx(F.huber_loss(x, numbers, delta=0.3).item(), rel=1e-12)
    zero = {"class_weights": np.zeros(3)}
    assert math.isnan(expected.loss(logits, labels.astype(float), "classes", zero))


def value_problem(value, wanted, what="test accuracy", **changes):
    case, outcome = draw(0, 0), Outcome()
    case.training = [word for word in case.training if word not in ("--evaluate", "sampled")]
    check_value(case, outcome, what, value, wanted, **changes)
    return list(outcome.problems)


@pytest.mark.parametrize(
    ("value", "wanted", "problems"),
    [
        (0.5, 0.5, []),
        (None, None, []),
        (None, math.inf, []),
        (0.5, 0.4, ["wrong scores"]),
        (None, 0.5, ["wrong scores"]),
        (math.nan, 0.5, ["wrong scores"]),
        (0.5, None, ["scores of nothing finite"]),
        (0.0, math.nan, ["scores of nothing finite"]),
    ],
)
def test_a_value_that_is_not_the_right_one_is_counted(value, wanted, problems):
    assert value_problem(value, wanted) == problems
    of_loss = ["wrong losses" if each == "wrong scores" else each for each in problems]
    assert value_problem(value, wanted, "loss") == of_loss


@pytest.mark.parametrize(
    ("ended", "leaves", "problems"),
    [
        (Ended(0, "", "info: well\n"), (), set()),
        (Ended(2, "", "error: bad\n"), (), set()),
        (Ended(2, "", "warning: odd\nerror: bad\n"), (), set()),
        (Ended(2, "", "error: bad\nerror: worse\n"), (), {"bad messages"}),
        (Ended(2, "", "bad\n"), (), {"bad messages"}),
        (Ended(2, "", "error: bad\n"), ("made",), {"partial outputs"}),
        (Ended(0, "", ""), (".store.x",), {"partial outputs"}),
        (Ended(1, "", "Traceback (most recent call last)\nValueError\n"), (), {"tracebacks"}),
        (Ended(-9, "", ""), (), {"tracebacks"}),
        (Ended(None, "", ""), (), {"hangs"}),
    ],
)
def test_an_end_that_is_neither_good_nor_one_line_is_counted(tmp_path, monkeypatch, ended, leaves, problems):
    def run(words, folder, place):
        for name in leaves:
            (folder / name).touch()
        return ended

    monkeypatch.setattr(judge, "run", run)
    outcome = Outcome()
    assert judge.command(outcome, tmp_path, ["train"], "made") == (ended.code == 0)
    assert set(outcome.problems) == problems


@pytest.mark.parametrize("text", ['{"loss": NaN}', '{"loss": -Infinity}', "{"])
def test_what_is_no_json_is_counted(tmp_path, text):
    for name in ("summary.json", "metrics.jsonl"):
        (tmp_path / name).write_text('{"loss": null}\n' + ("" if name == "summary.json" else text))
        if name == "summary.json":
            (tmp_path / name).write_text(text)
        outcome = Outcome()
        check_json(outcome, tmp_path / name)
        assert list(outcome.problems) == ["no JSON"]


@pytest.fixture
def in_process(in_pool, monkeypatch):
    """Commands run in this process, with the trainers of the pool."""

    def run(words, folder, place):
        name, *arguments = words
        files = ("store", "layout", "run")  # trainers of the pool are in another folder
        arguments = [
            str(folder / word) if word in files or word[-4:] in (".npy", ".csv") else word for word in arguments
        ]
        main = import_module(f"gsplit.{name}.__main__")
        err = io.StringIO()
        code: object = 0
        handler = logging.StreamHandler(err)
        handler.setFormatter(logging.Formatter("info: %(message)s"))
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", [main.PROG, *arguments])
        logging.getLogger().addHandler(handler)
        levels = {name: logging.getLogger(name).level for name in cli.OURS}
        try:
            with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
                cli.main(main.command)
        except SystemExit as end:
            code = end.code
        finally:
            logging.getLogger().removeHandler(handler)
            for logger, level in levels.items():
                logging.getLogger(logger).setLevel(level)
        return Ended(code, "", err.getvalue())

    monkeypatch.setattr(judge, "run", run)
    with in_pool():
        yield


@pytest.mark.parametrize("number", [0, 1, 2, 6])
def test_some_cases(in_process, tmp_path, number):
    (tmp_path / "case").mkdir()
    outcome = judge.judge(draw(number, 0), tmp_path / "case")
    assert outcome.problems == {}
    assert outcome.end in judge.ENDS


def test_values_that_are_changed_on_the_way_are_seen(in_process, tmp_path, monkeypatch):
    """A store with other features, and a score that is not the run's."""
    run = judge.run
    number = next(number for number in range(300) if plain(draw(number, 0)))

    def meddling(words, folder, place):
        ended = run(words, folder, place)
        if words[0] == "data":
            np.save(folder / "store" / "features.npy", np.load(folder / "store" / "features.npy") + 1)
        if words[0] == "train" and (summary := folder / "run" / "summary.json").exists():
            values = json.loads(summary.read_text())
            key = next(key for key in values if key.startswith("test_") and key != "test_seconds")
            summary.write_text(json.dumps({**values, key: 0.123}))
        return ended

    monkeypatch.setattr(judge, "run", meddling)
    (tmp_path / "case").mkdir()
    outcome = judge.judge(draw(number, 0), tmp_path / "case")
    assert {"wrong arrays", "wrong scores"} <= outcome.problems.keys()


def plain(case):
    return all(any(mild in odd for mild in ("alike", "without vertices", "smoothing")) for odd in case.odd)


def test_the_table_and_the_exit_code_say_what_is_wrong(monkeypatch, tmp_path, capsys):
    outcome = Outcome(end="scored", problems={"hangs": "it hangs"}, checked={"losses": 2})
    monkeypatch.setattr(odd_numbers, "_outcomes", lambda numbers, config, folder: [(next(numbers), outcome)])
    monkeypatch.setattr(odd_numbers, "forked", SimpleNamespace(import_everything=lambda: None))
    with pytest.raises(SystemExit) as end:
        odd_numbers.command(["--cases", "1", "--json", str(tmp_path / "found.json")])
    assert end.value.code
    assert "hangs 1," in capsys.readouterr().out
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["ends"]["scored"], found["wrong"]["hangs"], found["recomputed"]) == (1, 1, {"losses": 2})
