"""Products of rows, against PyTorch's own operations, forward and backward."""

from __future__ import annotations

import pytest
import torch
from support.gradients import rows, same_gradients
from support.kernels import instructions
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import gsplit._core as _core
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.dense import both_linear, linear, linear_sum
from gsplit.nn.rowwise.products import Back, Term, multiplied, multiplied_back

EXACT = {"rtol": 1e-11, "atol": 1e-11}
LOOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, LOOSE)])
@pytest.mark.parametrize(("width", "outputs"), [(100, 16), (40, 70), (5, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_two_maps_of_the_same_rows(width, outputs, bias, dtype, tolerance):
    x = rows(60, width, dtype)
    first = nn.Linear(width, outputs, bias=bias, dtype=dtype)
    every = nn.Linear(width, outputs, bias=False, dtype=dtype)
    own, all_rows = both_linear(x, 23, first, every)
    theirs = torch.cat([first(x[:23]), every(x)])
    same_gradients(torch.cat([own, all_rows]), theirs, [x, *first.parameters(), *every.parameters()], tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, LOOSE)])
@pytest.mark.parametrize(("width", "outputs"), [(16, 32), (40, 70)])
@pytest.mark.parametrize("bias", [True, False])
def test_two_products_added_up(width, outputs, bias, dtype, tolerance):
    own, means = rows(60, width, dtype), rows(60, width, dtype)
    lin_self = nn.Linear(width, outputs, bias=bias, dtype=dtype)
    lin_neigh = nn.Linear(width, outputs, bias=False, dtype=dtype)
    ours, theirs = linear_sum(own, means, lin_self, lin_neigh), lin_self(own) + lin_neigh(means)
    same_gradients(ours, theirs, [own, means, *lin_self.parameters(), *lin_neigh.parameters()], tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, LOOSE)])
@pytest.mark.parametrize(("width", "outputs"), [(100, 16), (40, 70), (5, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_map_by_itself(width, outputs, bias, dtype, tolerance):
    x, by = rows(60, width, dtype), nn.Linear(width, outputs, bias=bias, dtype=dtype)
    same_gradients(linear(x, by), by(x), [x, *by.parameters()], tolerance)


def test_narrow_maps_are_the_cores_where_it_has_no_wide_products(monkeypatch):
    by, seen, project = nn.Linear(100, 16), [], _core.project_rows
    monkeypatch.setattr(_core, "project_rows", lambda *args, **named: seen.append(1) or project(*args, **named))
    x = torch.randn(70, 100)
    for name in _core.instruction_sets():
        with instructions(name):
            seen.clear()
            torch.testing.assert_close(linear(x, by), by(x), **LOOSE)
            assert bool(seen) == (_core.narrow_fits(16, 100) and not _core.has_wide_products())


def test_a_map_with_a_hook_is_called():
    by, seen = nn.Linear(100, 16), []
    by.register_forward_hook(lambda *_: seen.append(1))
    linear(torch.randn(5, 100), by)
    assert seen == [1]


@pytest.mark.parametrize("n", [0, 1, 50])
@pytest.mark.parametrize("outputs", [1, 16, 33])
def test_products_of_few_rows_and_of_parts_of_rows(n, outputs):
    wide = torch.randn(n, 60)
    for x in (wide[:, :40], wide[:, ::2]):
        weight, bias, gradient = torch.randn(outputs, x.shape[1]), torch.randn(outputs), torch.randn(n, outputs)
        out = multiplied([Term(x, weight)], bias, x.dtype)
        torch.testing.assert_close(out, F.linear(x, weight, bias), **LOOSE)
        terms = [Back(x, weight, of_x=True, of_weight=True)]
        [(of_x, of_weight)], of_bias = multiplied_back(gradient, terms, bias=True)
        torch.testing.assert_close(of_x, gradient @ weight, **LOOSE)
        torch.testing.assert_close(of_weight, gradient.t() @ x, **LOOSE)
        torch.testing.assert_close(of_bias, gradient.sum(dim=0), **LOOSE)


@pytest.mark.parametrize("autocast", [False, True])
def test_rows_and_weights_that_lie_column_by_column(autocast):
    x, by = torch.randn(40, 60).t().requires_grad_(), nn.Linear(40, 33)
    by.weight = nn.Parameter(torch.randn(40, 33).t())
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        ours, theirs = linear(x, by), by(x)
    same_gradients(ours, theirs, [x, *by.parameters()], {"rtol": 2e-2, "atol": 0.2} if autocast else LOOSE)


def test_products_in_float32_under_another_default():
    x, by = rows(60, 40, torch.float32), nn.Linear(40, 33)
    torch.set_default_dtype(torch.float64)
    try:
        same_gradients(linear(x, by), by(x), [x, *by.parameters()], LOOSE)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_layer_that_is_computed_again_for_backward():
    x, by = rows(60, 40, torch.float32), nn.Linear(40, 33)

    def layer(x):
        return linear(x, by, None, Finish(torch.relu, nn.Dropout(0.0)))

    again = checkpoint(layer, x, use_reentrant=False)
    again.backward(torch.ones(60, 33))
    (wanted,) = torch.autograd.grad(layer(x).sum(), x)
    assert torch.equal(x.grad, wanted)
