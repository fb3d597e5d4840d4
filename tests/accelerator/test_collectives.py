"""Collectives of a device: tasks on streams, with the values of gloo on the host."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from support.steps import CPU

from gsplit.parallel import collectives

pytestmark = pytest.mark.accelerator


def sums_and_rows(member, schedule):
    """What a member has after an exchange of uneven rows, a sum, a broadcast and a gather, on the host."""
    if member.device.type == "sim":
        torch.ops.sim.set_schedule(schedule)
    torch.manual_seed(member.rank)
    rank, world, group = member.rank, member.world, member.group
    counts = [(rank + peer) % 3 * 5 for peer in range(world)]  # some are none
    sent = torch.randn(sum(counts), 3).to(member.device)
    out = sent.new_empty((sum(counts), 3))
    wait = collectives.start_all_to_all(out, sent, counts, counts, group)
    total = (
        torch.randint(-1000, 1000, (1000,)).float().to(member.device)
    )  # whole, or each device would round its own way
    collectives.all_reduce(total, group)  # on the current stream, while the other is under way
    wait()
    first = torch.full((4,), float(rank), device=member.device)
    collectives.broadcast(first, group)
    gathered = torch.stack(collectives.all_gather(total[:2] + rank, group))
    return [x.cpu() for x in (out * 2, total, first, gathered)]


def on_host(member):
    return sums_and_rows(replace(member, device=CPU), "")


@pytest.mark.parametrize("world", [2, 3])
def test_collectives_of_devices_are_those_of_the_host(accelerator_pool, world):
    wanted = accelerator_pool.run(world, on_host)
    for schedule in ("lazy", "eager", "random:7"):
        for found, of_host in zip(accelerator_pool.run(world, sums_and_rows, schedule), wanted, strict=True):
            assert all(torch.equal(x, y) for x, y in zip(found, of_host, strict=True)), schedule


def unwaited(member):
    """What a stream reads of an exchange before, and after, it waits for it."""
    torch.ops.sim.set_schedule("lazy")
    out = torch.zeros(4, device=member.device)
    torch.accelerator.synchronize()
    sent = torch.full((4,), 1.0 + member.rank, device=member.device)
    work = dist.all_to_all_single(out, sent, [2, 2], [2, 2], group=member.group, async_op=True)
    before = out.clone()
    work.wait()
    after = out.clone()
    return before.cpu().tolist(), after.cpu().tolist()


def test_who_reads_before_it_waits_for_an_exchange_reads_what_was_there(controls, accelerator_pool):
    for before, after in accelerator_pool.run(2, unwaited):
        assert after == [1, 1, 2, 2]
        assert before == [0, 0, 0, 0]


def with_gaps(member):
    """Parameters that lie as models may have them, after a broadcast from the first member."""
    base = torch.arange(12.0, device=member.device).view(3, 4) + 100 * member.rank
    row = torch.tensor([[1.0], [2.0]], device=member.device) + member.rank
    found = [base.t(), row.expand(2, 5), base[:, 1::2]]
    for x in found:
        collectives.broadcast(x, member.group)
    return [x.cpu() for x in found]


def test_tensors_that_lie_in_any_way_are_broadcast(accelerator_pool):
    wanted, *others = accelerator_pool.run(3, with_gaps)
    assert wanted[0][0].tolist() == [0, 4, 8]
    assert wanted[1].tolist() == [[1] * 5, [2] * 5]
    for found in others:
        assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))


def refused(member):
    """What a member is told that sends a transposed tensor."""
    try:
        dist.all_reduce(torch.zeros(3, 4, device=member.device).t(), group=member.group)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ""


def test_tensors_with_gaps_are_refused(controls, accelerator_pool):
    assert all("contiguous" in said for said in accelerator_pool.run(2, refused))
