"""Streams of the simulated accelerator run later, events order them, errors stay, and waits are counted by name."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
import torch
from support.messages import line_with

pytestmark = pytest.mark.accelerator

N = 1000


def device():
    return torch.device("sim", 0)


def ones(count=N):
    x = torch.ones(count, device=device())
    torch.accelerator.synchronize(device())
    return x


def test_nothing_that_was_not_waited_for_has_happened(sim):
    x, host = ones(), torch.zeros(N).pin_memory()
    host.copy_(x, non_blocking=True)
    assert not torch.accelerator.current_stream(device()).query()  # asking lets a lazy stream get on
    sim.set_schedule("lazy:3000")
    torch.accelerator.synchronize(device())
    assert host.sum() == N


def test_a_lazy_task_begins_by_itself_in_the_end(sim):
    sim.set_schedule("lazy:50")
    host = torch.zeros(1).pin_memory()
    begun = time.monotonic()
    host.copy_(torch.ones(1, device=device()), non_blocking=True)
    while host.item() != 1:
        assert time.monotonic() - begun < 20
        time.sleep(0.001)
    assert time.monotonic() - begun >= 0.05


def consumed(forgotten):
    """What a stream computes of what another one makes, with and without the event between them."""
    x, producer, consumer = ones(), torch.Stream(device()), torch.Stream(device())
    with producer:
        x.mul_(2)
        made = producer.record_event()
    if not forgotten:
        consumer.wait_event(made)
    with consumer:
        y = x + 1
    consumer.synchronize()
    torch.accelerator.synchronize(device())
    return y.cpu()


def test_an_event_orders_two_streams(scheduled):
    assert (consumed(forgotten=False) == 3).all()


def test_a_forgotten_event_shows(sim):
    assert (consumed(forgotten=True) == 2).all()


SEEDS = range(200)
"""A quarter of the tasks begin late, so a seed shows a mistake that it could about every fifth time."""


def test_random_delays_show_a_forgotten_event_for_some_seed_and_none_that_is_there(sim):
    for seed in SEEDS:
        sim.set_schedule(f"random:{seed}")
        assert (consumed(forgotten=False) == 3).all()
        if (consumed(forgotten=True) != 3).any():
            return
    pytest.fail("no seed shows it")


def test_an_event_is_that_of_its_last_record_and_says_how_far_it_is(scheduled):
    stream, event = torch.Stream(device()), torch.Event(device())
    assert event.query()  # never recorded
    with stream:
        x = torch.ones(N, device=device())
        event.record(stream)
        event.synchronize()
        assert event.query()
        x += 1
        event.record(stream)
    stream.wait_event(event)
    stream.wait_stream(torch.accelerator.current_stream(device()))
    event.synchronize()
    assert (x.cpu() == 2).all()


def test_times_of_events(scheduled):
    begin, end = (torch.Event(device(), enable_timing=True) for _ in range(2))
    begin.record()
    x = torch.ones(200, 200, device=device())
    for _ in range(5):
        x = x @ x / 200
    end.record()
    end.synchronize()
    assert 0 < begin.elapsed_time(end) < 10_000
    untimed = torch.Event(device())
    untimed.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        untimed.elapsed_time(end)


def test_backward_runs_on_the_stream_of_forward(scheduled):
    x, side = ones().requires_grad_(), torch.Stream(device())
    side.wait_stream(torch.accelerator.current_stream(device()))
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            seen.append(torch.accelerator.current_stream(device()))
            return gradient * 2

    with side:
        y = Double.apply(x).sum()
    y.backward()
    torch.accelerator.current_stream(device()).wait_stream(side)
    assert seen == [side]
    assert (x.grad.cpu() == 2).all()


def test_an_error_names_its_operator_and_comes_at_each_wait_from_then_on(scheduled):
    x, index = ones(), torch.full((3,), N, device=device())
    taken = x.index_select(0, index)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=line_with("sim:0, aten::index_select")):
            torch.accelerator.synchronize(device())
    with pytest.raises(RuntimeError, match=line_with("aten::index_select")):
        taken.cpu()
    assert (torch.ones(3, device="sim:1") + 1).sum().item() == 6  # another device works
    scheduled.clear_errors()
    assert ones().sum().item() == N


def test_a_device_that_is_told_to_fails_at_some_task(scheduled):
    x = ones()
    scheduled.fail_after(0, 5)
    for _ in range(5):
        x.add_(1)
    torch.accelerator.synchronize(device())
    x.add_(1)
    with pytest.raises(RuntimeError, match=line_with("sim:0")):
        torch.accelerator.synchronize(device())


def test_a_device_has_a_context_once_it_is_gone_to_or_allocated_on(sim):
    program = """
