"""Numbers other than the CPU's: other draws, sums in another order, atomic operations in a new one at each call."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from support.messages import line_with

pytestmark = pytest.mark.accelerator

DRAWS = torch.Generator().manual_seed(1)
X = torch.randn(400, 33, generator=DRAWS)
INDEX = torch.randint(0, 5, (400,), generator=DRAWS)
OFFSETS = torch.tensor([0, 100, 100, 400])


@pytest.fixture(autouse=True)
def other(sim):
    """Other numbers, whatever the tests run with."""
    before = sim.numbers()
    sim.set_numbers("cuda")
    yield
    sim.set_numbers(before)


def put(index, x):
    return x.new_zeros(5, 33).index_put_((index,), x, accumulate=True)


def scattered(index, x):
    return x.new_zeros(5, 33).scatter_add_(0, index.unsqueeze(1).expand(-1, 33), x)


ATOMIC = {
    "index_add": lambda index, x: x.new_zeros(5, 33).index_add_(0, index.int(), x),
    "index_add along columns": lambda index, x: x.new_zeros(33, 5).index_add_(1, index, x.t()),
    "index_put": put,
    "scatter_add": scattered,
    "gradient of index_select": lambda index, x: torch.autograd.grad(
        (rows := x[:5].clone().requires_grad_()).index_select(0, index), rows, x
    )[0],
}
FIXED = {
    "mm": lambda index, x: x.t() @ x,
    "addmm": lambda index, x: torch.addmm(x[0], x, x[:33]),
    "bmm": lambda index, x: torch.bmm(x.view(4, 100, 33).transpose(1, 2), x.view(4, 100, 33)),
    "sum": lambda index, x: x.sum(0),
    "mean": lambda index, x: x.mean(),
    "norm": lambda index, x: x.norm(),
    "bags": lambda index, x: F.embedding_bag(index, x[:5], OFFSETS.to(x.device), mode="sum"),
    "cross_entropy": lambda index, x: F.cross_entropy(x, index),
}


@pytest.mark.parametrize("name", FIXED)
def test_sums_are_in_another_order_which_stays_the_same(sim, name):
    index, x = INDEX.to("sim"), X.to("sim")
    wanted = FIXED[name](INDEX, X)
    first, again = (FIXED[name](index, x).cpu() for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, wanted)
    torch.testing.assert_close(first, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ATOMIC)
def test_atomic_operations_come_in_an_order_drawn_from_the_schedule_s_seed(sim, name):
    index, x = INDEX.to("sim"), X.to("sim")
    wanted, found = ATOMIC[name](INDEX, X), {}
    for schedule in ("random:1", "random:2", "random:1"):
        sim.set_schedule(schedule)
        found.setdefault(schedule, []).append([ATOMIC[name](index, x).cpu() for _ in range(2)])
    (one, again), (two,) = found["random:1"], found["random:2"]
    assert all(map(torch.equal, one, again))
    assert not torch.equal(*one)
    assert not any(torch.equal(x, y) for x in one for y in two)
    for each in (*one, *two):
        torch.testing.assert_close(each, wanted, rtol=1e-5, atol=1e-4)


def test_atomic_operations_without_repeats_give_the_cpu_s_bits(sim):
    index = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    wanted, found = (x.new_ones(400, 33).index_add_(0, index.to(x.device), x).cpu() for x in (X, X.to("sim")))
    assert torch.equal(found, wanted)


def test_draws_are_others_and_follow_from_the_seed(sim):
    drawn = {}
    for device in ("cpu", "sim", "sim"):
        torch.manual_seed(3)
        own = torch.Generator(device).manual_seed(3)
        drops = F.dropout(torch.ones(1000, device=device), 0.3).cpu()
        drawn.setdefault(device, []).append((drops, torch.rand(1000, device=device, generator=own).cpu()))
        assert own.initial_seed() == 3
    (wanted,), (one, again) = drawn["cpu"], drawn["sim"]
    assert all(map(torch.equal, one, again))
    assert not any(map(torch.equal, one, wanted))
    assert 0.25 < (one[0] == 0).float().mean() < 0.35


def test_the_state_of_draws_is_kept_and_given_back_as_cuda_s_is(sim):
    state = torch.sim.get_rng_state("sim:1")
    with torch.random.fork_rng(devices=[1], device_type="sim"):
        first = torch.rand(9, device="sim:1").cpu()
    assert torch.equal(torch.sim.get_rng_state(1), state)
    assert torch.equal(torch.rand(9, device="sim:1").cpu(), first)
    torch.sim.set_rng_state(state, "sim:1")
    assert torch.equal(torch.rand(9, device="sim:1").cpu(), first)


def test_other_words_are_refused(sim):
    with pytest.raises(ValueError, match=line_with("other, cpu, cuda")):
        sim.set_numbers("other")
