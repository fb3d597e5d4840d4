"""Sums over the trainers, and the largest of their values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gsplit.parallel.checker import Step
from gsplit.parallel.collectives import all_reduce
from gsplit.parallel.member import Member


def reduce_gradients(parameters: Sequence[nn.Parameter], loss: Tensor, member: Member) -> tuple[Tensor, int]:
    """Replace every gradient by its sum over the trainers, in one message.

    A parameter without a gradient counts as zeros, as on a trainer that got no targets; afterwards all trainers
    hold bit-equal gradients.

    Args:
        parameters: those that are trained, in the same order everywhere.
        loss: this trainer's share of the mini-batch's loss, and of what else is summed with it; of any shape.
        member: of this trainer.

    Returns:
        The sum of the trainers' losses, of the same shape, and the bytes that were reduced.
    """
    flat = torch.cat(
        [
            torch.zeros_like(p).view(-1) if p.grad is None else p.grad.reshape(-1)  # a gradient may be strided
            for p in parameters
        ]
        + [loss.detach().reshape(-1)]
    )
    if member.checker is not None:
        member.checker.enter(Step.REDUCE, width=flat.numel(), dtype=flat.dtype)
    all_reduce(flat, member.everyone)
    *totals, losses = flat.split([*(p.numel() for p in parameters), loss.numel()])
    for parameter, total in zip(parameters, totals, strict=True):
        parameter.grad = total.view_as(parameter)
    return losses.view_as(loss), flat.nbytes


def max_over_trainers(value: int, member: Member) -> int:
    """The largest of the trainers' values."""
    largest = torch.tensor(value)
    all_reduce(largest, member.group, "max")
    return int(largest)


def sum_over_trainers(values: Sequence[float], member: Member) -> list[float]:
    """Element-wise sum over the trainers, in float64 (exact for counts below 2**53)."""
    total = torch.tensor(values, dtype=torch.float64)
    all_reduce(total, member.group)
    return total.tolist()
