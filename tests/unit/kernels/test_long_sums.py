"""Sums over long lists are as exact as float32 is, held against sums in float64 by NumPy.

Values have a mean, as features, shares and degrees have: there one number of float32 to which all others are added
drifts, and by far the most where all of them are the same. The lists' lengths lie about those at which one is cut.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from support.kernels import INTERPRETED

import gsplit._core as _core
from gsplit.kernels import Edges, Sums, TwoWayEdges
from gsplit.kernels.core import Core
from gsplit.kernels.library import Library
from gsplit.nn.aggregate import neighbour_sum

LENGTHS: tuple[int, ...] = (0, 1, 31, 32, 63, 64, 65, 95, 96, 97, 128, 0, 511, 512, 513, 575, 576, 4096, 7, 100_000)
"""Edges of each row."""
if INTERPRETED:
    LENGTHS = (0, 1, 255, 256, 257, 0, 513, 2000)
SOURCES = 1000
BOUND = 1e-6
"""Of the relative error: 64 equal numbers in float32 come to 9.8e-7 at the worst."""
VALUES = {
    "uniform": lambda random, *shape: random.random(shape, dtype=np.float32),
    "one and noise": lambda random, *shape: 1 + 0.01 * random.standard_normal(shape, dtype=np.float32),
    "all the same": lambda _, *shape: np.full(shape, 1.1, dtype=np.float32),
}


@pytest.fixture(scope="module")
def edges():
    indptr = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int32)
    indices = np.random.default_rng(1).integers(0, SOURCES, indptr[-1]).astype(np.int32)
    return Edges(indptr=torch.from_numpy(indptr), indices=torch.from_numpy(indices))


def exact(indptr, terms):
    """Sums of the terms [E, D] of each row, in float64."""
    row_E = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.stack([np.bincount(row_E, column, minlength=len(indptr) - 1) for column in terms.T], axis=1)


def off(found, wanted):
    """The largest relative error of a row's sums."""
    there = np.abs(wanted) > 0
    return float(np.abs(found.numpy().astype(np.float64)[there] / wanted[there] - 1).max())


@pytest.fixture(scope="module")
def summed(edges):
    """summed(values, width): rows, and their exact sums, made once for all kernels."""

    @functools.cache
    def made(values, width):
        x = VALUES[values](np.random.default_rng(2), SOURCES, width)
        return torch.from_numpy(x), exact(edges.indptr.numpy(), x[edges.indices.numpy()])

    return made


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("width", [5] if INTERPRETED else [1, 3, 4, 8, 20, 37])
def test_sums(kernels, edges, summed, width, values):
    x, wanted = summed(values, width)
    out = torch.full((len(LENGTHS), width), torch.nan)
    kernels.sum(Sums(edges, x[:600], x[600:], out))
    assert off(out, wanted) < BOUND
    assert (out.numpy()[np.array(LENGTHS) == 0] == 0).all()


