"""What is learned: one class of several, or any number of labels. Loss and scores from sums and counts.

Everything is a sum over targets, so that unequal splits weigh as they should (law 2): trainers add their sums
and divide once by the global count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from gsplit.errors import InputError


class Objective(Protocol):
    """What is learned: a loss, counts of hits and misses, and the score that they make."""

    name: str
    """Name of the score, as in ``valid_accuracy``."""
    num_counts: int
    """Number of counts that a score is made of."""

    def loss_sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Scalar sum of the losses of some vertices, from logits [n, C]."""

    def counts(self, logits: Tensor, labels: Tensor) -> list[int]:
        """[num_counts] counts over some vertices, from logits [n, C] on the CPU."""

    def score(self, counts: Sequence[float]) -> float:
        """The score that counts make; over all trainers when their counts were added."""

    def predict(self, logits: Tensor) -> Tensor:
        """Classes that logits [n, C] say."""


class MultiClass:
    """One class of several: cross-entropy and accuracy; labels int64 [n]."""

    name = "accuracy"
    num_counts = 2

    def loss_sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Scalar sum of the cross-entropies."""
        return F.cross_entropy(logits, labels, reduction="sum")

    def counts(self, logits: Tensor, labels: Tensor) -> list[int]:
        """[right, all] counts of vertices."""
        return [int((logits.argmax(dim=1) == labels).sum()), len(labels)]

    def score(self, counts: Sequence[float]) -> float:
        """Share of vertices whose class is right."""
        right, total = counts
        return right / total if total else 0.0

    def predict(self, logits: Tensor) -> Tensor:
        """Most likely classes, int64 [n]."""
        return logits.argmax(dim=1)


class MultiLabel:
    """Any number of labels: binary cross-entropy, averaged over the classes, and micro-averaged F1.

    Labels are float32 [n, C].
    """

    name = "f1"
    num_counts = 3

    def loss_sum(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Scalar sum over the vertices of the mean over the classes."""
        each = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
        return each.sum() / max(1, logits.shape[1])

    def counts(self, logits: Tensor, labels: Tensor) -> list[int]:
        """[true positives, false positives, false negatives] counts of labels."""
        said, true = logits > 0, labels > 0.5
        return [int((said & true).sum()), int((said & ~true).sum()), int((~said & true).sum())]

    def score(self, counts: Sequence[float]) -> float:
        """F1 over all labels of all vertices."""
        true_positives, false_positives, false_negatives = counts
        total = 2 * true_positives + false_positives + false_negatives
        return 2 * true_positives / total if total else 0.0

    def predict(self, logits: Tensor) -> Tensor:
        """Labels that are more likely than not, uint8 [n, C]."""
        return (logits > 0).to(torch.uint8)


def objective_of(multi_label: bool) -> Objective:
    """The objective of a graph, by whether its vertices may have several labels."""
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
