"""Attention on a grid by itself: scores far apart, rows with edges in one column or none, weights, dropout."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from support.threads import in_threads

from gsplit.full import COLUMNS, FEATURES, ROWS, GridPlan
from gsplit.full.grid_attention import GridAttention, places_of_own
from gsplit.full.moves import Moves
from gsplit.full.operators import Sizes
from gsplit.full.plans import grids_of
from gsplit.full.shards import Shard, with_loops
from gsplit.full.whole_block import WholeBlock
from gsplit.kernels import Edges, library_alone
from gsplit.nn import BatchComm

HEADS, WIDTH, SLOPE = 4, 3, 0.2
LEVELS = {
    2: np.array([[5, 3], [4, 4]]),
    4: np.array([[5, 3], [0, 0], [3, 0], [6, 5]]),  # one has nothing, one no destination
}


def problem(trainers, far):
    """Rows, attention vectors, numbers and weights of edges, and what the results are multiplied by, of everyone."""
    random = torch.Generator().manual_seed(trainers)

    def drawn(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    sources, destinations = LEVELS[trainers].sum(axis=0)
    z = drawn(sources, HEADS, WIDTH)
    if far:  # powers of these scores would be infinite, or 0 all together
        z[::3], z[1::3] = z[::3] + 600, z[1::3] - 600
    table = torch.randint(0, 2, (destinations, sources), generator=random)
    table[2, 0] = 2
    table[0] = 0  # no edges
    table[1, 1:] = 0  # in one column alone, if there
    weights = drawn(destinations, sources).abs() + 0.1
    return z, drawn(HEADS, WIDTH), drawn(HEADS, WIDTH), table, weights, drawn(destinations, HEADS, WIDTH)


def places(levels, members, level):
    """Where the rows of members stand among those of all."""
    ends = np.cumsum(levels[:, level])
    return np.concatenate([np.arange(ends[p] - levels[p, level], ends[p]) for p in members])


def dense(trainers, far, weighted, loops):
    """Results and gradients by dense tensors and autograd; what dropout makes of ones is 2."""
    z, to, of, table, weights, y = problem(trainers, far)
    levels = LEVELS[trainers]
    firsts = np.cumsum(levels[:, 0]) - levels[:, 0]
    own = np.concatenate([first + np.arange(n) for first, n in zip(firsts, levels[:, 1], strict=True)])
    counts = table.double() * (weights if weighted else 1)
    if loops:
        counts[np.arange(len(own)), own] += 1
    z, to, of = (each.requires_grad_(True) for each in (z, to, of))
    scores = torch.nn.functional.leaky_relu(((z * to).sum(2)[None] + (z[own] * of).sum(2)[:, None]), SLOPE)
    there = (counts > 0).unsqueeze(2)
    shares = torch.where(there, scores + counts.clamp(min=1e-300).log().unsqueeze(2), -torch.inf).softmax(dim=1)
    out = 2 * torch.einsum("duh,uhw->dhw", torch.where(there, shares, 0), z)
    out = torch.where(there.any(dim=1, keepdim=True), out, 0)
    (out * y).sum().backward()
    return out.detach(), z.grad, to.grad, of.grad


def on_grids(member, far, weighted, loops):
    """Results and gradients of one trainer on every grid."""
    return [_on_grid(member, sizes, far, weighted, loops) for sizes in grids_of(member.world)]


def _on_grid(member, sizes, far, weighted, loops):
    levels, rank, grid = LEVELS[member.world], member.rank, GridPlan(algorithm="3d", sizes=sizes).grid
    z, to, of, table, weights, y = problem(member.world, far)
    row, column = grid.group(rank, COLUMNS, FEATURES), grid.group(rank, ROWS, FEATURES)
    at = np.ix_(places(levels, row, 1), places(levels, column, 0))
    counts = table.numpy()[at]
    indptr = np.concatenate([[0], np.cumsum(counts.sum(axis=1))]).astype(np.int32)
    indices = np.repeat(np.tile(np.arange(counts.shape[1]), len(counts)), counts.ravel()).astype(np.int32)
    weight = torch.from_numpy(np.repeat(weights.numpy()[at].ravel(), counts.ravel())) if weighted else None
    shard = Shard(Edges(indptr=torch.from_numpy(indptr), indices=torch.from_numpy(indices)), weight)
    if loops:
        shard = with_loops(shard, places_of_own(row, column, levels[:, 1], levels[:, 0]))
    moves = Moves.of(member.on(grid))
    operator = GridAttention(
        shard,
        moves,
        Sizes.of(levels[:, 0], grid, rank, ROWS),
        Sizes.of(levels[:, 1], grid, rank, COLUMNS),
        loops=loops,
        num_edges=len(indices),
    )
    comm = BatchComm(member.group, moves.counters, torch.device("cpu"))
    own, wanted = int(levels[rank, 0]), int(levels[rank, 1])
    block = WholeBlock(
        num_own_sources=own,
        num_destinations=wanted,
        layer=2,
        operator=operator,
        in_degrees=torch.zeros(wanted, dtype=torch.int32),
        in_weights=None,
        degrees=None,
        comm=comm,
    )
    z = z[places(levels, [rank], 0)]
    z, to, of = (each.requires_grad_(True) for each in (z, to, of))
    out = block.attend(z, to, of, negative_slope=SLOPE, dropout=lambda ones: 2 * ones, loops=loops)
    comm.tie((out * y[places(levels, [rank], 1)]).sum()).backward()
    return out.detach(), z.grad, to.grad, of.grad


@pytest.mark.cases(4)
@pytest.mark.parametrize("kernels", [nullcontext, library_alone])
@pytest.mark.parametrize(("weighted", "loops"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("trainers", list(LEVELS))
def test_attention_on_a_grid_is_the_dense_one(trainers, far, weighted, loops, kernels):
    wanted = dense(trainers, far, weighted, loops)
    with kernels():
        results = in_threads(trainers, on_grids, far, weighted, loops)
    for of_grid in zip(*results, strict=True):
        rows, rows_back, *of_vectors = zip(*of_grid, strict=True)
        found = torch.cat(rows), torch.cat(rows_back), *(torch.stack(each).sum(dim=0) for each in of_vectors)
        for value, same in zip(found, wanted, strict=True):
            torch.testing.assert_close(value, same, rtol=1e-9, atol=1e-7 if far else 1e-10)  # of squares of 600
