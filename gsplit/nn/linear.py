"""Two linear maps of the same rows, one of the first rows and one of all, whose backward fills nothing with zeros."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def both_linear(x: Tensor, num_first: int, first: nn.Linear, every: nn.Linear) -> tuple[Tensor, Tensor]:
    """``first(x[:num_first])`` and ``every(x)``.

    Args:
        x: [n, D].
        num_first: number of rows that ``first`` maps, at most n.
        first: linear map from D features.
        every: linear map from D features, without bias.
    """
    own, rows = _BothLinear.apply(x, first.weight, first.bias, every.weight, num_first)
    return own, rows


class _BothLinear(torch.autograd.Function):
    """Two products in forward; in backward the gradient of the first rows is added to that of all, in place."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, first: Tensor, bias: Tensor | None, every: Tensor, num_first: int
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, first, every)
        ctx.num_first = num_first
        return torch.nn.functional.linear(x[:num_first], first, bias), x @ every.t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_first: Tensor, grad_every: Tensor) -> tuple[Tensor | None, ...]:
        x, first, every = ctx.saved_tensors
        num_first, needs = ctx.num_first, ctx.needs_input_grad
        grad_x = None
        if needs[0]:
            grad_x = grad_every @ every
            grad_x[:num_first].addmm_(grad_first, first)
        return (
            grad_x,
            grad_first.t() @ x[:num_first] if needs[1] else None,
            grad_first.sum(dim=0) if needs[2] else None,
            grad_every.t() @ x if needs[3] else None,
            None,
        )
