"""Rows that have gradients, and what two ways of computing give of them."""

from __future__ import annotations

import torch


def rows(n, width, dtype):
    """Random rows [n, width] that have a gradient."""
    return torch.randn(n, width, dtype=dtype, requires_grad=True)


def same_gradients(ours, theirs, inputs, tolerance):
    """Results and gradients of all inputs agree."""
    torch.testing.assert_close(ours, theirs, **tolerance)
    weights = torch.randn_like(theirs)
    mine, other = (torch.autograd.grad(out, inputs, weights, retain_graph=True) for out in (ours, theirs))
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two, **tolerance)
