"""What is learned: one class of several, or any number of labels. Loss and scores from sums and counts.

Everything is a sum over targets, so that unequal splits weigh as they should (law 2): trainers add their sums
and divide once by the global count.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gsplit.errors import InputError


class MultiClass:
    """Cross-entropy and accuracy; labels int64 [n]."""

    name = "accuracy"
    num_counts = 2

    def loss_sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="sum")

    def counts(self, logits: Tensor, labels: Tensor) -> list[int]:
        """[right, all]"""
        return [int((logits.argmax(dim=1) == labels).sum()), len(labels)]

    def score(self, counts: Sequence[float]) -> float:
        """Share of vertices whose class is right; over all trainers when their counts were added."""
        right, total = counts
        return right / total if total else 0.0

    def predict(self, logits: Tensor) -> Tensor:
        """int64 [n]"""
        return logits.argmax(dim=1)


class MultiLabel:
    """Binary cross-entropy, averaged over the classes, and micro-averaged F1; labels float32 [n, C]."""

    name = "f1"
    num_counts = 3

    def loss_sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        each = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
        return each.sum() / max(1, logits.shape[1])

    def counts(self, logits: Tensor, labels: Tensor) -> list[int]:
        """[true positives, false positives, false negatives]"""
        said, true = logits > 0, labels > 0.5
        return [int((said & true).sum()), int((said & ~true).sum()), int((~said & true).sum())]

    def score(self, counts: Sequence[float]) -> float:
        true_positives, false_positives, false_negatives = counts
        total = 2 * true_positives + false_positives + false_negatives
        return 2 * true_positives / total if total else 0.0

    def predict(self, logits: Tensor) -> Tensor:
        """uint8 [n, C]"""
        return (logits > 0).to(torch.uint8)


Objective = MultiClass | MultiLabel


def objective_of(multi_label: bool) -> Objective:
    return MultiLabel() if multi_label else MultiClass()


def mini_batch_loss(objective: Objective, logits: Tensor, labels: Tensor, num_targets: int) -> Tensor:
    """This trainer's share: the sum over its own targets, divided by the targets of all trainers (law 2)."""
    if len(labels) == 0:
        return logits.sum() * 0  # no target, but a graph that reaches all exchanges
    return objective.loss_sum(logits, labels) / num_targets


def check_logits(logits: Tensor, num_targets: int, num_classes: int) -> None:
    """Whether a model of the user's gives what a loss can be made of.

    Raises:
        InputError: for any shape but [targets, classes].
    """
    if logits.shape != (num_targets, num_classes):
        raise InputError(
            f"the model gave logits of shape {tuple(logits.shape)} for {num_targets} targets and {num_classes} "
            "classes; it must have as many layers as --fan-out has numbers, and as many outputs as there are classes"
        )
