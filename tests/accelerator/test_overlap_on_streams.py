"""What travels is hidden behind what is computed meanwhile, as a trace of the streams shows.

What the streams of a device were given in one training step is laid out in virtual time, where what travels is late:
one message at a time takes as long as LATE operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from support.accelerators import has_cpu_numbers, keep_busy
from support.graphs import lay_out, random_graph
from support.runs import config_for, trainer_of
from support.steps import CPU
from torch import nn

from gsplit.full.grid_operator import GridOperator
from gsplit.full.moves import Moves, Side, fresh_counters
from gsplit.full.operators import Sizes
from gsplit.full.plans import COLUMNS, ROWS, plan_of
from gsplit.full.shards import Shard
from gsplit.full.whole_block import WholeBlock
from gsplit.kernels import Edges, TwoWayEdges, library_alone
from gsplit.nn import BatchComm, ExchangeCounters, Route
from gsplit.nn.aggregate import neighbour_sum
from gsplit.nn.sage import SAGEConv
from gsplit.parallel import EarlySums, reduce_gradients
from gsplit.train import loop

pytestmark = pytest.mark.accelerator

STREAMS = 33
OWN = 100
LATE = 1000.0
SUM = "aten::_embedding_bag"
SCHEDULES = ["lazy", "eager", *(f"random:{seed}" for seed in range(20))]
WHOLE = {"strategy": "full", "batch_size": 512, "fan_out": (-1, -1)}
EXCHANGES = {
    "sage": {"model": "sage"},
    "gcn": {"model": "gcn", "exchange_dtype": "bfloat16"},
    "sums of rows": {"model": "sage", "exchange": "auto"},
    "whole graph": {**WHOLE, "algorithm": "1d-sparse", "train_features": 8},
}


TURNING = {**WHOLE, "model": "gcn", "algorithm": "rotate", "fan_out": (-1, -1, -1), "samplers": 0}


@dataclass(kw_only=True)
class Given:
    """What the streams of a trainer's device were given in a step."""

    device: int
    noted: list[str]
    before: Mapping[int, int]
    """How many tasks each stream had had."""

    def meanwhile(self, name: str) -> list[list[str]]:
        """What the trainer's stream is given behind a task of a name, and ends while that goes on, for each of them.

        Those on the trainer's own stream, which nothing can overlap with, are left out.
        """
        from simulated import occupancy

        tasks = occupancy.tasks_of(self.noted, self.device)
        found = []
        for place, late in enumerate(tasks):
            if late.name != name or not late.stream:
                continue
            for task in tasks:
                task.seconds = LATE if task is late else 1.0
            occupancy.run(tasks, len(tasks), over=self.before)
            behind = [task for task in tasks[place:] if not task.stream and task.blocks]
            found.append([task.name for task in behind if task.ended <= late.ended])
        return found


def given_in_a_step(member, config):
    """Train on the second mini-batch, of which all is loaded; the first one imports, and turns what stays."""
    controls, device = torch.ops.sim, member.device.index
    controls.set_schedule("lazy:3000")  # what has not been reached is waited for, and so noted
    trainer = trainer_of(member, config)
    for _ in range(2):
        mini_batch = next(trainer.feed)
        torch.accelerator.synchronize(device)
        before = {stream: controls.issued(device, stream) for stream in range(STREAMS)}
        controls.noted_tasks()
        controls.note_tasks(True)
        loop.step(trainer, mini_batch)
        controls.note_tasks(False)
    given = Given(device=device, noted=controls.noted_tasks(), before=before)
    trainer.close()
    return given


def given(pool, layouts, out, world, **changes):
    config = config_for(layouts(world).path, out, device="sim", epochs=4, prefetch=1, **changes)
    return pool.run(world, given_in_a_step, config)


@pytest.mark.parametrize("name", EXCHANGES)
def test_own_edges_are_summed_while_rows_travel(controls, accelerator_pool, weighted_layouts, tmp_path, name):
    changes = {"cache": "none", "evaluate": "none", **EXCHANGES[name]}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, 2, **changes):
        exchanges = step.meanwhile("alltoall")
        assert len(exchanges) >= 3  # of two layers forward, and of the second backward
        assert all(any(each.startswith(SUM) for each in hidden) for hidden in exchanges), exchanges


