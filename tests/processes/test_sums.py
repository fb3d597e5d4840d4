"""Sums with the exchange inside, on several trainers: who takes part in backward, and what travels in which type."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.graphs import random_graph
from support.steps import CPU

from gsplit.engine.inputs import blocks_of
from gsplit.nn import BatchComm, ExchangeCounters, GATConv, SAGEConv
from gsplit.parallel import Member
from gsplit.sampling import MiniBatchSampler

N = 120


def layer_of(member: Member, exchange_dtype=None, layer=2):
    """A layer of a mini-batch that all trainers split, and its communicator."""
    graph = random_graph(N, 9, seed=8)
    offsets = np.linspace(0, N, member.world + 1).astype(int).tolist()
    sampler = MiniBatchSampler(graph.indptr, graph.indices, offsets, fan_outs=[4, 4], seed=0)
    sampler.sample(np.arange(0, N, 2), epoch=0, batch=0)
    comm = BatchComm(member.group, ExchangeCounters(), CPU, exchange_dtype=exchange_dtype)
    return blocks_of(sampler.segment(member.rank), CPU, comm)[layer], comm


def conv_of(name, width):
    torch.manual_seed(0)
    convs = {
        "widening": lambda: SAGEConv(width, 2 * width),
        "narrowing": lambda: SAGEConv(width, 3),
        "gat": lambda: GATConv(width, 4, heads=2),
    }
    return convs[name]().double()


def without_the_layer(member, name):
    """One trainer's loss does not depend on the layer; the others' gradients are waited for all the same."""
    block, comm = layer_of(member)
    torch.manual_seed(member.rank)
    x = torch.randn(block.num_own_sources, 6, dtype=torch.float64, requires_grad=True)
    out = conv_of(name, 6)(block, x)
    loss = out.new_zeros(()) if member.rank == 0 else (out**2).sum()
    comm.tie(loss).backward()
    return bool((x.grad != 0).any())


@pytest.mark.parametrize("name", ["widening", "narrowing", "gat"])
@pytest.mark.parametrize("world", [2, 3])
def test_a_loss_without_the_layer_still_takes_part(pool, world, name):
    assert pool.run(world, without_the_layer, name) == [True] * world  # of trainer 0 by what came back


def without_gradient(member, name):
    """Before a later layer rows may want no gradient on one trainer; its part of backward is waited for."""
    block, comm = layer_of(member)
    assert block.route.always_returns
    x = torch.ones(block.num_own_sources, 6, dtype=torch.float64, requires_grad=member.rank > 0)
    conv = conv_of(name, 6).requires_grad_(False)
    comm.tie(conv(block, x).sum()).backward()
    return (x.grad is None) == (member.rank == 0)


@pytest.mark.parametrize("name", ["widening", "narrowing", "gat"])
@pytest.mark.parametrize("world", [2, 3])
def test_rows_that_want_no_gradient_return_those_of_others(pool, world, name):
    assert pool.run(world, without_gradient, name) == [True] * world


def results_in(member, dtype, name):
    """Bytes sent both ways, the result, and gradients of rows, with rows that bfloat16 rounds."""
    block, comm = layer_of(member, dtype)
    torch.manual_seed(member.rank)
    x = torch.randn(block.num_own_sources, 6, requires_grad=True)
    out = conv_of(name, 6).float()(block, x)
    comm.tie((out**2).sum()).backward()
    return comm.counters.forward_bytes, comm.counters.backward_bytes, out.detach(), x.grad


@pytest.mark.parametrize("name", ["widening", "narrowing", "gat"])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_bfloat16_halves_the_bytes_of_both_ways(pool, world, name):
    exact = pool.run(world, results_in, None, name)
    rounded = pool.run(world, results_in, torch.bfloat16, name)
    differs = False
    for (forward, backward, out, grad), (forward_half, backward_half, out_half, grad_half) in zip(
        exact, rounded, strict=True
    ):
        assert (2 * forward_half, 2 * backward_half) == (forward, backward)
        assert min(forward, backward) > 0
        for ours, theirs in ((out_half, out), (grad_half, grad)):  # 8 bits of mantissa, and sums of some 10 terms
            assert (ours - theirs).norm() <= 2**-7 * theirs.norm()
        differs |= not torch.equal(out, out_half)
    assert differs


def sums_of_whole_numbers(member):
    """Rows of ones in bfloat16 on the wire: sums are taken in float32, or counts above 256 would stop growing."""
    block, comm = layer_of(member, torch.bfloat16)
    x = torch.ones(block.num_own_sources, 1, requires_grad=True)
    (block.sum(x) * 1000).sum().backward()
    sent = torch.bincount(block.indices, minlength=block.num_sources)[: block.num_own_sources]
    return (
        bool((x.grad.squeeze(1) >= 1000 * sent).all()),
        bool((block.sum(x.detach()).squeeze(1) == block.in_degrees()).all()),
        comm.world,
    )


@pytest.mark.parametrize("world", [2, 3])
def test_counts_on_the_wire_are_counted(pool, world):
    assert pool.run(world, sums_of_whole_numbers) == [(True, True, world)] * world
