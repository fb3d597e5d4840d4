"""The body of a training step: from a mini-batch to the gradients of all trainers.

The engine's loop, a loop of the user's, and the dry run that sees what a step takes all come here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn

from gsplit.device.precision import Precision
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.objective import Objective, check_logits, mini_batch_loss, weight_of
from gsplit.optim import Steps

Clock = Callable[[str], AbstractContextManager[None]]
"""Takes the time of a stage, by its name."""


def untimed(_: str) -> AbstractContextManager[None]:
    """Take no time of a stage."""
    return nullcontext()


class Forward(NamedTuple):
    """The results of the way through the model."""

    logits: Tensor
    """[n_L, C] of the own targets."""
    loss: Tensor
    """[] this trainer's share of the loss, from which backward reaches all exchanges."""
    weight: Tensor | None
    """[] what the own targets weigh together; None where each weighs 1."""


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """The results of a training step, beside the weights that it changes."""

    loss: Tensor
    """[] loss of the mini-batch, over all trainers."""
    reduced_bytes: int
    """Bytes of gradients that were reduced."""
    outputs: tuple[Tensor, Tensor] | None = None
    """Logits [n_L, C] and labels of the own targets, where they are to be measured."""


def forward(
    model: nn.Module,
    objective: Objective,
    mini_batch: MiniBatch,
    *,
    precision: Precision,
    num_classes: int,
    whole_weight: Tensor | None = None,
) -> Forward:
    """Compute logits and loss of the own targets; all trainers make the call.

    Args:
        model: of this trainer.
        objective: of the run.
        mini_batch: this trainer's share.
        precision: in which the model is called; the loss is taken in the type of its parameters.
        num_classes: C.
        whole_weight: [] what all training vertices weigh; where the mini-batch has a share of it.

    Raises:
        InputError: for logits of another shape.
    """
    labels, each = mini_batch.labels, mini_batch.target_weights
    logits = precision.called(labels.device, mini_batch.logits, model)
    check_logits(logits, len(labels), num_classes)
    loss = mini_batch.comm.tie(mini_batch_loss(objective, logits, labels, mini_batch.num_targets, each))
    if mini_batch.share_of_whole is None:
        weight = weight_of(objective, labels, each)
    else:
        assert whole_weight is not None
        weight = whole_weight * mini_batch.share_of_whole
    return Forward(logits, loss, weight)


def backward(
    steps: Steps,
    loss: Tensor,
    weight: Tensor | None,
    num_targets: int,
    clock: Clock = untimed,
    *,
    early: bool = False,
) -> tuple[Tensor, int]:
    """Go back through the model and the exchanges, and sum gradients; all trainers make the call.

    Args:
        steps: of this trainer's optimizer.
        loss: [] this trainer's share, tied to all exchanges.
        weight: [] what the own targets weigh together; None where each weighs 1.
        num_targets: of all trainers.
        clock: takes the time of ``backward`` and ``reduce``.
        early: whether gradients may be summed while backward goes on: the loss depends on the model on all trainers.

    Returns:
        The loss over all trainers, and the bytes that were reduced.
    """
    with clock("backward"):
        steps.begin(early=early)
        steps.scaled(loss).backward()
    with clock("reduce"):
        return steps.reduce(loss, weight, num_targets)
