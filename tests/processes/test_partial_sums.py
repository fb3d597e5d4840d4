"""Laws 2 to 4 where trainers send each other sums of rows in the place of rows, with 2, 3 and 4 of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from support.gradients import assert_near_step, assert_same_step
from support.messages import line_with
from support.models import WEIGHTED
from support.steps import ALONE, CPU, Step, targets_of, targets_of_first

from gsplit.data import open_layout
from gsplit.kernels import Edges, TwoWayEdges
from gsplit.nn import BatchComm, ExchangeCounters, GATConv, Route
from gsplit.nn.aggregate import neighbour_sum

FAN_OUTS = [4, 3, 5]
EACH = ["sage", "gcn", "weighted-gcn"]
OPTIONS = ["sage-wide", "sage-batch-norm", "sage-projected", "gcn-mean", "gcn-no-loops", "weighted-gcn-mean"]
CASES = [*itertools.product((2, 3, 4), EACH), *((3, name) for name in OPTIONS)]


def step_with(member, path, targets, dtype, name, sums):
    step = Step(member, open_layout(path), targets, FAN_OUTS, dtype, name, sums=sums)
    layers = step.segment.layers.values()
    return {
        "step": step.gradients(),
        "exchanged": step.counters,
        "sent": np.array([layer.send_counts for layer in layers]),
        "received": np.array([layer.receive_counts for layer in layers]),
        "rows_summed": sum(layer.num_summed_edges for layer in layers),
        "sums": sum(int((np.diff(step.segment.send_indptr(layer)) > 1).sum()) for layer in step.segment.layers),
        "drawn": step.segment.num_edges,
        "computed": step.segment.num_computed_edges,
    }


@pytest.mark.cases(10)
@pytest.mark.parametrize("method", ["metis", "random"])
@pytest.mark.parametrize(("world", "name"), CASES)
def test_law_2_same_loss_and_gradient_as_one_process(pool, layouts, weighted_layouts, world, name, method):
    of = weighted_layouts if name in WEIGHTED else layouts
    whole, split = of(1), of(world, method)
    targets = targets_of(whole)
    loss, gradients = Step(ALONE, whole, targets, FAN_OUTS, torch.float64, name).gradients()
    results = pool.run(world, step_with, split.path, targets, torch.float64, name, True)
    assert sum(result["rows_summed"] for result in results) > 0
    assert_same_step([result["step"] for result in results], loss, gradients)


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_2_when_trainers_have_no_targets(pool, layouts, weighted_layouts, world, name):
    of = weighted_layouts if name in WEIGHTED else layouts
    whole, split = of(1), of(world)
    for count in (1, None):
        targets = targets_of_first(split, count)
        loss, gradients = Step(ALONE, whole, targets, FAN_OUTS, torch.float64, name).gradients()
        results = pool.run(world, step_with, split.path, targets, torch.float64, name, True)
        assert_near_step([result["step"] for result in results], loss, gradients)


@pytest.mark.parametrize("method", ["metis", "random"])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_3_one_message_a_pair_of_no_more_rows_and_no_edge_summed_twice(pool, layouts, world, method):
    layout = layouts(world, method)
    targets = targets_of(layout)
    rows, sums = (
        pool.run(world, step_with, layout.path, targets, torch.float32, "gcn", sums) for sums in (False, True)
    )
    width = (5, 8, 3)  # of what travels before each layer: features, hidden, and the last layer projects first
    for mine, of_rows in zip(sums, rows, strict=True):
        assert (mine["sent"] <= of_rows["sent"]).all()
        assert ((mine["sent"] > 0) == (of_rows["sent"] > 0)).all()
        assert mine["exchanged"].forward_messages == (mine["sent"] > 0).sum()
        assert mine["exchanged"].backward_messages == (mine["received"][1:] > 0).sum()
        assert mine["exchanged"].forward_bytes == 4 * (mine["sent"].sum(1) * width).sum()
        assert mine["exchanged"].backward_bytes == 4 * (mine["received"].sum(1) * width)[1:].sum()
        assert mine["exchanged"].forward_bytes <= of_rows["exchanged"].forward_bytes
        assert mine["exchanged"].backward_bytes <= of_rows["exchanged"].backward_bytes
        assert mine["drawn"] == of_rows["drawn"] == of_rows["computed"]
    assert sum(mine["sent"].sum() for mine in sums) < sum(of_rows["sent"].sum() for of_rows in rows)
    # An edge is computed once, and each sum adds the one from itself to the destination.
    assert sum(mine["computed"] - mine["drawn"] for mine in sums) == sum(mine["sums"] for mine in sums) > 0


def products_of_sums(member, seed, weighted):
    """This trainer's share of <E x, y> and <x, E' y>; E sends random sums, and each destination takes all."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 4, (member.world, member.world))
    np.fill_diagonal(counts, 0)
    if seed == 1:
        counts[0, :] = 0  # a trainer that sends nothing
    num_own, received = 6, int(counts[:, member.rank].sum())
    own = np.random.default_rng([seed, member.rank])
    lengths = own.integers(1, 4, counts[member.rank].sum())
    indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    send_rows = torch.from_numpy(own.integers(0, num_own, lengths.sum()).astype(np.int32))
    route = Route(
        send_rows=send_rows,
        send_counts=tuple(counts[member.rank].tolist()),
        receive_counts=tuple(counts[:, member.rank].tolist()),
        sums=TwoWayEdges(Edges(indptr=indptr, indices=send_rows), num_own),
        sum_weight=torch.from_numpy(own.random((len(send_rows), 1))) if weighted else None,
    )
    sources = num_own + received
    indices = torch.arange(sources, dtype=torch.int32).repeat(2)
    edges = Edges(indptr=torch.tensor([0, sources, 2 * sources], dtype=torch.int32), indices=indices)
    comm = BatchComm(member.group, ExchangeCounters(), CPU)
    torch.manual_seed(100 * seed + member.rank)
    x = torch.randn(num_own, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(2 * sources, 1, dtype=torch.float64)
    out, _ = neighbour_sum(TwoWayEdges(edges, sources), x, route, comm, weight=weight)
    y = torch.randn_like(out)
    (adjoint,) = torch.autograd.grad(out, x, y)
    return (out * y).sum().item(), (x * adjoint).sum().item()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_4_backward_is_the_adjoint_of_forward(pool, world, seed, weighted):
    results = pool.run(world, products_of_sums, seed, weighted)
    forward, backward = (sum(result[i] for result in results) for i in range(2))
    assert forward == pytest.approx(backward, rel=1e-12)
    assert forward != 0


def what_is_refused(member, path, targets):
    """Messages of the calls that want rows, on a trainer that sends or receives sums, and what a block counts."""
    step = Step(member, open_layout(path), targets, FAN_OUTS, torch.float64, "gcn", sums=True)
    block, x = step.blocks[1], step.x
    calls = (
        lambda: block.exchange(x),
        lambda: block.out_degrees(),
        lambda: GATConv(x.shape[1], 4).double()(block, x),
    )
    messages = []
    for call in calls:
        with pytest.raises(ValueError, match=line_with("--exchange rows")) as raised:
            call()
        messages.append(str(raised.value))
    return messages, bool((block.in_degrees() >= block.indptr.diff()).all())


def test_the_rows_of_sources_are_refused_in_one_line(pool, layouts):
    layout = layouts(2)
    for messages, more in pool.run(2, what_is_refused, layout.path, targets_of(layout)):
        assert len(messages) == 3
        assert not any("\n" in message for message in messages)
        assert more
