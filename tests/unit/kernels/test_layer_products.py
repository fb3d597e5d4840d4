"""Products, what stands behind them, and their backward in one pass of the core, held against float64."""

from __future__ import annotations

import pytest
import torch

import gsplit._core as _core

SHAPES = [(0, 20, 5), (1, 1, 1), (5, 16, 16), (97, 47, 33), (600, 100, 130), (2500, 20, 64)]
"""Rows, width and outputs."""
HALF, FLOAT = torch.bfloat16, torch.float32


@pytest.fixture(params=["float32", "bfloat16"])
def kind(core, request):
    """What products are of, and the type of the rows; by tiles where the machine has them, and the widest vectors."""
    return request.param, getattr(torch, request.param)


def close(found, wanted, terms):
    """As close as float32 sums of so many terms are."""
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5 * max(terms, 1) ** 0.5)


@pytest.mark.cases(18)
@pytest.mark.parametrize(("n", "width", "outputs"), SHAPES)
def test_two_products_of_which_one_has_fewer_rows(kind, n, width, outputs):
    by, dtype = kind
    wider = torch.randn(n + 3, width + 8).to(dtype)
    x, y = wider[:n, 3 : 3 + width], torch.randn(n // 2, 21).to(dtype)
    weights = torch.randn(outputs, width).to(dtype).float(), torch.randn(21, outputs).to(dtype).float()
    bias, found = torch.randn(outputs), []
    wanted = x.double() @ weights[0].double().t() + bias
    wanted[: n // 2] += y.double() @ weights[1].double()
    for threads in (1, 3):
        out = torch.full((n, outputs), torch.nan)
        _core.multiply([(x, weights[0], False), (y, weights[1], True)], bias, out, by=by, threads=threads)
        close(out, wanted, width)
        found.append(out)
    assert torch.equal(*found)


@pytest.mark.cases(24)
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize(("n", "width", "outputs"), SHAPES[1:5])
def test_what_stands_behind_products_is_as_by_itself(kind, n, width, outputs, activation):
    """Forward and backward: the same bits as products, then their activation, and its backward, then theirs."""
    by, dtype = kind
    behind, terms, found = (activation, 0.4, 77), [], []
    for _ in range(2):
        terms.append((torch.randn(n, width).to(dtype), torch.randn(outputs, width)))
    bias, grad = torch.randn(outputs), torch.randn(n, outputs).to(dtype)
    for fused in (True, False):
        out, grads = torch.full((n, outputs), torch.nan, dtype=dtype), grad
        given = [(x, weight, False) for x, weight in terms]
        _core.multiply(given, bias, out, behind if fused else None, by=by, threads=1 + 2 * fused)
        if not fused:
            _core.activate(out, *behind, out)
            grads = torch.empty_like(grad)
            _core.activate_backward(out, *behind, grad, grads)
        rooms = [(torch.empty_like(weight), torch.full_like(x, torch.nan)) for x, weight in terms]
        of_bias = torch.empty(outputs)
        back = [(x, weight, *room) for (x, weight), room in zip(terms, rooms, strict=True)]
        _core.multiply_backward(grads, back, of_bias, *((behind, out) if fused else (None, None)), by=by, threads=1)
        found.append((out, of_bias, *(each for room in rooms for each in room)))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
    for (x, weight), (of_weight, of_x) in zip(terms, rooms, strict=True):
        close(of_weight, grads.double().t() @ x.double(), n)
        rounded = weight.to(dtype).double()
        torch.testing.assert_close(
            of_x.double(), grads.double() @ rounded, rtol=1e-2 if dtype == HALF else 1e-5, atol=1e-4
        )
    close(of_bias, grads.double().sum(dim=0), n)


def test_only_what_is_asked_for_is_computed(kind):
    by, dtype = kind
    x, weight, grad = torch.randn(70, 40).to(dtype), torch.randn(18, 40), torch.randn(64, 18).to(dtype)
    of_weight, of_x = torch.empty(18, 40), torch.empty(64, 40, dtype=dtype)
    _core.multiply_backward(grad, [(x, None, of_weight, None)], by=by)
    close(of_weight, grad.double().t() @ x[:64].double(), 64)
    _core.multiply_backward(grad, [(x, weight, None, of_x)], by=by)
    wanted = grad.double() @ weight.to(dtype).double()
    torch.testing.assert_close(of_x.double(), wanted, rtol=1e-2 if dtype == HALF else 1e-5, atol=1e-4)


def test_numbers_that_are_none_stay_where_they_are(kind):
    """In the columns of a gradient that are no multiple of a vector, and in the rows of a product."""
    by, dtype = kind
    x, grad = torch.ones(40, 37).to(dtype), torch.ones(40, 3).to(dtype)
    x[7, 34] = torch.inf
    of_weight = torch.empty(3, 37)
    _core.multiply_backward(grad, [(x, None, of_weight, None)], by=by)
    finite = torch.ones(37, dtype=torch.bool)
    finite[34] = False
    assert torch.equal(of_weight.isfinite(), finite.expand(3, 37))
    out = torch.empty(40, 3)
    _core.multiply([(x, torch.ones(3, 37), False)], None, out, by=by)
    assert torch.equal(out.isfinite().all(dim=1).logical_not().nonzero().flatten(), torch.tensor([7]))


@pytest.mark.parametrize(
    ("gradients", "terms", "more", "says"),
    [
        (torch.ones(4, 3), [], (), "one or two products"),
        (torch.ones(4, 3), [(torch.ones(3, 8), None, torch.ones(3, 8), None)], (), "more gradients than rows"),
        (torch.ones(4, 3), [(torch.ones(4, 8), None, torch.ones(3, 7), None)], (), "not shaped as the weight"),
        (
            torch.ones(4, 3),
            [(torch.ones(4, 8), torch.ones(8, 3), None, torch.ones(4, 8))],
            (),
            "shape of the product",
        ),
        (torch.ones(4, 3), [(torch.ones(4, 8), None, None, None)], (torch.ones(2),), "a sum for each output"),
        (torch.ones(4, 3), [(torch.ones(4, 8), None, None, None)], (None, (1, 0.0, 0), torch.ones(3, 3)), "as it"),
        (torch.ones(4, 3).to(HALF), [(torch.ones(4, 8), None, None, None)], (), "rows in float32"),
    ],
)
def test_gradients_that_do_not_fit_are_refused(gradients, terms, more, says):
    with pytest.raises(ValueError, match=says):
        _core.multiply_backward(gradients, terms, *more, by="float32")


@pytest.mark.parametrize(
    ("x", "weight", "bias", "out", "says"),
    [
        (torch.ones(4, 8), torch.ones(3, 7), None, torch.ones(4, 3), "shape of the product"),
        (torch.ones(3, 8), torch.ones(3, 8), None, torch.ones(4, 3), "more rows than the first product"),
        (torch.ones(4, 8), torch.ones(3, 8), torch.ones(4), torch.ones(4, 3), "a bias for each output"),
        (torch.ones(4, 8).to(HALF), torch.ones(3, 8), None, torch.ones(4, 3), "rows in float32"),
        (torch.ones(4, 8), torch.ones(3, 8), None, torch.ones(4, 3).to(HALF), "rows in float32"),
    ],
)
def test_products_that_do_not_fit_are_refused(x, weight, bias, out, says):
    with pytest.raises(ValueError, match=says):
        _core.multiply([(x, weight, False)], bias, out, by="float32")


@pytest.mark.parametrize(("finish", "says"), [((2, 0.0, 0), "ELU"), ((1, 1.5, 0), "between 0 and 1")])
def test_what_cannot_stand_behind_products_is_refused_before_threads_begin(finish, says):
    x, weight, out = torch.ones(2500, 64), torch.ones(3, 64), torch.ones(2500, 3)
    with pytest.raises(ValueError, match=says):
        _core.multiply([(x, weight, False)], None, out, finish, by="float32", threads=3)
    with pytest.raises(ValueError, match=says):
        _core.multiply_backward(out, [(x, None, weight, None)], None, finish, out, by="float32", threads=3)
