"""Rows in bfloat16: what is computed of them is what float32 gives of the same values, rounded once at the end."""

from __future__ import annotations

import pytest
import torch
from support.kernels import random_edges

import gsplit._core as _core
from gsplit.kernels import Edges, Sums
from gsplit.kernels import core as core_module


def half(*shape):
    """Random rows in bfloat16."""
    return torch.randn(*shape).bfloat16()


def same_but_for_rounding(ours, wide):
    """Values of bfloat16 are the nearest of float32 values; of ties that another order of a sum decides, either."""
    assert ours.dtype == torch.bfloat16
    nearest = wide.bfloat16()
    torch.testing.assert_close(ours.float(), wide, rtol=2**-8 * 1.01, atol=1e-30)
    assert (ours != nearest).float().mean() < 0.01


@pytest.mark.cases(80)
@pytest.mark.parametrize("width", [1, 3, 4, 7, 8, 9, 16, 17, 47, 100, 128, 129, 257, 600])
@pytest.mark.parametrize("wide_out", [False, True])
@pytest.mark.parametrize("start", [None, torch.bfloat16, torch.float32])
def test_sums(core, width, wide_out, start):
    edges, x = random_edges(seed=width), half(40, width)
    scaling = {
        "factor": torch.rand(40),
        "weight": torch.randn(len(edges.indices), 1),
        "degrees": torch.randint(0, 9, (23,), dtype=torch.int32),
        "scale": torch.randn(23),
    }
    begin = None if start is None else torch.randn(11, width).to(start)
    if begin is not None:
        scaling["start_scale"] = torch.randn(11)
    out = torch.full((23, width), torch.nan, dtype=torch.float32 if wide_out else torch.bfloat16)
    core.sum(Sums(edges, x[:29], x[29:], out, start=begin, **scaling))
    wanted = torch.empty(23, width)
    widened = None if begin is None else begin.float()
    core.sum(Sums(edges, x[:29].float(), x[29:].float(), wanted, start=widened, **scaling))
    if wide_out:
        torch.testing.assert_close(out, wanted, rtol=1e-6, atol=1e-6)
    else:
        same_but_for_rounding(out, wanted)


def test_sums_of_heads_and_in_place(core):
    edges, x = random_edges(seed=3), half(40, 64)
    weight = torch.randn(len(edges.indices), 4)
    out, wanted = half(23, 64), torch.empty(23, 64)
    core.sum(Sums(edges, x.float(), None, wanted, start=out.float(), weight=weight))
    core.sum(Sums(edges, x, None, out, start=out, weight=weight))
    same_but_for_rounding(out, wanted)


def test_rows_are_added_up_before_they_are_rounded(core, monkeypatch):
    """Three runs of rows, as from three trainers, some of them in all; pieces end in the middle of a row's values."""
    monkeypatch.setattr(core_module, "PIECE_ROWS", 7)
    runs = [torch.randperm(30)[:count].sort().values.int() for count in (20, 9, 30)]
    rows, out = torch.cat(runs), half(30, 17)
    values, wanted, most = half(len(rows), 17), out.float(), out.float().abs()
    core.add(wanted, rows, values.float(), [len(run) for run in runs])
    core.add(most, rows, values.float().abs(), [len(run) for run in runs])
    core.add(out, rows, values, [len(run) for run in runs])
    assert ((out.float() - wanted).abs() <= 3 * 2**-8 * 1.01 * most).all()  # once a run, of as much at most
    monkeypatch.setattr(core_module, "PIECE_ROWS", 1000)
    one, values = half(30, 17), half(len(rows), 17)
    wanted = one.float()
    core.add(wanted, rows, values.float(), [len(run) for run in runs])
    core.add(one, rows, values, [len(run) for run in runs])
    assert torch.equal(one, wanted.bfloat16())


