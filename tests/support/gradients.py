"""Rows that have gradients, and what two ways of computing, or several trainers and one process, give of them."""

from __future__ import annotations

import pytest
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


def assert_same_step(results, loss, gradients, tolerance=1e-10):
    """Every trainer's loss and gradients by name, ``results``, are those of one process; all have the same bits.

    An error is measured by the norm of its gradient, or by a thousandth of the largest: some are 0 but for rounding.
    """
    least = 1e-3 * max(wanted.norm().item() for wanted in gradients.values())
    for own_loss, own in results:
        assert own_loss == pytest.approx(loss, rel=tolerance)
        assert own.keys() == gradients.keys()
        for name, wanted in gradients.items():
            error = (own[name] - wanted).norm().item()
            assert error <= tolerance * max(wanted.norm().item(), least), name
            assert torch.equal(own[name], results[0][1][name])


def assert_near_step(results, loss, gradients, *, rel=1e-10, rtol=1e-10, atol=1e-12):
    """The same number by number, where trainers may have other bits."""
    for own_loss, own in results:
        assert own_loss == pytest.approx(loss, rel=rel)
        for name, wanted in gradients.items():
            torch.testing.assert_close(own[name], wanted, rtol=rtol, atol=atol)
