"""What is learned: one class of several, any number of labels, or numbers. Loss and scores from sums and counts.

Everything is a sum over targets, so that unequal splits weigh as they should (law 2): trainers add their sums
and divide once by the global count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.config.optimisation import DEFAULT_LOSS, ERRORS, LOSSES, METRICS, ObjectiveConfig, parse_weights
from gsplit.config.rules import refuse_useless
from gsplit.data import GraphArrays
from gsplit.data.graph import Task
from gsplit.engine.objectives.classification import MultiClass, MultiLabel
from gsplit.engine.objectives.own_loss import OwnLoss, WithOwnLoss, is_built_in
from gsplit.engine.objectives.regression import Regression
from gsplit.errors import InputError


class Objective(Protocol):
    """A loss, counts of hits and misses, and the score that they make."""

    name: str
    """Name of the score, as in ``valid_accuracy``; one of ``ERRORS`` is the better the lower."""
    num_counts: int
    """Number of counts that a score is made of."""

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """[n] losses of some vertices, or [] their sum, times the weights of their labels, from logits [n, C]."""

    def weights(self, labels: Tensor) -> Tensor | None:
        """[n] weights of some vertices by their labels, by which their losses are divided; None: each weighs 1."""

    def counts(self, logits: Tensor, labels: Tensor) -> Sequence[float]:
        """[num_counts] counts over some vertices, from logits [n, C] on the CPU."""

    def score(self, counts: Sequence[float]) -> float:
        """The score that counts make; over all trainers when their counts were added."""

    def predict(self, logits: Tensor) -> Tensor:
        """Classes, or numbers, that logits [n, C] say."""


OF = {
    "classes": "one class of several",
    "labels": "labels of which a vertex may have any number",
    "regression": "a regression",
    "links": "pairs of vertices, with --task links",
}
"""What flags are for, by the task of a graph."""
HERE = {
    "classes": "here each vertex has one class",
    "labels": "a vertex of this graph may have any number of labels",
    "regression": "the labels of this graph are numbers to be predicted",
}
"""What there is instead."""


class Placing(NamedTuple):
    """The device and type of an objective's numbers."""

    device: torch.device | None = None
    """Device of the logits; None: the CPU."""
    dtype: torch.dtype | None = None
    """Type of the logits; None: float64."""


def _multi_class(loss: str, config: ObjectiveConfig, graph: GraphArrays, placing: Placing) -> Objective:
    del loss  # there is one
    weights = _weights("--class-weights", config.class_weights, graph, _shares, placing)
    return MultiClass(weights, smoothing=config.label_smoothing, gamma=config.focal_gamma)


def _multi_label(loss: str, config: ObjectiveConfig, graph: GraphArrays, placing: Placing) -> Objective:
    del loss  # there is one
    return MultiLabel(
        _weights("--pos-weight", config.pos_weight, graph, _positives, placing), gamma=config.focal_gamma
    )


def _regression(loss: str, config: ObjectiveConfig, graph: GraphArrays, placing: Placing) -> Objective:
    dtype = placing.dtype or torch.float64
    return Regression(loss, delta=config.huber_delta, outputs=graph.num_classes, dtype=dtype)


OBJECTIVES: dict[Task, Callable[[str, ObjectiveConfig, GraphArrays, Placing], Objective]] = {
    "classes": _multi_class,
    "labels": _multi_label,
    "regression": _regression,
}
"""What makes the objective of each task: of the name of a built-in loss, the flags of a run, and a graph."""


def objective_of(task: Task, outputs: int = 1) -> Objective:
    """The plain objective of a graph.

    Args:
        task: of the graph.
        outputs: C, of a regression.
    """
    if task == "regression":
        return Regression(outputs=outputs)
    return MultiLabel() if task == "labels" else MultiClass()


