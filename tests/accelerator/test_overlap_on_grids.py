"""On grids of the whole graph moves are hidden behind what is computed meanwhile, as a trace of the streams shows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from support.accelerators import differences, keep_busy
from support.graphs import lay_out, random_graph
from support.runs import config_for
from support.traces import SCHEDULES, SUM, differing, given
from torch import nn

from gsplit.full.grid_attention import GridAttention
from gsplit.full.grid_operator import GridOperator
from gsplit.full.moves import Moves, fresh_counters
from gsplit.full.operators import Sizes
from gsplit.full.plans import COLUMNS, ROWS, GridPlan, plan_of
from gsplit.full.shards import Shard
from gsplit.full.whole_block import WholeBlock
from gsplit.kernels import Edges
from gsplit.nn import BatchComm
from gsplit.nn.sage import SAGEConv

pytestmark = pytest.mark.accelerator
SLOW = pytest.mark.slow

OWN = 100
WHOLE = {"strategy": "full", "batch_size": 512, "fan_out": (-1, -1)}
TURNING = {**WHOLE, "model": "gcn", "algorithm": "rotate", "fan_out": (-1, -1, -1), "samplers": 0}


def test_blocks_and_gradients_of_rows_travel_while_products_go_on(
    controls, accelerator_pool, weighted_layouts, tmp_path
):
    changes = {"cache": "none", "evaluate": "none", **TURNING, "grid": (1, 1, 2), "row_blocks": 3}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, 2, **changes):
        scattered, gathered = step.meanwhile("alltoall"), step.meanwhile("broadcast")
        # Sums of the second layer, of which one block after another is added up; sums of the features of the third.
        of_blocks = [any(each.startswith(SUM) for each in hidden) for hidden in scattered]
        assert of_blocks == [True, True, False, False, False], scattered
        assert all(any(each.startswith(SUM) for each in hidden) for hidden in gathered[:2]), gathered
        # Gradients of the rows of the second layer, beside those of its weights and of its bias.
        assert "aten::mm.out" in scattered[-1], scattered
        assert all("aten::sum.IntList_out" in hidden for hidden in gathered[-2:]), gathered


def test_blocks_of_gradients_of_rows_travel_while_others_are_summed(
    controls, accelerator_pool, weighted_layouts, tmp_path
):
    """On a grid where the second layer of three adds them up."""
    changes = {"cache": "none", "evaluate": "none", **TURNING, "grid": (1, 2, 1), "row_blocks": 3}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, 2, **changes):
        scattered = step.meanwhile("alltoall")
        of_blocks = "".join("ny"[any(each.startswith(SUM) for each in behind)] for behind in scattered)
        assert of_blocks.endswith("yyn"), scattered


def test_skips_travel_while_products_go_on(controls, accelerator_pool, weighted_layouts, tmp_path):
    """Where layers rotate, on a grid where the second skip is spread over columns, and the third comes to rest."""
    changes = {"cache": "none", "evaluate": "none", **TURNING, "grid": (1, 1, 2), "residual": True}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, 2, **changes):
        _, spread, rested, _, back, gradient, _ = step.meanwhile("alltoall")
        assert "aten::mm.out" in spread, spread
        assert all(any(each.startswith(SUM) for each in hidden) for hidden in (rested, back)), (rested, back)
        assert gradient.count("aten::mm.out") == 2, gradient


CHAINS: dict[str, tuple[int, dict[str, Any]]] = {
    "1.5d": (4, {"algorithm": "1.5d"}),
    "columns": (3, {"algorithm": "columns"}),
    "2d": (4, {"algorithm": "2d"}),
    "3d": (4, {"algorithm": "3d", "grid": (1, 2, 2)}),
}
"""Trainers and flags. Two moves come before a product on ``2d`` forward and on ``3d`` backward, and two stand behind
it in the other direction."""


@pytest.fixture(scope="module")
def dense_layouts(tmp_path_factory):
    """Of edges enough for a pass over those from a trainer's own rows."""
    folder, graph = tmp_path_factory.mktemp("dense"), random_graph(200, 40, seed=3)
    return lambda parts: lay_out(graph, folder, parts=parts, method="deal")


@pytest.mark.parametrize("name", CHAINS)
def test_moves_of_grids_travel_while_products_go_on(controls, accelerator_pool, dense_layouts, tmp_path, name):
    world, changes = CHAINS[name]
    changes = {"cache": "none", "evaluate": "none", "model": "gcn", **WHOLE, **changes}
    for step in given(accelerator_pool, dense_layouts, tmp_path, world, **changes):
        hidden = [*step.meanwhile("broadcast"), *step.meanwhile("alltoall")]
        assert len(hidden) >= 6
        assert all(any(each.startswith(SUM) for each in behind) for behind in hidden), hidden