def test_attention_scores_own_rows_while_others_travel(controls, accelerator_pool, weighted_layouts, tmp_path):
    changes = {"cache": "none", "evaluate": "none", "model": "gat"}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, 2, **changes):
        first, second, *backward = step.meanwhile("alltoall")
        assert "aten::mm.out" in first, first
        assert "aten::mm.out" in second, second
        assert len(backward) == 2
        assert all(any(each.startswith(SUM) for each in hidden) for hidden in backward), backward


REDUCES = {
    "sage": {"model": "sage"},
    "gat": {"model": "gat", "norm": "layer", "residual": True},
    "data": {"strategy": "data", "model": "gcn"},
    "grid": {**WHOLE, "algorithm": "columns", "model": "sage"},
}


@pytest.mark.parametrize("name", REDUCES)
def test_gradients_are_summed_while_backward_goes_on(controls, accelerator_pool, weighted_layouts, tmp_path, name):
    changes = {"cache": "none", "evaluate": "none", **REDUCES[name], "fan_out": (-1, -1, -1)}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, 2, **changes):
        *above, last = step.meanwhile("allreduce")
        assert len(above) == 2, [last, *above]
        assert all(any(each.startswith((SUM, "aten::mm")) for each in hidden) for hidden in above), above


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


SET_OUT: dict[str, tuple[int, dict[str, Any], str, int]] = {
    "rows": (2, {"algorithm": "3d", "grid": (2, 1, 1), "model": "gcn"}, "alltoall", 1),
    "columns": (2, {"grid": (1, 2, 1), "model": "sage"}, "broadcast", 2),
    "features": (3, {"grid": (1, 1, 3), "model": "gcn"}, "alltoall", 1),
    "columns and features": (4, {"grid": (1, 2, 2), "model": "sage"}, "alltoall", 1),
}
"""Trainers, flags, and the messages of gradients of rows that products for weights stand beside."""


@pytest.mark.parametrize("name", SET_OUT)
def test_gradients_of_rows_travel_while_those_of_weights_are_computed(
    controls, accelerator_pool, weighted_layouts, tmp_path, name
):
    """In the second layer of three, whose sums are multiplied by weights."""
    world, changes, kind, messages = SET_OUT[name]
    changes = {"cache": "none", "evaluate": "none", **WHOLE, "fan_out": (-1, -1, -1), **changes}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, world, **changes):
        beside = [hidden for hidden in step.meanwhile(kind) if "aten::mm.out" in hidden]
        assert len(beside) == messages, step.meanwhile(kind)
        products = 3 if changes["model"] == "sage" else 1  # of SAGE also for the own rows, and their gradients
        assert all(hidden.count("aten::mm.out") == products for hidden in beside), beside


def test_edges_travel_while_others_are_summed_over(controls, accelerator_pool, weighted_layouts, tmp_path):
    """Forward and backward: pointers of all, and indices and weights of the first, come before anything is summed."""
    changes = {"cache": "none", "evaluate": "none", "model": "gcn", **WHOLE, "algorithm": "columns", "graph": "move"}
    for step in given(accelerator_pool, weighted_layouts, tmp_path, 3, **changes):
        hidden = step.meanwhile("broadcast")
        beside = ["ny"[any(each.startswith(SUM) for each in behind)] for behind in hidden]
        assert "".join(beside) == 2 * ("nnn" + "nn" + "yy" + "yy"), hidden


def of_own_and_others(member):
    """Weighted sums over edges from own and received rows, and the gradient of the own rows, on the host."""
    device, world, rank = member.device, member.world, member.rank
    draw = torch.Generator().manual_seed(rank)
    counts = [0 if peer == rank else OWN - 10 * (peer + rank) for peer in range(world)]
    rows = [torch.randperm(OWN, generator=draw)[:count].int() for count in counts]
    route = Route(send_rows=torch.cat(rows).to(device), send_counts=tuple(counts), receive_counts=tuple(counts))
    sources = OWN + sum(counts)
    indptr = torch.randint(0, 9, (2 * OWN,), generator=draw).cumsum(0).int()
    indptr[0] = 0
    indices = torch.randint(0, sources, (int(indptr[-1]),), dtype=torch.int32, generator=draw)
    weight = torch.rand(len(indices), 1, generator=draw).to(device)
    x, grad = torch.randn(OWN, 16, generator=draw), torch.randn(2 * OWN - 1, 16, generator=draw)
    edges = Edges(indptr=indptr.to(device), indices=indices.to(device))
    if device.type != "cpu":
        keep_busy(device)
    x = x.to(device).requires_grad_()
    two_way = TwoWayEdges(edges, sources, int((indices < OWN).sum()))
    comm = BatchComm(member.group, ExchangeCounters(), device)
    out, _ = neighbour_sum(two_way, x, route, comm, weight=weight)
    comm.tie((out * grad.to(device)).sum()).backward()
    return out.detach().cpu(), x.grad.cpu()


