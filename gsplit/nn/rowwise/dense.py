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
from gsplit.kernels import StoredRows, copied, in_core, product_dtype
from gsplit.kernels.sums import SHORT
from gsplit.nn.rowwise.mixed import Term, is_mixed, multiplied
from gsplit.nn.rowwise.mixed import gradient as mixed_gradient


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.t() + bias`` outside of autograd: by the core where the result is narrow, else by PyTorch.

    Args:
        x: [n, D].
        weight: [O, D].
        bias: [O].
    """
    return products(x, [(len(x), weight, bias)], x.dtype)[0]


def products(
    x: Tensor | StoredRows, maps: Sequence[tuple[int, Tensor, Tensor | None]], dtype: torch.dtype
) -> list[Tensor]:
    """``x[:first] @ weight.t() + bias`` of each (first, weight, bias); the core reads each row once for all of them.

    Args:
        x: [n, D].
        maps: one or two, of weights [O, D] and biases [O].
        dtype: of the results, as :func:`~gsplit.kernels.product_dtype` says.
    """
    weights = [weight for _, weight, _ in maps]
    if is_mixed(dtype, *weights) and not _are_read_once(x, *map(len, weights)):
        rows = copied(x)
        return [multiplied([Term(rows[:first], weight)], bias, dtype) for first, weight, bias in maps]
    fits = all(weight.dtype == x.dtype and weight.shape[1] == x.shape[1] for weight in weights)
    if not fits or not are_narrow(x, *map(len, weights)):
        rows = copied(x)
        return [F.linear(rows[:first], weight, bias) for first, weight, bias in maps]
    given = dtype if dtype == torch.bfloat16 else x.dtype  # the core writes no float16
    outs = [torch.empty((first, len(weight)), dtype=given) for first, weight, _ in maps]
    wanted = [
        (weight.detach().contiguous(), None if bias is None else bias.detach().contiguous(), out)
        for (_, weight, bias), out in zip(maps, outs, strict=True)
    ]
    _core.project_narrow(*_table(x), wanted, threads=torch.get_num_threads())
    return [out.to(dtype) for out in outs]


def products_back(*terms: tuple[Tensor, Tensor]) -> Tensor:
    """``gradient @ weight`` of one or two products that had the same rows, added up: gradients of these [n, D].

    Args:
        terms: gradients [n, O] and weights [O, D]; the second gradients may be those of the first rows alone.
    """
    first, weight = terms[0]
    if is_mixed(first.dtype, weight):
        return multiplied([Term(gradient, weight, turned=True) for gradient, weight in terms], None, first.dtype)
    out = first @ weight
    for gradient, weight in terms[1:]:
        out[: len(gradient)].addmm_(gradient, weight)
    return out


def weight_gradients(
    gradients: Sequence[Tensor], x: Tensor | StoredRows, *, bias: bool
) -> tuple[list[Tensor], Tensor | None]:
    """``gradient.t() @ x[: len(gradient)]`` of each, what the weights of :func:`products` get; and what a bias gets.

    Those of rows in a short type are float32.

    Args:
        gradients: one or two, [first, O] each.
        x: [n, D].
        bias: whether the first product has one whose gradient is wanted, the sum of the gradients' rows; else None.
    """
    outputs = [gradient.shape[1] for gradient in gradients]
    if gradients[0].dtype in SHORT and not _are_read_once(x, *outputs):
        rows = copied(x)
        found = [
            mixed_gradient(gradient, rows, gradient.dtype, bias=bias and i == 0)
            for i, gradient in enumerate(gradients)
        ]
        return [weight for weight, _ in found], found[0][1]
    of_bias = gradients[0].sum(dim=0, dtype=x.dtype) if bias else None
    if not are_narrow(x, *outputs):
        rows = copied(x)
        return [gradient.t() @ rows[: len(gradient)] for gradient in gradients], of_bias
    outs = [torch.empty((gradient.shape[1], x.shape[1]), dtype=x.dtype) for gradient in gradients]
    read = [gradient.float() if gradient.dtype == torch.float16 else gradient for gradient in gradients]
    given = [(gradient.detach().contiguous(), out) for gradient, out in zip(read, outs, strict=True)]
    _core.narrow_gradient(*_table(x), given, threads=torch.get_num_threads())
    return outs, of_bias


def _trained(
    gradients: Sequence[Tensor], x: Tensor | StoredRows, weights: bool, *, bias: bool
) -> tuple[Sequence[Tensor | None], Tensor | None]:
    """Return what :func:`weight_gradients` does; None of weights and bias where neither is trained."""
    if weights or bias:
        return weight_gradients(gradients, x, bias=bias)
    return [None] * len(gradients), None


def are_narrow(x: Tensor | StoredRows, *outputs: int) -> bool:
    """Return whether the core multiplies rows like ``x`` [n, D] by matrices with so many outputs each."""
    if x.dtype != torch.float32 or (isinstance(x, Tensor) and (not in_core(x) or x.stride(1) != 1)):
        return False
    return all(_core.narrow_fits(number, x.shape[1]) for number in outputs)


def _are_read_once(x: Tensor | StoredRows, *outputs: int) -> bool:
    """Return whether rows that lie on the host are narrowed: reading them is all that takes time, in any type."""
    return isinstance(x, StoredRows) and are_narrow(x, *outputs)


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
    if not is_plain(by) or x.dim() != 2:
        return by(x) if bias is None else by(x) + bias
    assert isinstance(by, nn.Linear)
    assert bias is None or by.bias is None
    added, dtype = by.bias if bias is None else bias, product_dtype(x)
    if not is_mixed(dtype, by.weight) and not are_narrow(x, len(by.weight)):
        return F.linear(x, by.weight, added)
    out: Tensor = _Linear.apply(x.to(dtype), by.weight, added)
    return out


def mapped(x: Tensor, by: nn.Module) -> Tensor:
    """``by(x)``; where that is a linear map, and autocast asks for a short type, by :func:`linear`.

    Args:
        x: [n, D].
        by: any module that takes rows.
    """
    mixed = isinstance(by, nn.Linear) and is_plain(by) and is_mixed(product_dtype(x), by.weight)
    out: Tensor = linear(x, by) if mixed else by(x)
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
        of_weight, of_bias = _trained([grad], x, needs[1], bias=needs[2])
        return products_back((grad, weight)) if needs[0] else None, *of_weight, of_bias


def both_linear(x: Tensor | StoredRows, num_first: int, first: nn.Linear, every: nn.Linear) -> tuple[Tensor, Tensor]:
    """``first(x[:num_first])`` and ``every(x)``.

    Args:
        x: [n, D].
        num_first: number of rows that ``first`` maps, at most n.
        first: linear map from D features.
        every: linear map from D features, without bias.
    """
    dtype = product_dtype(x)
    rows = x if isinstance(x, StoredRows) else x.to(dtype)
    own, others = _BothLinear.apply(rows, first.weight, first.bias, every.weight, num_first, dtype)
    return own, others


class _BothLinear(torch.autograd.Function):
    """Two products in forward; in backward the gradient of the first rows is added to that of all, in place."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor | StoredRows,
        first: Tensor,
        bias: Tensor | None,
        every: Tensor,
        num_first: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, ...]:
        ctx.stored = x if isinstance(x, StoredRows) else None
        ctx.save_for_backward(None if isinstance(x, StoredRows) else x, first, every)
        return tuple(products(x, [(num_first, first, bias), (len(x), every, None)], dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_first: Tensor, grad_every: Tensor) -> tuple[Tensor | None, ...]:
        x, first, every = ctx.saved_tensors
        needs = ctx.needs_input_grad
        grad_x = products_back((grad_every, every), (grad_first, first)) if needs[0] else None
        rows = x if ctx.stored is None else ctx.stored
        (of_first, of_every), of_bias = _trained([grad_first, grad_every], rows, needs[1] or needs[3], bias=needs[2])
        return grad_x, of_first, of_bias, of_every, None, None


def linear_sum(own: Tensor, means: Tensor, lin_self: nn.Linear, lin_neigh: nn.Linear) -> Tensor:
    """``lin_self(own) + lin_neigh(means)``, the second product added to the first in place.

    Args:
        own, means: [n, D] each.
        lin_self: linear map from D features.
        lin_neigh: linear map from D features, without bias, as wide.
    """
    dtype = product_dtype(own)
    weights = lin_self.weight, lin_self.bias, lin_neigh.weight
    out: Tensor = _LinearSum.apply(own.to(dtype), means.to(dtype), *weights)
    return out


class _LinearSum(torch.autograd.Function):
    """Two products added up in forward; in backward the gradient goes through both."""

    @staticmethod
    def forward(
        ctx: Any, own: Tensor, means: Tensor, of_own: Tensor, bias: Tensor | None, of_means: Tensor
    ) -> Tensor:
        ctx.save_for_backward(own, means, of_own, of_means)
        if is_mixed(own.dtype, of_own, of_means):
            return multiplied([Term(own, of_own), Term(means, of_means)], bias, own.dtype)
        return product(own, of_own, bias).addmm_(means, of_means.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        own, means, of_own, of_means = ctx.saved_tensors
        needs = ctx.needs_input_grad
        (grad_own_weight,), grad_bias = _trained([grad], own, needs[2], bias=needs[3])
        (grad_means_weight,), _ = _trained([grad], means, needs[4], bias=False)
        return (
            products_back((grad, of_own)) if needs[0] else None,
            products_back((grad, of_means)) if needs[1] else None,
            grad_own_weight,
            grad_bias,
            grad_means_weight,
        )
