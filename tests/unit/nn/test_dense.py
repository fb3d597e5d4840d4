"""What a layer computes of each row by itself, against PyTorch's own operations, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gsplit.nn import GAT, SAGE
from gsplit.nn.dense import (
    RowDropout,
    activated,
    both_linear,
    convert_dropouts,
    linear,
    linear_sum,
    product,
    weight_gradient,
)
from gsplit.train.check.dropout import DropoutOff

EXACT = {"rtol": 1e-11, "atol": 1e-11}
LOOSE = {"rtol": 1e-4, "atol": 1e-4}


def rows(n, width, dtype):
    return torch.randn(n, width, dtype=dtype, requires_grad=True)


def same_gradients(ours, theirs, inputs, tolerance):
    """Results and gradients of all inputs agree."""
    torch.testing.assert_close(ours, theirs, **tolerance)
    weights = torch.randn_like(theirs)
    mine, other = (torch.autograd.grad(out, inputs, weights, retain_graph=True) for out in (ours, theirs))
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two, **tolerance)


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
        torch.testing.assert_close(product(x, weight, bias), F.linear(x, weight, bias), **LOOSE)
        torch.testing.assert_close(weight_gradient(gradient, x), gradient.t() @ x, **LOOSE)


@pytest.mark.parametrize("activation", [torch.relu, F.relu, F.elu, torch.tanh])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_activation_without_dropout(activation, dtype):
    x = rows(30, 20, dtype)
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if dtype != torch.bfloat16 else {}
    for dropout in (nn.Dropout(0.0), nn.Dropout(0.5).eval()):
        same_gradients(activated(x, activation, dropout), activation(x), [x], tolerance)


def test_dropout_follows_the_generator_and_its_share():
    x, dropout = torch.ones(300, 200), nn.Dropout(0.25)

    def kept(seed):
        torch.manual_seed(seed)
        return activated(x, torch.relu, dropout)

    assert torch.equal(kept(1), kept(1))
    assert not torch.equal(kept(1), kept(2))
    assert sorted(kept(1).unique().tolist()) == pytest.approx([0, 1 / 0.75])
    assert (kept(1) == 0).double().mean().item() == pytest.approx(0.25, abs=0.01)


def test_dropout_of_any_model_is_drawn_by_the_core():
    twice = nn.Dropout(0.25)
    model = nn.ModuleDict({"inner": nn.Sequential(nn.Linear(2, 2), twice), "drop": twice})
    convert_dropouts(model)
    drop = model["drop"]
    assert type(drop) is RowDropout
    assert drop in model["inner"].children()
    x = torch.ones(300, 200, requires_grad=True)
    torch.manual_seed(1)
    out = drop(x)
    torch.manual_seed(1)
    assert torch.equal(out, activated(x, torch.relu, nn.Dropout(0.25)))  # no draw of PyTorch's own
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(grad, out)
    with DropoutOff():
        assert drop(x) is x
    assert drop.eval()(x) is x
    cube = torch.ones(30, 20, 10)
    torch.manual_seed(1)
    wanted = nn.functional.dropout(cube, 0.25)
    torch.manual_seed(1)
    assert torch.equal(drop.train()(cube), wanted)


@pytest.mark.parametrize("model", [SAGE, GAT])
def test_what_switches_dropout_off_reaches_the_layers(model):
    layers = model(8, 16, 3, num_layers=2, dropout=0.5)
    x = torch.randn(10, 16)
    with DropoutOff():
        assert torch.equal(
            activated(x, layers.activation, layers.dropout), activated(x, layers.activation, nn.Dropout(0.0))
        )
    assert (activated(x, layers.activation, layers.dropout) == 0).any()