def of_layers(member):
    """Gradients of three layers and a loss, summed over the trainers, on the host; one weight has none of its own."""
    device, draw = member.device, torch.Generator().manual_seed(member.rank)
    rows = torch.randn(50, 16, generator=draw).to(device)
    layers = [[nn.Parameter(torch.full((16, 16), 0.1).to(device)) for _ in range(2)] for _ in range(3)]
    parameters = [weight for layer in layers for weight in layer]
    early = EarlySums(layers, member)
    for _ in range(2):
        for weight in parameters:
            weight.grad = None
        if device.type != "cpu":
            keep_busy(device)
        early.begin()
        first, (second, unused), last = layers
        x = (rows @ first[0] @ first[1]).relu() @ second
        loss = (x @ last[0] @ last[1]).square().mean()
        loss.backward()
        total, num_bytes = reduce_gradients(parameters, loss, member, early)
        assert num_bytes == 4 * (6 * 256 + 1)
    assert not unused.grad.any()
    return [total.cpu(), *(weight.grad.cpu() for weight in parameters)]


def of_blocks(member):
    """Sums over the trainers of blocks of rows, one of them with fewer rows than trainers, on the host."""
    draw = torch.Generator().manual_seed(member.rank)
    blocks = [torch.randn(rows, 16, generator=draw).to(member.device) for rows in (7, 8, 2, 9)]
    moves = Moves(sides={"x": Side(group=member.group, size=member.world, place=member.rank)})
    if member.device.type != "cpu":
        keep_busy(member.device)
    return [y.cpu() for y in moves.all_reduced((y @ y.t() for y in blocks), "x")]


def of_chain(member, algorithm, grid, made):
    """A layer around a chain of moves, and gradients of the own sources and of the weights, on the host.

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
    layer = SAGEConv(32, 32)
    for weight in layer.parameters():
        weight.data.copy_(torch.randn(weight.shape, generator=draw) / 6)
    if device not in made:
        edges = Edges(indptr=indptr.to(device), indices=indices.to(device))
        made[device] = GridOperator(Shard(edges, None), Moves.of(member.on(plan.grid)), sources, destinations)
    comm = BatchComm(member.group, fresh_counters(), device)
    block = WholeBlock(
        num_own_sources=len(x),
        num_destinations=len(grad),
        layer=2,
        operator=made[device],
        in_degrees=torch.full((len(grad),), 3, device=device),
        in_weights=None,
        degrees=None,
        comm=comm,
    )
    layer = layer.to(device)
    if device.type != "cpu":
        keep_busy(device)
    rows = x.to(device).requires_grad_()
    out = layer(block, rows)
    comm.tie((out * grad.to(device)).sum()).backward()
    return [each.detach().cpu() for each in (out, rows.grad, *(weight.grad for weight in layer.parameters()))]


def differing(member, function, schedules):
    """The schedules under which what a function gives is other than the host's, or than it was at first."""
    member = replace(member, checker=None, mail=None)
    with library_alone():
        wanted = function(replace(member, device=CPU) if has_cpu_numbers("sim") else member)
    found = []
    for schedule in schedules:
        torch.ops.sim.set_schedule(schedule)
        if not all(map(torch.equal, function(member), wanted)):
            found.append(schedule)
    return found


@pytest.mark.parametrize("function", [of_own_and_others, of_layers, of_blocks])
def test_what_overlaps_changes_no_bit(controls, accelerator_pool, function):
    assert accelerator_pool.run(3, differing, function, SCHEDULES) == 3 * [[]]


@pytest.mark.parametrize("name", CHAINS)
def test_moves_that_overlap_change_no_bit(controls, accelerator_pool, name):
    world, changes = CHAINS[name]
    function = partial(of_chain, algorithm=changes["algorithm"], grid=changes.get("grid"), made={})
    assert accelerator_pool.run(world, differing, function, SCHEDULES) == world * [[]]