@pytest.mark.parametrize("width", [1, 7, 16, 33, 100])
def test_rows_that_come_once_are_added_and_rounded(core, width):
    """As from one trainer, beside which the others send nothing."""
    rows, out = torch.randperm(30)[:20].int(), half(30, width)
    values, wanted = half(20, width), out.float()
    core.add(wanted, rows, values.float(), [20])
    core.add(out, rows, values, [0, 20])
    assert torch.equal(out, wanted.bfloat16())


@pytest.mark.parametrize("wide", [False, True])
def test_long_lists(core, wide):
    """Their blocks are added in double, so that a sum of many ones is exact."""
    count = 100_000
    edges = Edges(
        indptr=torch.tensor([0, 3, count, count], dtype=torch.int32), indices=torch.zeros(count, dtype=torch.int32)
    )
    dtype = torch.float32 if wide else torch.bfloat16
    out, start = torch.empty(3, 20, dtype=dtype), torch.ones(2, 20, dtype=dtype)
    degrees = torch.tensor([3, 7, 0], dtype=torch.int32)
    core.sum(
        Sums(edges, torch.ones(1, 20).bfloat16(), None, out, degrees=degrees, scale=torch.ones(3) * 2, start=start)
    )
    wanted = torch.tensor([3.0, (count - 3) / 7 * 2 + 1, 0.0]).to(dtype).unsqueeze(1).expand(3, 20)
    assert torch.equal(out, wanted)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("head_width", [1, 5, 16, 33])
def test_dot_products(core, heads, head_width):
    edges, x, left = random_edges(seed=4), half(40, heads * head_width), half(23, heads * head_width)
    ours = core.dot(edges, x[:9], x[9:], left, heads)
    assert ours.dtype == torch.float32
    wanted = core.dot(edges, x[:9].float(), x[9:].float(), left.float(), heads)
    torch.testing.assert_close(ours, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("width", [1, 5, 47, 128, 300])
@pytest.mark.parametrize("drop", [0.0, 0.4])
@pytest.mark.usefixtures("core")
def test_activation_and_dropout_of_the_same_values(width, drop):
    x, bias, gradients = half(70, width), torch.randn(width), half(70, width)
    out, wide = torch.empty_like(x), torch.empty(70, width)
    _core.activate(x, 1, drop, 7, out, bias)
    _core.activate(x.float(), 1, drop, 7, wide, bias)
    same_but_for_rounding(out, wide)
    grad_x, of_bias = torch.empty_like(x), torch.empty(width)
    wide_grad, wide_bias = torch.empty(70, width), torch.empty(width)
    _core.activate_backward(out, 1, drop, 7, gradients, grad_x, of_bias)
    _core.activate_backward(out.float(), 1, drop, 7, gradients.float(), wide_grad, wide_bias)
    same_but_for_rounding(grad_x, wide_grad)
    torch.testing.assert_close(of_bias, wide_bias, rtol=1e-5, atol=1e-5)


def test_the_slope_of_elu_is_not_taken_from_rounded_values():
    with pytest.raises(ValueError, match="ELU"):
        _core.activate(half(3, 4), 2, 0.0, 0, half(3, 4))


def test_rounding_to_even_and_what_is_no_number(core):
    """A sum of one row is that row, whatever it is; 1 + 2^-8 lies between two numbers, of which 1 is even."""
    edges = Edges(indptr=torch.arange(2, dtype=torch.int32), indices=torch.zeros(1, dtype=torch.int32))
    special = torch.tensor([[torch.nan, torch.inf, -torch.inf, 3.3895e38, 1e-40, -0.0] * 6]).bfloat16()
    out = torch.empty_like(special)
    core.sum(Sums(edges, special, None, out))
    assert torch.equal(out.isnan(), special.isnan())
    assert torch.equal(out[~out.isnan()], special[~special.isnan()])
    ones = torch.ones(1, 36).bfloat16()
    for by, wanted in ((1 + 2**-8, 1.0), (1 + 3 * 2**-8, 1 + 2**-6), (3.4e38, torch.inf)):
        core.sum(Sums(edges, ones, None, out, factor=torch.tensor([by])))
        assert torch.equal(out, torch.full_like(out, wanted))
