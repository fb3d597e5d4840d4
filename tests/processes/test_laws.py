"""Laws 2 to 4 with 2, 3 and 4 trainers."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import torch
from support.gradients import assert_near_step
from support.models import DGL, OURS, OWN, PYG, WEIGHTED, names
from support.reference import splits_of
from support.steps import ALONE, CPU, Step, targets_of, targets_of_first

from gsplit.data import open_layout
from gsplit.device.precision import Precision
from gsplit.nn import BatchComm, ExchangeCounters, Route, exchange

FAN_OUTS = [4, 3, 5]
DIFFERENCE = 1e-6


def step_in_pool(member, path, targets, dtype, name):
    step = Step(member, open_layout(path), targets, FAN_OUTS, dtype, name)
    loss, gradients = step.gradients()
    return {
        "loss": loss,
        "gradients": gradients,
        "exchanged": step.counters,
        "loaded": step.loader.counters,
        "vertices": step.segment.vertices.copy(),
        "edges": step.segment.num_edges,
        "levels": step.segment.level_sizes,
    }


@functools.cache
def steps_alone(path, count, dtype, name):
    """Loss and gradients of one process that has everything: the same, however many trainers are held against it."""
    layout = open_layout(path)
    return step_alone(layout, targets_of(layout, count), dtype, name)


def step_alone(layout, targets, dtype, name):
    return Step(ALONE, layout, targets, FAN_OUTS, dtype, name).gradients()


EACH = [
    *("sage", "gat", "gcn", "weighted-gcn"),
    *("pyg-SAGEConv", "pyg-GATConv", "pyg-GATv2Conv", "pyg-GINConv", "pyg-GCNConv", "pyg-TransformerConv"),
    *("dgl-SAGEConv", "dgl-GATConv", "dgl-GraphConv-right", "dgl-GraphConv-both"),
]
"""With every number of trainers; their options and other ways to write a model with 3."""
OPTIONS = [name for table in (OURS, PYG, DGL, WEIGHTED, OWN) for name in table if name not in EACH]


def cases(*worlds):
    """(world, name) of all models."""
    pairs = [*itertools.product(worlds, EACH), *itertools.product([3], OPTIONS)]
    return [pytest.param(world, *named.values, marks=named.marks) for world, name in pairs for named in names([name])]


@pytest.mark.cases(26)
@pytest.mark.parametrize(("world", "name"), cases(2, 3, 4))
def test_law_2_same_loss_and_gradient_as_one_process(pool, layouts, weighted_layouts, world, name):
    of = weighted_layouts if name in WEIGHTED else layouts
    compare_with_one_process(pool, of(1), of(world), world, name)


@pytest.mark.parametrize("name", ["sage", "gat-all", "gcn"])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_2_under_a_random_partition(pool, layouts, world, name):
    compare_with_one_process(pool, layouts(1), layouts(world, "random"), world, name)


def compare_with_one_process(pool, whole, split, world, name):
    targets = targets_of(whole, 61)
    _, exact = steps_alone(whole.path, 61, torch.float64, name)
    for dtype in (torch.float64, torch.float32):
        wanted_loss, wanted = steps_alone(whole.path, 61, dtype, name)
        results = pool.run(world, step_in_pool, split.path, targets, dtype, name)
        for result in results:
            if dtype == torch.float64:
                assert result["loss"] == pytest.approx(wanted_loss, rel=1e-10)
            assert result["gradients"].keys() == exact.keys()
            # Some gradients are 0 but for rounding: of a bias before batch normalisation, of one that shifts all
            # scores of a softmax. They are measured by the size of the others. What is added up to 0 is as large as
            # those, too, so in float32 a few roundings of that size are left, more or fewer by chance, also alone.
            largest = max(gradient.norm().item() for gradient in exact.values())
            for key, gradient in result["gradients"].items():
                size = exact[key].norm().item()
                norm = max(size, 1e-3 * largest)
                error = (gradient.double() - wanted[key].double()).norm().item() / norm
                alone = (wanted[key].double() - exact[key]).norm().item() / norm
                rounding = torch.finfo(torch.float32).eps * largest / norm if size < 1e-12 * largest else 0.0
                assert error <= (1e-10 if dtype == torch.float64 else max(1e-5, 4 * alone, 4 * rounding)), key
        for result in results[1:]:  # bit-equal everywhere
            assert all(torch.equal(g, results[0]["gradients"][n]) for n, g in result["gradients"].items())


def mixed_step(member, path, targets, name, sums):
    layout = open_layout(path)
    step = Step(member, layout, targets, FAN_OUTS, None, name, sums=sums, precision=Precision.named("bf16-mixed"))
    return step.gradients()


@pytest.mark.parametrize(("name", "sums"), [("sage", False), ("sage", True), ("gcn", False), ("gat", False)])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_2_in_mixed_precision(pool, layouts, world, name, sums):
    """As one process in the same precision, but for roundings of what crosses.

    Hidden rows cross as they are, so forward differs by the order of float32 sums, and by what that decides of a
    rounding to bfloat16; where sums cross, by one rounding more of each. Backward, of each gradient the part that
    crosses is rounded once more. A rounding is off by at most u = 2^-8 of what is rounded, each layer has one forward
    and one backward, and in the norm they add up to 2 L u at most; a bias before a normalisation is 0 but for that.
    """
    whole, split = layouts(1), layouts(world)
    targets = targets_of(whole, 61)
    loss, wanted = mixed_step(ALONE, whole.path, targets, name, False)
    results = pool.run(world, mixed_step, split.path, targets, name, sums)
    bound, largest = 2 * len(FAN_OUTS) * 2**-8, max(gradient.norm().item() for gradient in wanted.values())
    for own_loss, gradients in results:
        assert own_loss == pytest.approx(loss, rel=bound)
        for key, gradient in gradients.items():
            assert gradient.dtype == torch.float32
            assert (gradient - wanted[key]).norm() <= bound * max(wanted[key].norm().item(), 0.05 * largest), key
            assert torch.equal(gradient, results[0][1][key])


@pytest.mark.cases(9)
@pytest.mark.parametrize(
    "name",
    [
        *("sage", "gat-all", "gcn-batch-norm", "pyg-GATConv", "pyg-own-batch-norm", "pyg-GCN-lstm"),
        *("dgl-GATConv", "dgl-GraphConv-both", "own-twice"),
    ],
)
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_2_when_trainers_have_no_targets(pool, layouts, world, name):
    whole, split = layouts(1), layouts(world)
    # All targets in the first part: the others compute no loss, but their rows count.
    for count, dtype in itertools.product((1, None), (torch.float64, torch.float32)):
        targets = targets_of_first(split, count)
        loss, wanted = step_alone(whole, targets, dtype, name)
        near = {} if dtype == torch.float64 else {"rel": 1e-3, "rtol": 1e-3, "atol": 1e-5}
        results = pool.run(world, step_in_pool, split.path, targets, dtype, name)
        assert_near_step([(result["loss"], result["gradients"]) for result in results], loss, wanted, **near)


@pytest.mark.parametrize("method", ["metis", "random"])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_3_nothing_loaded_computed_or_sent_twice(pool, layouts, world, method):
    layout = layouts(world, method)
    targets = targets_of(layout, 50)
    results = pool.run(world, step_in_pool, layout.path, targets, torch.float32, "sage")
    local = np.argsort(layout.permutation)[targets]
    reference = splits_of(layout, local, FAN_OUTS, seed=1)

    inputs = set().union(*(split.vertices for split in reference))
    assert sum(r["loaded"].rows for r in results) == len(inputs)
    assert set(np.concatenate([r["vertices"] for r in results]).tolist()) == inputs
    row_bytes = layout.graph.num_features * 4
    assert sum(r["loaded"].host_to_device_bytes for r in results) == len(inputs) * row_bytes
    edges = sum(len(row) for split in reference for rows in split.edges.values() for row in rows)
    assert sum(r["edges"] for r in results) == edges
    for level in range(len(FAN_OUTS) + 1):
        vertices = [v for split in reference for v in split.vertices[: split.level_sizes[level]]]
        assert sum(r["levels"][level] for r in results) == len(set(vertices)) == len(vertices)

    # A message for each layer and each pair with a row to send, and no other.
    pairs = sum(len(needed) > 0 for s in reference for lists in s.received.values() for needed in lists)
    assert sum(r["exchanged"].forward_messages for r in results) == pairs
    assert 0 < pairs <= len(FAN_OUTS) * world * (world - 1)
    # The first layer exchanges features, which no gradient belongs to; so nothing comes back for it.
    first = sum(len(needed) > 0 for s in reference for needed in s.received[1])
    assert sum(r["exchanged"].backward_messages for r in results) == pairs - first


def random_route(rank, world, seed, num_own, *, always_returns=False):
    """The same random table of counts on all ranks; this rank's rows of it."""
    counts = np.random.default_rng(seed).integers(0, 5, (world, world))
    np.fill_diagonal(counts, 0)
    if seed == 2:
        counts[0, :] = 0  # a rank that sends nothing
    rows = np.random.default_rng([seed, rank]).integers(0, num_own, counts[rank].sum())
    return Route(
        send_rows=torch.from_numpy(rows.astype(np.int32)),
        send_counts=tuple(counts[rank].tolist()),
        receive_counts=tuple(counts[:, rank].tolist()),
        always_returns=always_returns,
    )


