"""What is learned: one class of several, or any number of labels. Loss and scores from sums and counts.

Everything is a sum over targets, so that unequal splits weigh as they should (law 2): trainers add their sums
and divide once by the global count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from gsplit.config.optimisation import ObjectiveConfig, parse_weights
from gsplit.data import GraphArrays
from gsplit.errors import InputError


class Objective(Protocol):
    """What is learned: a loss, counts of hits and misses, and the score that they make."""

    name: str
    """Name of the score, as in ``valid_accuracy``."""
    num_counts: int
    """Number of counts that a score is made of."""

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """[n] losses of some vertices, times the weights of their classes, from logits [n, C]."""

    def weights(self, labels: Tensor) -> Tensor | None:
        """[n] weights of some vertices by their classes, by which their losses are divided; None: each weighs 1."""

    def counts(self, logits: Tensor, labels: Tensor) -> list[int]:
        """[num_counts] counts over some vertices, from logits [n, C] on the CPU."""

    def score(self, counts: Sequence[float]) -> float:
        """The score that counts make; over all trainers when their counts were added."""

    def predict(self, logits: Tensor) -> Tensor:
        """Classes that logits [n, C] say."""


class MultiClass:
    """One class of several: cross-entropy and accuracy; labels int64 [n].

    Args:
        weights: [C] what each class counts; None: 1.
        smoothing: the share of each target's loss that all classes have alike.
        gamma: of the focal loss (Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, equation 4); 0 is
            the plain one.
    """

    name = "accuracy"
    num_counts = 2

    def __init__(self, weights: Tensor | None = None, *, smoothing: float = 0.0, gamma: float = 0.0) -> None:
        self._weights, self._smoothing, self._gamma = weights, smoothing, gamma

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """[n] cross-entropies."""
        weights = None if self._weights is None else self._weights.to(logits)
        each = F.cross_entropy(logits, labels, weights, reduction="none", label_smoothing=self._smoothing)
        if not self._gamma:
            return each
        right = F.log_softmax(logits, dim=1).gather(1, labels.unsqueeze(1)).squeeze(1)
        return _powers(-torch.expm1(right), self._gamma) * each

    def weights(self, labels: Tensor) -> Tensor | None:
        """[n] weights of the labels' classes; None without weights."""
        return None if self._weights is None else self._weights.to(labels.device)[labels]

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

    Args:
        pos_weight: [C] what having a label counts beside not having it; None: 1.
        gamma: of the focal loss, as for one class of several, label by label.
    """

    name = "f1"
    num_counts = 3

    def __init__(self, pos_weight: Tensor | None = None, *, gamma: float = 0.0) -> None:
        self._pos_weight, self._gamma = pos_weight, gamma

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """[n] means over the classes."""
        labels = labels.to(logits.dtype)
        pos_weight = None if self._pos_weight is None else self._pos_weight.to(logits)
        each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none", pos_weight=pos_weight)
        if self._gamma:
            each = each * _powers((logits * (1 - 2 * labels)).sigmoid(), self._gamma)
        return each.sum(dim=1) / max(1, logits.shape[1])

    def weights(self, labels: Tensor) -> None:
        """Every vertex weighs 1."""

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


def _powers(wrong: Tensor, gamma: float) -> Tensor:
    """Probabilities of what is wrong to a power; at 0 its slope may be infinite, and is taken as 0."""
    return wrong.clamp_min(torch.finfo(wrong.dtype).tiny) ** gamma


def objective_of(multi_label: bool) -> Objective:
    """The plain objective of a graph, by whether its vertices may have several labels."""
    return MultiLabel() if multi_label else MultiClass()


def objective_for(
    config: ObjectiveConfig, graph: GraphArrays, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> Objective:
    """The objective that a configuration asks for.

    Args:
        config: of the run.
        graph: whose training vertices balance what is to be balanced.
        device, dtype: where and in which type weights are kept; None: on the CPU, in float64.

    Raises:
        InputError: for what the labels of the graph do not go with.
    """
    if graph.multi_label:
        for flag, given in (("--class-weights", config.class_weights), ("--label-smoothing", config.label_smoothing)):
            if given:
                raise InputError(
                    f"{flag} {given} is for one class of several, and a vertex of this graph may have any number of "
                    "labels; use --pos-weight"
                )
        pos_weight = _weights("--pos-weight", config.pos_weight, graph, _positives)
        return MultiLabel(_placed(pos_weight, device, dtype), gamma=config.focal_gamma)
    if config.pos_weight is not None:
        raise InputError(
            f"--pos-weight {config.pos_weight} is for labels of which a vertex may have any number, and here each "
            "has one class; use --class-weights"
        )
    weights = _weights("--class-weights", config.class_weights, graph, _shares)
    weights = _placed(weights, device, dtype)
    return MultiClass(weights, smoothing=config.label_smoothing, gamma=config.focal_gamma)


def _placed(weights: Tensor | None, device: torch.device | None, dtype: torch.dtype | None) -> Tensor | None:
    """Weights where logits will be, or each mini-batch would wait for a copy."""
    return None if weights is None else weights.to(device, dtype)


def _weights(
    flag: str, given: str | None, graph: GraphArrays, balanced: Callable[[GraphArrays], NDArray[np.float64]]
) -> Tensor | None:
    if given is None:
        return None
    numbers = parse_weights(given)
    if numbers is None:
        return torch.from_numpy(balanced(graph))
    if len(numbers) == 1 and graph.multi_label:
        numbers *= graph.num_classes
    if len(numbers) != graph.num_classes:
        raise InputError(f"{flag} has {len(numbers)} numbers, but there are {graph.num_classes} classes")
    return torch.tensor(numbers, dtype=torch.float64)


def _shares(graph: GraphArrays) -> NDArray[np.float64]:
    """[C] T / (C * training vertices of each class), as scikit-learn balances them; 0 for a class without any."""
    counts = np.bincount(graph.labels[graph.train_idx], minlength=graph.num_classes)
    return np.where(counts > 0, len(graph.train_idx) / (graph.num_classes * np.maximum(counts, 1)), 0.0)


def _positives(graph: GraphArrays) -> NDArray[np.float64]:
    """[C] training vertices without each label over those with it; 1 for a label that none has, or all have."""
    with_it = (graph.labels[graph.train_idx] > 0.5).sum(axis=0)
    without = len(graph.train_idx) - with_it
    return np.where((with_it > 0) & (without > 0), without / np.maximum(with_it, 1), 1.0)


def mini_batch_loss(
    objective: Objective, logits: Tensor, labels: Tensor, num_targets: int, target_weights: Tensor | None = None
) -> Tensor:
    """This trainer's share: the sum over its own targets, divided by the targets of all trainers (law 2).

    Args:
        objective: of the run.
        logits: [n, C] of the own targets.
        labels: of the same.
        num_targets: of all trainers.
        target_weights: [n] what the loss of each counts; None: 1.
    """
    if len(labels) == 0:
        return logits.sum() * 0  # no target, but a graph that reaches all exchanges
    losses = objective.losses(logits, labels)
    if target_weights is not None:
        losses = losses * target_weights
    return losses.sum() / num_targets


def weight_of(objective: Objective, labels: Tensor, target_weights: Tensor | None = None) -> Tensor | None:
    """What some targets weigh together, which their losses are divided by; None where each weighs 1.

    Args:
        objective, labels, target_weights: as of :func:`mini_batch_loss`.
    """
    weights = objective.weights(labels)
    if target_weights is not None:
        weights = target_weights if weights is None else weights * target_weights
    return None if weights is None else weights.sum()


def whole_weight(objective: Objective, graph: GraphArrays, device: torch.device) -> Tensor:
    """What all training vertices weigh together, where their number is what estimates are divided by."""
    weight = weight_of(objective, torch.from_numpy(graph.labels[graph.train_idx]).to(device))
    return torch.tensor(float(len(graph.train_idx)), device=device) if weight is None else weight


def check_logits(logits: Tensor, num_targets: int, num_classes: int) -> None:
    """Whether a model of the user's gives what a loss can be made of.

    Raises:
        InputError: for any shape but [targets, classes].
    """
    if logits.shape != (num_targets, num_classes):
        raise InputError(
            f"the model gave logits of shape {tuple(logits.shape)} for {num_targets} targets and {num_classes} "
            "classes; it must have as many layers as mini-batches have, and as many outputs as there are classes"
        )
