"""Members and their groups, whoever joined the processes; what collectives bring along each axis of a grid."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from support.messages import line_with
from torch import nn

from gsplit.errors import InputError
from gsplit.hosts import place_of
from gsplit.nn import BatchComm, ExchangeCounters, Route, exchange
from gsplit.parallel import Grid, Member, reduce_gradients, rendezvous, trainer_grid
from gsplit.parallel.collectives import all_gather, all_gather_object, all_reduce, all_to_all, broadcast, size_of
from gsplit.parallel.join import _check_default_group, joined_at
from gsplit.parallel.meeting import Meeting
from gsplit.parallel.member import DEVICE_PATIENCE, limit_waits
from gsplit.processes import start

CPU = torch.device("cpu")


def collected(group, rank):
    """What each collective brings over a group, beginning with numbers that say who sent them."""
    total, largest, first = (torch.tensor([float(rank), -float(rank)]) for _ in range(3))
    all_reduce(total, group)
    all_reduce(largest, group, "max")
    broadcast(first, group)
    size = size_of(group)
    rows = torch.empty(size, 1)
    all_to_all(rows, torch.full((size, 1), float(rank)), [1] * size, [1] * size, group)
    tensors = [x.item() for x in all_gather(torch.tensor(rank), group)]
    return [
        total.tolist(),
        largest.tolist(),
        first.tolist(),
        rows.view(-1).tolist(),
        tensors,
        all_gather_object(rank, group),
    ]


def expected(ranks):
    total, first, ids = sum(ranks), min(ranks), list(ranks)
    return [[total, -total], [max(ranks), -first], [first, -first], ids, ids, ids]


AXES = [("a",), ("b",), ("a", "b"), ()]


def along_each(member, sizes):
    member = member.on(Grid(("a", "b"), sizes))
    return [collected(member.along(*axes), member.rank) for axes in AXES]


@pytest.mark.parametrize("sizes", [(2, 2), (1, 4), (4, 1), (1, 3), (1, 1)])
def test_collectives_go_along_the_axes_asked_for(pool, sizes):
    grid = Grid(("a", "b"), sizes)
    for rank, results in enumerate(pool.run(grid.world, along_each, sizes)):
        assert results == [expected(grid.group(rank, *axes)) for axes in AXES]


def test_a_member_that_is_alone_has_its_own_values_back():
    alone = Member(rank=0, world=1, device=CPU, grid=trainer_grid(1))
    alone.barrier()
    assert alone.along("split") is None
    assert collected(None, 3) == expected([3])


def test_a_grid_for_another_number_of_trainers_is_refused():
    with pytest.raises(ValueError, match=line_with("data 1 x split 2, 2 trainers, 3")):
        Member(rank=0, world=3, device=CPU).on(trainer_grid(2))
    with pytest.raises(ValueError, match=line_with("data 1 x split 1, rows")):
        Member(rank=0, world=1, device=CPU).on(trainer_grid(1)).along("rows")


@pytest.mark.parametrize("wrapped", [False, True])
def test_only_collectives_of_accelerators_are_limited(wrapped):
    """Also where PyTorch wraps what makes them, as it does with TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    told = []
    inner = SimpleNamespace(_set_default_timeout=told.append)
    backends = {"xpu": SimpleNamespace(wrapped_pg=inner) if wrapped else inner, "mtia": SimpleNamespace()}
    group = SimpleNamespace(_get_backend=lambda device: backends[device.type])
    for kind in ("cpu", "mtia"):
        limit_waits(group, torch.device(kind), timedelta(minutes=3))
    assert not told
    limit_waits(group, torch.device("xpu"), timedelta(minutes=3))
    assert told == [timedelta(minutes=3)]


def joined_by_torchrun(rank, port, folder):
    """An exchange and a reduction, in a process that Ray Train might have started, which makes the default group."""
    launched = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    launched |= {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2}
    os.environ.update({name: str(value) for name, value in launched.items()}, TORCHELASTIC_USE_AGENT_STORE="True")
    dist.init_process_group("gloo", timeout=timedelta(minutes=1))
    (meeting := Meeting(place_of())).introduce()
    with joined_at(meeting, "cpu", 1, DEVICE_PATIENCE) as member:
        use(member.on(trainer_grid(2)), folder)
    with pytest.raises(InputError, match=line_with(f"default process group, {rank} of 2, {rank} of 4")):
        _check_default_group(replace(place_of(), world=4, here=4))
    dist.destroy_process_group()


def use(member, folder):
    """An exchange and a reduction."""
    assert member.group is not dist.group.WORLD
    rows = torch.full((2, 1), 10.0 * member.rank) + torch.arange(2.0).view(2, 1)
    own = nn.Parameter(rows)
    route = Route(send_rows=torch.tensor([1], dtype=torch.int32), **counts(member.rank))
    comm = BatchComm(member.along("split"), ExchangeCounters(), CPU)
    out = exchange(own * 1, route, comm)
    loss = comm.tie(out.sum())
    loss.backward()
    total, _ = reduce_gradients([own], loss, member)
    torch.save((member.rank, member.world, out.detach(), own.grad, total), folder / f"{member.rank}.pt")


def counts(rank):
    """One row to the other one, and one from there."""
    other = (0, 1) if rank == 0 else (1, 0)
    return {"send_counts": other, "receive_counts": other}


def test_whoever_joins_the_processes_is_exchangeable(tmp_path):
    with rendezvous(2) as port:
        start(joined_by_torchrun, 2, port, tmp_path).join()
    for rank in range(2):
        number, world, out, gradient, loss = torch.load(tmp_path / f"{rank}.pt")
        assert (number, world) == (rank, 2)
        assert out.view(-1).tolist() == [10.0 * rank, 10.0 * rank + 1, 10.0 * (1 - rank) + 1]
        assert gradient.view(-1).tolist() == [2.0, 4.0]  # each second row is used twice, on two trainers
        assert loss.item() == 34.0
