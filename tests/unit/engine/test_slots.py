"""Slots as a trainer with a GPU registers them; the registering itself only a GPU shows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.graphs import random_graph

from gsplit.engine.sampled import sources
from gsplit.host import SharedBuffer
from gsplit.sampling import MiniBatchSampler
from gsplit.supply.ring import Handle, Ring
from gsplit.supply.tickets import Ticket


@pytest.mark.parametrize(("device", "registered"), [("xpu", 3), ("cpu", 0)])
def test_a_gpu_s_slots_are_all_registered_with_the_first_mini_batch(monkeypatch, device, registered):
    pinned = []
    monkeypatch.setattr(sources, "Pins", lambda: lambda new, old: pinned.append((len(new), old)))
    graph = random_graph(100, 10, seed=1)
    sampler = MiniBatchSampler(graph.indptr, graph.indices, [0, 100], fan_outs=[4], seed=0)
    slots = [SharedBuffer("test") for _ in range(3)]
    source = sources.FromSlots(SimpleNamespace(slots=slots, released=None), 0, torch.device(device))
    assert pinned == []  # the slots have no sizes yet
    for slot in slots:
        slot.grow(1 << 16)
    for batch in range(3):
        sampler.sample(np.arange(20), epoch=0, batch=batch)
        ticket = Ticket(number=batch, epoch=0, batch=batch)
        handle = Handle(ticket=ticket, slot=batch, extents=Ring(slots).write(batch, [sampler]))
        segment, _ = source.segment(handle)
        assert segment.data.tobytes() == sampler.segment(0).data.tobytes()
        assert pinned == [(1 << 16, None)] * registered
    for slot in slots:
        slot.close()
