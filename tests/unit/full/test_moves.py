"""Moves and chains on a grid: each is the adjoint of another, and sends what the formula says."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from support.threads import in_threads

from gsplit.full import COLUMNS, FEATURES, ROWS, GridPlan
from gsplit.full.grid_operator import GridOperator
from gsplit.full.moves import Moves, shares
from gsplit.full.operators import Sizes
from gsplit.full.plans import grids_of
from gsplit.full.shards import Shard
from gsplit.full.volumes import Widths, volumes
from gsplit.full.whole_block import WholeBlock
from gsplit.kernels import Edges, library_alone
from gsplit.nn import BatchComm, ExchangeCounters
from gsplit.nn.neighbourhood import Factors
from gsplit.nn.slices import FEWEST_COLUMNS, MOST, slices

GRIDS = [sizes for trainers in (2, 3, 4, 6, 8) for sizes in grids_of(trainers)]


def inner_products(member, grid):
    """<E x, y> and <x, E' y> of each move, this trainer's share; ranges are uneven, and one is empty."""
    moves = Moves.of(member.on(grid))
    random = torch.Generator().manual_seed(member.rank)

    def rows(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    def both(x, y, forward, adjoint):
        return (forward(x) * y).sum().item(), (x * adjoint(y)).sum().item()

    sizes = [(3 * place + 2) % 5 for place in range(8)]  # one of them 0
    results = []
    side = moves.sides[FEATURES]
    n = sizes[: side.size]
    columns = [len(part) for part in np.array_split(np.arange(7), side.size)]
    x, y = rows(n[side.place], 7), rows(sum(n), columns[side.place])
    results.append(both(x, y, lambda x: moves.to_columns(x, n), lambda y: moves.to_rows(y, n, 7)))
    for axis in (ROWS, COLUMNS):
        side = moves.sides[axis]
        n = sizes[: side.size]
        x, y = rows(n[side.place], 3), rows(sum(n), 3)
        pair = (lambda x, n=n, a=axis: moves.gather(x, n, a), lambda y, n=n, a=axis: moves.reduce_scatter(y, n, a))
        results.append(both(x, y, *pair))
    return results


@pytest.mark.cases(2)
@pytest.mark.parametrize("trainers", [2, 3, 4, 6, 8])
def test_each_move_has_an_adjoint(trainers):
    for sizes in grids_of(trainers):
        results = in_threads(trainers, inner_products, GridPlan(algorithm="3d", sizes=sizes).grid)
        for of_move in zip(*results, strict=True):
            forward, backward = (sum(values) for values in zip(*of_move, strict=True))
            assert forward == pytest.approx(backward, rel=1e-12, abs=1e-13)
            assert forward != 0


def moved(member, grid):
    """Results of each move in bfloat16, of the same with rows that were rounded before, and the bytes of both."""
    random = torch.Generator().manual_seed(member.rank)
    found = []
    for dtype in (torch.bfloat16, None):
        random.manual_seed(member.rank)
        moves = Moves.of(member.on(grid), dtype)

        def rows(*shape, dtype=dtype):
            x = torch.randn(*shape, generator=random, dtype=torch.float64)
            return x if dtype is not None else x.bfloat16().double()

        results = []
        for axis, side in moves.sides.items():
            if side.size == 1:  # nothing moves, and nothing is rounded
                continue
            n = [3, 0, 2, 4, 1, 2, 5, 3][: side.size]
            results.append(moves.to_columns(rows(n[side.place], 7), n, axis=axis))
            results.append(moves.to_rows(rows(sum(n), results[-1].shape[1]), n, 7, axis=axis))
            results.append(moves.gather(rows(n[side.place], 3), n, axis))
            results.append(moves.reduce_scatter(rows(sum(n), 3), n, axis))
        found.append((results, moves.counters.forward_bytes))
    y = torch.full((5, 2), 1 / 3 + member.rank, dtype=torch.float64)
    return found, moves.all_reduce(y, FEATURES), Moves.of(member.on(grid), torch.bfloat16).all_reduce(y, FEATURES)


@pytest.mark.parametrize("trainers", [2, 4])
def test_moves_in_bfloat16_are_those_of_rounded_rows_in_a_quarter_of_the_bytes(trainers):
    for sizes in grids_of(trainers):
        results = in_threads(trainers, moved, GridPlan(algorithm="3d", sizes=sizes).grid)
        for ((short, of_short), (wide, of_wide)), sums, rounded in results:
            assert all(x.dtype == torch.float64 and torch.equal(x, y) for x, y in zip(short, wide, strict=True))
            assert of_wide == 4 * of_short > 0
            torch.testing.assert_close(rounded, sums, rtol=2**-7, atol=0)
        if sizes[2] == trainers:  # along features, the last axis: all have the same rows, bit for bit
            assert all(torch.equal(rounded, results[0][2]) for *_, rounded in results)


def chains(member, table, weights, levels, width=5, in_slices=False):
    """Sums and gradients of a comm on every grid with this many trainers, and what was sent.

    ``table`` [destinations, sources] are numbers of edges of all trainers, ``levels`` [P, 2] rows of sources and of
    destinations, ``width`` their columns.
    """
    results = []
    for sizes in grids_of(member.world):
        grid = GridPlan(algorithm="3d", sizes=sizes).grid
        mine = member.on(grid)
        moves, rank = Moves.of(mine), member.rank

        def at(axis, level, grid=grid, rank=rank):
            peers = [p for p in range(grid.world) if grid.coordinate(p, axis) == grid.coordinate(rank, axis)]
            ends = np.cumsum(levels[:, level])
            return np.concatenate([np.arange(ends[p] - levels[p, level], ends[p]) for p in peers])

        part = table[np.ix_(at(ROWS, 1), at(COLUMNS, 0))]
        counts = part.astype(np.int64)
        indptr = np.concatenate([[0], np.cumsum(counts.sum(axis=1))]).astype(np.int32)
        flat = counts.ravel()
        indices = np.repeat(np.tile(np.arange(counts.shape[1]), len(counts)), flat).astype(np.int32)
        weight = np.repeat(weights[np.ix_(at(ROWS, 1), at(COLUMNS, 0))].ravel(), flat)
        shard = Shard(
            Edges(indptr=torch.from_numpy(indptr), indices=torch.from_numpy(indices)), torch.from_numpy(weight)
        )
        around = Sizes.of(levels[:, 0], grid, rank, ROWS), Sizes.of(levels[:, 1], grid, rank, COLUMNS)
        operator = GridOperator(shard, moves, *around, in_slices=in_slices)
        counters = moves.counters
        comm = BatchComm(member.group, counters, torch.device("cpu"))
        block = WholeBlock(
            num_own_sources=int(levels[rank, 0]),
            num_destinations=int(levels[rank, 1]),
            layer=2,
            operator=operator,
            in_degrees=torch.zeros(int(levels[rank, 1]), dtype=torch.int32),
            in_weights=torch.zeros(int(levels[rank, 1])),
            degrees=None,
            comm=comm,
        )
        first = int(levels[:rank, 0].sum())
        x = rows_of(levels[:, 0].sum(), 0, width)[first : first + int(levels[rank, 0])].requires_grad_(True)
        by_sources = rows_of(levels[:, 0].sum(), seed=2)[first : first + int(levels[rank, 0]), 0]
        first = int(levels[:rank, 1].sum())
        of_rank = slice(first, first + int(levels[rank, 1]))
        by_sums, y = (rows_of(levels[:, 1].sum(), seed, width)[of_rank] for seed in (3, 1))
        out = block.normalised_sum(x, Factors(sources=by_sources, sums=by_sums[:, 0]), weighted=True)
        comm.tie((out * y).sum()).backward()
        results.append((out.detach(), x.grad, counters))
    return results


def rows_of(count, seed=0, width=5):
    return torch.randn(int(count), width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kernels", [nullcontext, library_alone])
@pytest.mark.parametrize("trainers", [2, 3, 4, 6, 8])
def test_chains_are_products_and_send_what_the_formula_says(trainers, kernels):
    random = np.random.default_rng(trainers)
    levels = random.integers(0, 6, (trainers, 2))
    levels[0], levels[-1] = (4, 0), (0, 3)
    table = random.integers(0, 3, (levels[:, 1].sum(), levels[:, 0].sum()))
    weights = random.standard_normal(table.shape)
    with kernels():
        results = in_threads(trainers, chains, table, weights, levels)
    by_sources, by_sums = (rows_of(levels[:, level].sum(), seed=2 + level)[:, 0] for level in (0, 1))
    A = by_sums[:, None] * torch.from_numpy(table * weights) * by_sources
    x, y = rows_of(levels[:, 0].sum()), rows_of(levels[:, 1].sum(), seed=1)
    for i, sizes in enumerate(grids_of(trainers)):
        out, grad = (torch.cat([of_rank[i][part] for of_rank in results]) for part in (0, 1))
        torch.testing.assert_close(out, A @ x, rtol=0, atol=1e-12)
        torch.testing.assert_close(grad, A.T @ y, rtol=0, atol=1e-12)
        assert (out * y).sum().item() == pytest.approx((x * grad).sum().item(), rel=1e-12)
        plan = GridPlan(algorithm="3d", sizes=sizes)
        for rank, of_rank in enumerate(results):
            wanted = volumes(plan, levels, [Widths(5, 5)], 8, rank)
            assert counted(of_rank[i][2]) == wanted


@pytest.mark.parametrize("kernels", [nullcontext, library_alone])
@pytest.mark.parametrize("trainers", [3, 4])
def test_slices_of_columns_have_the_same_bits_and_words(trainers, kernels):
    """On every grid, with trainers that have no rows, and numbers of columns that cannot be dealt out evenly.

    PyTorch's sums of a row round otherwise where it is narrower.
    """
    random, near = np.random.default_rng(trainers), 0 if kernels is nullcontext else 1e-13
    levels = random.integers(1, 6, (trainers, 2))
    levels[0], levels[-1] = (4, 0), (0, 3)
    table = random.integers(0, 3, (levels[:, 1].sum(), levels[:, 0].sum()))
    weights, width = random.standard_normal(table.shape), 51
    with kernels():
        whole, sliced = (in_threads(trainers, chains, table, weights, levels, width, way) for way in (False, True))
    for rank, of_rank in enumerate(zip(whole, sliced, strict=True)):
        for sizes, first, same in zip(grids_of(trainers), *of_rank, strict=True):
            for value, of_slices in zip(first[:2], same[:2], strict=True):
                torch.testing.assert_close(value, of_slices, rtol=0, atol=near)
            plan, sent = GridPlan(algorithm="3d", sizes=sizes), counted(same[2])
            assert sent == volumes(plan, levels, [Widths(width, width, in_slices=True)], 8, rank)
            assert {name: sent[name] for name in sent if "bytes" in name} == {
                name: number for name, number in counted(first[2]).items() if "bytes" in name
            }


@pytest.mark.parametrize("members", [1, 2, 3, 5, 64])
def test_slices_deal_all_columns_out_as_one(members):
    for width in (*range(70), 127, 128, 500):
        widths = slices(width, members)
        assert sum(widths) == width
        fewest = 2 if members <= FEWEST_COLUMNS else 1
        assert len(widths) in ((1,) if width < 2 * FEWEST_COLUMNS else range(fewest, MOST + 1))
        assert np.sum([shares(each, members) for each in widths], axis=0).tolist() == shares(width, members)


def counted(counters: ExchangeCounters) -> dict[str, int]:
    totals = {
        f"exchange_{way}_{what}": getattr(counters, f"{way}_{what}")
        for way in ("forward", "backward")
        for what in ("bytes", "messages")
    }
    return {**counters.moves, **totals}


@pytest.mark.parametrize("sizes", [*GRIDS, (3, 3, 1), (3, 1, 3), (3, 3, 3)])
def test_volumes_of_even_ranges(sizes):
    """Words that one of P = R K F trainers receives in a product of width w; CAGNET's 1D and 1.5D are cases of it."""
    (R, K, F), P, n, w = sizes, math.prod(sizes), 4320, 216
    even = np.full((P, 2), n // P)
    plan = GridPlan(algorithm="3d", sizes=sizes)
    words = n * w * (2 * (F - 1) / (F * P) + (R - 1) / (R * K * F) + (K - 1) / (K * R * F))
    for rank in range(P):
        sent = volumes(plan, even, [Widths(w, w)], 1, rank)
        assert sent["exchange_forward_bytes"] == sent["exchange_backward_bytes"] == pytest.approx(words, rel=1e-12)
        assert sent["exchange_forward_messages"] == 2 * (F - 1) + (R - 1) + (K - 1)
    if (K, F) == (1, 1):
        assert words == pytest.approx(n * w * (P - 1) / P)
        assert volumes(GridPlan(algorithm="1d", sizes=sizes), even, [Widths(w, w)], 1, 0)[
            "exchange_forward_bytes"
        ] == pytest.approx(words)
    if F == 1 and P % K == 0:
        assert words == pytest.approx(n * w * (1 / K + K / P - 2 / P))
