"""What a layer computes of each row by itself: two linear maps of the same rows, activation and dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

import gsplit._core as _core
from gsplit.kernels import in_core

ACTIVATIONS: dict[Callable[..., Tensor], int] = {torch.relu: 1, F.relu: 1, F.elu: 2}
"""Activations that the core knows, by its numbers; ELU with its default alpha of 1."""
ELU = 2


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
        return F.linear(x[:num_first], first, bias), x @ every.t()

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


def activated(x: Tensor, activation: Callable[[Tensor], Tensor], dropout: nn.Dropout) -> Tensor:
    """``dropout(activation(x))``, for rows on the CPU in one pass, and in one backward.

    What is dropped follows from one number that is drawn from PyTorch's generator, so that nothing is kept for
    backward but the result. PyTorch's own dropout on the CPU draws every value from one sequence, which takes longer
    than the layer's product.

    Args:
        x: [n, D].
        activation: such as ``torch.relu``.
        dropout: its ``p`` counts while it is training.
    """
    number = ACTIVATIONS.get(activation)
    if number is None or not in_core(x) or x.dim() != 2 or type(dropout) is not nn.Dropout:
        return dropout(activation(x))
    drop = dropout.p if dropout.training else 0.0
    seed = int(torch.randint(2**62, ())) if drop else 0
    out: Tensor = _Activated.apply(x, number, drop, seed)
    return out


class _Activated(torch.autograd.Function):
    """Activation and dropout in forward; in backward the same is dropped, by the same number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, activation: int, drop: float, seed: int) -> Tensor:
        x = x.detach().contiguous()
        out = torch.expm1(x) if activation == ELU else torch.empty_like(x)
        _core.activate(x, activation, drop, seed, out, threads=torch.get_num_threads())
        ctx.activation, ctx.drop, ctx.seed = activation, drop, seed
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (out,) = ctx.saved_tensors
        grad_x = torch.empty_like(out)
        _core.activate_backward(
            out.detach(),
            ctx.activation,
            ctx.drop,
            ctx.seed,
            grad.contiguous(),
            grad_x,
            threads=torch.get_num_threads(),
        )
        return grad_x, None, None, None
