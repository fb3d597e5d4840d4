"""What a loss of the user's gives is recognised; what trainers could not add up is refused before a run begins."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.graphs import random_graph, regression_graph
from support.messages import line_with
from torch import nn

from gsplit.config.optimisation import ObjectiveConfig
from gsplit.engine.objective import mini_batch_loss, objective_for, weight_of
from gsplit.engine.objectives.own_loss import OwnLoss, own_loss
from gsplit.errors import InputError

CLASSES = random_graph(60, 4, seed=1)
SEVERAL = random_graph(60, 4, seed=1, multi_label=True)
NUMBERS = regression_graph(60, 4, seed=1, outputs=2)
ONE = regression_graph(60, 4, seed=1, outputs=1)


def each_target(logits, labels):
    return F.cross_entropy(logits, labels, reduction="none")


def each_entry(logits, labels):
    return (logits - labels) ** 2


def each_label(logits, labels):
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="none")


def total(logits, labels):
    return F.cross_entropy(logits, labels, reduction="sum")


def known_of_target(logits, labels):
    return torch.where(labels.isnan(), 0, logits - labels).abs().sum(dim=1)


def mean(logits, labels):
    return F.cross_entropy(logits, labels)


def beside_others(logits, labels):
    return each_target(logits, labels) / torch.bincount(labels, minlength=3)[labels]


def noisy(logits, labels):
    return each_target(logits, labels) * torch.rand(len(labels))


def constant(logits, labels):
    return labels.double()


def pairs(logits, labels):
    return logits @ logits.T


def of_six(logits, labels):
    """Finite on all targets that the loss is tried on, and NaN on fewer."""
    return logits.logsumexp(1).sum() * (1.0 if len(logits) == 6 else float("nan"))


def number(logits, labels):
    return 1.0


def failing(logits, labels):
    raise IndexError("no such\ncolumn")


def careless(logits, labels):
    return (logits - labels).abs().sum(dim=1)


class Margin(nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        self.register_buffer("weight", weight)
        self.free = nn.Parameter(torch.ones(1), requires_grad=weight is None)

    def forward(self, logits, labels):
        return F.multi_margin_loss(logits, labels, weight=self.weight, reduction="none")


def tried(function, graph, dtype=torch.float64):
    return own_loss(None, function, graph, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("function", "graph", "returns"),
    [
        (each_target, CLASSES, "values of targets"),
        (total, CLASSES, "a sum"),
        (each_label, SEVERAL, "values of entries"),
        (each_entry, NUMBERS, "values of entries"),
        (each_entry, ONE, "values of entries"),
        (known_of_target, NUMBERS, "values of targets"),
        (nn.CrossEntropyLoss(reduction="sum"), CLASSES, "a sum"),
        (functools.partial(F.multi_margin_loss, reduction="none"), CLASSES, "values of targets"),
    ],
)
def test_what_is_given_is_recognised(function, graph, returns, dtype):
    found = tried(function, graph, dtype)
    assert found.returns == returns
    assert callable(pickle.loads(pickle.dumps(found)).function())


@pytest.mark.parametrize(
    ("function", "graph", "message"),
    [
        (mean, CLASSES, "mean, 2 targets, 4 others, return a value for each target"),
        (nn.CrossEntropyLoss(), CLASSES, "CrossEntropyLoss, 2 targets"),
        (beside_others, CLASSES, "beside_others, # targets"),
        (noisy, CLASSES, "noisy, # targets"),
        (of_six, CLASSES, "of_six, # targets"),
        (constant, CLASSES, "constant, logits"),
        (pairs, CLASSES, "pairs, [6, 6], [6, 3], return a value for each target"),
        (number, CLASSES, "number, float"),
        (failing, CLASSES, "failing, [6, 3], IndexError: no such column"),
        (careless, NUMBERS, "careless, NaN"),
        (Margin(), CLASSES, "Margin, parameters"),
        (lambda logits, labels: logits, CLASSES, "<lambda>"),
    ],
)
def test_what_trainers_could_not_add_up_is_refused(function, graph, message):
    with pytest.raises(InputError, match=line_with(message)):
        tried(function, graph)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("math:tau", "--loss math:tau, tau"),
        ("math:none", "--loss math:none, none"),
        ("nowhere_at_all:f", "--loss nowhere_at_all:f, nowhere_at_all"),
        ("mine.py:f", "--loss mine.py:f, --loss mine:f"),
        ("torch.nn:MSELoss", "--loss torch.nn:MSELoss, MSELoss"),
    ],
)
def test_names_of_nothing_are_refused(name, message):
    with pytest.raises(InputError, match=line_with(message)):
        own_loss(name, None, CLASSES, torch.float64)


def test_one_of_two_ways_to_give_a_loss():
    with pytest.raises(InputError, match=line_with("--loss mse")):
        own_loss("mse", each_entry, NUMBERS, torch.float64)
    assert own_loss("mse", None, NUMBERS, torch.float64) is None
    assert own_loss(None, None, NUMBERS, torch.float64) is None


def test_flags_of_other_losses_do_not_go_with_it():
    own = tried(each_target, CLASSES)
    with pytest.raises(InputError, match=line_with("--class-weights, 1,2,3, each_target")):
        objective_for(ObjectiveConfig(class_weights="1,2,3"), CLASSES, own=own)


def parts_of(n):
    return [slice(0, 0), slice(0, 1), slice(1, n // 2), slice(n // 2, n)]


@pytest.mark.parametrize(
    ("function", "graph", "wanted"),
    [
        (each_target, CLASSES, F.cross_entropy),
        (total, CLASSES, F.cross_entropy),
        (each_label, SEVERAL, F.binary_cross_entropy_with_logits),
        (each_entry, NUMBERS, F.mse_loss),
        (each_entry, ONE, F.mse_loss),
    ],
)
def test_the_engine_divides_by_what_counts_on_all_trainers(function, graph, wanted):
    objective = objective_for(ObjectiveConfig(), graph, own=tried(function, graph))
    labels = torch.from_numpy(graph.labels[graph.train_idx])
    logits = torch.randn(len(labels), graph.num_classes, dtype=torch.float64, requires_grad=True)
    if graph.regression:
        known = ~labels.isnan()
        mean_ = wanted(logits[known], labels[known].double())
    else:
        mean_ = wanted(logits, labels.double() if labels.ndim == 2 else labels)
    losses, weights = torch.zeros(()), torch.zeros(())
    for part in parts_of(len(labels)):
        losses = losses + mini_batch_loss(objective, logits[part], labels[part], len(labels))
        weight = weight_of(objective, labels[part])
        weights = weights + (len(labels[part]) if weight is None else weight)
    ours = losses * len(labels) / weights
    torch.testing.assert_close(ours, mean_, rtol=1e-12, atol=0)
    slopes = [torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (ours, mean_)]
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-15)


def test_targets_of_which_nothing_is_known_are_not_shown(monkeypatch):
    def sees_all(logits, labels):
        assert not labels.isnan().all(dim=1).any()
        return known_of_target(logits, labels)

    graph = NUMBERS
    labels = torch.from_numpy(np.array(graph.labels[graph.train_idx]))
    rows = ~labels.isnan().all(dim=1)
    assert 0 < rows.sum() < len(rows)
    objective = objective_for(ObjectiveConfig(), graph, own=tried(known_of_target, graph))
    monkeypatch.setattr(objective, "_function", sees_all)
    logits = torch.randn(labels.shape, dtype=torch.float64, requires_grad=True)
    losses = objective.losses(logits, labels)
    torch.testing.assert_close(losses[rows], known_of_target(logits, labels.double())[rows])
    assert (losses[~rows] == 0).all()
    assert weight_of(objective, labels) == rows.sum()
    nothing = objective.losses(logits[~rows], labels[~rows])
    assert torch.autograd.grad(nothing.sum(), logits)[0].abs().sum() == 0


def test_a_module_computes_where_and_in_the_type_that_logits_have():
    own = tried(Margin(torch.tensor([1.0, 2.0, 3.0])), CLASSES, torch.float32)
    objective = objective_for(ObjectiveConfig(), CLASSES, torch.device("cpu"), torch.float64, own=own)
    labels = torch.from_numpy(CLASSES.labels[CLASSES.train_idx])
    losses = objective.losses(torch.randn(len(labels), 3, dtype=torch.float64), labels)
    assert losses.dtype == torch.float64


def test_another_shape_later_on_is_refused():
    own = OwnLoss(name="changing", returns="a sum", pickled=pickle.dumps(each_target))
    objective = objective_for(ObjectiveConfig(), CLASSES, own=own)
    with pytest.raises(InputError, match=line_with("changing, sum, targets")):
        objective.losses(torch.randn(4, 3, requires_grad=True), torch.zeros(4, dtype=torch.int64))
