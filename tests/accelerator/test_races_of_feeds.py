"""What a trainer is handed is what was in the slot, though slot and device memory are used again at once.

Each race is looked for under each schedule. Before a trainer reads a mini-batch its device is given work that takes
longer than loading the next ones.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.accelerators import keep_busy
from support.graphs import lay_out, random_graph
from support.steps import CPU

from gsplit.device import accelerator
from gsplit.engine.feed import MOST_BEGUN, Feed
from gsplit.engine.inputs import SplitLoader
from gsplit.engine.minibatch import MiniBatch
from gsplit.engine.sampled.sources import FromSlots
from gsplit.features import EdgeLoader, FeatureLoader, HostRows, LoadCounters
from gsplit.host import SharedBuffer
from gsplit.sampling import MiniBatchSampler
from gsplit.supply.pipes import TrainerEnd
from gsplit.supply.ring import Handle, Ring
from gsplit.supply.tickets import Ticket

pytestmark = pytest.mark.accelerator

BATCHES = 6
N = 300
AHEAD = 1
"""Mini-batches that are loaded ahead."""
FRESH_BYTES = 4 << 20
"""Of a mini-batch that is large beside whatever else is on the device."""
SMALL_BYTES = 2 << 20
"""More than all of that."""


@pytest.fixture
def layout(tmp_path):
    return lay_out(random_graph(N, 10, seed=3, features=64, weighted=True), tmp_path, parts=1)


@pytest.fixture
def last_device(kind):
    """A device on which no thread begins by itself, where there are several."""
    return torch.device(kind, accelerator.count(kind) - 1)


@pytest.fixture
def registered(monkeypatch):
    """Addresses of the memory that the test registers."""
    register, addresses = accelerator.register, []

    def noted(memory, flags=0):
        addresses.append(memory.ctypes.data)
        return register(memory, flags)

    monkeypatch.setattr(accelerator, "register", noted)
    return addresses


class OneSlot:
    """Both ends of a supply with a single slot: an order of mini-batches, which it writes, and the trainer's end.

    A slot that is let go of is written to at once, as the next sampler might: with what no segment has.
    """

    def __init__(self, graph):
        self._graph, self._slot, self._free, self._batch = graph, SharedBuffer("test"), True, 0
        self._sampler = MiniBatchSampler(graph.indptr, graph.indices, [0, N], fan_outs=[4], seed=0, edge_ids=True)
        self._slot.grow(1 << 16)
        self._ring = Ring([self._slot])
        self.end = TrainerEnd(slots=[self._slot], heard=None, followers=[], released=self)

    def next(self):
        if self._batch == BATCHES:
            return None
        assert self._free
        ticket = Ticket(number=self._batch, epoch=0, batch=self._batch)
        self._free, self._batch = False, self._batch + 1
        targets = np.random.default_rng(self._batch).permutation(N)[:100]
        self._sampler.sample(targets, epoch=0, batch=self._batch)
        return Handle(ticket=ticket, slot=0, extents=self._ring.write(0, [self._sampler]))

    def send(self, slot):
        self._slot.view((self._slot.num_bytes,), np.uint8)[:] = 0xFF
        self._free = True

    def close(self):
        self._slot.close()


class Loads:
    """Makes mini-batches of the slots' segments, as the engine does."""

    def __init__(self, layout, device, end):
        edges = EdgeLoader(layout.graph, device=device, dtype=torch.float32, weights=True, degrees=True)
        host = HostRows(layout.graph.features)
        features = FeatureLoader(host, device=device, dtype=torch.float32, normalize=False, threads=1)
        self._loader, self._source = SplitLoader(layout, device, features, edges), FromSlots(end, 0, device)
        self.devices = set()

    def make(self, handle):
        segment, _ = self._source.segment(handle)
        blocks, x = self._loader.inputs(segment, None)
        return mini_batch_of(handle, x, self._loader.labels(segment), blocks)

    def release(self, handle):
        self.devices.add(torch.accelerator.current_device_index())
        self._source.release(handle)


def mini_batch_of(handle, x, labels, blocks):
    return MiniBatch(
        handle=handle,
        num_targets=1,
        comm=None,
        blocks=blocks,
        x=x,
        labels=labels,
        loaded=LoadCounters(),
        counts={},
        seconds={"load": 0.0},
    )


def sums(mini_batch):
    """Of all that a mini-batch has, which are as many numbers."""
    block = mini_batch.blocks[1]
    found = [block.indptr, block.indices, block.edge_ids, block.edge_weight, block.degrees, mini_batch.x]
    return torch.stack([each.double().sum() for each in (*found, mini_batch.labels)])


def all_sums(layout, device):
    """Those of each mini-batch of a feed, on the host; and the devices that its thread was on."""
    supply = OneSlot(layout.graph)
    maker = Loads(layout, device, supply.end)
    found = []
    for mini_batch in Feed(supply, maker, device, prefetch=AHEAD, threads=1):
        keep_busy(device)
        found.append(sums(mini_batch))
        del mini_batch
    supply.close()
    return torch.stack(found).cpu(), maker.devices


def test_a_trainer_computes_with_what_was_in_the_slot(controls, schedule, registered, last_device, layout):
    accelerator.work_on(last_device)
    try:
        found, devices = all_sums(layout, last_device)
    finally:
        accelerator.work_on(torch.device(last_device.type, 0))
    assert torch.equal(found, all_sums(layout, CPU)[0])
    assert len(registered) == 1
    assert devices == {last_device.index}


class Fresh:
    """Makes mini-batches without a slot, of :data:`FRESH_BYTES` on the device."""

    def __init__(self, device):
        self._device = device

    def make(self, handle):
        return mini_batch_of(handle, torch.zeros(FRESH_BYTES, dtype=torch.uint8, device=self._device), None, {})

    def release(self, handle):
        pass


class Handles:
    """An order of mini-batches that lie in no slot."""

    def __init__(self, count):
        self._left = iter(range(count))

    def next(self):
        number = next(self._left, None)
        return None if number is None else Handle(ticket=Ticket(number=number, epoch=0, batch=number))


def test_a_device_that_is_far_behind_holds_few_mini_batches(controls, schedule, device):
    torch.accelerator.synchronize(device)
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats(device)
    before, found = torch.accelerator.memory_reserved(device), torch.zeros(1, device=device)
    for mini_batch in Feed(Handles(2 * BATCHES), Fresh(device), device, prefetch=AHEAD, threads=1):
        keep_busy(device)
        found += mini_batch.x.sum()
        del mini_batch
    assert found.item() == 0
    begun, held = MOST_BEGUN + 1, torch.accelerator.max_memory_reserved(device) - before
    assert held <= (begun + AHEAD + 2) * FRESH_BYTES + SMALL_BYTES  # one that is computed, and one being loaded
