"""The second half of a training step: from the loss, which the task has taken, to the gradients of all trainers.

The engine's loop, a loop of the user's, and the dry run that sees what a step takes all come here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from torch import Tensor

from gsplit.optim import Steps

Clock = Callable[[str], AbstractContextManager[None]]
"""Takes the time of a stage, by its name."""


def untimed(_: str) -> AbstractContextManager[None]:
    """Take no time of a stage."""
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """The results of a training step, beside the weights that it changes."""

    loss: Tensor
    """[] loss of the mini-batch, over all trainers."""
    reduced_bytes: int
    """Bytes of gradients that were reduced."""
    counted: int
    """Number of what the sum of losses was divided by, over all trainers: targets, or pairs."""
    outputs: tuple[Tensor, Tensor] | None = None
    """Logits [n_L, C] and labels of the own targets, where they are to be measured."""


def backward(
    steps: Steps, loss: Tensor, weight: Tensor | None, counted: int, clock: Clock = untimed, *, early: bool = False
) -> tuple[Tensor, int]:
    """Go back through the model and the exchanges, and sum gradients; all trainers make the call.

    Args:
        steps: of this trainer's optimizer.
        loss: [] this trainer's share, tied to all exchanges.
        weight: [] what the own targets weigh together; None where each weighs 1.
        counted: number of what the sum of losses was divided by, over all trainers.
        clock: takes the time of ``backward`` and ``reduce``.
        early: whether gradients may be summed while backward goes on: the loss depends on the model on all trainers.

    Returns:
        The loss over all trainers, and the bytes that were reduced.
    """
    with clock("backward"):
        steps.begin(early=early)
        steps.scaled(loss).backward()
    with clock("reduce"):
        return steps.reduce(loss, weight, counted)
