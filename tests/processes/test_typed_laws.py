"""Laws 2 to 4 of graphs of several types, with 1 to 5 trainers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.steps import ALONE, CPU
from support.typed_models import Case, dense_step, mailboxes_of, step_of

from gsplit.nn import BatchComm, ExchangeCounters, Route
from gsplit.nn.typed_exchange import exchange_types
from gsplit.parallel import SPLIT, trainer_grid

OPTIONS = {
    "plain": {},
    "features": {"input_projection": False},
    "bases": {"bases": 2, "residual": True},
    "batch": {"norm": "batch", "residual": True, "residual_after": True, "output_projection": True},
    "layer": {"norm": "layer", "output_projection": True},
    "rms": {"norm": "rms", "bases": 3, "input_projection": True},
    "weights": {"edge_weights": True, "norm": "layer"},
    "rgat": {"model": "rgat", "heads": 2, "norm": "batch", "residual": True},
    "rgat on features": {"model": "rgat", "heads": 3, "out_heads": 2, "input_projection": False, "norm": "layer"},
    "rgat with a head": {
        "model": "rgat",
        "heads": 6,
        "negative_slope": 0.0,
        "norm": "rms",
        "output_projection": True,
    },
    "projected features": {"hidden": 2, "input_projection": False, "projected": (1,)},
    "untyped": {"model": "untyped", "norm": "rms"},
    "untyped on features": {"model": "untyped", "width": 7, "input_projection": False, "norm": "batch"},
}


def check(steps, seed: int, options: dict) -> None:
    loss, gradients = dense_step(seed, len(steps), options)
    for step in steps:
        assert step["loss"] == pytest.approx(loss, abs=1e-10)
        assert step["gradients"].keys() == gradients.keys()
        for name, wanted in gradients.items():
            torch.testing.assert_close(step["gradients"][name], wanted, rtol=0, atol=1e-10, msg=name)
        # Law 3: one message a pair and exchange for all types.
        assert step["counters"].forward_messages == sum(step["pairs"].values())
        assert step["counters"].backward_messages == sum(step["back"].values())


@pytest.mark.parametrize("name", OPTIONS)
def test_law_2_of_a_trainer_alone(name):
    check([step_of(ALONE, 3, OPTIONS[name])], 3, OPTIONS[name])


SPLIT_CASES = [
    *((world, "plain") for world in (2, 3, 4)),
    *((3, name) for name in ("features", "bases", "batch", "layer", "rms")),
    *((2, "weights"), (4, "projected features")),
    *((2, "rgat"), (3, "rgat on features"), (4, "rgat with a head")),
    *((3, "untyped"), (4, "untyped on features")),
]


@pytest.mark.parametrize(("world", "name"), SPLIT_CASES)
def test_law_2_loss_and_all_gradients_equal_the_dense_ones(pool, world, name):
    by_memory = world == 4  # as on a host's CPU; the others send through sockets
    check(pool.run(world, step_of, 5, OPTIONS[name], by_memory), 5, OPTIONS[name])


@pytest.mark.cases(2)
@pytest.mark.parametrize("by_memory", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
def test_law_2_with_five_trainers(pool_of_five, name, by_memory):
    check(pool_of_five.run(5, step_of, 5, OPTIONS[name], by_memory), 5, OPTIONS[name])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", OPTIONS)
def test_law_2_of_many_graphs(pool, seed, name):
    for world, by_memory in ((2, True), (4, False)):
        check(pool.run(world, step_of, seed, OPTIONS[name], by_memory), seed, OPTIONS[name])


def products_in_pool(member, widths, counts):
    """<E x, y> and <x, E' y> of this trainer, over types of different widths; ``counts[type][from][to]`` rows."""
    torch.manual_seed(member.rank)
    random = np.random.default_rng(7 + member.rank)
    member = member.on(trainer_grid(member.world))
    own = [int(max(sum(of_type[member.rank]), 1)) + 2 for of_type in counts]
    routes = [
        Route(
            send_rows=torch.from_numpy(
                np.concatenate([random.permutation(n)[:count] for count in of_type[member.rank]]).astype(np.int32)
            ),
            send_counts=tuple(of_type[member.rank]),
            receive_counts=tuple(row[member.rank] for row in of_type),
            layer=2,
            always_returns=True,
        )
        for n, of_type in zip(own, counts, strict=True)
    ]
    comm = BatchComm(member.along(SPLIT), ExchangeCounters(), CPU)
    xs = [torch.randn(n, width).double().requires_grad_() for n, width in zip(own, widths, strict=True)]
    out = exchange_types(xs, routes, comm)
    ys = [torch.randn_like(rows) for rows in out]
    forward = sum((rows * y).sum() for rows, y in zip(out, ys, strict=True))
    grads = torch.autograd.grad(comm.tie(forward), xs)
    backward = sum((x * grad).sum() for x, grad in zip(xs, grads, strict=True))
    assert comm.counters.backward_messages <= member.world - 1
    return forward.item(), backward.item()


