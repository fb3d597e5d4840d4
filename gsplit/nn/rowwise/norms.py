"""Normalisation of rows and what stands behind it, in one pass of the core, and in one backward (``csrc/norms.hpp``).

RMSNorm (Zhang and Sennrich, NeurIPS 2019) and LayerNorm (Ba, Kiros and Hinton, 2016) as PyTorch has them, of each row
by itself; and by numbers of each column, which a batch gives. Kept for backward is what was normalised, and a bit for
each value that says what ReLU and dropout let through. Rows are float32 or bfloat16 on the CPU, what is computed of
them float32; all else is PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

import gsplit._core as _core
from gsplit.kernels import computed_in, in_core
from gsplit.kernels.sums import whole_rows
from gsplit.nn.rowwise.activation import NO_ACTIVATION, Finish
from gsplit.nn.rowwise.dense import has_hooks
from gsplit.nn.rowwise.products import Keeps, Pass, room_like

RMS, LAYER, BATCH = 0, 1, 2
"""Normalisations, by the core's numbers."""
PLAIN = Pass(NO_ACTIVATION, 0.0, 0)


class Behind(NamedTuple):
    """What stands behind a normalisation in its pass, and what that keeps."""

    finish: Pass = PLAIN
    """Activation and dropout."""
    keeps: Keeps = Keeps.RESULT
    """What is kept for backward of these: bits, or nothing."""
    overwrites: bool = False
    """Whether backward may write gradients over the rows that were normalised: nobody else reads those."""
    trains: bool = True
    """Whether there will be a backward."""

    def signs_like(self, x: Tensor) -> Tensor | None:
        """Room for a bit for each value of rows [n, D], where the activation wants one."""
        if self.finish.activation == NO_ACTIVATION or not self.trains:
            return None
        return x.new_empty((len(x), -(-x.shape[1] // 8)), dtype=torch.uint8)


def behind_of(finish: Finish | None, x: Tensor, *, overwrites: bool = False) -> tuple[Behind, Finish | None]:
    """Return what of ``finish`` goes into the pass of a normalisation of rows like ``x`` [n, D], and what is left.

    Args:
        finish: what stands behind it; None: nothing.
        x: the rows.
        overwrites: whether nobody else reads the rows where a layer is computed again.
    """
    trains, in_pass = torch.is_grad_enabled(), None if finish is None else finish.in_pass(x)
    if finish is None or in_pass is None:
        return Behind(trains=trains), finish
    return Behind(in_pass, finish.keeps, overwrites and finish.keeps is Keeps.SIGNS, trains), None


def normalises(norm: nn.Module, x: Tensor, *classes: type[nn.Module]) -> bool:
    """Return whether calling a normalisation does what the core does of rows like ``x`` [n, D], and nothing else.

    Args:
        norm: any module.
        x: the rows.
        classes: of normalisations that are meant; what is derived from one is not.
    """
    return fits_core(norm, x, *classes) and "forward" not in vars(norm) and not has_hooks(norm)


def fits_core(norm: nn.Module, x: Tensor, *classes: type[nn.Module]) -> bool:
    """Return whether the core does what a normalisation's class does, as :func:`normalises`, whatever its hooks."""
    if type(norm) not in classes:
        return False
    weights = [each for each in (norm.weight, getattr(norm, "bias", None)) if each is not None]
    fits = all(
        isinstance(each, Tensor) and each.dtype == torch.float32 and each.shape == x.shape[1:] for each in weights
    )
    return fits and in_core(x) and computed_in(x.dtype) == torch.float32 and x.dim() == 2 and x.shape[1] > 0


def normalised_rows(
    norm: nn.Module, x: Tensor, finish: Finish | None, skip: Tensor | None, *, overwrites: bool
) -> Tensor | None:
    """``finish(norm(x)) + skip`` of a normalisation of each row by itself; None: the core does not take it.

    Args:
        norm: any module.
        x: the rows [n, D].
        finish: what stands behind it; None: nothing.
        skip: [n, D], added last; None: nothing.
        overwrites: whether nobody else reads the rows where a layer is computed again.
    """
    if not normalises(norm, x, nn.LayerNorm, nn.RMSNorm):
        return None
    assert isinstance(norm, (nn.LayerNorm, nn.RMSNorm))
    if norm.normalized_shape != tuple(x.shape[1:]):
        return None
    number = LAYER if isinstance(norm, nn.LayerNorm) else RMS
    eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
    bias, (behind, left) = getattr(norm, "bias", None), behind_of(finish, x, overwrites=overwrites)
    along = goes_along(skip, x, left)
    rows: Tensor = _Normalised.apply(x, norm.weight, bias, skip if along else None, number, eps, behind)
    return ended(rows, left, None if along else skip)


def goes_along(skip: Tensor | None, x: Tensor, left: Finish | None) -> bool:
    """Return whether a skip is added in the pass of rows like ``x``, with nothing left to be done before it."""
    return left is None and skip is not None and skip.dtype == x.dtype and skip.shape == x.shape


def ended(rows: Tensor, left: Finish | None, skip: Tensor | None) -> Tensor:
    """Return rows with what is left to be done of them after a pass."""
    rows = rows if left is None else left(rows)
    return rows if skip is None else rows + skip


class _Normalised(torch.autograd.Function):
    """Rows normalised, each by itself, with an activation and dropout behind."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        skip: Tensor | None,
        number: int,
        eps: float,
        behind: Behind,
    ) -> Tensor:
        ctx.number, ctx.eps, ctx.behind, ctx.signs = number, eps, behind, None
        ctx.save_for_backward(x, weight)
        if behind.keeps is Keeps.NOTHING:
            return _nothing_like(x)
        ctx.signs, out = behind.signs_like(x), torch.empty_like(x, memory_format=torch.contiguous_format)
        columns = _column(weight), _column(bias), None
        _normalise(x, number, eps, columns, behind.finish, out, ctx.signs, skip)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x = room_like(x, ctx.behind.overwrites)
        of_weight, of_bias = (
            x.new_empty(x.shape[1], dtype=torch.float32) if wanted else None for wanted in ctx.needs_input_grad[1:3]
        )
        _core.normalise_backward(
            whole_rows(x),
            ctx.number,
            ctx.eps,
            _column(weight),
            ctx.behind.finish,
            ctx.signs,
            whole_rows(grad),
            of_x,
            of_weight,
            of_bias,
            threads=torch.get_num_threads(),
        )
        return of_x, of_weight, of_bias, grad if ctx.needs_input_grad[3] else None, None, None, None


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What rows are normalised by, over all trainers' rows."""

    mean: Tensor
    """float32 [D] of each column."""
    factor: Tensor
    """float32 [D], one over the deviation of each column."""
    count: Tensor
    """Number of rows, at least 1."""
    summed: Callable[[Tensor], Tensor]
    """Adds up numbers of all trainers in backward, which every one of them calls."""


def column_sums(x: Tensor, mean: Tensor | None = None) -> Tensor:
    """Sums of columns of rows [n, D], float32 [D]: of values, or of the squares of what they are over a mean."""
    out = x.new_empty(x.shape[1], dtype=torch.float32)
    _core.batch_sums(whole_rows(x), mean, out, threads=torch.get_num_threads())
    return out


def normalised_batch(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    skip: Tensor | None,
    statistics: Statistics | None,
    behind: Behind,
    token: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """``(x - mean) * factor * weight + bias``, and what stands behind it, plus a skip.

    Args:
        x: [n, D].
        weight, bias: [D]; None: 1, and 0.
        skip: [n, D], added last; None: nothing.
        statistics: of all rows; None where nothing is asked for, as they were known before.
        behind: what stands behind it.
        token: that chains the sums of backward to other collectives (:class:`gsplit.nn.exchange.BatchComm`).

    Returns:
        The rows [n, D], and the token that the next collective takes.
    """
    out, token = _NormalisedBatch.apply(x, weight, bias, skip, token, statistics, behind)
    return out, token


class _NormalisedBatch(torch.autograd.Function):
    """Rows normalised by statistics of columns, which go back through the rows themselves: two sums, then a pass."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        skip: Tensor | None,
        token: Tensor | None,
        statistics: Statistics | None,
        behind: Behind,
    ) -> tuple[Tensor, Tensor | None]:
        ctx.statistics, ctx.behind, ctx.signs = statistics, behind, None
        ctx.save_for_backward(x, weight)
        token = None if token is None else token.clone()
        if statistics is None:
            return _nothing_like(x), token
        ctx.signs, out = behind.signs_like(x), torch.empty_like(x, memory_format=torch.contiguous_format)
        columns = _scaled(statistics, weight), _column(bias), statistics.mean
        _normalise(x, BATCH, 0.0, columns, behind.finish, out, ctx.signs, skip)
        return out, token

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_token: Tensor | None) -> tuple[Tensor | None, ...]:
        (x, weight), by, finish = ctx.saved_tensors, ctx.statistics, ctx.behind.finish
        rows, gradients, threads = whole_rows(x), whole_rows(grad), torch.get_num_threads()
        own = x.new_empty((2, x.shape[1]), dtype=torch.float32)
        _core.batch_backward_sums(rows, by.mean, finish, ctx.signs, gradients, own[0], own[1], threads=threads)
        slope, shift = by.summed(own) / by.count
        slope = slope * by.factor.square()
        of_x = room_like(x, ctx.behind.overwrites)
        columns = _scaled(by, weight), by.mean
        _core.batch_backward(rows, *columns, finish, ctx.signs, gradients, shift, slope, of_x, threads=threads)
        of_weight = own[0] * by.factor if ctx.needs_input_grad[1] else None
        of_bias = own[1].clone() if ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias, grad if ctx.needs_input_grad[3] else None, grad_token, None, None


def _normalise(
    x: Tensor,
    number: int,
    eps: float,
    columns: tuple[Tensor | None, Tensor | None, Tensor | None],
    finish: Pass,
    out: Tensor,
    signs: Tensor | None,
    skip: Tensor | None,
) -> None:
    added = None if skip is None else whole_rows(skip)
    _core.normalise(whole_rows(x), number, eps, *columns, finish, out, signs, added, threads=torch.get_num_threads())


def _scaled(by: Statistics, weight: Tensor | None) -> Tensor:
    return by.factor if weight is None else by.factor * weight.detach()


def _column(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.detach().contiguous()


def _nothing_like(x: Tensor) -> Tensor:
    """Stand for rows that nobody reads: one value, of which all are."""
    return x.new_empty(()).expand(x.shape)
