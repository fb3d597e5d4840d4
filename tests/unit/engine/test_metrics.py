"""Metrics are scikit-learn's of what was gathered."""

from __future__ import annotations

import builtins
import math

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn
from support.messages import line_with

from gsplit.config.optimisation import OF_CLASSES, ObjectiveConfig
from gsplit.engine.metrics import check_installed, is_defined, key_of, values_of
from gsplit.engine.objectives.classification import MultiLabel
from gsplit.errors import InputError

N, C = 200, 4


def data(classes=C, *, multi_label=False, seed=0):
    random = np.random.default_rng(seed)
    logits = random.standard_normal((N, classes)).astype(np.float32) * 3
    labels = random.integers(0, classes, N)
    logits[np.arange(N), labels] += 2
    return logits, (random.random((N, classes)) < 0.3).astype(np.float32) if multi_label else labels


def softmax(logits):
    powers = np.exp(logits.astype(np.float64))
    return powers / powers.sum(axis=1, keepdims=True)


def test_one_class_of_several():
    logits, labels = data()
    said, shares = logits.argmax(axis=1), softmax(logits)
    members = np.eye(C)[labels]
    wanted = [
        sklearn.accuracy_score(labels, said),
        sklearn.f1_score(labels, said, average="macro"),
        sklearn.f1_score(labels, said, average="micro"),
        sklearn.roc_auc_score(labels, shares, multi_class="ovr", average="macro"),
        sklearn.average_precision_score(members, shares, average="macro"),
    ]
    assert values_of(OF_CLASSES, logits, labels) == pytest.approx(wanted, abs=1e-12)
    assert len(set(wanted)) == 4  # the micro-averaged F1 is the accuracy


def test_two_classes_are_those_of_the_second():
    logits, labels = data(2)
    shares = softmax(logits)[:, 1]
    wanted = [sklearn.roc_auc_score(labels, shares), sklearn.average_precision_score(labels, shares)]
    assert values_of(("auroc", "ap"), logits, labels) == pytest.approx(wanted, abs=1e-12)


def test_several_labels():
    logits, labels = data(multi_label=True)
    said, scores = logits > 0, logits.astype(np.float64)
    wanted = [
        sklearn.accuracy_score(labels, said),
        sklearn.f1_score(labels, said, average="macro"),
        sklearn.f1_score(labels, said, average="micro"),
        sklearn.roc_auc_score(labels, scores, average="macro"),
        sklearn.average_precision_score(labels, scores, average="macro"),
    ]
    assert values_of(OF_CLASSES, logits, labels) == pytest.approx(wanted, abs=1e-12)


def test_one_label_is_that_of_the_default_score():
    logits, labels = (array[:, :1] for array in data(multi_label=True))
    objective = MultiLabel()
    wanted = objective.score(objective.counts(torch.from_numpy(logits), torch.from_numpy(labels)))
    assert values_of(("micro-f1", "macro-f1"), logits, labels) == pytest.approx([wanted, wanted], abs=1e-12)


def test_classes_that_nobody_has_are_left_out_of_means():
    logits, labels = data()
    labels = labels % 2  # of classes 2 and 3 is nobody
    shares = softmax(logits)
    wanted = np.mean([sklearn.roc_auc_score(labels == c, shares[:, c]) for c in (0, 1)])
    assert values_of(["auroc"], logits, labels) == pytest.approx([wanted], abs=1e-12)


def test_what_is_not_defined():
    logits, labels = data()
    values = dict(zip(OF_CLASSES, values_of(OF_CLASSES, logits, labels * 0), strict=True))
    assert math.isnan(values["auroc"])
    assert math.isnan(values["ap"])
    assert 0 < values["accuracy"] < 1
    assert all(math.isnan(value) for value in values_of(OF_CLASSES, logits[:0], labels[:0]))


def test_whether_a_metric_is_defined_is_known_from_the_labels():
    _, labels = data()
    assert all(is_defined(name, labels, C) for name in OF_CLASSES)
    assert [is_defined(name, labels * 0, C) for name in OF_CLASSES] == [True, True, True, False, False]
    assert not is_defined("auroc", np.ones((5, 2)), 2)
    assert is_defined("auroc", np.eye(2), 2)
    assert not is_defined("accuracy", labels[:0], C)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_metric_is_defined_where_a_logit_is_not_finite(value):
    logits, labels = data()
    logits[3, 1] = value
    assert np.isnan(values_of(OF_CLASSES, logits, labels)).all()
    assert np.isnan(values_of(OF_CLASSES, logits, labels[:, None] == np.arange(C))).all()
    assert np.isnan(values_of(("rmse", "mae"), logits, np.where(logits == value, np.nan, 0.0))).all()


def test_large_logits_have_no_infinite_shares():
    logits, labels = data()
    assert values_of(["auroc"], logits * 1e4, labels)[0] > 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("f1", "--metrics, f1, accuracy, macro-f1, micro-f1, auroc, ap, rmse, mae"),
        ("", "--metrics, accuracy"),
        ("ap,ap", "--metrics, ap,ap"),
    ],
)
def test_other_metrics_are_refused(given, message):
    with pytest.raises(InputError, match=line_with(message)):
        ObjectiveConfig(metrics=given)


def test_names_in_files():
    assert key_of("macro-f1") == "macro_f1"
    assert ObjectiveConfig(metrics="ap,macro-f1").metric_names == ("ap", "macro-f1")
    assert ObjectiveConfig().metric_names == ()


def test_without_scikit_learn_a_line_says_so(monkeypatch):
    whole = builtins.__import__

    def without(name, *arguments, **named):
        if name.startswith("sklearn"):
            raise ImportError("No module named 'sklearn'")
        return whole(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=line_with("--metrics, scikit-learn, pip install 'gsplit[metrics]'")):
        check_installed()
