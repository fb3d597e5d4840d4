"""Normalisation by its equations written out in float64, beside what kernels make of the same rows."""

from __future__ import annotations

import torch
from torch import Tensor

import gsplit._core as _core
from gsplit.kernels.normalising import BATCH, RMS, Finishing, Given, Normaliser

EPS = 1e-3
BOUNDS = {torch.float32: {"rtol": 1e-4, "atol": 2e-5}, torch.bfloat16: {"rtol": 2**-7, "atol": 2**-7}}
"""Of float32 some roundings of sums over a row; of bfloat16 that of what is written."""


def dense(norm, x, weight, bias, mean=None):
    """Rows as the equations of the papers have them; a batch's by its own means, or by one that is given."""
    axis = 0 if norm == BATCH else 1
    if norm != RMS:
        x = x - (x.mean(dim=axis, keepdim=True) if mean is None else mean)
    return x / (x.square().mean(dim=axis, keepdim=True) + EPS).sqrt() * weight + bias


def kept(n, width, drop, seed):
    """What dropout leaves, of rows in float32: 0, or what it multiplies values by."""
    out = torch.empty(n, width)
    _core.activate(torch.ones(n, width), 0, drop, seed, out)
    return out.double()


def material(n, width, dtype, seed=0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows whose mean is far from 0, a weight of both signs, a bias and gradients."""
    generator = torch.Generator().manual_seed(seed)
    x, gradients = (torch.randn(n, width, generator=generator) for _ in range(2))
    weight, bias = (torch.randn(width, generator=generator) for _ in range(2))
    return (2 * x + 5).to(dtype), weight, bias, gradients.to(dtype)


def wanted_of(norm, x, weight, bias, gradients, finish, counts=None):
    """The same, in float64; of pieces of so many rows each, whose dropout counts rows from 0, or of one."""
    leaves = [each.double().requires_grad_() for each in (x, weight, bias)]
    out = dense(norm, *leaves)
    if finish[0]:
        out = torch.relu(out) * torch.cat([kept(n, x.shape[1], *finish[1:]) for n in counts or [len(x)]])
    return out.detach(), *torch.autograd.grad(out, leaves, gradients.double())


def same(found, wanted, bound):
    """As close as roundings allow; sums over rows to the largest of them."""
    for one, other in zip(found[:2], wanted[:2], strict=True):
        torch.testing.assert_close(one.double(), other, **bound)
    for one, other in zip(found[2:], wanted[2:], strict=True):
        assert one.dtype == torch.float32
        assert (one.double() - other).abs().max() <= bound["rtol"] * max(1.0, other.abs().max().item())


def by_kernels(kernels, norm, x, weight, bias, gradients, finish, skip=None):
    """What kernels make of rows, and the gradients of rows, weight and bias; of a batch see :func:`by_pieces`."""
    by = Normaliser(kind=norm, eps=EPS, weight=weight, bias=bias, behind=Finishing(*finish))
    out, bits = kernels.forward(x, by, skip, keeps=True)
    of_x, of_weight, of_bias = (torch.full_like(each, torch.nan) for each in (x, weight, bias))
    kernels.backward(Given(x, by, bits, gradients), of_x, of_weight, of_bias)
    return out, of_x, of_weight, of_bias


def by_pieces(kernels, counts, x, weight, bias, gradients, finish):
    """The same of a batch whose rows trainers share, so many each, who add up what they have."""
    pieces, n = list(x.split(counts)), len(x)
    sums = [kernels.column_sums(piece) for piece in pieces]
    mean = sum(each.values for each in sums) / n
    factor = (sum(each.squares_over(mean) for each in sums) / n + EPS).rsqrt()
    by = Normaliser(kind=BATCH, weight=factor * weight, bias=bias, mean=mean, behind=Finishing(*finish))
    found = [kernels.forward(piece, by, None, keeps=True) for piece in pieces]
    given = [
        Given(piece, by, bits, rows)
        for piece, (_, bits), rows in zip(pieces, found, gradients.split(counts), strict=True)
    ]
    products, shift = sum(kernels.batch_sums_backward(each) for each in given)
    of_x = torch.full_like(x, torch.nan)
    for each, place in zip(given, of_x.split(counts), strict=True):
        kernels.batch_backward(each, shift / n, products / n * factor.square(), place)
    return torch.cat([out for out, _ in found]), of_x, products * factor, shift