def inner_products(member, seed, trailing):
    num_own = 6
    route = random_route(member.rank, member.world, seed, num_own)
    comm = BatchComm(member.group, ExchangeCounters(), CPU)
    torch.manual_seed(100 * seed + member.rank)
    x = torch.randn(num_own, *trailing, dtype=torch.float64, requires_grad=True)
    out = exchange(x, route, comm)
    y = torch.randn_like(out)
    (adjoint,) = torch.autograd.grad(out, x, y)
    return (out * y).sum().item(), (x * adjoint).sum().item()


@pytest.mark.parametrize("trailing", [(), (3,), (2, 4)])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_4_backward_is_the_adjoint_of_forward(pool, world, seed, trailing):
    results = pool.run(world, inner_products, seed, trailing)
    forward, backward = (sum(r[i] for r in results) for i in range(2))
    assert forward == pytest.approx(backward, rel=1e-12)
    assert forward != 0


def slope_two_ways(member, path, targets, name):
    """This trainer's share of <J v, y>, by differences, and of <v, J' y>, by backward; J of the whole model."""
    step = Step(member, open_layout(path), targets, FAN_OUTS, torch.float64, name)
    random = torch.Generator().manual_seed(member.rank)
    v = torch.randn(step.x.shape, generator=random, dtype=torch.float64)
    step.x.requires_grad_(True)
    out = step.model(step.blocks, step.x)
    y = torch.randn(out.shape, generator=random, dtype=torch.float64)
    step.comm.tie((out * y).sum()).backward()
    with torch.no_grad():
        ahead, behind = (step.model(step.blocks, step.x + h * v) for h in (DIFFERENCE, -DIFFERENCE))
    return ((ahead - behind) / (2 * DIFFERENCE) * y).sum().item(), (v * step.x.grad).sum().item()


