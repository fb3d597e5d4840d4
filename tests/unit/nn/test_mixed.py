"""Products of rows in bfloat16, by tiles where the machine has them and by every kind of vectors, beside float64."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.kernels import instructions
from torch import nn
from torch.nn import functional as F

import gsplit._core as _core
from gsplit.kernels import Edges, StoredRows, Sums, kernels_for, product_dtype
from gsplit.nn import Block
from gsplit.nn.norm import BatchNorm
from gsplit.nn.rowwise.dense import both_linear, linear, linear_sum, mapped
from gsplit.nn.rowwise.products import Back, Term, multiplied, multiplied_back, weight_gradient

HALF, FLOAT = torch.bfloat16, torch.float32
ROUNDED = 2**-8 * 1.01
"""Relative error of a number that was rounded to bfloat16, and a little for the order of a sum."""


def neighbours(indptr, indices, sources):
    """A block of one process."""
    none = dict.fromkeys(("edge_ids", "edge_weight", "degrees", "route", "comm"))
    return Block(num_destinations=len(indptr) - 1, num_own_sources=sources, indptr=indptr, indices=indices, **none)


TILES = _core.has_tiles()


@pytest.fixture(params=_core.instruction_sets())
def core(request):
    """The core by each kind of vectors that this machine has; beside the widest there may be tiles."""
    with instructions(request.param) as core:
        yield core


def test_the_core_has_tiles_where_the_processor_has():
    """Or a build without them would leave the tests of tiles out, and nobody would know."""
    flags = Path("/proc/cpuinfo").read_text().split() if sys.platform == "linux" else []
    assert ({"amx_tile", "amx_bf16"} <= set(flags)) == TILES


def exact(x, weight):
    """The product in float64 of the rounded values that are multiplied."""
    return x.to(HALF).double() @ weight.to(HALF).double().t()


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 100])
@pytest.mark.parametrize(("width", "outputs"), [(1, 1), (5, 17), (32, 16), (33, 47), (100, 128), (128, 40)])
@pytest.mark.parametrize("kind", [HALF, FLOAT])
def test_products(core, n, width, outputs, kind):
    x, weight, bias = torch.randn(n, width).to(kind), torch.randn(outputs, width), torch.randn(outputs)
    wanted = exact(x, weight) + bias
    for out_dtype, bound in ((HALF, ROUNDED), (FLOAT, 1e-5)):
        out = multiplied([Term(x, weight)], bias, HALF, out_dtype)
        assert out.dtype == out_dtype
        torch.testing.assert_close(out.double(), wanted, rtol=bound, atol=1e-5 * width**0.5)
    turned = multiplied([Term(x.to(HALF), weight.t().contiguous(), turned=True)], bias, HALF, FLOAT)
    torch.testing.assert_close(turned.double(), wanted, rtol=1e-5, atol=1e-5 * width**0.5)


def test_two_products_of_which_one_has_fewer_rows(core):
    one, other = torch.randn(70, 100).to(HALF), torch.randn(41, 33).to(HALF)
    weights = torch.randn(47, 100), torch.randn(47, 33)
    wanted = exact(one, weights[0])
    wanted[:41] += exact(other, weights[1])
    out = multiplied([Term(one, weights[0]), Term(other, weights[1])], None, HALF, FLOAT)
    torch.testing.assert_close(out.double(), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", [1, 32, 33, 600, 5000])
@pytest.mark.parametrize(("width", "outputs"), [(1, 1), (16, 17), (33, 47), (100, 128)])
def test_gradients_of_weights_and_biases(core, n, width, outputs):
    x, grad = torch.randn(n + 7, width).to(HALF), torch.randn(n, outputs).to(HALF)
    terms = [Back(x[:n], torch.ones(outputs, width), of_x=False, of_weight=True)]
    [(none, of_weight)], of_bias = multiplied_back(grad, terms, bias=True)
    assert none is None
    assert of_weight.dtype == of_bias.dtype == FLOAT
    torch.testing.assert_close(of_weight.double(), grad.double().t() @ x[:n].double(), rtol=1e-5, atol=1e-5 * n**0.5)
    torch.testing.assert_close(of_bias.double(), grad.double().sum(dim=0), rtol=1e-5, atol=1e-5 * n**0.5)
    assert torch.equal(weight_gradient(grad, x, HALF), of_weight)


def test_rows_where_they_lie(core):
    """Rows of a table in float32 are multiplied as they are, and rounded once: near what a copy in bfloat16 gives."""
    table = np.random.default_rng(0).standard_normal((90, 40), np.float32)
    stored = StoredRows(table=table, ids=np.random.default_rng(1).integers(0, 90, 61))
    copy = torch.from_numpy(table[stored.ids])
    first, every = nn.Linear(40, 16), nn.Linear(40, 16, bias=False)
    with torch.autocast("cpu", HALF):
        found = [both_linear(x, 30, first, every) for x in (stored, copy)]
    for one, other in zip(*found, strict=True):
        assert one.dtype == HALF
        torch.testing.assert_close(one, other, rtol=2 * ROUNDED, atol=1e-2)


@pytest.mark.parametrize("n", [1, 31, 96, 97, 2500])
@pytest.mark.parametrize("kept", [FLOAT, HALF], ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_are_read_where_they_lie_as_copies_are(core, n, kept, threads):
    """All bits, of results and of what weights get, whatever type the table has; threads cut rows as they please."""
    table, ids = torch.randn(300, 100).to(kept), torch.randint(0, 300, (n,)).numpy()
    stored = StoredRows(table=table if kept == HALF else table.numpy(), ids=ids)
    first, every, num_first = nn.Linear(100, 16), nn.Linear(100, 65, bias=False), n // 2 + 1
    found = []
    torch.set_num_threads(threads)
    for x in (stored, stored.copied(1).to(HALF)):
        with torch.autocast("cpu", HALF):
            outs = both_linear(x, num_first, first, every)
        grads = [torch.full_like(out, 0.5).cumsum(dim=0).remainder_(3) for out in outs]
        found.append((*outs, *torch.autograd.grad(outs, [first.weight, every.weight, first.bias], grads)))
    torch.set_num_threads(1)
    bound = 0 if threads == 1 else 1e-4
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=bound, atol=bound)


def test_rows_have_the_same_bits_with_any_number_of_threads(core):
    x, weight, found = torch.randn(3000, 100).to(HALF), torch.randn(128, 100), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(multiplied([Term(x, weight)], None, HALF, FLOAT))
    torch.set_num_threads(1)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize(
    ("terms", "bias", "says"),
    [
        ([(torch.ones(4, 8), torch.ones(3, 8), True)], None, "a weight does not have the shape"),
        ([(torch.ones(3, 8), torch.ones(3, 8), False)], None, "more rows than the first product"),
        ([(torch.ones(4, 8), torch.ones(3, 8), False)], torch.ones(4), "a bias for each output"),
        ([], None, "one or two products"),
    ],
)
def test_products_that_do_not_fit_are_refused(terms, bias, says):
    with pytest.raises(ValueError, match=says):
        _core.multiply(terms, bias, torch.empty(4, 3), by="bfloat16")


@pytest.mark.parametrize(
    ("rows", "shape", "sums", "says"),
    [
        (3, (8, 8), 8, "more gradients than rows"),
        (4, (8, 7), 8, "not shaped as the weight"),
        (4, (8, 8), 7, "a sum for each output"),
    ],
)
def test_gradients_that_do_not_fit_are_refused(rows, shape, sums, says):
    x = torch.ones(4, 8)
    with pytest.raises(ValueError, match=says):
        _core.multiply_backward(x, [(x[:rows], None, torch.empty(shape), None)], torch.empty(sums), by="bfloat16")


def close(ours, theirs):
    """As close as roundings of values and of what is multiplied by them allow, in the norm."""
    assert (ours.double() - theirs.double()).norm() <= 1e-2 * theirs.double().norm()


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("bias", [True, False])
def test_maps_under_autocast_have_the_gradients_of_float32(bias):
    own, means = (torch.randn(60, 40, requires_grad=True) for _ in range(2))
    lin_self, lin_neigh = nn.Linear(40, 33, bias=bias), nn.Linear(40, 33, bias=False)
    inputs = [own, means, *lin_self.parameters(), *lin_neigh.parameters()]
    theirs = lin_self(own) + lin_neigh(means)
    weights = torch.randn_like(theirs)
    wanted = torch.autograd.grad(theirs, inputs, weights)
    with torch.autocast("cpu", HALF):
        ours = linear_sum(own, means, lin_self, lin_neigh)
        apart = linear(own, lin_self) + mapped(means, lin_neigh)
    for out in (ours, apart):
        assert out.dtype == HALF
        close(out, theirs)
        found = torch.autograd.grad(out, inputs, weights.to(HALF))
        for x, one, other in zip(inputs, found, wanted, strict=True):
            assert one.dtype == x.dtype == FLOAT
            close(one, other)


def test_the_type_of_products():
    x = torch.ones(2, 3)
    assert product_dtype(x) == FLOAT
    with torch.autocast("cpu", HALF):
        assert product_dtype(x) == HALF
        assert product_dtype(x.double()) == torch.float64
        assert product_dtype(x.to("meta")) == FLOAT
        assert product_dtype(x.long()) == torch.int64
        assert F.linear(x, x).dtype == product_dtype(x)


def test_batch_normalisation_takes_its_statistics_in_float32():
    """Of many rows whose mean is far from 0, as PyTorch's own does."""
    x = (torch.randn(5000, 3) + 20).to(HALF)
    ours, theirs = BatchNorm(3), nn.BatchNorm1d(3)
    out = ours(x)
    assert out.dtype == HALF
    torch.testing.assert_close(out.float(), theirs(x.float()), rtol=ROUNDED, atol=1e-5)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("short", [HALF, torch.float16])
