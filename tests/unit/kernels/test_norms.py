"""Normalisation by the core, beside its equations written out in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.kernels import instructions
from support.normalising import BOUNDS, EPS, kept, material, same, wanted_of

import gsplit._core as _core
from gsplit.kernels.normalising import BATCH, LAYER, RMS

WIDTHS = (1, 2, 7, 8, 15, 16, 17, 33, 47, 64, 100, 128, 257, 300)


def room(x):
    return torch.full_like(x, torch.nan)


def both_ways(norm, x, weight, bias, gradients, finish, threads=1):
    """What the core makes of rows, and the gradients of rows, weight and bias, each in memory that had no numbers."""
    out, signs = room(x), torch.zeros(len(x), -(-x.shape[1] // 8), dtype=torch.uint8)
    _core.normalise(x, norm, EPS, weight, bias, None, finish, out, signs if finish[0] else None, threads=threads)
    of_x, of_weight, of_bias = room(x), room(weight), room(bias)
    given = signs if finish[0] else None
    _core.normalise_backward(
        x, norm, EPS, weight, finish, given, gradients, of_x, of_weight, of_bias, threads=threads
    )
    return out, of_x, of_weight, of_bias


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("finish", [(0, 0.0, 0), (1, 0.0, 0), (1, 0.4, 7)], ids=str)
@pytest.mark.parametrize("norm", [RMS, LAYER])
@pytest.mark.usefixtures("core")
def test_rows_and_their_gradients(norm, finish, dtype):
    for width in WIDTHS:
        given = material(37, width, dtype, width)
        same(both_ways(norm, *given, finish), wanted_of(norm, *given, finish), BOUNDS[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("norm", [RMS, LAYER])
@pytest.mark.usefixtures("core")
def test_rows_of_every_width(norm):
    for width in range(2, 301):
        given = material(70, width, torch.float32, width)
        finish = (1, 0.3, width)
        found = both_ways(norm, *given, finish, threads=2)
        same(found, wanted_of(norm, *given, finish), BOUNDS[torch.float32])


@pytest.mark.parametrize("norm", [RMS, LAYER])
@pytest.mark.usefixtures("core")
def test_any_number_of_threads_gives_the_same_bits(norm):
    """Also of sums over rows, whose last block is not full; and of no row and one row."""
    for n in (0, 1, 3000):
        given = material(n, 100, torch.float32)
        alone, *others = (both_ways(norm, *given, (1, 0.5, 3), threads=threads) for threads in (1, 2, 3, 4))
        for other in others:
            assert all(torch.equal(one, two) for one, two in zip(alone, other, strict=True))
        same(alone, wanted_of(norm, *given, (1, 0.5, 3)), BOUNDS[torch.float32])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("core")
def test_sums_over_many_rows_lose_nothing(threads):
    """Equal numbers, of which one sum in float32 would lose most: LayerNorm's rows (1, -1, 1, -1, ...)."""
    x = torch.tensor([1.0, -1.0]).repeat(300_000, 8)
    _, _, of_weight, of_bias = both_ways(
        LAYER, x, torch.ones(16), torch.zeros(16), torch.full_like(x, 1.1), (0, 0.0, 0), threads
    )
    each = torch.tensor(1.1).double()
    torch.testing.assert_close(of_bias.double(), 300_000 * each.expand(16), rtol=1e-6, atol=0)
    normal = x[0].double() / (1 + EPS) ** 0.5
    torch.testing.assert_close(of_weight.double(), 300_000 * each * normal, rtol=1e-6, atol=0)


@pytest.mark.usefixtures("core")
def test_dropout_is_that_of_an_activation_of_its_own():
    """The same seed drops the same values."""
    for width in (5, 64, 300):
        x, weight, bias, _ = material(60, width, torch.float32)
        bias += 100  # all are above 0
        out = room(x)
        _core.normalise(x, RMS, EPS, weight, bias, None, (1, 0.4, 11), out)
        assert torch.equal(out > 0, kept(60, width, 0.4, 11) > 0)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.usefixtures("core")