def objective_for(
    config: ObjectiveConfig,
    graph: GraphArrays,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
    own: OwnLoss | None = None,
) -> Objective:
    """The objective that a configuration asks for.

    Args:
        config: of the run.
        graph: whose training vertices balance what is to be balanced.
        device, dtype: where and in which type weights are kept; None: on the CPU, in float64.
        own: the loss of the user's that it asks for, or that was handed over.

    Raises:
        InputError: for what the labels of the graph do not go with.
    """
    check_objective(config, graph.task, own)
    if own is not None:
        return WithOwnLoss(objective_of(graph.task, graph.num_classes), own, graph, device, dtype)
    loss = config.loss or DEFAULT_LOSS[graph.task]
    return OBJECTIVES[graph.task](loss, config, graph, Placing(device, dtype))


def check_objective(config: ObjectiveConfig, task: Task, own: OwnLoss | None = None) -> None:
    """Check whether the loss, its flags and the metrics are for the labels that a graph has.

    Raises:
        InputError: for the first that is not.
    """
    imports = "; gsplit import --task regression makes numbers of labels" if task != "regression" else ""
    if config.loss in LOSSES and LOSSES[config.loss] != task:
        of = LOSSES[config.loss]
        hint = imports if of == "regression" else f"; use --loss {DEFAULT_LOSS[task]}"
        raise InputError(f"--loss {config.loss} is for {OF[of]}, and {HERE[task]}{hint}")
    refuse_useless(config, {"task": task, "built_in_loss": is_built_in(own)})
    for name in config.metric_names:
        if name not in METRICS:
            raise InputError(f"--metrics {name} is for {OF['links']}, and {HERE[task]}")
        if (name in ERRORS) != (task == "regression"):
            of = OF["regression"] if name in ERRORS else "classes"
            hint = f"; there are {' and '.join(ERRORS)}" if task == "regression" else imports
            raise InputError(f"--metrics {name} is for {of}, and {HERE[task]}{hint}")


def _weights(
    flag: str,
    given: str | None,
    graph: GraphArrays,
    balanced: Callable[[GraphArrays], NDArray[np.float64]],
    placing: Placing,
) -> Tensor | None:
    """Weights [C] where logits will be, or each mini-batch would wait for a copy; None where none are given."""
    if given is None:
        return None
    numbers = parse_weights(given)
    if numbers is None:
        return torch.from_numpy(balanced(graph)).to(*placing)
    if len(numbers) == 1 and graph.multi_label:
        numbers *= graph.num_classes
    if len(numbers) != graph.num_classes:
        raise InputError(f"{flag} has {len(numbers)} numbers, but there are {graph.num_classes} classes")
    return torch.tensor(numbers, dtype=torch.float64).to(*placing)


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
        assert losses.ndim == 1  # a run with a sum of the user's was refused
        losses = losses * target_weights
    return losses.sum() / num_targets


def weight_of(objective: Objective, labels: Tensor, target_weights: Tensor | None = None) -> Tensor | None:
    """Return what some targets weigh together, which their losses are divided by; None where each weighs 1.

    Args:
        objective, labels, target_weights: as of :func:`mini_batch_loss`.
    """
    weights = objective.weights(labels)
    if target_weights is not None:
        weights = target_weights if weights is None else weights * target_weights
    return None if weights is None else weights.sum()


def whole_weight(objective: Objective, graph: GraphArrays, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return what all training vertices weigh together, where their number is what estimates are divided by.

    Trainers add up shares of it, so it is in ``dtype``, that of the model, or in a wider one where that is short.
    """
    weight = weight_of(objective, torch.from_numpy(graph.labels[graph.train_idx]).to(device))
    dtype = torch.promote_types(dtype, torch.float32)
    return torch.tensor(len(graph.train_idx), dtype=dtype, device=device) if weight is None else weight.to(dtype)


def check_logits(logits: Tensor, num_targets: int, num_classes: int) -> None:
    """Check whether a model of the user's gives what a loss can be made of.

    Raises:
        InputError: for any shape but [targets, classes].
    """
    if logits.shape != (num_targets, num_classes):
        raise InputError(
            f"the model gave logits of shape {tuple(logits.shape)} for {num_targets} targets and {num_classes} "
            "classes; it must have as many layers as mini-batches have, and as many outputs as there are classes"
        )