@pytest.mark.cases(24)
@pytest.mark.parametrize(("world", "name"), cases(1, 2, 3, 4))
def test_law_4_backward_of_every_model_is_the_adjoint_of_its_forward(pool, layouts, weighted_layouts, world, name):
    layout = (weighted_layouts if name in WEIGHTED else layouts)(world)
    results = pool.run(world, slope_two_ways, layout.path, targets_of(layout, 61), name)
    forward, backward = (sum(r[i] for r in results) for i in range(2))
    assert forward == pytest.approx(backward, rel=1e-6)
    assert abs(forward) > 1e-3


def rows_received(member):
    num_own = 4
    route = random_route(member.rank, member.world, 0, num_own)
    comm = BatchComm(member.group, ExchangeCounters(), CPU)
    x = (100 * member.rank + torch.arange(num_own, dtype=torch.float32)).unsqueeze(1)
    return exchange(x, route, comm).squeeze(1).tolist(), route.send_rows.tolist(), route.send_counts


@pytest.mark.parametrize("world", [2, 3, 4])
def test_exchange_brings_the_rows_asked_for_in_order(pool, world):
    results = pool.run(world, rows_received)
    for rank, (received, _, _) in enumerate(results):
        wanted = [100.0 * rank + row for row in range(4)]
        for peer, (_, rows, counts) in enumerate(results):
            begin = sum(counts[:rank])
            wanted += [100.0 * peer + row for row in rows[begin : begin + counts[rank]]]
        assert received == wanted


