"""Losses and scores are sums and counts, so they add up over any split of the targets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gsplit.engine.objective import MultiClass, MultiLabel, objective_of

N = 30


def data(multi_label):
    torch.manual_seed(0)
    logits = torch.randn(N, 4, dtype=torch.float64)
    labels = (torch.rand(N, 4) < 0.4).float() if multi_label else torch.randint(0, 4, (N,))
    return logits, labels


@pytest.mark.parametrize("multi_label", [False, True])
def test_sums_add_up_over_unequal_parts(multi_label):
    objective = objective_of(multi_label)
    logits, labels = data(multi_label)
    cuts = [0, 0, 3, 20, N]
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    losses = sum(objective.loss_sum(logits[part], labels[part]) for part in parts)
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
