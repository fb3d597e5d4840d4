"""Losses and scores of a regression are PyTorch's and scikit-learn's over the entries that are known."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as sklearn
from support.graphs import random_graph, regression_graph
from support.messages import line_with

from gsplit.config.optimisation import ERRORS, LOSSES, ObjectiveConfig
from gsplit.engine.metrics import is_defined, values_of
from gsplit.engine.objective import mini_batch_loss, objective_for, objective_of, weight_of
from gsplit.engine.objectives.regression import Regression
from gsplit.errors import InputError

N = 40
PYTORCHS = {"mse": F.mse_loss, "mae": F.l1_loss, "huber": lambda said, true: F.huber_loss(said, true, delta=0.7)}


def data(outputs=3):
    torch.manual_seed(1)
    labels = torch.randn(N, outputs)
    labels[torch.rand(N, outputs) < 0.4] = torch.nan
    labels[5] = torch.nan
    return torch.randn(N, outputs, dtype=torch.float64), labels


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("name", PYTORCHS)
def test_sums_over_unequal_parts_are_pytorchs_mean_over_what_is_known(name, outputs):
    objective = Regression(name, delta=0.7, outputs=outputs)
    logits, labels = data(outputs)
    logits.requires_grad_()
    known = ~labels.isnan()
    wanted = PYTORCHS[name](logits[known], labels[known].double())
    slope = torch.autograd.grad(wanted, logits)[0]
    parts = [slice(a, b) for a, b in pairwise([0, 0, 3, 20, N])]
    total = sum(objective.losses(logits[part], labels[part]).sum() for part in parts)
    weight = sum(weight_of(objective, labels[part]) for part in parts)
    assert weight == known.sum()
    torch.testing.assert_close(total / weight, wanted, rtol=1e-12, atol=0)
    torch.testing.assert_close(torch.autograd.grad(total / weight, logits)[0], slope, rtol=1e-12, atol=0)


def test_nothing_that_is_unknown_gets_into_a_gradient():
    logits = torch.tensor([[math.inf, 1.0], [2.0, math.nan]], requires_grad=True)
    labels = torch.tensor([[math.nan, 0.0], [1.0, math.nan]])
    for name in PYTORCHS:
        (slope,) = torch.autograd.grad(Regression(name, outputs=2).losses(logits, labels).sum(), logits)
        assert (slope[0, 0], slope[1, 1]) == (0, 0)
        assert slope.isfinite().all()


@pytest.mark.parametrize("outputs", [1, 3])
def test_scores_are_those_of_scikit_learn(outputs):
    logits, labels = data(outputs)
    objective = Regression(outputs=outputs)
    masks = [~labels[:, c].isnan() for c in range(outputs)]
    columns = [(labels[known, c], logits[known, c]) for c, known in enumerate(masks)]
    rmse = np.mean([sklearn.root_mean_squared_error(true.double(), said) for true, said in columns])
    mae = np.mean([sklearn.mean_absolute_error(true.double(), said) for true, said in columns])
    parts = [slice(a, b) for a, b in pairwise([0, 0, 3, 20, N])]
    counts = np.sum([objective.counts(logits[part], labels[part]) for part in parts], axis=0)
    assert objective.score(counts) == pytest.approx(rmse, abs=1e-12)
    assert values_of(ERRORS, logits.numpy(), labels.numpy()) == pytest.approx([rmse, mae], abs=1e-12)


def test_where_all_is_known_scores_are_scikit_learns_of_all_outputs():
    logits, labels = data()
    labels = labels.nan_to_num(0.3).double()
    wanted = [sklearn.root_mean_squared_error(labels, logits), sklearn.mean_absolute_error(labels, logits)]
    assert values_of(ERRORS, logits.numpy(), labels.numpy()) == pytest.approx(wanted, abs=1e-12)
    objective = Regression(outputs=3)
    assert objective.score(objective.counts(logits, labels)) == pytest.approx(wanted[0], abs=1e-12)


def test_what_is_not_defined_and_what_is_not_finite():
    logits, labels = data()
    labels[:, 1] = torch.nan  # an output of which nothing is known counts nothing
    known = labels[:, [0, 2]], logits[:, [0, 2]]
    objective, rest = Regression(outputs=3), Regression(outputs=2)
    assert objective.score(objective.counts(logits, labels)) == rest.score(rest.counts(known[1], known[0]))
    values = values_of(ERRORS, logits.numpy(), labels.numpy())
    assert values == values_of(ERRORS, known[1].numpy(), known[0].numpy())
    assert all(is_defined(name, labels.numpy(), 3) for name in ERRORS)
    nothing = labels * torch.nan
    assert not any(is_defined(name, nothing.numpy(), 3) for name in ERRORS)
    assert math.isnan(objective.score(objective.counts(logits, nothing)))
    assert all(math.isnan(value) for value in values_of(ERRORS, logits.numpy(), nothing.numpy()))
    assert weight_of(objective, nothing) == 0
    logits[0, 0], labels[0, 0] = torch.inf, 1.0
    assert all(math.isnan(value) for value in values_of(ERRORS, logits.numpy(), labels.numpy()))


def test_numbers_are_predicted_as_they_are():
    logits, _ = data()
    assert objective_of("regression", 3).predict(logits) is logits


@pytest.mark.parametrize(
    ("given", "task", "message"),
    [
        ({"loss": "mse"}, "classes", "--loss mse, regression, one class"),
        ({"loss": "bce"}, "regression", "--loss bce, --loss mse"),
        ({"loss": "bce"}, "classes", "--loss bce, --loss cross-entropy"),
        ({"loss": "cross-entropy"}, "labels", "--loss cross-entropy, --loss bce"),
        ({"class_weights": "1,2"}, "regression", "--class-weights, 1,2, regression"),
        ({"label_smoothing": 0.1}, "regression", "--label-smoothing, 0.1, regression"),
        ({"focal_gamma": 2.0}, "regression", "--focal-gamma, 2.0, regression"),
        ({"pos_weight": "2"}, "regression", "--pos-weight, 2, regression, labels"),
        ({"metrics": "mae,accuracy"}, "regression", "--metrics accuracy, rmse, mae"),
        ({"metrics": "accuracy,rmse"}, "classes", "--metrics rmse"),
        ({"metrics": "mae"}, "labels", "--metrics mae"),
        ({"loss": "l2"}, "regression", f"--loss, l2, {', '.join(LOSSES)}"),
        ({"huber_delta": 0.0}, "regression", "--huber-delta, 0, 0.0"),
    ],
)
def test_what_labels_do_not_go_with_is_refused(given, task, message):
    graph = {
        "classes": random_graph(30, 4, seed=1),
        "labels": random_graph(30, 4, seed=1, multi_label=True),
        "regression": regression_graph(30, 4, seed=1),
    }[task]
    with pytest.raises(InputError, match=line_with(message)):
        objective_for(ObjectiveConfig(**given), graph)


def test_each_loss_may_be_named():
    for name, graph in (
        ("cross-entropy", random_graph(30, 4, seed=1)),
        ("bce", random_graph(30, 4, seed=1, multi_label=True)),
        ("huber", regression_graph(30, 4, seed=1)),
    ):
        objective_for(ObjectiveConfig(loss=name), graph)


def test_drawn_targets_count_as_often_as_they_stand_for():
    logits, labels = data()
    scales = torch.rand(N, dtype=torch.float64) + 0.5
    known = ~labels.isnan()
    of_entries = scales.unsqueeze(1).expand_as(labels)[known]
    wanted = (of_entries * (logits[known] - labels[known]).square()).sum() / of_entries.sum()
    objective = Regression(outputs=3)
    ours = mini_batch_loss(objective, logits, labels, 1, scales) / weight_of(objective, labels, scales)
    torch.testing.assert_close(ours, wanted, rtol=1e-12, atol=0)