def two_branches(member):
    """Two exchanges that do not depend on each other: only the token says which backward comes first."""
    route = random_route(member.rank, member.world, 0, 5)
    comm = BatchComm(member.group, ExchangeCounters(), CPU)
    x = torch.ones(5, 3, dtype=torch.float64, requires_grad=True)
    narrow, wide = exchange(x * 2, route, comm), exchange(torch.cat([x, x], dim=1), route, comm)
    # Autograd walks the branch added last first; the ranks disagree about which that is.
    parts = [narrow.sum(), wide.sum()]
    loss = parts[0] + parts[1] if member.rank % 2 else parts[1] + parts[0]
    comm.tie(loss).backward()
    sent = np.bincount(route.send_rows.numpy(), minlength=5)
    return bool((x.grad == torch.from_numpy(4.0 * (1 + sent)).unsqueeze(1)).all())


@pytest.mark.parametrize("world", [2, 3, 4])
def test_independent_exchanges_run_backward_in_one_order(pool, world):
    assert pool.run(world, two_branches) == [True] * world


def unused_rows(member):
    """A trainer whose loss does not depend on what it received must still send the (zero) gradients back."""
    route = random_route(member.rank, member.world, 1, 5)
    comm = BatchComm(member.group, ExchangeCounters(), CPU)
    x = torch.ones(5, 2, requires_grad=True)
    out = exchange(x, route, comm)
    loss = out.sum() if member.rank == 0 else out.new_zeros(())
    comm.tie(loss).backward()
    return x.grad is not None


@pytest.mark.parametrize("world", [2, 3])
def test_a_loss_without_the_exchange_still_takes_part(pool, world):
    assert pool.run(world, unused_rows) == [True] * world


def zeros_of_one_trainer(member):
    """Before a later layer a trainer may hold rows that want no gradient; its part of backward is waited for."""
    route = random_route(member.rank, member.world, 0, 5, always_returns=True)
    comm = BatchComm(member.group, ExchangeCounters(), CPU)
    x = torch.ones(5, 2, dtype=torch.float64, requires_grad=True)
    rows = torch.zeros_like(x) if member.rank == 0 else x * 2
    comm.tie(exchange(rows, route, comm).sum()).backward()
    sent = np.bincount(route.send_rows.numpy(), minlength=5)
    messages = sum(count > 0 for count in route.receive_counts)
    wanted = None if member.rank == 0 else torch.from_numpy(2.0 * (1 + sent)).unsqueeze(1).expand(5, 2)
    return comm.counters.backward_messages == messages and (
        x.grad is None if wanted is None else torch.equal(x.grad, wanted)
    )


@pytest.mark.parametrize("world", [2, 3, 4])
def test_rows_of_a_later_layer_always_return(pool, world):
    assert pool.run(world, zeros_of_one_trainer) == [True] * world


def messages_of_features(member):
    """Messages in backward so far, after exchanges before layer 1 of features, of features again, of projections."""
    route = random_route(member.rank, member.world, 0, 5)
    comm = BatchComm(member.group, ExchangeCounters(), CPU)
    features, weight = torch.ones(5, 2), torch.ones(2, 3, requires_grad=True)
    messages = []
    for x in (features, features, features @ weight):
        comm.tie(exchange(x, route, comm).sum()).backward()
        messages.append(comm.counters.backward_messages)
    return messages, sum(count > 0 for count in route.receive_counts)


@pytest.mark.parametrize("world", [2, 3])
def test_features_return_nothing_however_often_they_are_exchanged(pool, world):
    for messages, peers in pool.run(world, messages_of_features):
        assert messages == [0, 0, peers]
        assert peers > 0
