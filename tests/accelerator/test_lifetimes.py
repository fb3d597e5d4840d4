"""Memory that a mini-batch came in is another one's soon, on the host and on the device."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.graphs import lay_out, random_graph
from support.runs import config_for, train_in_trainer

from gsplit.device import accelerator
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.rows.shared import Shared
from gsplit.engine.sampled.sources import Pins
from gsplit.features import EdgeLoader, FeatureLoader, HostRows
from gsplit.host import SharedBuffer
from gsplit.parallel import rendezvous
from gsplit.parallel.join import joined
from gsplit.processes import start
from gsplit.sampling import MiniBatchSampler, Segment

pytestmark = pytest.mark.accelerator


def test_loops_are_those_of_the_segment_also_when_its_slot_holds_another(device, tmp_path):
    layout = lay_out(random_graph(300, 10, seed=3), tmp_path, parts=1)
    graph = layout.graph
    sampler = MiniBatchSampler(graph.indptr, graph.indices, [0, 300], fan_outs=[4], seed=0)
    sampler.sample(np.arange(100), epoch=0, batch=0)
    slot = sampler.segment(0).data.copy()
    segment = Segment(slot)
    edges = EdgeLoader(graph, device=device, dtype=torch.float32, weights=False, degrees=False)
    features = FeatureLoader(HostRows(graph.features), device=device, dtype=torch.float32, normalize=False, threads=1)
    block = SplitLoader(layout, device, features, edges).blocks(segment, None)[1]
    rows = np.repeat(np.arange(300), np.diff(graph.indptr))
    wanted = np.isin(segment.vertices, rows[graph.indices == rows])
    assert 0 < wanted.sum() < len(wanted)
    torch.accelerator.synchronize()
    slot[:] = 0
    assert (block.has_loop().cpu().numpy() == wanted).all()


def contexts(rank, port, kind, config, shared):
    """The device of a trainer, and the devices on which it has taken memory after a run."""
    pool_module.SHARED = shared
    with joined(rank, 2, port, kind, threads=1) as member:
        train_in_trainer(member, config)
        count = torch.accelerator.device_count()
        return member.device.index, [index for index in range(count) if torch.ops.sim.has_context(index)]


def test_a_trainer_takes_memory_of_its_own_device_alone(controls, kind, layouts, tmp_path):
    config = config_for(layouts(2).path, tmp_path, device=kind, cache="none", prefetch=1)
    shared = Shared.create(2)
    with rendezvous(2) as port:
        taken = start(contexts, 2, port, kind, config, shared).join()
    shared.close()
    assert taken == [(0, [0]), (1, [1])]


def by_hand(memory):
    assert accelerator.register(memory) == 0
    return memory


def a_slot(memory):
    pins = Pins()
    pins(memory, None)
    return pins, memory


def rows(memory):
    host = HostRows(memory)
    assert host.pin()
    return host


def a_view_of_rows(memory):
    return rows(memory).tensor()[1:]


def after_an_error(memory):
    try:
        raise ValueError(rows(memory))
    except ValueError as error:
        return error


def in_a_cycle(memory):
    cycle = [rows(memory), memory]
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize("registered", [by_hand, a_slot, rows, a_view_of_rows, after_an_error, in_a_cycle])
def test_memory_is_taken_back_before_it_is_unmapped(controls, registered):
    """Or whatever is mapped there next could not be registered."""
    buffer, before = SharedBuffer("test"), controls.registered_bytes()
    buffer.grow(1 << 20)
    for _ in range(3):  # most often at the same address
        user = registered(buffer.view((1 << 10, 1 << 10), np.uint8))
        assert controls.registered_bytes() == before + (0 if registered is a_view_of_rows else 1 << 20)
        del user
        gc.collect()
        assert not controls.unmapped_while_registered()
        assert controls.registered_bytes() == before
    buffer.close()
