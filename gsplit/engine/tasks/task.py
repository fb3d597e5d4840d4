"""What a training step asks of a task: from a mini-batch to this trainer's share of the loss."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor, nn

from gsplit.device.precision import Precision
from gsplit.engine.minibatch import MiniBatch


class Forward(NamedTuple):
    """The results of the way through the model."""

    outputs: Tensor
    """[n_L, C] of the own targets."""
    loss: Tensor
    """[] this trainer's share of the loss, from which backward reaches all exchanges."""
    weight: Tensor | None
    """[] what the own targets weigh together; None where each weighs 1."""
    counted: int
    """Number of what the sum of losses was divided by, over all trainers: targets, or pairs."""


class Task(Protocol):
    """What is learned."""

    def forward(self, model: nn.Module, mini_batch: MiniBatch, *, precision: Precision) -> Forward:
        """Compute outputs and loss of the own targets; all trainers make the call.

        Args:
            model: of this trainer.
            mini_batch: this trainer's share.
            precision: in which the model is called; the loss is taken in the type of its parameters.

        Raises:
            InputError: for outputs of another shape.
        """