def test_attention_to_rows_in_float32_under_autocast(short):
    block = neighbours(
        torch.tensor([0, 3, 5], dtype=torch.int32), torch.tensor([0, 1, 2, 3, 3], dtype=torch.int32), 4
    )
    att = torch.randn(2, 2, 3)
    z = torch.randn(4, 2, 3, requires_grad=True)

    def attended():
        return block.attend(z, *att, negative_slope=0.2, dropout=nn.Dropout(0.0), loops=True)

    with torch.autocast("cpu", short):
        out = attended()
    assert torch.equal(out, attended())
    assert out.dtype == torch.autograd.grad(out.sum(), z)[0].dtype == FLOAT


def test_a_mean_of_many_float16_is_within_its_reach():
    count = 10_000
    edges = Edges(indptr=torch.tensor([0, count], dtype=torch.int32), indices=torch.zeros(count, dtype=torch.int32))
    x, out = torch.full((1, 4), 10.0, dtype=torch.float16), torch.empty(1, 4, dtype=torch.float16)
    kernels_for(x).sum(Sums(edges, x, None, out, degrees=edges.indptr.diff()))
    assert torch.equal(out, x)


@pytest.mark.usefixtures("core")
def test_float16_of_rows_that_a_first_layer_narrows():
    table = np.random.default_rng(0).standard_normal((90, 64), np.float32)
    stored = StoredRows(table=table, ids=np.arange(80))
    first, every = nn.Linear(64, 16), nn.Linear(64, 16, bias=False)
    with torch.autocast("cpu", torch.float16):
        outs = both_linear(stored, 30, first, every)
    copy = torch.from_numpy(table[:80])
    close(outs[1], every(copy))
    assert outs[0].dtype == torch.float16
    (found,) = torch.autograd.grad(outs[1].float().square().sum(), [every.weight])
    (wanted,) = torch.autograd.grad(every(copy).square().sum(), [every.weight])
    close(found, wanted)