@pytest.mark.parametrize("world", [2, 4])
def test_law_4_over_tuples_of_types_of_different_widths(pool, world):
    random = np.random.default_rng(world)
    widths = [3, 1, 8, 5]
    counts = [(random.integers(0, 5, (world, world)) * (1 - np.eye(world, dtype=int))).tolist() for _ in widths]
    counts[3] = np.zeros((world, world), int).tolist()  # of one type nothing travels
    forward, backward = zip(*pool.run(world, products_in_pool, widths, counts), strict=True)
    assert sum(forward) == pytest.approx(sum(backward), rel=1e-12)


def bytes_in_pool(member, dtype, exchange_dtype, by_memory):
    """Bytes that two rows take each way; gradients that come back are exact where they are sums of ones."""
    member, peer = member.on(trainer_grid(member.world)), 1 - member.rank
    group = mailboxes_of(member) if by_memory else member.along(SPLIT)
    counts = (2, 0) if peer == 0 else (0, 2)
    rows = torch.tensor([0, 2], dtype=torch.int32)
    routes = [Route(send_rows=rows, send_counts=counts, receive_counts=counts, layer=2, always_returns=True)] * 2
    counters = ExchangeCounters()
    comm = BatchComm(group, counters, CPU, exchange_dtype=exchange_dtype)
    xs = [torch.full((3, width), float(member.rank), dtype=dtype, requires_grad=True) for width in (4, 1)]
    out = exchange_types(xs, routes, comm)
    assert all(torch.equal(each[3:], torch.full_like(each[3:], float(peer))) for each in out)
    grads = torch.autograd.grad(out, xs, [torch.ones_like(each) for each in out])
    assert all(grad.dtype == dtype and grad[:, 0].tolist() == [2, 1, 2] for grad in grads)
    return counters.forward_bytes, counters.backward_bytes


@pytest.mark.parametrize("by_memory", [False, True])
@pytest.mark.parametrize(
    ("dtype", "exchange_dtype", "itemsize"),
    [(torch.float32, None, 4), (torch.bfloat16, None, 2), (torch.float32, torch.bfloat16, 2)],
)
def test_rows_and_gradients_travel_as_short_as_they_are(pool, dtype, exchange_dtype, itemsize, by_memory):
    assert pool.run(2, bytes_in_pool, dtype, exchange_dtype, by_memory) == [(10 * itemsize, 10 * itemsize)] * 2


def test_rows_of_several_dtypes_are_refused():
    comm = BatchComm(None, ExchangeCounters(), CPU)
    nothing = Route(send_rows=torch.zeros(0, dtype=torch.int32), send_counts=(0,), receive_counts=(0,))
    with pytest.raises(ValueError, match=r"one dtype, not in torch\.float32, torch\.float64"):
        exchange_types([torch.ones(1, 1), torch.ones(1, 1).double()], [nothing, nothing], comm)


def test_bases_of_sources_of_several_widths_are_refused():
    with pytest.raises(
        ValueError, match=r"bases need sources of one width, .*\[3, 4, 5, 9\]; use an input projection"
    ):
        Case(0, 1, bases=2, input_projection=False)
