"""What travels is hidden behind what is computed meanwhile, as a trace of the streams shows."""

from __future__ import annotations

import pytest
import torch
from support.accelerators import keep_busy
from support.traces import SCHEDULES, SUM, differing, given
from torch import nn

from gsplit.full.moves import Moves, Side
from gsplit.kernels import Edges, TwoWayEdges
from gsplit.nn import BatchComm, ExchangeCounters, Route
from gsplit.nn.aggregate import neighbour_sum
from gsplit.parallel import EarlySums, reduce_gradients

pytestmark = pytest.mark.accelerator

OWN = 100
WHOLE = {"strategy": "full", "batch_size": 512, "fan_out": (-1, -1)}
EXCHANGES = {
    "sage": {"model": "sage"},
    "gcn": {"model": "gcn", "exchange_dtype": "bfloat16"},
    "sums of rows": {"model": "sage", "exchange": "auto"},
    "whole graph": {**WHOLE, "algorithm": "1d-sparse", "train_features": 8},
}


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


@pytest.mark.parametrize("function", [of_own_and_others, of_layers, of_blocks])
def test_what_overlaps_changes_no_bit(controls, accelerator_pool, function):
    assert accelerator_pool.run(3, differing, function, SCHEDULES) == 3 * [[]]