import os, torch
contexts = lambda: [torch.ops.sim.has_context(i) for i in range(4)]
assert contexts() == [False, False, False, False]
with torch.Stream("sim:1"):
    assert contexts() == [False, True, False, False]
assert contexts() == [True, True, False, False]  # leaving a stream goes back to where the thread was
x = torch.ones(3, device="sim:2").requires_grad_()
(x * 2).sum().backward()  # by a thread of autograd's for each device that has one
torch.accelerator.synchronize(2)
assert contexts() == [True, True, True, False]
torch.accelerator.get_memory_info(3)
assert contexts() == [True, True, True, True]
os._exit(0)  # at Python's own end autograd's threads may still be there: one in fifty ends by terminate
"""
    four = {**os.environ, "GSPLIT_SIM_DEVICES": "4"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=four)


def test_each_thread_has_its_device_and_stream(sim):
    found = []

    def other():
        found.append((torch.accelerator.current_device_index(), torch.accelerator.current_stream(device()).stream_id))
        torch.accelerator.set_device_index(1)

    with torch.Stream(device()):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == [(0, 0)]
    assert torch.accelerator.current_device_index() == 0


def test_waits_are_counted_by_name_and_thread(sim):
    x, host = ones(), torch.ones(N)
    sim.reset_waits()
    y = (x * 2 + x).relu().sum()
    x.add_(host.pin_memory().to(device(), non_blocking=True))
    assert sim.waits() == {}
    y.item()
    x.nonzero()
    x.cpu()
    x.copy_(host)
    x.copy_(host, non_blocking=True)
    event = torch.Event(device())
    event.record()
    event.synchronize()
    torch.accelerator.current_stream(device()).synchronize()
    torch.accelerator.synchronize(device())
    wanted = {
        "_local_scalar_dense": 1,
        "aten::nonzero": 1,
        "copy to the host": 1,
        "copy to a device": 1,
        "copy from pageable memory": 1,
        "Event.synchronize": 1,
        "Stream.synchronize": 1,
        "synchronize": 1,
    }
    assert sim.waits() == wanted
    thread = threading.Thread(target=y.item)
    thread.start()
    thread.join()
    assert sim.waits() == {**wanted, "_local_scalar_dense": 2}
    assert sim.waits(of_this_thread=True) == wanted


@pytest.mark.parametrize("wait", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x.cpu()])
def test_waits_of_operators_can_be_forbidden(sim, wait):
    x = ones()
    sim.forbid_waits(True)
    with pytest.raises(RuntimeError, match="waits for the device"):
        wait(x)
    torch.accelerator.synchronize(device())  # asked for in so many words
    sim.forbid_waits(False)
    wait(x)


def test_schedules_are_named_exactly(sim):
    for schedule in ("eager", "random:7", "lazy", "lazy:200"):
        sim.set_schedule(schedule)
        assert sim.schedule() == schedule
    for wrong in ("sometimes", "random", "eager:1"):
        with pytest.raises((RuntimeError, ValueError), match=line_with(wrong)):
            sim.set_schedule(wrong)
