"""Linear maps of rows, each by itself: one, or two of the same rows, or two that are added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules import module as module_hooks

from gsplit.kernels import StoredRows, product_dtype
from gsplit.nn.rowwise.products import (
    Back,
    Keeps,
    Pass,
    Term,
    add_multiplied,
    in_layers,
    is_mixed,
    multiplied,
    multiplied_back,
    products,
    signs_of,
    sum_of_rows,
    weight_gradients,
)

if TYPE_CHECKING:
    from gsplit.nn.rowwise.activation import Finish

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


SetsOut: TypeAlias = Callable[[Tensor], None]
"""Is given the gradient of rows, in backward, before those of weights are computed: it travels meanwhile."""
Comes: TypeAlias = Callable[[], Tensor]
"""Waits for the gradient of rows, in backward, and gives it: it travels while other gradients are computed."""


def linear(x: Tensor, by: nn.Module, bias: Tensor | None = None, finish: Finish | None = None) -> Tensor:
    """``finish(by(x) + bias)`` for a linear map, forward and backward by the core where that is faster.

    Args:
        x: [n, D].
        by: linear map from D features.
        bias: as wide as its result, which has then none of its own; None: ``by(x)``.
        finish: what stands behind it.
    """
    if is_plain(by) and x.dim() == 2:
        assert isinstance(by, nn.Linear)
        assert bias is None or by.bias is None
        added, dtype = by.bias if bias is None else bias, product_dtype(x)
        if in_layers(x, by.weight, dtype) or (finish is not None and finish.leaves_marks(x)):
            rows = [x.to(dtype)]
            del x  # before there is what stands behind, where nobody keeps it
            return _multiplied(finish, added, rows, [by.weight])
        out: Tensor = F.linear(x, by.weight, added)
    else:
        out = by(x) if bias is None else by(x) + bias
    return out if finish is None else finish(out)


def linear_of_sums(
    sums: Tensor, by: nn.Linear, bias: Tensor | None, finish: Finish | None, sets_out: SetsOut
) -> Tensor:
    """``finish(by(sums) + bias)`` as :func:`linear` gives it, of a map that does nothing else.

    Args:
        sums: [n, D] in the type of the products.
        by: linear map from D features.
        bias: as wide as its result, which has then none of its own; None: its own.
        finish: what stands behind it.
        sets_out: is told the gradient of the sums first.
    """
    out: Tensor = _OfSums.apply(sums, by.weight, by.bias if bias is None else bias, sets_out)
    return out if finish is None else finish(out)


class _OfSums(torch.autograd.Function):
    """A product in forward; in backward the gradient of the rows comes first, and is told of."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor, weight: Tensor, bias: Tensor | None, sets_out: SetsOut) -> Tensor:
        ctx.sets_out = sets_out
        ctx.save_for_backward(sums, weight)
        return multiplied([Term(sums, weight)], bias, sums.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        sums, weight = ctx.saved_tensors
        of_rows, of_weight, of_bias, _ = ctx.needs_input_grad
        of_sums = _rows_first(grad, weight, ctx.sets_out) if of_rows else None
        found = weight_gradients([grad], sums)[0] if of_weight else None
        return of_sums, found, sum_of_rows(grad) if of_bias else None, None


def _rows_first(grad: Tensor, weight: Tensor, sets_out: SetsOut) -> Tensor:
    """Gradient of rows that were multiplied by a weight, which is told of."""
    of_rows = multiplied([Term(grad, weight, turned=True)], None, grad.dtype)
    sets_out(of_rows)
    return of_rows


def mapped(x: Tensor, by: nn.Module) -> Tensor:
    """``by(x)``; where that is a linear map, and autocast asks for a short type, by :func:`linear`.

    Args:
        x: [n, D].
        by: any module that takes rows.
    """
    mixed = isinstance(by, nn.Linear) and is_plain(by) and is_mixed(product_dtype(x), by.weight)
    out: Tensor = linear(x, by) if mixed else by(x)
    return out


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
        back = [Term(grad_every, every, turned=True), Term(grad_first, first, turned=True)]
        grad_x = multiplied(back, None, grad_every.dtype) if needs[0] else None
        rows = x if ctx.stored is None else ctx.stored
        trained = needs[1] or needs[3]
        of_first, of_every = weight_gradients([grad_first, grad_every], rows) if trained else (None, None)
        return grad_x, of_first, sum_of_rows(grad_first) if needs[2] else None, of_every, None, None


def linear_sum(
    own: Tensor, means: Tensor, lin_self: nn.Linear, lin_neigh: nn.Linear, finish: Finish | None = None
) -> Tensor:
    """``finish(lin_self(own) + lin_neigh(means))``, the products and what stands behind them in one pass.

    Args:
        own, means: [n, D] each.
        lin_self: linear map from D features.
        lin_neigh: linear map from D features, without bias, as wide.
        finish: what stands behind them.
    """
    dtype = product_dtype(own)
    rows = [own.to(dtype), means.to(dtype)]
    del own, means  # as in :func:`linear`
    return _multiplied(finish, lin_self.bias, rows, [lin_self.weight, lin_neigh.weight])


def _multiplied(finish: Finish | None, bias: Tensor | None, rows: list[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """``finish(sum of x @ weight.t() + bias)`` over rows x [n, D], a list that is emptied, and weights [O, D]."""
    behind = None if finish is None else finish.in_pass(rows[0])
    told = finish if behind or (finish is not None and finish.leaves_marks(rows[0])) else None
    given = [each for term in zip(rows, weights, strict=True) for each in term]
    rows.clear()
    out: Tensor = _Multiplied.apply(told, behind, bias, *given)
    given.clear()
    if finish is None:
        return out
    if behind is None:
        return finish(out)
    if finish.keeps is Keeps.SIGNS:
        out = _Passed.apply(out, behind)
    return out


class _Multiplied(torch.autograd.Function):
    """Products added up, and what stands behind them; backward goes through all of it that has kept its result."""

    @staticmethod
    def forward(ctx: Any, finish: Finish | None, behind: Pass | None, bias: Tensor | None, *given: Tensor) -> Tensor:
        keeps = Keeps.RESULT if finish is None else finish.keeps
        ctx.finish = behind if keeps is Keeps.RESULT else None
        ctx.overwrites = finish is not None and finish.overwrites
        if keeps is Keeps.NOTHING:
            out = nothing_like(given[0], given[1])
        else:
            terms = [Term(x, weight) for x, weight in zip(given[::2], given[1::2], strict=True)]
            out = multiplied(terms, bias, given[0].dtype, finish=behind)
        ctx.save_for_backward(*given, *(() if ctx.finish is None else (out,)))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        bias, *needs = ctx.needs_input_grad[2:]
        saved = ctx.saved_tensors  # checkpoints give them once
        terms = [Back(*saved[i : i + 2], *needs[i : i + 2]) for i in range(0, len(needs), 2)]
        out = None if ctx.finish is None else saved[-1]
        found, of_bias = multiplied_back(
            grad, terms, bias=bias, finish=ctx.finish, out=out, overwrites=ctx.overwrites
        )
        return None, None, of_bias, *(each for pair in found for each in pair)


class _Passed(torch.autograd.Function):
    """Rows that ReLU and dropout gave, as they are; backward goes through these by their signs."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, behind: Pass) -> Tensor:
        ctx.behind, ctx.signs = behind, signs_of(out)
        ctx.mark_dirty(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.behind.backward_by_signs(ctx.signs, grad), None


def own_and_others(
    x: Tensor,
    num_first: int,
    rows: Tensor,
    lin_self: nn.Linear,
    lin_neigh: nn.Linear,
    finish: Finish | None,
    sets_out: SetsOut | None = None,
) -> Tensor:
    """``finish(lin_self(x[:num_first]) + lin_neigh(rows))``, the products one by one, and added.

    Args:
        x: [n, D].
        num_first: number of rows that ``lin_self`` maps.
        rows: [num_first, D].
        lin_self: linear map from D features.
        lin_neigh: linear map from D features, without bias, as wide.
        finish: what stands behind them.
        sets_out: is told the gradient of ``rows`` first; None: nobody is.
    """
    weights = lin_self.weight, lin_self.bias, lin_neigh.weight
    out: Tensor = _OwnAndOthers.apply(x, rows, *weights, num_first, finish, sets_out)
    del rows  # where nobody keeps them, before there is what stands behind
    return out if finish is None else finish(out)


def own_beside_others(
    x: Tensor, num_first: int, lin_self: nn.Linear, lin_neigh: nn.Linear, comes: Comes | None = None
) -> tuple[Tensor, Tensor]:
    """``lin_self(x[:num_first])`` and ``lin_neigh(x)``, by products of their own, as their gradients are.

    Args:
        x: [n, D].
        num_first: number of rows that ``lin_self`` maps, at most n.
        lin_self: linear map from D features.
        lin_neigh: linear map from D features, without bias.
        comes: gives the gradient of the second, whatever backward gets in its place; None: backward gets it.
    """
    own, others = _OwnBesideOthers.apply(x, lin_self.weight, lin_self.bias, lin_neigh.weight, num_first, comes)
    return own, others


class _OwnAndOthers(torch.autograd.Function):
    """Two products that are added; rows without an own one get no gradient of it."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        rows: Tensor,
        first: Tensor,
        bias: Tensor | None,
        every: Tensor,
        num_first: int,
        finish: Finish | None,
        sets_out: SetsOut | None,
    ) -> Tensor:
        ctx.num_first, ctx.sets_out = num_first, sets_out
        ctx.overwrites = finish is not None and finish.overwrites
        if finish is None or finish.asks_for(rows):
            out = F.linear(x[:num_first], first, bias)
            add_multiplied(rows, every, out)
        else:
            out = nothing_like(rows, every)
        ctx.save_for_backward(x, rows, first, every)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, rows, first, every = ctx.saved_tensors
        of_x, of_rows, *needs = ctx.needs_input_grad[:5]
        own = x[: ctx.num_first]
        told = ctx.sets_out is not None and of_rows
        grad_rows = _rows_first(grad, every, ctx.sets_out) if told else None
        of_first, of_bias = _own_gradients(grad, own, needs)
        grad_x = None
        if of_x:
            grad_x = x if ctx.overwrites and x.is_contiguous() else torch.empty_like(x)
            torch.mm(grad, first, out=grad_x[: ctx.num_first])
            grad_x[ctx.num_first :].zero_()
        terms = [Back(rows, every, of_rows and not told, needs[2])]
        [(computed, of_every)], _ = multiplied_back(grad, terms, bias=False, overwrites=ctx.overwrites)
        return grad_x, grad_rows if told else computed, of_first, of_bias, of_every, None, None, None


class _OwnBesideOthers(torch.autograd.Function):
    """Two products of the same rows, of which the first has some."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, first: Tensor, bias: Tensor | None, every: Tensor, num_first: int, comes: Comes | None
    ) -> tuple[Tensor, ...]:
        ctx.num_first, ctx.comes = num_first, comes
        ctx.save_for_backward(x, first, every)
        return F.linear(x[:num_first], first, bias), multiplied([Term(x, every)], None, x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_first: Tensor, grad_every: Tensor) -> tuple[Tensor | None, ...]:
        x, first, every = ctx.saved_tensors
        of_x, *needs = ctx.needs_input_grad[:4]
        of_first, of_bias = _own_gradients(grad_first, x[: ctx.num_first], needs)
        if ctx.comes is not None:
            grad_every = ctx.comes()
        [(grad_x, of_every)], _ = multiplied_back(grad_every, [Back(x, every, of_x, needs[2])], bias=False)
        del x  # before there is another product, where nobody else has it
        if grad_x is not None:
            grad_x[: ctx.num_first] += grad_first @ first
        return grad_x, of_first, of_bias, of_every, None, None


def _own_gradients(grad: Tensor, own: Tensor, needs: list[bool]) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of a weight [O, D] and a bias [O] that rows ``own`` [n, D] were mapped by."""
    return grad.t() @ own if needs[0] else None, grad.sum(dim=0) if needs[1] else None


def nothing_like(x: Tensor, weight: Tensor) -> Tensor:
    """Stand for a product [n, O] of rows [n, D] by a weight [O, D] that nobody reads: one value, of which all are."""
    return x.new_empty(()).expand(len(x), len(weight))
