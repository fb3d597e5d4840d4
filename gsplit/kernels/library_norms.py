"""Normalisation by PyTorch's operations, one by one, on any device.

They stand in for a kernel that cannot be made. Of a batch they stand on all accelerators where there is none, so that
trainers add up the same sums whatever each of them computes with.
"""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from gsplit.kernels.masks import kept as kept_of
from gsplit.kernels.normalising import BATCH, LAYER, ColumnSums, Given, Normaliser, Normalising, scale_of


class LibraryNorms(Normalising):
    """PyTorch's operations, in float32. What stands behind a normalisation follows better by itself."""

    finishes = False
    keeps_bits = False

    @override
    def forward(self, x: Tensor, by: Normaliser, skip: Tensor | None, *, keeps: bool) -> tuple[Tensor, Tensor | None]:
        out = _before_finish(_normal(x, by)[0], by)
        if by.behind.activation:
            out = out.relu_()
        if by.behind.drop:
            out *= _scales(out, by)
        if skip is not None:
            out = out + skip
        return out.to(x.dtype), None

    @override
    def backward(self, given: Given, of_x: Tensor, of_weight: Tensor | None, of_bias: Tensor | None) -> None:
        x, by, _, gradients = given
        normal, factor = _normal(x, by)
        through = _let_through(normal, by, gradients)
        if of_weight is not None:
            of_weight.copy_((through * normal).sum(dim=0))
        if of_bias is not None:
            of_bias.copy_(through.sum(dim=0))
        weighted = through if by.weight is None else through * by.weight.detach()
        result = weighted - normal * (weighted * normal).mean(dim=1, keepdim=True)
        if by.kind == LAYER:
            result -= weighted.mean(dim=1, keepdim=True)
        of_x.copy_(result * factor)

    @override
    def column_sums(self, x: Tensor) -> ColumnSums:
        rows = x.detach().float()
        return ColumnSums(rows.sum(dim=0), lambda mean: (rows - mean).square_().sum(dim=0))

    @override
    def batch_sums_backward(self, given: Given) -> Tensor:
        x, by, _, gradients = given
        centred, _ = _normal(x, by)
        through = _let_through(centred, by, gradients)
        return torch.stack([centred.mul_(through).sum(dim=0), through.sum(dim=0)])

    @override
    def batch_backward(self, given: Given, shift: Tensor, slope: Tensor, of_x: Tensor) -> None:
        x, by, _, gradients = given
        centred, _ = _normal(x, by)
        through = _let_through(centred, by, gradients)
        result = centred.mul_(-slope).add_(through).sub_(shift)
        of_x.copy_(result if by.weight is None else result.mul_(by.weight.detach()))


def _normal(x: Tensor, by: Normaliser) -> tuple[Tensor, Tensor]:
    """Rows over their mean, times their factor, and these factors [R, 1]; of a batch without factors."""
    x = x.detach().float()
    if by.kind == BATCH:
        assert by.mean is not None
        return x - by.mean, x.new_ones(())
    centred = x - x.mean(dim=1, keepdim=True) if by.kind == LAYER else x
    factor = (centred.square().mean(dim=1, keepdim=True) + by.eps).rsqrt()
    return centred * factor, factor


def _before_finish(normal: Tensor, by: Normaliser) -> Tensor:
    """Return what is made of normalised rows, which may be written over."""
    if by.weight is not None:
        normal *= by.weight.detach()
    return normal if by.bias is None else normal.add_(by.bias.detach())


def _scales(x: Tensor, by: Normaliser) -> Tensor:
    """Return what dropout multiplies values like those of x by, float32 [R, D]."""
    return kept_of(x, by.behind.drop, by.behind.seed).float().mul_(scale_of(by.behind.drop))


def _let_through(normal: Tensor, by: Normaliser, gradients: Tensor) -> Tensor:
    """Gradients that ReLU and dropout let through, float32 [R, D]."""
    given = gradients.detach().float()
    if not by.behind.activation:
        return given
    given = given * ~(_before_finish(normal.clone(), by) <= 0)  # what is no number goes through
    return given * _scales(given, by) if by.behind.drop else given
