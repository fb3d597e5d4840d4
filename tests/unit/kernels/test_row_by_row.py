"""Activation, dropout and narrow products of the core, held against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from support.kernels import instructions
from support.messages import line_with

import gsplit._core as _core

TOLERANCE = {torch.float32: {"rtol": 2e-5, "atol": 2e-5}, torch.float64: {"rtol": 1e-12, "atol": 1e-12}}

LOOSE = {"rtol": 1e-4, "atol": 1e-4}
ACTIVATIONS = {0: lambda x: x, 1: torch.relu, 2: torch.nn.functional.elu}


def activate(x, activation, drop, seed=5, threads=1, bias=None):
    """What the core makes of x, and the function that gives the gradient of x, and of a bias, for one of that."""
    out = torch.expm1(x) if activation == 2 else torch.full_like(x, torch.nan)
    _core.activate(x, activation, drop, seed, out, bias, threads=threads)

    def backward(gradient):
        of_x, of_bias = torch.full_like(x, torch.nan), None if bias is None else torch.full_like(bias, torch.nan)
        _core.activate_backward(out, activation, drop, seed, gradient, of_x, of_bias, threads=threads)
        return of_x if bias is None else (of_x, of_bias)

    return out, backward


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("drop", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activation_and_dropout(core, activation, drop, dtype):
    x = torch.randn(70, 300, dtype=dtype, requires_grad=True)
    kept = activate(torch.ones(70, 300, dtype=dtype), 0, drop)[0]
    assert ((kept == 0) | torch.isclose(kept, torch.tensor(1 / max(1 - drop, 1e-9), dtype=dtype))).all()
    assert (kept == 0).double().mean().item() == pytest.approx(drop, abs=0.02)
    wanted = ACTIVATIONS[activation](x) * kept
    out, backward = activate(x.detach(), activation, drop)
    torch.testing.assert_close(out, wanted.detach(), **TOLERANCE[dtype])
    gradient = torch.randn_like(x)
    wanted.backward(gradient)
    torch.testing.assert_close(backward(gradient), x.grad, **TOLERANCE[dtype])


@pytest.mark.cases(14)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("drop", [0.0, 0.3])
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize(("rows", "width"), [(0, 5), (1, 3), (64, 16), (65, 257), (1500, 70), (3000, 100)])
def test_a_bias_before_the_activation(core, rows, width, activation, drop, dtype):
    x, bias = torch.randn(rows, width, dtype=dtype), torch.randn(width, dtype=dtype)
    gradient = torch.randn_like(x)
    kept = activate(torch.ones_like(x), 0, drop)[0]
    leaves = [each.double().requires_grad_() for each in (x, bias)]
    wanted = ACTIVATIONS[activation](leaves[0] + leaves[1]) * kept
    of_x, of_bias = torch.autograd.grad(wanted, leaves, gradient.double())
    for threads in (1, 3):
        out, backward = activate(x, activation, drop, threads=threads, bias=bias)
        torch.testing.assert_close(out, wanted.detach().to(dtype), **TOLERANCE[dtype])
        given = backward(gradient)
        torch.testing.assert_close(given[0], of_x.to(dtype), **TOLERANCE[dtype])
        of_sums = LOOSE if dtype == torch.float32 else TOLERANCE[dtype]
        torch.testing.assert_close(given[1], of_bias.to(dtype), **of_sums)


@pytest.mark.parametrize("threads", [1, 3])
def test_gradients_of_a_bias_are_exact_over_many_rows(threads):
    x = torch.rand(200_000, 5)
    of_x, of_bias = torch.empty_like(x), torch.empty(5)
    _core.activate_backward(torch.ones_like(x), 1, 0.0, 0, x, of_x, of_bias, threads=threads)
    torch.testing.assert_close(of_bias.double(), x.double().sum(dim=0), rtol=3e-7, atol=0)


def test_a_bias_of_another_width_or_for_elu_is_refused():
    x = torch.randn(4, 3)
    for activation, bias in ((1, torch.zeros(4)), (2, torch.zeros(3))):
        with pytest.raises(ValueError, match="bias"):
            _core.activate(x, activation, 0.0, 0, torch.empty_like(x), bias)
    with pytest.raises(ValueError, match="bias"):
        _core.activate_backward(x, 1, 0.0, 0, x, torch.empty_like(x), torch.empty(4))


def test_every_instruction_set_and_number_of_threads_drops_the_same():
    outs = []
    for name in _core.instruction_sets():
        with instructions(name):
            outs += [
                activate(torch.ones(3000, 70, dtype=dtype), 0, 0.5, threads=threads)[0] != 0
                for threads in (1, 3)
                for dtype in (torch.float32, torch.float64)
            ]
    assert all(torch.equal(out, outs[0]) for out in outs)


def test_dropout_draws_rows_columns_and_seeds_apart():
    """Counts of values kept in both of two rows, columns or draws are those of independent coins."""
    kept = activate(torch.ones(400, 400), 0, 0.5)[0] != 0
    other = activate(torch.ones(400, 400), 0, 0.5, seed=6)[0] != 0
    for one, two in ((kept[1:], kept[:-1]), (kept[:, 1:], kept[:, :-1]), (kept, other), (kept, kept.t())):
        assert (one & two).double().mean().item() == pytest.approx(0.25, abs=0.01)
    per_row, per_column = kept.double().mean(1), kept.double().mean(0)
    for shares in (per_row, per_column):  # of 400 coins each: a standard deviation of 0.025
        assert shares.std().item() == pytest.approx(0.025, rel=0.25)


def test_what_is_no_number_stays_so():
    out, _ = activate(torch.tensor([[torch.nan, -torch.inf, torch.inf]]), 1, 0.0)
    assert torch.equal(out.isnan(), torch.tensor([[True, False, False]]))
    assert out[0, 1:].tolist() == [0.0, torch.inf]


SIZES = [(1, 16, 1), (7, 100, 16), (300, 33, 5), (131, 129, 13), (64, 17, 32)]
"""Rows, and width and outputs of matrices that some of the kernels for narrow ones take."""
MORE_SIZES = [(5, 7, 40), (700, 70, 65), (97, 1, 3)]
"""Such that none of those take."""


@pytest.mark.cases(60)
@pytest.mark.parametrize("picked", [True, False])
@pytest.mark.parametrize("firsts", [(1.0,), (0.4, 1.0), (1.0, 0.0)])
@pytest.mark.parametrize(
    ("by", "rows", "width", "outputs"),
    [*(("narrow", *sizes) for sizes in SIZES), *(("float32", *sizes) for sizes in SIZES[1:3] + MORE_SIZES)],
)
def test_products_of_rows_and_their_gradients(core, by, rows, width, outputs, firsts, picked):
    """Rows of a wider matrix, or picked out of a table in any order, times matrices that take the first of them."""
    if by == "narrow" and not _core.narrow_fits(outputs, width):
        with pytest.raises(ValueError, match="too wide"):  # left to PyTorch
            project(torch.ones(rows, width), torch.ones(outputs, width))
        with pytest.raises(ValueError, match="too wide"):
            gradient_of(torch.ones(rows, outputs), torch.ones(rows, width), torch.ones(outputs, width))
        return
    ids = torch.randint(rows + 5, (rows,)) if picked else None
    table = torch.randn(rows + 5, width) if picked else torch.randn(rows, width + 3)[:, :width]
    x, picks = (table, None) if ids is None else (table[ids], ids.numpy())
    counts = [round(share * rows) for share in firsts]
    weights = [torch.randn(outputs, width) for _ in firsts]
    biases = [torch.randn(outputs), None][: len(firsts)]
    gradients = [torch.randn(count, outputs) for count in counts]
    for threads in (1, 3):
        outs = [torch.full((count, outputs), torch.nan) for count in counts]
        _core.project_rows(table, picks, list(zip(weights, biases, outs, strict=True)), by=by, threads=threads)
        for count, weight, bias, out in zip(counts, weights, biases, outs, strict=True):
            torch.testing.assert_close(out, torch.nn.functional.linear(x[:count], weight, bias), **LOOSE)
        of_weights = [torch.full((outputs, width), torch.nan) for _ in firsts]
        _core.rows_gradient(table, picks, list(zip(gradients, of_weights, strict=True)), by=by, threads=threads)
        for count, gradient, of_weight in zip(counts, gradients, of_weights, strict=True):
            torch.testing.assert_close(of_weight, gradient.t() @ x[:count], **LOOSE)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [2048, 2049, 1_000_000])
def test_gradients_of_many_rows_lose_nothing(core, rows, threads):
    """Equal numbers, of which one sum in float32 loses most."""
    gradients, x, of_weight = torch.full((rows, 3), 1.1), torch.full((rows, 16), 1.3), torch.empty(3, 16)
    if not _core.narrow_fits(3, 16):
        return  # these instructions have too few registers
    _core.rows_gradient(x, None, [(gradients, of_weight)], by="narrow", threads=threads)
    wanted = rows * gradients[0, 0].double() * x[0, 0].double()
    assert ((of_weight.double() / wanted - 1).abs() < 4e-6).all()  # 64 rows, and then 32 panels, in float32


def test_narrow_products_are_for_narrow_results():
    fits, sizes = {}, ((16, 100), (17, 100), (32, 100), (33, 100), (16, 7))
    for name in _core.instruction_sets():
        with instructions(name):
            fits[name] = [_core.narrow_fits(*each) for each in sizes]
    known = {
        "avx512": [True, True, True, False, False],
        "avx2": [True, False, False, False, False],
        "basic": [False] * 5,
    }
    assert fits == {name: known[name] for name in fits}


def test_narrow_products_refuse_other_shapes():
    x, weight = torch.ones(5, 20), torch.ones(4, 20)
    if _core.narrow_fits(4, 20):
        with pytest.raises(ValueError, match="not shaped as the product"):
            project(x, weight, out=torch.empty(5, 5))
        with pytest.raises(ValueError, match="not shaped as the product"):
            project(x, weight, out=torch.empty(6, 4))
        with pytest.raises(ValueError, match="a bias for each output"):
            project(x, weight, torch.ones(3))
        with pytest.raises(ValueError, match="not shaped as the product"):
            gradient_of(torch.ones(6, 4), x, torch.empty(4, 20))
        with pytest.raises(ValueError, match=line_with("row 5, 0, 4")):
            project(x, weight, ids=torch.tensor([0, 5]).numpy(), out=torch.empty(2, 4))
        with pytest.raises(ValueError, match=line_with("-1, 0, 4")):
            gradient_of(torch.ones(1, 4), x, torch.empty(4, 20), ids=torch.tensor([-1]).numpy())
        with pytest.raises(ValueError, match="one or two matrices"):
            _core.project_rows(x, None, [(weight, None, torch.empty(5, 4))] * 3, by="narrow")
        with pytest.raises(ValueError, match="one or two matrices"):
            _core.rows_gradient(x, None, [], by="narrow")
    with pytest.raises(ValueError, match="too wide"):
        project(x, torch.ones(100, 20))


def project(x, weight, bias=None, *, ids=None, out=None):
    out = torch.empty(len(x), len(weight)) if out is None else out
    _core.project_rows(x, ids, [(weight, bias, out)], by="narrow")
    return out


def gradient_of(gradients, x, out, *, ids=None):
    _core.rows_gradient(x, ids, [(gradients, out)], by="narrow")
