"""Losses and scores are sums and counts, so they add up over any split of the targets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.graphs import random_graph
from support.messages import line_with

from gsplit.config.optimisation import ObjectiveConfig
from gsplit.engine.objective import objective_for, objective_of
from gsplit.engine.objectives.classification import MultiClass, MultiLabel
from gsplit.errors import InputError

N = 30


def data(multi_label):
    torch.manual_seed(0)
    logits = torch.randn(N, 4, dtype=torch.float64)
    labels = (torch.rand(N, 4) < 0.4).float() if multi_label else torch.randint(0, 4, (N,))
    return logits, labels


@pytest.mark.parametrize("multi_label", [False, True])
def test_sums_add_up_over_unequal_parts(multi_label):
    objective = objective_of("labels" if multi_label else "classes")
    logits, labels = data(multi_label)
    cuts = [0, 0, 3, 20, N]
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    losses = sum(objective.losses(logits[part], labels[part]).sum() for part in parts)
    wanted = F.binary_cross_entropy_with_logits if multi_label else F.cross_entropy
    torch.testing.assert_close(losses / N, wanted(logits, labels.double() if multi_label else labels))
    counts = np.sum([objective.counts(logits[part], labels[part]) for part in parts], axis=0)
    assert objective.score(counts) == pytest.approx(objective.score(objective.counts(logits, labels)))


def test_accuracy_is_not_the_mean_of_means():
    # 1 of 1 right on one trainer, 1 of 3 on the other: 2 of 4, not 2/3.
    assert MultiClass().score([1 + 1, 1 + 3]) == 0.5


def test_micro_f1_by_hand():
    logits = torch.tensor([[1.0, -1.0], [1.0, 1.0]])
    labels = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    counts = MultiLabel().counts(logits, labels)
    assert counts == [2, 1, 1]
    assert MultiLabel().score(counts) == pytest.approx(4 / 6)
    assert MultiLabel().predict(logits).tolist() == [[1, 0], [1, 1]]


def test_nothing_to_score():
    assert MultiClass().score([0, 0]) == 0.0
    assert MultiLabel().score([0, 0, 0]) == 0.0


WEIGHTS = torch.tensor([0.5, 2.0, 0.0, 1.0], dtype=torch.float64)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_weights_and_smoothing_are_pytorchs_mean(weights, smoothing):
    objective = MultiClass(weights, smoothing=smoothing)
    logits, labels = data(multi_label=False)
    parts = [slice(0, 0), slice(0, 3), slice(3, 20), slice(20, N)]
    total = sum(objective.losses(logits[part], labels[part]).sum() for part in parts)
    weight = N if weights is None else sum(objective.weights(labels[part]).sum() for part in parts)
    wanted = F.cross_entropy(logits, labels, weight=weights, label_smoothing=smoothing)
    torch.testing.assert_close(total / weight, wanted, rtol=1e-12, atol=0)


def test_focal_loss_by_its_formula():
    logits, labels = data(multi_label=False)
    right = logits.softmax(dim=1)[torch.arange(N), labels]
    wanted = -(WEIGHTS[labels] * (1 - right) ** 2.5 * right.log())
    torch.testing.assert_close(MultiClass(WEIGHTS, gamma=2.5).losses(logits, labels), wanted)
    logits, labels = data(multi_label=True)
    right = torch.where(labels > 0.5, logits.sigmoid(), 1 - logits.sigmoid())
    each = torch.where(labels > 0.5, WEIGHTS, torch.ones(())) * -right.log() * (1 - right) ** 1.5
    torch.testing.assert_close(MultiLabel(WEIGHTS, gamma=1.5).losses(logits, labels), each.mean(dim=1))


@pytest.mark.parametrize("multi_label", [False, True])
def test_focal_loss_of_what_is_certain_has_a_finite_slope(multi_label):
    logits = torch.tensor([[50.0, -50.0], [-3.0, 200.0]], requires_grad=True)
    labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]]) if multi_label else torch.tensor([0, 1])
    objective = (MultiLabel if multi_label else MultiClass)(gamma=0.5)
    objective.losses(logits, labels).sum().backward()
    assert logits.grad.isfinite().all()


def test_labels_weigh_as_pytorchs_do():
    logits, labels = data(multi_label=True)
    objective = MultiLabel(WEIGHTS)
    wanted = F.binary_cross_entropy_with_logits(logits, labels.double(), pos_weight=WEIGHTS)
    torch.testing.assert_close(objective.losses(logits, labels).sum() / N, wanted)
    assert objective.weights(labels) is None


def test_balanced_weights_are_those_of_the_training_vertices():
    graph = random_graph(60, 5, seed=9, classes=4)
    graph.labels[graph.train_idx] = np.arange(len(graph.train_idx)) % 3  # nobody is of class 3
    counts = np.bincount(graph.labels[graph.train_idx], minlength=4)
    weights = objective_for(ObjectiveConfig(class_weights="balanced"), graph).weights(torch.arange(4)).sum()
    assert weights == pytest.approx(sum(len(graph.train_idx) / (4 * count) for count in counts[:3]))
    several = random_graph(60, 5, seed=9, classes=3, multi_label=True)
    several.labels[:, 2] = 0
    of_label = several.labels[several.train_idx].sum(axis=0)
    logits, labels = torch.zeros(1, 3).double(), torch.ones(1, 3)
    wanted = [(len(several.train_idx) - count) / count for count in of_label[:2]] + [1]
    loss = objective_for(ObjectiveConfig(pos_weight="balanced"), several).losses(logits, labels).sum()
    assert loss.item() == pytest.approx(np.mean(wanted) * np.log(2))


@pytest.mark.parametrize(
    ("given", "multi_label", "message"),
    [
        ({"class_weights": "1,2"}, False, "--class-weights, 2, 3"),
        ({"class_weights": "1,2,3"}, True, "--class-weights, 1,2,3, labels, classes"),
        ({"label_smoothing": 0.1}, True, "--label-smoothing, 0.1, labels"),
        ({"pos_weight": "2"}, False, "--pos-weight, 2, classes, labels"),
        ({"pos_weight": "2,3"}, True, "--pos-weight, 2, 3"),
        ({"class_weights": "even"}, False, "--class-weights, even, balanced"),
        ({"class_weights": "1,-2,3"}, False, "--class-weights, 1,-2,3"),
        ({"class_weights": "0,0,0"}, False, "--class-weights, 0,0,0"),
        ({"label_smoothing": 1.0}, False, "--label-smoothing, 0, 1, 1.0"),
        ({"focal_gamma": -1.0}, False, "--focal-gamma, 0, -1.0"),
    ],
)
def test_what_labels_do_not_go_with_is_refused(given, multi_label, message):
    graph = random_graph(30, 4, seed=1, classes=3, multi_label=multi_label)
    with pytest.raises(InputError, match=line_with(message)):
        objective_for(ObjectiveConfig(**given), graph)
