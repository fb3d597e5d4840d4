"""What trainers send each other, and what they read of each other, is there when it is read, and still there.

Each race is looked for under each schedule, with devices that are late: a trainer's is given work before that which
others, or the host, could be too early for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.accelerators import differences, keep_busy
from support.runs import config_for
from torch import nn

from gsplit.features import FeatureLoader, HostRows, PeerCaches, Prefixes
from gsplit.host import SharedBuffer
from gsplit.nn import ExchangeCounters, Route
from gsplit.nn.exchange import Link
from gsplit.parallel import reduce_gradients
from gsplit.parallel.collectives import all_gather_object, broadcast_pieces
from gsplit.runs.log import STAGES, traffic_names
from gsplit.train.progress import Computed, Progress, StageClock, gather_counts

pytestmark = pytest.mark.accelerator

N = 400
PREFIXES = Prefixes(np.array([0, 150, N]), np.array([100, 200]), 2)


def late_numbers(member, schedule, *shape):
    """Zeros of a device that are written late."""
    torch.ops.sim.set_schedule(schedule)
    keep_busy(member.device)
    return torch.zeros(*shape, device=member.device)


def summed(member, schedule):
    """Sums of gradients and losses over the trainers."""
    parameters = [nn.Parameter(late_numbers(member, schedule, 1000)) for _ in range(2)]
    for number, parameter in enumerate(parameters):
        parameter.grad = parameter.detach() + (number + 1) * (member.rank + 1)
    total, _ = reduce_gradients(parameters, parameters[0].grad[:1], replace(member, checker=None, mail=None))
    return [x.unique().tolist() for x in (parameters[0].grad * 1, parameters[1].grad * 1, total * 1)]


def test_gradients_are_summed_when_they_are_there(controls, accelerator_pool, schedule):
    assert accelerator_pool.run(2, summed, schedule) == 2 * [[[3], [6], [3]]]


def exchanged(member, schedule):
    """Rows of the other trainer, and what it returns of those that it was sent."""
    route = Route(
        send_rows=torch.arange(500, dtype=torch.int32, device=member.device),
        send_counts=(0, 500) if member.rank == 0 else (500, 0),
        receive_counts=(0, 500) if member.rank == 0 else (500, 0),
    )
    link = Link(group=member.group, counters=ExchangeCounters())
    # The first time imports the kernels, so that nothing is late; and then the first trainer waits for the second.
    for pieces in (0, 4 * member.rank):
        own = late_numbers(member, schedule, 500, 8) + member.rank + 1
        received = link.send(own, route)
        seen = received * 1
        for _ in range(pieces):
            keep_busy(member.device)
        link.start_return(received * 10, route)(own)
        found = [x.unique().tolist() for x in (seen, own * 1)]
    return found


def test_rows_are_read_when_they_have_arrived(controls, accelerator_pool, schedule):
    assert accelerator_pool.run(2, exchanged, schedule) == [[[2], [11]], [[1], [22]]]


def told(member, schedule):
    """Pieces of all trainers."""
    pieces = list(late_numbers(member, schedule, 2, 1000))
    pieces[member.rank] += member.rank + 1
    broadcast_pieces(pieces, member.group)
    return [(piece * 1).unique().tolist() for piece in pieces]


def test_pieces_are_read_when_they_have_arrived(controls, accelerator_pool, schedule):
    assert accelerator_pool.run(2, told, schedule) == 2 * [[[1], [2]]]


def rows_of_peer(member, schedule):
    """Whether rows of the other trainer's cache are the host's, when both close it before they have been read."""
    torch.ops.sim.set_schedule(schedule)
    buffer = SharedBuffer("test")
    features = np.random.default_rng(0).standard_normal((N, 16)).astype(np.float32)
    host = HostRows.shared(features, torch.float32, buffer, begin=0, end=N, create=True, barrier=lambda: None)
    cache = PeerCaches.on_gpus(
        host,
        PREFIXES,
        member.rank,
        device=member.device,
        all_gather_object=lambda value: all_gather_object(value, member.group),
        threads=1,
    )
    loader = FeatureLoader(host, device=member.device, dtype=torch.float32, normalize=False, threads=1, cache=cache)

    def wait_twice():
        member.barrier()  # the second trainer begins to read
        member.barrier()  # and has read

    loaded = torch.from_numpy(features)
    if member.rank == 1:
        member.barrier()
        keep_busy(member.device)
        loaded = loader.load(np.arange(N))
    cache.close(wait_twice if member.rank == 0 else member.barrier)
    buffer.close()
    return torch.equal(loaded.cpu(), torch.from_numpy(features))


def test_a_cache_is_there_until_all_peers_have_read_it(controls, accelerator_pool, schedule):
    assert accelerator_pool.run(2, rows_of_peer, schedule) == [True, True]


def stages(member, schedule):
    """The seconds that the stages of a mini-batch took on the device."""
    clock = StageClock(member.device)
    with clock("forward"):
        loss = late_numbers(member, schedule, 1)
    counts = dict.fromkeys(traffic_names(1), 0)
    computed = Computed(batch=0, num_targets=1, loss=loss[0], counts=counts, ahead={}, lap=clock.lap())
    (record,) = gather_counts(Progress(fresh=[computed]), replace(member, world=1, group=None), 1)
    return record["stages"]


def test_stages_are_read_when_they_are_over(controls, accelerator_pool, schedule):
    (found,) = accelerator_pool.run(1, stages, schedule)
    assert found["forward"] > 0
    assert found.keys() == set(STAGES)


def test_a_run_has_what_its_device_computed(controls, accelerator_pool, layouts, tmp_path, schedule):
    """Logits of all vertices, weights and losses on the host."""
    config = config_for(layouts(1).path, tmp_path, epochs=1, cache="none")
    assert accelerator_pool.run(1, differences, config, (schedule,)) == [[]]