@pytest.mark.parametrize("heads", [1, 2])
def test_everything_that_scales_a_sum(kernels, edges, heads):
    random = np.random.default_rng(3)
    number, rows = len(edges.indices), len(LENGTHS)
    x, weight, factor, scale, start, start_scale = (
        random.random(shape, dtype=np.float32) + 0.5
        for shape in ((SOURCES, 8), (number, heads), SOURCES, rows, (rows - 1, 8), rows - 1)
    )
    order = random.permutation(number).astype(np.int32)
    indices = edges.indices.numpy()
    by_edge = np.repeat(weight[order].astype(np.float64), 8 // heads, axis=1) * factor[indices, None]
    wanted = exact(edges.indptr.numpy(), x[indices] * by_edge)
    wanted *= (scale / np.maximum(LENGTHS, 1))[:, None]
    wanted[:-1] += start.astype(np.float64) * start_scale[:, None]
    out = torch.zeros(rows, 8)
    out[:-1] = torch.from_numpy(start)
    kernels.sum(
        Sums(
            Edges(indptr=edges.indptr, indices=edges.indices, order=torch.from_numpy(order)),
            torch.from_numpy(x),
            None,
            out,
            start=out[:-1],
            start_scale=torch.from_numpy(start_scale),
            weight=torch.from_numpy(weight),
            factor=torch.from_numpy(factor),
            scale=torch.from_numpy(scale),
            degrees=edges.indptr.diff(),
        )
    )
    assert off(out, wanted) < BOUND


def test_halves_are_summed_in_float32_and_rounded_once(edges):
    x = torch.rand(SOURCES, 4).bfloat16()
    out = torch.empty(len(LENGTHS), 4, dtype=torch.bfloat16)
    Library().sum(Sums(edges, x, None, out))
    wanted = exact(edges.indptr.numpy(), x.double().numpy()[edges.indices.numpy()])
    assert off(out.double(), wanted) < torch.finfo(torch.bfloat16).eps * 1.01


@pytest.mark.skipif(not INTERPRETED, reason="the core and the library add sums of blocks in double")
def test_sums_of_blocks_that_are_lost_one_by_one_are_made_up_for(kernels):
    """Beside 2**32 a float32 knows multiples of 512: each sum of a block, 256, is lost, and seven are not."""
    number = 8 * 256
    x = torch.ones(number, 4)
    x[0] = 2.0**32
    out = torch.empty(1, 4)
    indptr = torch.tensor([0, number], dtype=torch.int32)
    kernels.sum(Sums(Edges(indptr=indptr, indices=torch.arange(number, dtype=torch.int32)), x, None, out))
    assert ((out.double() - (2.0**32 + 7 * 256)).abs() <= 512).all()


@pytest.mark.skipif(INTERPRETED, reason="the interpreter has one thread")
def test_threads_and_neighbours_change_no_bit(edges):
    """A long list is one thread's, and its sum does not depend on which lists stand beside it."""
    x, whole = torch.rand(SOURCES, 20), torch.empty(len(LENGTHS), 20)
    Core().sum(Sums(edges, x, None, whole))
    for threads in (1, 2, 7):
        out = torch.empty_like(whole)
        _core.sum_rows(edges.indptr, edges.indices, x, None, out, threads=threads)
        assert torch.equal(out, whole)
    for row in range(len(LENGTHS)):
        out = torch.empty(1, 20)
        Core().sum(Sums(edges.from_row(row, row + 1), x, None, out))
        assert torch.equal(out[0], whole[row])


@pytest.mark.skipif(INTERPRETED, reason="one process of test_interpreter.py has only what Triton sums")
@pytest.mark.parametrize("loops", [True, False])
def test_attention(kernels, edges, loops):
    """Shares, whose sum is one, and the gradients of scores, which go back through two sums."""
    random, rows, indptr = np.random.default_rng(4), len(LENGTHS), edges.indptr.numpy()
    source, destination = (random.random((n, 2), dtype=np.float32) for n in (SOURCES, rows))
    given = (1 + random.random((len(edges.indices), 2), dtype=np.float32)) * np.float32(1e3)
    own_given = np.zeros((rows, 2), np.float32)
    found = kernels.shares(edges, torch.from_numpy(source), torch.from_numpy(destination), 0.2, loops=loops)
    power = np.exp(source.astype(np.float64)[edges.indices.numpy()])
    own_power = np.exp(source.astype(np.float64)[:rows]) * loops
    row_E = np.repeat(np.arange(rows), LENGTHS)
    total = exact(indptr, power) + own_power
    share = power / total[row_E]
    assert off(found[0], share) < BOUND
    assert (found[1] is not None) == loops
    backward = kernels.shares_backward(
        edges,
        torch.from_numpy(source),
        torch.from_numpy(destination),
        0.2,
        found,
        (torch.from_numpy(given.copy()), torch.from_numpy(own_given) if loops else None),
    )
    mean = exact(indptr, share * given)
    through = share * (given - mean[row_E])
    size = exact(indptr, share * given) + 1e-30  # what the gradients are differences of
    assert np.abs(backward[0].numpy() - through).max() < 1e-6 * size.max()
    of_destination = exact(indptr, through)
    if loops:
        of_destination -= own_power / total * mean
    assert (np.abs(backward[2].numpy() - of_destination) / size).max() < BOUND


@pytest.mark.skipif(INTERPRETED, reason="one process of test_interpreter.py has only what Triton sums")
def test_gradients_of_a_source_with_many_destinations():
    """Backward sums over the transposed edges: here 50,000 rows have the one source."""
    number = 50_000
    indptr = torch.arange(number + 1, dtype=torch.int32)
    edges = TwoWayEdges(Edges(indptr=indptr, indices=torch.zeros(number, dtype=torch.int32)), 1)
    x = torch.ones(1, 4, requires_grad=True)
    grad = torch.full((number, 4), 1.1)
    neighbour_sum(edges, x, None, None)[0].backward(grad)
    assert off(x.grad, np.full((1, 4), np.float64(np.float32(1.1)) * number)) < BOUND