def test_a_skip_is_added_last(dtype):
    """Behind dropout; signs are of what was there before it."""
    for width in (5, 64, 300):
        x, weight, bias, skip = material(40, width, dtype)
        alone, out, (signs, other) = room(x), room(x), torch.zeros(2, 40, -(-width // 8), dtype=torch.uint8)
        _core.normalise(x, RMS, EPS, weight, bias, None, (1, 0.4, 11), alone, signs)
        _core.normalise(x, RMS, EPS, weight, bias, None, (1, 0.4, 11), out, other, skip)
        torch.testing.assert_close(out, alone + skip, rtol=BOUNDS[dtype]["rtol"], atol=BOUNDS[dtype]["atol"])
        assert torch.equal(signs, other)


@pytest.mark.parametrize("value", [0.1, 1e4, 0.0])
@pytest.mark.usefixtures("core")
def test_equal_values_have_no_deviation(value):
    """LayerNorm leaves exactly the bias of them, and gradients are finite."""
    for width in (3, 47, 64):
        _, weight, bias, gradients = material(4, width, torch.float32)
        out, of_x, _, _ = both_ways(LAYER, torch.full((4, width), value), weight, bias, gradients, (0, 0.0, 0))
        assert torch.equal(out, bias.expand(4, width))
        assert of_x.isfinite().all()


@pytest.mark.parametrize("norm", [RMS, LAYER])
@pytest.mark.usefixtures("core")
def test_what_is_no_number_stays_in_its_row(norm):
    x, weight, bias, gradients = material(9, 20, torch.float32)
    clean = both_ways(norm, x, weight, bias, gradients, (1, 0.0, 0))
    for wrong in (torch.nan, torch.inf):
        rows = x.clone()
        rows[4, 3] = wrong
        theirs = (torch.nn.functional.layer_norm if norm == LAYER else torch.nn.functional.rms_norm)(rows, (20,))
        out, of_x, _, _ = both_ways(norm, rows, weight, bias, gradients, (1, 0.0, 0))
        assert torch.equal(out.isnan(), theirs.isnan())
        rest = torch.arange(9) != 4
        assert torch.equal(out[rest], clean[0][rest])
        assert torch.equal(of_x[rest], clean[1][rest])


@pytest.mark.usefixtures("core")
def test_gradients_are_written_over_rows():
    x, weight, bias, gradients = material(50, 33, torch.float32)
    for norm in (RMS, LAYER):
        wanted = both_ways(norm, x, weight, bias, gradients, (0, 0.0, 0))[1]
        rows = x.clone()
        _core.normalise_backward(rows, norm, EPS, weight, (0, 0.0, 0), None, gradients, rows, None, None)
        assert torch.equal(rows, wanted)


def batch(x, weight, bias, gradients, finish, threads=1):
    """As :func:`both_ways`, of a batch of all rows."""
    n, width = x.shape
    mean, squares, products, sums = torch.full((4, width), torch.nan)
    _core.batch_sums(x, None, mean, threads=threads)
    mean /= n
    _core.batch_sums(x, mean, squares, threads=threads)
    factor = (squares / n + EPS).rsqrt()
    out, of_x, signs = room(x), room(x), torch.zeros(n, -(-width // 8), dtype=torch.uint8)
    _core.normalise(x, BATCH, 0.0, factor * weight, bias, mean, finish, out, signs, threads=threads)
    _core.batch_backward_sums(x, mean, finish, signs, gradients, products, sums, threads=threads)
    moved = sums / n, products / n * factor.square()
    _core.batch_backward(x, factor * weight, mean, finish, signs, gradients, *moved, of_x, threads=threads)
    return out, of_x, products * factor, sums


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("finish", [(0, 0.0, 0), (1, 0.4, 7)], ids=str)
@pytest.mark.usefixtures("core")
def test_batches_and_their_gradients(finish, dtype):
    for width in (1, 7, 16, 33, 100, 257):
        given = material(600, width, dtype, width)
        same(batch(*given, finish), wanted_of(BATCH, *given, finish), BOUNDS[dtype])
    alone, other = (batch(*given, finish, threads) for threads in (1, 3))
    assert all(torch.equal(one, two) for one, two in zip(alone, other, strict=True))


def test_every_instruction_set_lets_the_same_values_through():
    """Signs and zeros, where no value is near 0."""
    found = []
    for name in _core.instruction_sets():
        with instructions(name):
            x = torch.tensor([1.0, -1.0, 2.0]).repeat(40, 30)
            signs = torch.zeros(40, 12, dtype=torch.uint8)
            out = room(x)
            _core.normalise(x, RMS, EPS, None, None, None, (1, 0.5, 5), out, signs)
            bits = torch.from_numpy(np.unpackbits(signs.numpy(), axis=1, bitorder="little"))
            assert torch.equal(bits[:, :90].bool(), out > 0)
            assert not bits[:, 90:].any()
            found.append(signs)
    assert all(torch.equal(signs, found[0]) for signs in found)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"weight": torch.ones(4)}, "a number for each column"),
        ({"out": torch.empty(3, 5)}, "not shaped as x"),
        ({"signs": torch.empty(3, 2, dtype=torch.uint8)}, "a byte for each 8 values"),
        ({"skip": torch.empty(2, 4)}, "skip is not shaped as x"),
        ({"finish": (2, 0.0, 0)}, "ELU"),
        ({"finish": (0, 0.5, 0)}, "without an activation"),
        ({"finish": (1, 1.5, 0)}, "between 0 and 1"),
        ({"mean": torch.ones(5)}, "means are those of a batch"),
        ({"norm": BATCH}, "means are those of a batch"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_refused(given, says):
    names = ("weight", "bias", "mean", "finish", "out", "signs", "skip")
    values = (torch.ones(5), torch.ones(5), None, (1, 0.0, 0), torch.empty(2, 5), None, None)
    usual = dict(zip(names, values, strict=True))
    asked = {"norm": RMS, **usual, **given}
    with pytest.raises(ValueError, match=says):
        _core.normalise(torch.ones(2, 5), asked["norm"], EPS, *(asked[name] for name in names))


def test_gradients_that_do_not_fit_are_refused():
    x, weight, signs = torch.ones(2, 5), torch.ones(5), torch.zeros(2, 1, dtype=torch.uint8)

    def back(gradients=x, signs=signs, out=x, of_weight=None, norm=RMS):
        _core.normalise_backward(x, norm, EPS, weight, (1, 0.0, 0), signs, gradients, out, of_weight, None)

    for given, says in (
        ({"gradients": torch.ones(3, 5)}, "not shaped as x"),
        ({"signs": None}, "a byte for each 8 values"),
        ({"out": torch.ones(2, 4)}, "not shaped as x"),
        ({"of_weight": torch.ones(4)}, "a sum for each column"),
        ({"norm": BATCH}, "sums of its own"),
    ):
        with pytest.raises(ValueError, match=says):
            back(**given)
