"""Slots hold what samplers write, and grow when they must."""

from __future__ import annotations

import numpy as np
import pytest
from support.cgroups import give_memory
from support.graphs import random_graph
from support.messages import line_with

from gsplit.host import SharedBuffer
from gsplit.sampling import MiniBatchSampler
from gsplit.supply.ring import HEADROOM, Handle, LettingGo, Ring, extents_of
from gsplit.supply.tickets import Ticket

TICKET = Ticket(number=0, epoch=0, batch=0)


@pytest.fixture
def sampler():
    graph = random_graph(100, 10, seed=1)
    return MiniBatchSampler(graph.indptr, graph.indices, [0, 30, 30, 100], fan_outs=[4, 4], seed=0)


@pytest.fixture
def slots():
    buffers = [SharedBuffer("test") for _ in range(2)]
    yield buffers
    for buffer in buffers:
        buffer.close()


def test_another_process_reads_what_was_written(sampler, slots):
    sampler.sample(np.arange(40), epoch=1, batch=2)
    handle = Handle(ticket=TICKET, slot=1, extents=Ring(slots).write(1, [sampler]))
    reader = Ring(slots)
    for rank in range(3):  # the second part is empty
        assert reader.read(handle, rank).tobytes() == sampler.segment(rank).data.tobytes()
        assert handle.extents[rank][0] % 64 == 0
    assert slots[0].num_bytes == 0


def test_a_slot_grows_for_a_larger_mini_batch_and_is_mapped_anew(sampler, slots):
    mapped = []
    writer, reader = Ring(slots), Ring(slots, on_map=lambda new, old: mapped.append((len(new), old is None)))
    for targets in (5, 100, 20):
        sampler.sample(np.arange(targets), epoch=0, batch=0)
        handle = Handle(ticket=TICKET, slot=0, extents=writer.write(0, [sampler]))
        assert reader.read(handle, 2).tobytes() == sampler.segment(2).data.tobytes()
    sampler.sample(np.arange(100), epoch=0, batch=0)
    assert slots[0].num_bytes == int(extents_of(sampler)[-1][1] * HEADROOM)
    assert [first for _, first in mapped] == [True, False]  # the third fits
    assert mapped[0][0] < mapped[1][0]


def test_slots_are_mapped_once_and_anew_only_when_they_have_grown(sampler, slots):
    mapped = []
    reader = Ring(slots, on_map=lambda new, old: mapped.append((len(new), old is None)))
    reader.map_all()
    assert mapped == []  # none has a size yet
    for slot in slots:
        slot.grow(1 << 20)
    reader.map_all()
    assert mapped == [(1 << 20, True)] * len(slots)
    sampler.sample(np.arange(100), epoch=0, batch=0)
    handle = Handle(ticket=TICKET, slot=1, extents=Ring(slots).write(1, [sampler]))
    assert reader.read(handle, 2).tobytes() == sampler.segment(2).data.tobytes()
    reader.map_all()
    assert len(mapped) == len(slots)
    slots[1].grow(2 << 20)
    reader.map_all()
    assert mapped[len(slots) :] == [(2 << 20, False)]


def test_no_memory_is_an_error_and_not_a_cut(sampler, slots, monkeypatch, tmp_path):
    sampler.sample(np.arange(100), epoch=0, batch=0)
    give_memory(monkeypatch, tmp_path, 100)
    with pytest.raises(MemoryError, match=line_with("100 B")):
        Ring(slots).write(0, [sampler])
    assert slots[0].num_bytes == 0


def test_a_slot_is_let_go_of_when_all_that_lies_in_it_was_read():
    done = LettingGo()
    bulk = [Handle(ticket=TICKET, slot=1, bulk=3)] * 3
    other = Handle(ticket=TICKET, slot=0)
    assert [done.of(handle) for handle in (bulk[0], other, bulk[1], bulk[2])] == [False, True, False, True]
    assert [done.of(handle) for handle in bulk] == [False, False, True]  # the next that lie there
