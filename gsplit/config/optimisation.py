"""How a model is fitted: the loss, the metrics, and the steps of the optimizer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gsplit.config.fields import MOST_FACTOR, Accepted, Checked, Range
from gsplit.config.flags import Aliases
from gsplit.config.links import LINK_LOSSES, LINK_METRIC
from gsplit.config.parallel import SAMPLED
from gsplit.config.rules import NOT_RESUMED, RESULTS, Only

OptimizerName = Literal["adam", "adamw", "sgd"]
Schedule = Literal["constant", "cosine", "step", "plateau"]
BALANCED = "balanced"
OF_CLASSES = ("accuracy", "macro-f1", "micro-f1", "auroc", "ap")
"""Metrics of classes and labels."""
ERRORS = ("rmse", "mae")
"""Metrics of a regression, which are the better the lower they are."""
METRICS = (*OF_CLASSES, *ERRORS)
"""Metrics that may be asked for."""
DEFAULT_METRIC = {"classes": "accuracy", "labels": "micro-f1", "regression": "rmse"}
"""What models are chosen by where no metric is asked for, by the task of the graph."""
LOSSES = {
    **dict.fromkeys(LINK_LOSSES, "links"),
    "cross-entropy": "classes",
    "bce": "labels",
    **dict.fromkeys(("mse", "mae", "huber"), "regression"),
}
"""Losses by name, with the task that they are for; bce is for links, too."""
DEFAULT_LOSS = {"classes": "cross-entropy", "labels": "bce", "regression": "mse", "links": "bce"}
"""The losses that are taken where none is asked for, by the task."""


def parse_weights(text: str) -> tuple[float, ...] | None:
    """The numbers that ``1,2.5,1`` lists; None for ``balanced``, which the graph's labels decide.

    Raises:
        ValueError: for anything else, and for numbers below 0 or all 0.
    """
    if text == BALANCED:
        return None
    try:
        weights = tuple(float(number) for number in text.split(","))
    except ValueError:
        weights = ()
    if not weights or not all(0 <= weight < math.inf for weight in weights) or not any(weights):
        raise ValueError(f"{text!r} is neither {BALANCED} nor numbers from 0 on, such as 1,2.5,1")
    return weights


def parse_metrics(text: str) -> tuple[str, ...]:
    """The metrics that ``accuracy,macro-f1`` lists.

    Raises:
        ValueError: for another, and for one that comes twice.
    """
    names = tuple(text.split(","))
    for name in names:
        if name not in METRICS and not LINK_METRIC.fullmatch(name):
            raise ValueError(f"there is no {name!r}; there are {', '.join(METRICS)}, and of links mrr, hits@10, ...")
    if len(set(names)) < len(names):
        raise ValueError(f"{text} names a metric twice")
    return names


def check_loss(text: str) -> None:
    """Check whether there is a loss of this name.

    Raises:
        ValueError: where there is none.
    """
    if text not in LOSSES and ":" not in text:
        raise ValueError(f"there is no {text!r}; there are {', '.join(LOSSES)}, and package.module:function")


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig(Checked):
    """The loss and the metrics."""

    loss: Annotated[str | None, Accepted(check_loss), RESULTS] = None
    """The loss. One class of several: cross-entropy. Several labels: bce, binary cross-entropy. Numbers, of graphs
    that were imported with --task regression: mse, the mean squared error, by default, mae, the mean absolute error,
    or huber, which is squared below --huber-delta and absolute above it. Or package.module:function, one of yours of
    logits and labels, which gives a value for each target, or their sum (docs/bring_your_own_model.md). Links: bce by
    default, of each pair and each candidate; softmax over a pair and its candidates; bpr; margin."""
    huber_delta: Annotated[float, Range(above=0, below=math.inf), Only(loss="huber"), RESULTS] = 1.0
    """huber: the error at which it goes from squared to absolute."""
    class_weights: Annotated[
        str | None, Accepted(parse_weights), Only(task="classes"), Only(built_in_loss=True), RESULTS
    ] = None
    """What each class counts: numbers such as 1,2.5,1, or balanced, the inverse of its share of the training
    vertices. The loss is divided by the weights of all targets, as PyTorch's."""
    label_smoothing: Annotated[float, Range(0, below=1), Only(task="classes"), Only(built_in_loss=True), RESULTS] = (
        0.0
    )
    """The share of each target's loss that all classes have alike."""
    focal_gamma: Annotated[
        float, Range(0, below=math.inf), Only(task=("classes", "labels")), Only(built_in_loss=True), RESULTS
    ] = 0.0
    """Focal loss: a target counts (1 - p) to this power, with p the probability that the model gives what is right; 0
    is the plain loss."""
    metrics: Annotated[str | None, Accepted(parse_metrics)] = None
    """What to measure, of accuracy, macro-f1, micro-f1, auroc and ap (average precision), or, of a regression, rmse
    and mae (of several outputs the mean of theirs), with commas; the first decides which model is the best. Training
    vertices are measured, too, by what the model says of them while it trains. By default accuracy, or the
    micro-averaged F1 where a vertex may have several labels, or the rmse of a regression, of validation alone."""
    pos_weight: Annotated[
        str | None, Accepted(parse_weights), Only(task="labels"), Only(built_in_loss=True), RESULTS
    ] = None
    """Several labels: what having a label counts beside not having it, one number for all or one each; or balanced,
    the training vertices without it over those with it."""

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics that were asked for; none: that of the objective."""
        return () if self.metrics is None else parse_metrics(self.metrics)


@dataclass(frozen=True, kw_only=True)
class OptimisationConfig(Checked):
    """The optimizer, the rate at which it learns, and for how long it runs."""

    epochs: Annotated[int, Range(0), Aliases(("--num-epochs",))] = 30
    """Passes over the training vertices."""
    early_stop: Annotated[int, Range(0)] = 0
    """End after so many validations, one after the other, without a better score; 0 never."""
    optimizer: Annotated[OptimizerName, RESULTS] = "adam"
    """PyTorch's of that name."""
    lr: Annotated[float, Range(above=0, most=MOST_FACTOR, below=math.inf), RESULTS] = 0.001
    """Learning rate."""
    lr_schedule: Annotated[Schedule, RESULTS] = "constant"
    """How the rate falls, after the warm-up. cosine: to 0 at the end of --epochs, with every step of the optimizer;
    step: times --lr-gamma after every --lr-step-size epochs; plateau: times --lr-gamma when more than --lr-patience
    validations, one after the other, bring no score that is better by a ten-thousandth, as PyTorch counts."""
    warmup: Annotated[float, Range(0, below=math.inf), RESULTS] = 0.0
    """Epochs, or parts of one, in which the rate rises to --lr, in equal steps."""
    lr_step_size: Annotated[int, Range(1), Only(lr_schedule="step"), RESULTS] = 30
    """step: epochs between two falls of the rate."""
    lr_gamma: Annotated[float, Range(above=0, below=1), Only(lr_schedule=("step", "plateau")), RESULTS] = 0.1
    """step, plateau: what the rate is multiplied by."""
    lr_patience: Annotated[int, Range(0), Only(lr_schedule="plateau"), RESULTS] = 10
    """plateau: validations without a better score that are borne."""
    momentum: Annotated[float, Range(0, below=1), Only(optimizer="sgd"), RESULTS] = 0.0
    """sgd: the share of its last step that a step goes on with."""
    weight_decay: Annotated[float, Range(0, MOST_FACTOR, below=math.inf), RESULTS, Aliases(("--wd",))] = 0.0
    """adam, sgd: an L2 penalty, added to the gradient. adamw: the share of the weights, times the rate, that each
    step takes off them."""
    clip_grad_norm: Annotated[float | None, Range(above=0, below=math.inf), RESULTS] = None
    """Scale gradients down where the norm of all of them together is larger. By default they stay as they are."""
    accumulate: Annotated[int, Range(1), Only(strategy=SAMPLED), RESULTS] = 1
    """Mini-batches whose gradients make one step: the mean over all their targets. What is left at the end of an
    epoch makes a step of its own."""
    init_from: Annotated[Path | None, NOT_RESUMED] = None
    """Begin with the weights that the run in this folder kept. Its last layer may be for other classes: that of the
    new run is then drawn afresh. So is a decoder of pairs that is not the one of the other run."""
