"""How a model is fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gsplit.config.fields import Checked, Range

OptimizerName = Literal["adam", "adamw", "sgd"]
Schedule = Literal["constant", "cosine", "step", "plateau"]


@dataclass(frozen=True, kw_only=True)
class OptimisationConfig(Checked):
    """The optimizer, the rate at which it learns, and for how long it is at work."""

    epochs: Annotated[int, Range(0)] = 10
    """Passes over the training vertices."""
    early_stop: Annotated[int, Range(0)] = 0
    """End after so many validations, one after the other, without a better score; 0 never."""
    optimizer: OptimizerName = "adam"
    """PyTorch's of that name."""
    lr: Annotated[float, Range(above=0, below=math.inf)] = 0.003
    """Learning rate."""
    lr_schedule: Schedule = "constant"
    """How the rate falls, after the warm-up. cosine: to 0 at the end of --epochs, with every step of the optimizer;
    step: times --lr-gamma after every --lr-step-size epochs; plateau: times --lr-gamma when more than --lr-patience
    validations, one after the other, bring no better score."""
    warmup: Annotated[float, Range(0, below=math.inf)] = 0.0
    """Epochs, or parts of one, in which the rate rises to --lr, in equal steps."""
    lr_step_size: Annotated[int, Range(1)] = 30
    """step: epochs between two falls of the rate."""
    lr_gamma: Annotated[float, Range(above=0, most=1)] = 0.1
    """step, plateau: what the rate is multiplied by."""
    lr_patience: Annotated[int, Range(0)] = 10
    """plateau: validations without a better score that are borne."""
    momentum: Annotated[float, Range(0, below=1)] = 0.0
    """sgd: the share of its last step that a step goes on with."""
    weight_decay: Annotated[float, Range(0, below=math.inf)] = 0.0
    """adam, sgd: an L2 penalty, added to the gradient. adamw: the share of the weights, times the rate, that each
    step takes off them."""
    clip_grad_norm: Annotated[float | None, Range(above=0, below=math.inf)] = None
    """Scale gradients down where the norm of all of them together is larger. By default they stay as they are."""
    accumulate: Annotated[int, Range(1)] = 1
    """Mini-batches whose gradients make one step: the mean over all their targets. What is left at the end of an
    epoch makes a step of its own."""
    init_from: Path | None = None
    """Begin with the weights that the run in this folder kept. Its last layer may be for other classes: that of the
    new run is then drawn afresh."""