SET_OUT: dict[str, tuple[int, dict[str, Any], str, list[int]]] = {
    "rows": (2, {"algorithm": "3d", "grid": (2, 1, 1), "model": "gcn"}, "alltoall", [1]),
    "columns": (2, {"grid": (1, 2, 1), "model": "sage"}, "broadcast", [1, 1, 3, 3]),
    "features": (3, {"grid": (1, 1, 3), "model": "gcn"}, "alltoall", [1]),
    "columns and features": (4, {"grid": (1, 2, 2), "model": "sage"}, "alltoall", [1, 3]),
    "the graph moves": (2, {"grid": (1, 1, 2), "graph": "move", "model": "sage"}, "alltoall", [1, 3]),
}
"""Trainers, flags, and for each message of gradients of rows that products stand beside, how many."""


@pytest.mark.parametrize("name", SET_OUT)
def test_gradients_of_rows_travel_while_those_of_weights_are_computed(
    controls, accelerator_pool, weighted_layouts, tmp_path, name
):
    """In the second layer of three, whose sums are multiplied by weights, and in a third one of SAGE, which narrows.

    Of SAGE there are also products for the own rows: in the third layer the one for their weights, in the second
    their gradients, too.
    """
    world, changes, kind, beside = SET_OUT[name]
    changes = {"cache": "none", "evaluate": "none", **WHOLE, "fan_out": (-1, -1, -1), **changes}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, world, **changes):
        products = [hidden.count("aten::mm.out") for hidden in step.meanwhile(kind)]
        assert [number for number in products if number] == beside, step.meanwhile(kind)


ATTENTION: dict[str, tuple[int, tuple[int, int, int], str, str]] = {
    "rows": (2, (2, 1, 1), "bb", 4 * "s"),
    "columns": (2, (1, 2, 1), 2 * "rb" + 2 * "bb", 2 * "ssrr" + 2 * "ddbb"),
    "features": (2, (1, 1, 2), 2 * "sb" + 2 * "db", ""),
    "rows and columns": (4, (2, 2, 1), 2 * "rb" + 2 * "bbb", 2 * "ssssrr" + 2 * "ddbb"),
    "rows and features": (4, (2, 1, 2), 2 * "sb" + 2 * "dbb", 4 * "s"),
    "columns and features": (4, (1, 2, 2), 2 * "srbb" + 2 * "dbbb", 2 * "ssrr" + 2 * "ddbb"),
}
"""Trainers, grid, and what stands beside each all-to-all and each message of a gather, of two layers forward and
backward: scores (s), rows of edges (r), dot products of edges (d), sums (b)."""
BESIDE = {"aten::mm.out": "s", "aten::repeat_interleave.Tensor": "r", "sparse_sampled_addmm": "d"}


@pytest.mark.parametrize(
    "name",
    [name if name in ("rows", "columns and features") else pytest.param(name, marks=SLOW) for name in ATTENTION],
)
def test_moves_of_attention_travel_while_it_is_computed(controls, accelerator_pool, weighted_layouts, tmp_path, name):
    world, grid, exchanges, gathers = ATTENTION[name]
    changes = {"cache": "none", "evaluate": "none", **WHOLE, "algorithm": "3d", "grid": grid}
    changes |= {"model": "gat", "heads": 2, "out_heads": 2}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, world, **changes):
        for kind, wanted in (("alltoall", exchanges), ("broadcast", gathers)):
            hidden = step.meanwhile(kind)
            kinds = [[BESIDE.get(each, "b" if each.startswith(SUM) else "") for each in behind] for behind in hidden]
            found = "".join(next(filter(None, each), "-") for each in kinds)
            assert found == wanted, hidden


def test_edges_travel_while_others_are_summed_over(controls, accelerator_pool, weighted_layouts, tmp_path):
    """Forward and backward: pointers of all, and indices and weights of the first, come before anything is summed."""
    changes = {"cache": "none", "evaluate": "none", "model": "gcn", **WHOLE, "algorithm": "columns", "graph": "move"}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, 3, **changes):
        hidden = step.meanwhile("broadcast")
        beside = ["ny"[any(each.startswith(SUM) for each in behind)] for behind in hidden]
        assert "".join(beside) == 2 * ("nnn" + "nn" + "yy" + "yy"), hidden


def block_around(operator, sizes, comm):
    """The block of a second layer from so many own rows to so many."""
    sources, destinations = map(int, sizes)
    return WholeBlock(
        num_own_sources=sources,
        num_destinations=destinations,
        layer=2,
        operator=operator,
        in_degrees=torch.full((destinations,), 3, device=comm.token.device),
        in_weights=None,
        degrees=None,
        comm=comm,
    )


