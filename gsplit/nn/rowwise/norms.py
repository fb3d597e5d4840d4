"""Normalisation of rows and what stands behind it, in one pass of a kernel, and in one backward.

RMSNorm (Zhang and Sennrich, NeurIPS 2019) and LayerNorm (Ba, Kiros and Hinton, 2016) as PyTorch has them, of each row
by itself; and by numbers of each column, which a batch gives. On the CPU the core computes it, of float32 and of
bfloat16 (``csrc/norms.hpp``), on GPUs a kernel of Triton's (:mod:`gsplit.kernels.norm_rows`); all else is PyTorch's.
Kept for backward is what was normalised, and on the CPU a bit for each value: what ReLU and dropout let through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsplit.kernels import normalising_for
from gsplit.kernels.normalising import BATCH, LAYER, RMS, Given, Normaliser, Normalising, sums_like
from gsplit.nn.rowwise.activation import NO_ACTIVATION, Finish
from gsplit.nn.rowwise.dense import has_hooks
from gsplit.nn.rowwise.products import Keeps, Pass, room_like

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


def behind_of(
    finish: Finish | None, kernels: Normalising, *, overwrites: bool = False
) -> tuple[Behind, Finish | None]:
    """Return what of ``finish`` goes into the pass of a normalisation, and what is left.

    Args:
        finish: what stands behind it; None: nothing.
        kernels: that normalise.
        overwrites: whether nobody else reads the rows where a layer is computed again.
    """
    trains = torch.is_grad_enabled()
    in_pass = finish.as_pass() if finish is not None and kernels.finishes else None
    if finish is None or in_pass is None:
        return Behind(trains=trains), finish
    return Behind(in_pass, finish.keeps, overwrites and finish.keeps is Keeps.SIGNS, trains), None


def is_plain(norm: nn.Module) -> bool:
    """Return whether calling a normalisation does what its class does, and nothing else."""
    return "forward" not in vars(norm) and not has_hooks(norm)


def kernels_of(norm: nn.Module, x: Tensor, kind: int, *classes: type[nn.Module]) -> Normalising | None:
    """Return kernels that do what a normalisation's class does of rows like ``x``, whatever its hooks; None: none do.

    Args:
        norm: any module.
        x: the rows [n, D].
        kind: of the normalisation.
        classes: that are meant; what is derived from one is not.
    """
    if type(norm) not in classes or x.dim() != 2 or not x.shape[1]:
        return None
    weights = [each for each in (norm.weight, getattr(norm, "bias", None)) if each is not None]
    fits = all(
        isinstance(each, Tensor) and each.dtype == torch.float32 and each.shape == x.shape[1:] for each in weights
    )
    return normalising_for(x, kind) if fits else None


def normalised_rows(
    norm: nn.Module, x: Tensor, finish: Finish | None, skip: Tensor | None, *, overwrites: bool
) -> Tensor | None:
    """``finish(norm(x)) + skip`` of a normalisation of each row by itself; None: no kernel takes it.

    Args:
        norm: any module.
        x: the rows [n, D].
        finish: what stands behind it; None: nothing.
        skip: [n, D], added last; None: nothing.
        overwrites: whether nobody else reads the rows where a layer is computed again.
    """
    number = LAYER if isinstance(norm, nn.LayerNorm) else RMS
    kernels = kernels_of(norm, x, number, nn.LayerNorm, nn.RMSNorm)
    if kernels is None or not is_plain(norm):
        return None
    assert isinstance(norm, (nn.LayerNorm, nn.RMSNorm))
    if norm.normalized_shape != tuple(x.shape[1:]):
        return None
    eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
    bias, (behind, left) = getattr(norm, "bias", None), behind_of(finish, kernels, overwrites=overwrites)
    along = goes_along(skip, x, left)
    about = kernels, number, eps, behind
    rows: Tensor = _Normalised.apply(x, norm.weight, bias, skip if along else None, *about)
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
        kernels: Normalising,
        kind: int,
        eps: float,
        behind: Behind,
    ) -> Tensor:
        ctx.kernels, ctx.kind, ctx.eps, ctx.behind, ctx.kept = kernels, kind, eps, behind, None
        ctx.save_for_backward(x, weight, _asked_for(bias, kernels, behind))
        if behind.keeps is Keeps.NOTHING:
            return _nothing_like(x)
        by = Normaliser(kind=kind, eps=eps, weight=weight, bias=bias, behind=behind.finish)
        out, ctx.kept = kernels.forward(x, by, skip, keeps=behind.trains)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        of_x = room_like(x, ctx.behind.overwrites)
        wanted = ctx.needs_input_grad[1:3]
        of_weight, of_bias = (sums_like(x, x.shape[1]) if each else None for each in wanted)
        by = Normaliser(kind=ctx.kind, eps=ctx.eps, weight=weight, bias=bias, behind=ctx.behind.finish)
        ctx.kernels.backward(Given(x, by, ctx.kept, grad), of_x, of_weight, of_bias)
        return of_x, of_weight, of_bias, grad if ctx.needs_input_grad[3] else None, None, None, None, None


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

    def normaliser(self, weight: Tensor | None, bias: Tensor | None, behind: Behind) -> Normaliser:
        """Return what rows are normalised by, with weight and bias [D] and what stands behind."""
        scaled = self.factor if weight is None else self.factor * weight.detach()
        return Normaliser(kind=BATCH, weight=scaled, bias=bias, mean=self.mean, behind=behind.finish)


def normalised_batch(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    skip: Tensor | None,
    kernels: Normalising,
    statistics: Statistics | None,
    behind: Behind,
    token: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """``(x - mean) * factor * weight + bias``, and what stands behind it, plus a skip.

    Args:
        x: [n, D].
        weight, bias: [D]; None: 1, and 0.
        skip: [n, D], added last; None: nothing.
        kernels: that normalise.
        statistics: of all rows; None where nothing is asked for, as they were known before.
        behind: what stands behind it.
        token: that chains the sums of backward to other collectives (:class:`gsplit.nn.exchange.BatchComm`).

    Returns:
        The rows [n, D], and the token that the next collective takes.
    """
    out, token = _NormalisedBatch.apply(x, weight, bias, skip, token, kernels, statistics, behind)
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
        kernels: Normalising,
        statistics: Statistics | None,
        behind: Behind,
    ) -> tuple[Tensor, Tensor | None]:
        ctx.kernels, ctx.statistics, ctx.behind, ctx.kept = kernels, statistics, behind, None
        ctx.save_for_backward(x, weight, _asked_for(bias, kernels, behind))
        token = None if token is None else token.clone()
        if statistics is None:
            return _nothing_like(x), token
        by = statistics.normaliser(weight, bias, behind)
        out, ctx.kept = kernels.forward(x, by, skip, keeps=behind.trains)
        return out, token

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_token: Tensor | None) -> tuple[Tensor | None, ...]:
        (x, weight, bias), by, kernels = ctx.saved_tensors, ctx.statistics, ctx.kernels
        given = Given(x, by.normaliser(weight, bias, ctx.behind), ctx.kept, grad)
        own = kernels.batch_sums_backward(given)
        slope, shift = by.summed(own) / by.count
        slope = slope * by.factor.square()
        of_x = room_like(x, ctx.behind.overwrites)
        kernels.batch_backward(given, shift, slope, of_x)
        of_weight = own[0] * by.factor if ctx.needs_input_grad[1] else None
        of_bias = own[1].clone() if ctx.needs_input_grad[2] else None
        of_skip = grad if ctx.needs_input_grad[3] else None
        return of_x, of_weight, of_bias, of_skip, grad_token, None, None, None


def _asked_for(bias: Tensor | None, kernels: Normalising, behind: Behind) -> Tensor | None:
    """The bias, where backward asks for it: to take anew what ReLU let through."""
    return None if kernels.keeps_bits or not behind.finish.activation else bias


def _nothing_like(x: Tensor) -> Tensor:
    """Stand for rows that nobody reads: one value, of which all are."""
    return x.new_empty(()).expand(x.shape)
