"""Activation and dropout of rows, against PyTorch's own operations, forward and backward."""

from __future__ import annotations

import contextlib
import math

import pytest
import torch
from support.gradients import rows, same_gradients
from torch import nn
from torch.nn import functional as F

from gsplit.engine.evaluation.dropout_off import DropoutOff
from gsplit.kernels import library_alone
from gsplit.kernels.masks import kept
from gsplit.nn import GAT, SAGE
from gsplit.nn.rowwise.activation import Finish, RowDropout, activated, convert_dropouts
from gsplit.nn.rowwise.dense import linear
from gsplit.nn.rowwise.products import Keeps


@pytest.mark.parametrize("activation", [torch.relu, F.relu, F.elu, torch.tanh])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_activation_without_dropout(activation, dtype):
    x = rows(30, 20, dtype)
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if dtype != torch.bfloat16 else {}
    for dropout in (nn.Dropout(0.0), nn.Dropout(0.5).eval()):
        same_gradients(activated(x, activation, dropout), activation(x), [x], tolerance)


@pytest.mark.parametrize("activation", [torch.relu, F.relu, F.elu, torch.tanh])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("own_dropout", [False, True])
def test_a_bias_comes_before_the_activation(activation, dtype, own_dropout):
    """In the same pass or, where the core does not do that, in one of its own."""
    x, bias = rows(30, 20, dtype), torch.randn(20, dtype=dtype, requires_grad=True)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype != torch.bfloat16 else {}
    dropout = RowDropout(0.5).eval() if own_dropout else nn.Dropout(0.0)
    same_gradients(activated(x, activation, dropout, bias), activation(x + bias), [x, bias], tolerance)
    fixed = bias.detach()
    same_gradients(activated(x, activation, dropout, fixed), activation(x + fixed), [x], tolerance)
    for other in (fixed.to(torch.float64), fixed[:1]):  # as PyTorch adds them
        ours, theirs = activated(x, activation, dropout, other), activation(x + other)
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6 if dtype != torch.bfloat16 else 1e-2)


def test_the_core_finishes_rows_in_the_pass_of_a_product_with_relu():
    x, dropout = torch.randn(3, 4), nn.Dropout(0.25)
    behind = Finish(torch.relu, dropout).in_pass(x)
    assert behind is not None
    assert behind[:2] == (1, 0.25)
    assert Finish(torch.relu, dropout).in_pass(x.bfloat16()) is not None
    assert Finish(torch.relu, dropout.eval()).in_pass(x) == (1, 0.0, 0)
    assert Finish(F.elu, dropout).in_pass(x) is None
    assert Finish(torch.relu, dropout).in_pass(x.half()) is None
    assert Finish(torch.relu, RowDropout(0.25)).in_pass(x) is None
    with library_alone():
        assert Finish(torch.relu, dropout).in_pass(x) is None


def test_a_dropout_with_a_hook_or_a_forward_of_its_own_is_called(monkeypatch):
    by, x = nn.Linear(20, 40), torch.randn(30, 20)
    hooked, replaced = nn.Dropout(0.0), nn.Dropout(0.5)
    hooked.register_forward_hook(lambda module, given, out: 3 * out)
    monkeypatch.setattr(replaced, "forward", lambda rows: 3 * rows)
    for dropout in (hooked, replaced):
        finish = Finish(torch.relu, dropout)
        torch.testing.assert_close(linear(x, by, None, finish), 3 * torch.relu(by(x)), rtol=1e-5, atol=1e-5)
        assert torch.equal(finish(x), 3 * torch.relu(x))


def test_dropout_follows_the_generator_and_its_share():
    x, dropout = torch.ones(300, 200), nn.Dropout(0.25)

    def kept(seed):
        torch.manual_seed(seed)
        return activated(x, torch.relu, dropout)

    assert torch.equal(kept(1), kept(1))
    assert not torch.equal(kept(1), kept(2))
    assert sorted(kept(1).unique().tolist()) == pytest.approx([0, 1 / 0.75])
    assert (kept(1) == 0).double().mean().item() == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("dropout", [nn.Dropout(0.25), RowDropout(0.25), nn.Dropout(1.0)], ids=str)
@pytest.mark.parametrize("activation", [torch.relu, torch.tanh])
@pytest.mark.parametrize("on_cpu", [True, False])
def test_dropout_follows_a_seed_of_the_caller_s(dropout, activation, on_cpu):
    x = rows(300, 200, torch.float32)

    def kept(seed, others):
        torch.manual_seed(others)
        with contextlib.nullcontext() if on_cpu else library_alone():
            return activated(x, activation, dropout, seed=seed)

    assert torch.equal(kept(1, 5), kept(1, 6))
    assert torch.equal(kept(1, 5), kept(2, 5)) == (dropout.p == 1)
    out, scale = kept(1, 5), 0 if dropout.p == 1 else 1 / (1 - dropout.p)
    assert ((out == 0) | out.isclose(activation(x) * scale)).all()
    with DropoutOff():
        assert torch.equal(kept(1, 5), activation(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.999])
def test_what_a_seed_drops_is_what_the_core_drops(dtype, share):
    for seed, width in ((0, 1), (7, 300), (2**62 + 12345, 257), (2**63 - 1, 33)):
        x = torch.ones(211, width, dtype=dtype)
        out = activated(x, torch.relu, nn.Dropout(share), seed=seed)
        assert torch.equal(out > 0, kept(x, share, seed))


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_values_are_dropped_by_chance(share):
    """Sums of independent draws of variance p (1 - p): over all, rows, columns, neighbours and seeds.

    Of standard scores the mean square is 1, within 5 times sqrt(2 / n) for n of them.
    """
    n, d = 600, 400
    x = torch.empty(n, d)
    dropped = torch.stack([~kept(x, share, seed) for seed in (3, 4)]).double()
    score = (dropped - share) / math.sqrt(share * (1 - share))
    one, other = score
    pairs = {"rows": one[1:] * one[:-1], "columns": one[:, 1:] * one[:, :-1], "seeds": one * other}
    for name, products in {"all": one, **pairs}.items():
        assert abs(products.sum()) < 5 * math.sqrt(products.numel()), name
    for along in (0, 1):
        sums = one.sum(along) / math.sqrt(one.shape[along])
        assert abs(sums.square().mean() - 1) < 5 * math.sqrt(2 / len(sums))


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("width", "share"), [(20, 0.5), (64, 0.0), (7, 0.3), (300, 0.5)])
def test_signs_give_the_bits_that_results_give(dtype, width, share):
    """Of rows and bias, also where values are 0 or no numbers; the rows themselves are given back in their place."""
    values = torch.randn(30, width).to(dtype)
    values[0, :5] = torch.tensor([0.0, -0.0, torch.nan, torch.inf, -torch.inf])
    found = []
    for keeps in (Keeps.RESULT, Keeps.SIGNS):
        x = values.clone().requires_grad_()
        bias = torch.full((width,), 0.0, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
        bias.requires_grad_()
        out = activated(x, torch.relu, nn.Dropout(share), bias, seed=5, keeps=keeps)
        out.backward(torch.arange(out.numel()).view(out.shape).to(dtype))
        found.append((out.detach(), x.grad, bias.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    assert activated(x, torch.relu, nn.Dropout(share), keeps=Keeps.NOTHING) is x
