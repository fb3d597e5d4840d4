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


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.t() + bias`` outside of autograd: by the core where the result is narrow, else by PyTorch.

    Args:
        x: [n, D].
        weight: [O, D].
        bias: [O].
    """
    if not _is_narrow(x, weight.shape[0]):
        return F.linear(x, weight, bias)
    out = x.new_empty((len(x), weight.shape[0]))
    bias = None if bias is None else bias.detach().contiguous()
    _core.project_narrow(x.detach(), weight.detach().contiguous(), bias, out, threads=torch.get_num_threads())
    return out


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """``gradient.t() @ x`` [O, D], the gradient of the weight of :func:`product`.

    Args:
        gradient: [n, O].
        x: [n, D].
    """
    if not _is_narrow(x, gradient.shape[1]):
        return gradient.t() @ x
    out = x.new_empty((gradient.shape[1], x.shape[1]))
    _core.narrow_gradient(gradient.detach().contiguous(), x.detach(), out, threads=torch.get_num_threads())
    return out


def _is_narrow(x: Tensor, outputs: int) -> bool:
    return x.dtype == torch.float32 and in_core(x) and x.stride(1) == 1 and _core.narrow_fits(outputs, x.shape[1])


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_plain(linear: nn.Module, *classes: type[nn.Module]) -> bool:
    """Whether calling a linear map does nothing but to multiply by its weight and add its bias.

    Args:
        linear: any module.
        classes: of linear maps that are meant beside ``torch.nn.Linear``; what is derived from one is not.
    """
    own = type(linear) in (nn.Linear, *classes) and "forward" not in vars(linear)
    return own and not any(getattr(linear, hooks) for hooks in HOOKS)


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
        return product(x[:num_first], first, bias), product(x, every)

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
            weight_gradient(grad_first, x[:num_first]) if needs[1] else None,
            grad_first.sum(dim=0) if needs[2] else None,
            weight_gradient(grad_every, x) if needs[3] else None,
            None,
        )


def linear_sum(own: Tensor, means: Tensor, lin_self: nn.Linear, lin_neigh: nn.Linear) -> Tensor:
    """``lin_self(own) + lin_neigh(means)``, the second product added to the first in place.

    Args:
        own, means: [n, D] each.
        lin_self: linear map from D features.
        lin_neigh: linear map from D features, without bias, as wide.
    """
    out: Tensor = _LinearSum.apply(own, means, lin_self.weight, lin_self.bias, lin_neigh.weight)
    return out


class _LinearSum(torch.autograd.Function):
    """Two products added up in forward; in backward the gradient goes through both."""

    @staticmethod
    def forward(
        ctx: Any, own: Tensor, means: Tensor, of_own: Tensor, bias: Tensor | None, of_means: Tensor
    ) -> Tensor:
        ctx.save_for_backward(own, means, of_own, of_means)
        return product(own, of_own, bias).addmm_(means, of_means.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        own, means, of_own, of_means = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            grad @ of_own if needs[0] else None,
            grad @ of_means if needs[1] else None,
            weight_gradient(grad, own) if needs[2] else None,
            grad.sum(dim=0) if needs[3] else None,
            weight_gradient(grad, means) if needs[4] else None,
        )


def activated(x: Tensor, activation: Callable[[Tensor], Tensor], dropout: nn.Dropout) -> Tensor:
    """``dropout(activation(x))``, for rows on the CPU in one pass, and in one backward.

    What is dropped follows from one number that is drawn from PyTorch's generator, so that nothing is kept for
    backward but the result. PyTorch's own dropout on the CPU draws every value from one sequence, which takes longer
    than the layer's product.

    Args:
        x: [n, D].
        activation: such as ``torch.relu``.
        dropout: drops a share ``p`` where it drops anything.
    """
    number = ACTIVATIONS.get(activation)
    if number is None or not in_core(x) or x.dim() != 2 or type(dropout) is not nn.Dropout:
        return dropout(activation(x))
    probe = torch.ones(1)  # comes back as it was where dropout is switched off, by whatever does that
    drop = 0.0 if dropout(probe) is probe and probe.item() == 1 else dropout.p
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
