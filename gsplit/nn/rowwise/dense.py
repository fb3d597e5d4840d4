"""Linear maps of rows, each by itself: one, or two of the same rows, or two that are added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules import module as module_hooks

import gsplit._core as _core
from gsplit.kernels import StoredRows, copied, in_core, is_autocast


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.t() + bias`` outside of autograd: by the core where the result is narrow, else by PyTorch.

    Args:
        x: [n, D].
        weight: [O, D].
        bias: [O].
    """
    return products(x, [(len(x), weight, bias)])[0]


def products(x: Tensor | StoredRows, maps: Sequence[tuple[int, Tensor, Tensor | None]]) -> list[Tensor]:
    """``x[:first] @ weight.t() + bias`` of each (first, weight, bias); the core reads each row once for all of them.

    Args:
        x: [n, D].
        maps: one or two, of weights [O, D] and biases [O].
    """
    fits = all(weight.dtype == x.dtype and weight.shape[1] == x.shape[1] for _, weight, _ in maps)
    if not fits or not are_narrow(x, *(len(weight) for _, weight, _ in maps)):
        rows = copied(x)
        return [F.linear(rows[:first], weight, bias) for first, weight, bias in maps]
    outs = [torch.empty((first, len(weight)), dtype=x.dtype) for first, weight, _ in maps]
    wanted = [
        (weight.detach().contiguous(), None if bias is None else bias.detach().contiguous(), out)
        for (_, weight, bias), out in zip(maps, outs, strict=True)
    ]
    _core.project_narrow(*_table(x), wanted, threads=torch.get_num_threads())
    return outs


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """``gradient.t() @ x`` [O, D], the gradient of the weight of :func:`product`.

    Args:
        gradient: [n, O].
        x: [n, D].
    """
    return weight_gradients([gradient], x)[0]


def weight_gradients(gradients: Sequence[Tensor], x: Tensor | StoredRows) -> list[Tensor]:
    """``gradient.t() @ x[: len(gradient)]`` of each, the gradients of the weights of :func:`products`.

    Args:
        gradients: one or two, [first, O] each.
        x: [n, D].
    """
    if not are_narrow(x, *(gradient.shape[1] for gradient in gradients)):
        rows = copied(x)
        return [gradient.t() @ rows[: len(gradient)] for gradient in gradients]
    outs = [torch.empty((gradient.shape[1], x.shape[1]), dtype=x.dtype) for gradient in gradients]
    given = [(gradient.detach().contiguous(), out) for gradient, out in zip(gradients, outs, strict=True)]
    _core.narrow_gradient(*_table(x), given, threads=torch.get_num_threads())
    return outs


def are_narrow(x: Tensor | StoredRows, *outputs: int) -> bool:
    """Return whether the core multiplies rows like ``x`` [n, D] by matrices with so many outputs each."""
    if x.dtype != torch.float32 or (isinstance(x, Tensor) and (not in_core(x) or x.stride(1) != 1)):
        return False
    return all(_core.narrow_fits(number, x.shape[1]) for number in outputs)


def _table(x: Tensor | StoredRows) -> tuple[Any, Any]:
    return (x.table, x.ids) if isinstance(x, StoredRows) else (x.detach(), None)


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_plain(linear: nn.Module, *classes: type[nn.Module]) -> bool:
    """Return whether calling a linear map does nothing but to multiply by its weight and add its bias.

    Args:
        linear: any module.
        classes: of linear maps that are meant beside ``torch.nn.Linear``; what is derived from one is not.
    """
    own = type(linear) in (nn.Linear, *classes) and "forward" not in vars(linear)
    return own and type(linear.weight) is nn.Parameter and not has_hooks(linear)


def has_hooks(module: nn.Module) -> bool:
    """Return whether calling a module calls more than its forward: hooks of its own, or of all modules."""
    return any(getattr(module, hooks) or getattr(module_hooks, f"_global{hooks}") for hooks in HOOKS)


def linear(x: Tensor, by: nn.Module, bias: Tensor | None = None) -> Tensor:
    """``by(x) + bias`` for a linear map; where its result is narrow, by the core, forward and backward.

    Args:
        x: [n, D].
        by: linear map from D features.
        bias: as wide as its result, which has then none of its own; None: ``by(x)``.
    """
    if not is_plain(by) or is_autocast(x) or x.dim() != 2:
        return by(x) if bias is None else by(x) + bias
    assert isinstance(by, nn.Linear)
    assert bias is None or by.bias is None
    added = by.bias if bias is None else bias
    if not are_narrow(x, len(by.weight)):
        return F.linear(x, by.weight, added)
    out: Tensor = _Linear.apply(x, by.weight, added)
    return out


class _Linear(torch.autograd.Function):
    """A product in forward; in backward the gradient of the weights, and where it is wanted that of the rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            grad @ weight if needs[0] else None,
            weight_gradient(grad, x) if needs[1] else None,
            grad.sum(dim=0) if needs[2] else None,
        )


def both_linear(x: Tensor | StoredRows, num_first: int, first: nn.Linear, every: nn.Linear) -> tuple[Tensor, Tensor]:
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
        ctx: Any, x: Tensor | StoredRows, first: Tensor, bias: Tensor | None, every: Tensor, num_first: int
    ) -> tuple[Tensor, ...]:
        ctx.stored = x if isinstance(x, StoredRows) else None
        ctx.save_for_backward(None if isinstance(x, StoredRows) else x, first, every)
        return tuple(products(x, [(num_first, first, bias), (len(x), every, None)]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_first: Tensor, grad_every: Tensor) -> tuple[Tensor | None, ...]:
        x, first, every = ctx.saved_tensors
        needs = ctx.needs_input_grad
        grad_x = None
        if needs[0]:
            grad_x = grad_every @ every
            grad_x[: len(grad_first)].addmm_(grad_first, first)
        wanted = [grad for grad, needed in ((grad_first, needs[1]), (grad_every, needs[3])) if needed]
        of_weights = iter(weight_gradients(wanted, x if ctx.stored is None else ctx.stored) if wanted else [])
        return (
            grad_x,
            next(of_weights) if needs[1] else None,
            grad_first.sum(dim=0) if needs[2] else None,
            next(of_weights) if needs[3] else None,
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