def of_chain(member, algorithm, grid, made):
    """Two layers around a chain of moves, one that narrows, and gradients of own sources and weights, on the host.

    ``made`` keeps the operators by device, since they take longer than their sums.
    """
    plan, draw = plan_of(algorithm, member.world, grid=grid), torch.Generator().manual_seed(member.rank)
    sizes, device = np.array([[OWN - 7 * peer, OWN - 10 * peer] for peer in range(member.world)]), member.device
    sources = Sizes.of(sizes[:, 0], plan.grid, member.rank, ROWS)
    destinations = Sizes.of(sizes[:, 1], plan.grid, member.rank, COLUMNS)
    indptr = torch.randint(0, 30, (sum(destinations.across) + 1,), generator=draw).cumsum(0).int()
    indptr[0] = 0
    indices = torch.randint(0, sum(sources.across), (int(indptr[-1]),), dtype=torch.int32, generator=draw)
    x, grad = (torch.randn(int(n), 32, generator=draw) for n in sizes[member.rank])
    layers = nn.ModuleList([SAGEConv(32, 32), SAGEConv(32, 8)])
    for weight in layers.parameters():
        weight.data.copy_(torch.randn(weight.shape, generator=draw) / 6)
    if device not in made:
        edges = Edges(indptr=indptr.to(device), indices=indices.to(device))
        made[device] = GridOperator(Shard(edges, None), Moves.of(member.on(plan.grid)), sources, destinations)
    comm = BatchComm(member.group, fresh_counters(), device)
    block = block_around(made[device], sizes[member.rank], comm)
    layers = layers.to(device)
    if device.type != "cpu":
        keep_busy(device)
    rows = x.to(device).requires_grad_()
    out = torch.cat([layer(block, rows) for layer in layers], dim=1)
    comm.tie((out * torch.cat([grad, grad[:, :8]], dim=1).to(device)).sum()).backward()
    return [each.detach().cpu() for each in (out, rows.grad, *(weight.grad for weight in layers.parameters()))]


def of_attention(member, sizes, made):
    """Attention on a grid, and gradients of the own sources and of both vectors, on the host; ``made`` as above."""
    plan, draw = GridPlan(algorithm="3d", sizes=sizes), torch.Generator().manual_seed(member.rank)
    levels, device = np.array([[OWN - 7 * peer, OWN - 10 * peer] for peer in range(member.world)]), member.device
    around = (
        Sizes.of(levels[:, 0], plan.grid, member.rank, ROWS),
        Sizes.of(levels[:, 1], plan.grid, member.rank, COLUMNS),
    )
    indptr = torch.randint(0, 30, (sum(around[1].across) + 1,), generator=draw).cumsum(0).int()
    indptr[0] = 0
    indices = torch.randint(0, sum(around[0].across), (int(indptr[-1]),), dtype=torch.int32, generator=draw)
    z, grad = (torch.randn(int(n), 4, 8, generator=draw) for n in levels[member.rank])
    vectors = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(7))
    if device not in made:
        shard = Shard(Edges(indptr=indptr.to(device), indices=indices.to(device)), None)
        moves = Moves.of(member.on(plan.grid))
        made[device] = GridAttention(shard, moves, *around, loops=False, num_edges=len(indices))
    comm = BatchComm(member.group, fresh_counters(), device)
    block = block_around(made[device], levels[member.rank], comm)
    if device.type != "cpu":
        keep_busy(device)
    rows, to, of = (each.to(device).requires_grad_() for each in (z, *vectors))
    out = block.attend(rows, to, of, negative_slope=0.2, dropout=lambda ones: ones * 2, loops=False)
    comm.tie((out * grad.to(device)).sum()).backward()
    return [each.detach().cpu() for each in (out, rows.grad, to.grad, of.grad)]


@pytest.mark.parametrize(
    "name", [name if name == "columns and features" else pytest.param(name, marks=SLOW) for name in ATTENTION]
)
def test_moves_of_attention_that_overlap_change_no_bit(controls, accelerator_pool, name):
    world, grid, *_ = ATTENTION[name]
    function = partial(of_attention, sizes=grid, made={})
    assert accelerator_pool.run(world, differing, function, SCHEDULES) == world * [[]]


@pytest.mark.parametrize(
    "name", [name if name in ("columns", "3d") else pytest.param(name, marks=SLOW) for name in CHAINS]
)
def test_moves_that_overlap_change_no_bit(controls, accelerator_pool, name):
    world, changes = CHAINS[name]
    function = partial(of_chain, algorithm=changes["algorithm"], grid=changes.get("grid"), made={})
    assert accelerator_pool.run(world, differing, function, SCHEDULES) == world * [[]]


RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    "the graph moves": (2, {**WHOLE, "fan_out": (-1, -1, -1), "grid": (1, 1, 2), "graph": "move"}),
    "skips where layers rotate": (2, {**TURNING, "grid": (1, 1, 2), "residual": True}),
}
"""Trainers and flags; of each ``make test`` runs one like it under one schedule (test_bit_equal.py)."""


@SLOW
@pytest.mark.parametrize("name", RUNS)
def test_runs_that_overlap_change_no_bit(controls, accelerator_pool, weighted_layouts, tmp_path, name):
    world, changes = RUNS[name]
    changes = {"epochs": 1, "evaluate": "none", "cache": "none", **changes}
    config = config_for(weighted_layouts(world).path, tmp_path, **changes)
    assert accelerator_pool.run(world, differences, config, SCHEDULES) == world * [[]]
