"""Sums over edges by every set of kernels, held against loops in plain Python."""

from __future__ import annotations

import pytest
import torch
from support.kernels import random_edges

import gsplit._core as _core
from gsplit.kernels import Edges, Sums, kernels_for
from gsplit.kernels.core import Core
from gsplit.kernels.library import Library

WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 47, 100, 128, 129, 255, 257, 600)
TOLERANCE = {torch.float32: {"rtol": 2e-5, "atol": 2e-5}, torch.float64: {"rtol": 1e-12, "atol": 1e-12}}


def pieces(edges):
    """(row, edge, source) of every edge."""
    for row in range(edges.num_rows):
        for edge in range(int(edges.indptr[row]), int(edges.indptr[row + 1])):
            yield row, edge, int(edges.indices[edge])


def sums(edges, x, *, start=None, factor=None, weight=None, degrees=None, scale=None, start_scale=None):
    """What :meth:`gsplit.kernels.Kernels.sum` says, an edge at a time."""
    out = torch.zeros(edges.num_rows, x.shape[1], dtype=torch.float64)
    for row, edge, source in pieces(edges):
        value = x[source].double()
        if factor is not None:
            value = value * factor[source]
        if weight is not None:
            at = edge if edges.order is None else int(edges.order[edge])
            value = value * weight[at].double().repeat_interleave(x.shape[1] // weight.shape[1])
        out[row] += value
    if degrees is not None:
        out /= degrees.clamp(min=1).unsqueeze(1)
    if scale is not None:
        out *= scale.unsqueeze(1)
    if start is not None:
        out[: len(start)] += start if start_scale is None else start * start_scale.unsqueeze(1)
    return out.to(x.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", WIDTHS)
def test_sums_of_every_width(kernels, width, dtype):
    edges, x = random_edges(), torch.randn(40, width, dtype=dtype)
    out = torch.full((23, width), torch.nan, dtype=dtype)
    kernels.sum(Sums(edges, x[:29], x[29:], out))
    torch.testing.assert_close(out, sums(edges, x), **TOLERANCE[dtype])
    degrees = edges.indptr.diff()
    kernels.sum(Sums(edges, x, None, out, degrees=degrees))
    torch.testing.assert_close(out, sums(edges, x, degrees=degrees), **TOLERANCE[dtype])


@pytest.mark.parametrize("heads", [1, 2, 5])
@pytest.mark.parametrize("head_width", [1, 3, 4, 8, 16, 20, 130])
def test_weights_factors_and_starts(kernels, head_width, heads):
    width = head_width * heads
    edges, x = random_edges(seed=1), torch.randn(40, width, dtype=torch.float64)
    factor, weight = torch.rand(40, dtype=torch.float64), torch.randn(len(edges.indices), heads, dtype=torch.float64)
    start = torch.randn(11, width, dtype=torch.float64)
    scaling = {
        "factor": factor,
        "weight": weight,
        "degrees": torch.randint(0, 9, (23,), dtype=torch.int32),
        "scale": torch.randn(23, dtype=torch.float64),
    }
    out = torch.full((23, width), torch.nan, dtype=torch.float64)
    kernels.sum(Sums(edges, x[:7], x[7:], out, start=start, **scaling))
    wanted = sums(edges, x, start=start, **scaling)
    torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-12)
    scaling |= {"start": start, "start_scale": torch.randn(11, dtype=torch.float64)}
    kernels.sum(Sums(edges, x[:7], x[7:], out, **scaling))
    torch.testing.assert_close(out, sums(edges, x, **scaling), rtol=1e-12, atol=1e-12)
    order = torch.randperm(len(edges.indices), dtype=torch.int32)
    turned = Edges(indptr=edges.indptr, indices=edges.indices, order=order)
    kernels.sum(Sums(turned, x, None, out, weight=weight))
    torch.testing.assert_close(out, sums(turned, x, weight=weight), rtol=1e-12, atol=1e-12)


def test_rows_that_lie_apart_and_a_start_in_place(kernels):
    """Halves of wider rows are read and written where they are; the other halves stay as they were."""
    edges, wide = random_edges(seed=2), torch.randn(40, 2 * 37)
    out = torch.zeros(23, 2 * 37)
    kernels.sum(Sums(edges, wide[:, 37:], None, out[:, :37]))
    wanted = sums(edges, wide[:, 37:])
    torch.testing.assert_close(out[:, :37], wanted, **TOLERANCE[torch.float32])
    assert (out[:, 37:] == 0).all()
    kernels.sum(Sums(edges, wide[:, 37:], None, out[:, :37], start=out[:, :37]))
    torch.testing.assert_close(out[:, :37], 2 * wanted, **TOLERANCE[torch.float32])
    begun, by = torch.randn(23, 37), torch.randn(23)
    out[:, :37] = begun
    kernels.sum(Sums(edges, wide[:, 37:], None, out[:, :37], start=out[:, :37], start_scale=by))
    whole = sums(edges, wide[:, 37:], start=begun, start_scale=by)
    torch.testing.assert_close(out[:, :37], whole, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("width", [16, 132, 257, 523, 553, 602, 2257, 16257])
def test_a_start_in_place_counts_once_in_every_column(kernels, width):
    """The last chunk of a tile lies over the one before; tiles of a wide row follow each other."""
    edges = random_edges(seed=3)
    out = torch.ones(23, width, dtype=torch.float64)
    x = torch.ones(40, width, dtype=torch.float64)
    kernels.sum(Sums(edges, x, None, out, start=out))
    assert torch.equal(out, (1 + edges.indptr.diff()).double().unsqueeze(1).expand(23, width))


@pytest.mark.parametrize("width", [8, 100])
def test_threads_change_no_bit(width):
    generator = torch.Generator().manual_seed(4)
    degrees = torch.randint(0, 40, (5000,), generator=generator)
    indptr = torch.zeros(5001, dtype=torch.int32)
    indptr[1:] = degrees.cumsum(0)
    indices = torch.randint(0, 900, (int(indptr[-1]),), generator=generator, dtype=torch.int32)
    x, left = torch.randn(900, width), torch.randn(5000, width)
    outs = [torch.full((5000, width), torch.nan) for _ in range(3)]
    dots = [torch.full((len(indices), 2), torch.nan) for _ in range(3)]
    for threads, out, dot in zip((1, 2, 7), outs, dots, strict=True):
        _core.sum_rows(indptr, indices, x, None, out, threads=threads)
        _core.dot_rows(indptr, indices, x, None, left, dot, threads=threads)
    assert all(torch.equal(out, outs[0]) for out in outs)
    assert all(torch.equal(dot, dots[0]) for dot in dots)
    torch.testing.assert_close(outs[0], summed_by_library(indptr, indices, x), **TOLERANCE[torch.float32])


def summed_by_library(indptr, indices, x):
    out = torch.empty(len(indptr) - 1, x.shape[1])
    Library().sum(Sums(Edges(indptr=indptr, indices=indices), x, None, out))
    return out


def test_transposed_edges_list_every_edge_once_in_order(kernels):
    edges = random_edges(seed=5)
    turned = kernels.transposed(edges, 40, order=True)
    assert turned.num_rows == 40
    found = sorted((source, int(turned.order[at]), row) for source, at, row in pieces(turned))
    assert found == sorted((source, edge, row) for row, edge, source in pieces(edges))
    for source in range(40):
        begin, end = turned.indptr[source : source + 2]
        assert turned.order[begin:end].tolist() == sorted(turned.order[begin:end].tolist())
    plain = kernels.transposed(edges, 40, order=False)
    assert plain.order is None
    assert torch.equal(plain.indptr, turned.indptr)
    assert torch.equal(plain.indices, turned.indices)


def test_threads_change_no_transposed_edge():
    generator = torch.Generator().manual_seed(8)
    degrees = torch.randint(0, 60, (9_000,), dtype=torch.int32, generator=generator)
    indptr = torch.cat([torch.zeros(1, dtype=torch.int32), degrees.cumsum(0, dtype=torch.int32)])
    indices = torch.randint(0, 700, (int(indptr[-1]),), dtype=torch.int32, generator=generator)
    found = []
    for threads in (1, 2, 3, 4):
        arrays = torch.empty(701, dtype=torch.int32), torch.empty_like(indices), torch.empty_like(indices)
        _core.transpose_edges(indptr, indices, *arrays, threads=threads)
        found.append(arrays)
    assert torch.equal(found[0][2].long(), torch.sort(indices, stable=True).indices)
    for arrays in found[1:]:
        assert all(map(torch.equal, arrays, found[0]))


def test_a_part_of_the_rows(kernels):
    edges = kernels.transposed(random_edges(seed=6), 40, order=True)
    x, weight = torch.randn(23, 5, dtype=torch.float64), torch.randn(len(edges.indices), 1, dtype=torch.float64)
    whole = sums(edges, x, weight=weight)
    for first, end in ((0, 40), (0, 13), (13, 40), (40, 40)):
        out = torch.empty(end - first, 5, dtype=torch.float64)
        kernels.sum(Sums(edges.from_row(first, end), x, None, out, weight=weight))
        torch.testing.assert_close(out, whole[first:end], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("num_own", [0, 17, 40])
def test_edges_from_own_rows_and_the_others_are_all_edges_in_order(kernels, num_own):
    edges = random_edges(seed=10)
    own, others = kernels.split(edges, num_own, order=True)
    wanted = [[], []]
    for row, edge, source in pieces(edges):
        wanted[source >= num_own].append((row, edge, source - (source >= num_own) * num_own))
    for part, found in zip((own, others), wanted, strict=True):
        assert part.num_rows == edges.num_rows
        assert [(row, int(part.order[at]), source) for row, at, source in pieces(part)] == found
    for part, same in zip(kernels.split(edges, num_own, order=False), (own, others), strict=True):
        assert part.order is None
        assert torch.equal(part.indptr, same.indptr)
        assert torch.equal(part.indices, same.indices)


@pytest.mark.parametrize("weighted", [True, False])
def test_sums_in_two_parts_are_the_whole_sums(kernels, weighted):
    edges, x, start = random_edges(seed=11), torch.randn(40, 6, dtype=torch.float64), torch.randn(23, 6).double()
    scaling = {"degrees": edges.indptr.diff(), "weight": None}
    if weighted:
        scaling["weight"] = torch.randn(len(edges.indices), 2, dtype=torch.float64)
    own, others = kernels.split(edges, 25, order=weighted)
    out = torch.full((23, 6), torch.nan, dtype=torch.float64)
    kernels.sum(Sums(own, x[:25], None, out, start=start, **scaling))
    kernels.sum(Sums(others, x[25:], None, out, start=out, **scaling))
    torch.testing.assert_close(out, sums(edges, x, start=start, **scaling), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("head_width", [1, 4, 16, 37])
def test_dot_products(kernels, head_width, heads):
    edges = random_edges(seed=7)
    x, left = (torch.randn(n, heads, head_width, dtype=torch.float64) for n in (40, 23))
    out = kernels.dot(edges, x[:5].flatten(1), x[5:].flatten(1), left.flatten(1), heads)
    wanted = torch.zeros(len(edges.indices), heads, dtype=torch.float64)
    for row, edge, source in pieces(edges):
        wanted[edge] = (left[row] * x[source]).sum(1)
    torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-12)


def test_dot_products_of_more_edges_than_there_are_pairs(kernels):
    """A graph may have an edge many times, and a block be small."""
    indices = torch.tensor([1, 1, 0, 1, 0, 0, 1], dtype=torch.int32)
    edges = Edges(indptr=torch.tensor([0, 4, 4, 7], dtype=torch.int32), indices=indices)
    x, left = torch.randn(2, 6, dtype=torch.float64), torch.randn(3, 6, dtype=torch.float64)
    wanted = (left[edges.rows()] * x[indices]).view(7, 2, 3).sum(2)
    torch.testing.assert_close(kernels.dot(edges, x[:1], x[1:], left, 2), wanted, rtol=1e-12, atol=1e-12)


def test_added_rows_may_repeat(kernels):
    out, values = torch.ones(4, 70), torch.randn(5, 70)
    kernels.add(out, torch.tensor([2, 0, 2, 2, 3], dtype=torch.int32), values, (2, 0, 1, 2))
    wanted = torch.ones(4, 70)
    for row, value in zip([2, 0, 2, 2, 3], values, strict=True):
        wanted[row] += value
    torch.testing.assert_close(out, wanted, **TOLERANCE[torch.float32])


def dense_shares(edges, source, destination, slope, loops):
    """The softmax of every row by itself, in PyTorch's own operations; differentiable."""
    of_edges, of_loops = [], []
    for row in range(edges.num_rows):
        sources = edges.indices[int(edges.indptr[row]) : int(edges.indptr[row + 1])].long()
        scores = source[sources] + destination[row]
        if loops:
            scores = torch.cat([scores, (source[row] + destination[row]).unsqueeze(0)])
        shares = torch.nn.functional.leaky_relu(scores, slope).softmax(0)
        of_edges.append(shares[: len(sources)])
        of_loops.append(shares[len(sources) :])
    return torch.cat(of_edges), torch.cat(of_loops) if loops else None


@pytest.mark.parametrize("loops", [True, False])
def test_shares_of_attention_and_their_gradients(kernels, loops):
    edges, heads, slope = random_edges(seed=8), 3, 0.2
    source, destination = (torch.randn(n, heads, dtype=torch.float64, requires_grad=True) for n in (40, 23))
    wanted = dense_shares(edges, source, destination, slope, loops)
    shares = kernels.shares(edges, source.detach(), destination.detach(), slope, loops=loops)
    for ours, theirs in zip(shares, wanted, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs.detach(), rtol=1e-12, atol=1e-12)
    given = tuple(None if share is None else torch.randn_like(share) for share in shares)
    total = sum((share * gradient).sum() for share, gradient in zip(wanted, given, strict=True) if share is not None)
    of_source, of_destination = torch.autograd.grad(total, (source, destination))
    of_edges, of_loops, ours = kernels.shares_backward(
        edges,
        source.detach(),
        destination.detach(),
        slope,
        shares,
        tuple(g if g is None else g.clone() for g in given),
    )
    torch.testing.assert_close(ours, of_destination, rtol=1e-10, atol=1e-12)
    summed = torch.zeros_like(of_source).index_add_(0, edges.indices, of_edges)
    if loops:
        summed[:23] += of_loops
    torch.testing.assert_close(summed, of_source, rtol=1e-10, atol=1e-12)


def test_shares_hold_for_large_scores(kernels):
    edges = random_edges(seed=9)
    source, destination = torch.full((40, 2), 1e4), torch.full((23, 2), 1e4)
    shares, of_loops = kernels.shares(edges, source, destination, 0.2, loops=True)
    degrees = edges.indptr.diff().unsqueeze(1)
    torch.testing.assert_close(of_loops, (1 / (degrees + 1)).expand(23, 2))
    assert torch.isfinite(shares).all()


REFUSED = {
    "an edge has a source that is no row": {"indices": torch.tensor([0, 4], dtype=torch.int32)},
    "a source that is no row": {"indices": torch.tensor([0, -1], dtype=torch.int32)},
    "indptr must end with the edges": {"indptr": torch.tensor([0, 1, 1], dtype=torch.int32)},
    "indptr must not fall": {"indptr": torch.tensor([0, 3, 2], dtype=torch.int32)},
    "indptr must begin with 0": {"indptr": torch.tensor([1, 1, 2], dtype=torch.int32)},
    "the shape of the sums": {"out": torch.empty(3, 5)},
    "a factor for each source": {"factor": torch.ones(3)},
    "a degree for each row": {"degrees": torch.ones(3, dtype=torch.int32)},
    "a weight for each edge": {"weight": torch.ones(3, 1)},
    "the heads do not divide the width": {"weight": torch.ones(2, 2)},
    "a weight that does not exist": {"weight": torch.ones(2, 1), "order": torch.tensor([0, 2], dtype=torch.int32)},
    "an order for each edge": {"weight": torch.ones(2, 1), "order": torch.tensor([0], dtype=torch.int32)},
    "start is not shaped as out": {"start": torch.ones(3, 5)},
    "a scale for each row of the start": {"start": torch.ones(2, 5), "start_scale": torch.ones(3)},
    "rows differ in width": {"received": torch.ones(1, 4)},
    "a row must be contiguous": {"own": torch.ones(5, 4).t()},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_would_read_other_memory_is_refused(message):
    given = {
        "indptr": torch.tensor([0, 1, 2], dtype=torch.int32),
        "indices": torch.tensor([0, 3], dtype=torch.int32),
        "own": torch.ones(4, 5),
        "received": None,
        "out": torch.empty(2, 5),
    }
    _core.sum_rows(**given)
    with pytest.raises(ValueError, match=message):
        _core.sum_rows(**{**given, **REFUSED[message]})


def test_arrays_of_another_type_are_refused_not_converted():
    edges, out = random_edges(), torch.full((23, 4), 99.0, dtype=torch.float64)
    x, weight = torch.ones(40, 4, dtype=torch.float64), torch.ones(len(edges.indices), 1)
    with pytest.raises(TypeError):
        _core.sum_rows(edges.indptr, edges.indices, x, None, out, weight=weight)
    with pytest.raises(TypeError):
        _core.sum_rows(edges.indptr.long(), edges.indices, x, None, out)
    with pytest.raises(TypeError):
        _core.activate(x, 1, 0.0, 0, torch.empty(40, 4))


def test_an_instruction_set_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="does not run sse9"):
        _core.use_instruction_set("sse9")


def test_rows_choose_their_kernels():
    assert isinstance(kernels_for(torch.zeros(1)), Core)
    assert isinstance(kernels_for(torch.zeros(1, dtype=torch.float64)), Core)
    assert isinstance(kernels_for(torch.zeros(1, dtype=torch.bfloat16)), Core)
    assert isinstance(kernels_for(torch.zeros(1, dtype=torch.float16)), Library)
    assert isinstance(kernels_for(torch.zeros(1, device="meta")), Library)
