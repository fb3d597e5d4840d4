"""Loading feature rows on an accelerator: the same rows, bit for bit, and counts as on the CPU, whatever the way."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
import torch.distributed as dist
from support import pool as pool_module
from support.accelerators import keep_busy
from support.caches import CPU, STORAGE, peer_caches
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.runs import config_for, run_for

from gsplit.device import accelerator
from gsplit.doctor.training_needs import PINNED, needs_of
from gsplit.features import FeatureLoader, HostRows, PartitionedCache, PeerCaches, Prefixes, ReplicatedCache
from gsplit.features.staging import STAGES, UNLIKE, pinned_bytes
from gsplit.host import SharedBuffer
from gsplit.parallel import rendezvous
from gsplit.parallel.join import joined
from gsplit.processes import start
from gsplit.train import loop

pytestmark = pytest.mark.accelerator

N = 1000
OFFSETS = np.array([0, 300, 300, 650, N])
"""Four parts, one of them empty."""
PREFIXES = Prefixes(OFFSETS, np.array([60, 0, 80, 200]), 2)


def shared_rows(width, dtype, buffer):
    """The same random rows at every call, in memory that can be registered."""
    features = np.random.default_rng(0).standard_normal((N, width)).astype(np.float32)
    return HostRows.shared(features, dtype, buffer, begin=0, end=N, create=True, barrier=lambda: None)


@pytest.fixture
def buffer():
    buffer = SharedBuffer("test")
    yield buffer
    buffer.close()


def load(host, cache, device, *, dtype=torch.float32, zero_copy=False, late=False):
    """Rows of three lists, one after the other, on a stream of their own, as the feed loads them; and the counts.

    ``late``: the stream has something else to do before.
    """
    random = np.random.default_rng(1)
    loader = FeatureLoader(
        host, device=device, dtype=dtype, normalize=False, threads=2, cache=cache, zero_copy=zero_copy
    )
    lists = [random.integers(0, N, count) for count in (5000, 0, 1)]
    if device.type == "cpu":
        return torch.cat([loader.load(ids) for ids in lists]), loader.counters
    stream = accelerator.new_stream(device)
    with accelerator.on_stream(stream):
        if late:
            keep_busy(device)
        rows = [loader.load(ids) for ids in lists]
    stream.synchronize()
    return torch.cat([x.cpu() for x in rows]), loader.counters


def assert_equal(found, wanted):
    assert torch.equal(found[0], wanted[0])
    assert found[1] == wanted[1]


def caches(host, device):
    """One of each kind that needs no other trainer; None is none."""
    yield None
    yield PartitionedCache(host, PREFIXES, 1, device=device, threads=2)
    ids = np.random.default_rng(2).permutation(N)[:150]
    yield ReplicatedCache(host, ids, device=device, threads=2)


@pytest.mark.cases(12)
@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("compute", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 33, 100, 128, 1433])
def test_both_ways_from_the_host_and_every_cache_equal_the_cpu_s(device, buffer, caplog, dtype, compute, width):
    host = shared_rows(width, dtype, buffer)
    for here, there in zip(caches(host, CPU), caches(host, device), strict=True):
        wanted = load(host, here, CPU, dtype=compute)
        for zero_copy in (False, True):
            assert_equal(load(host, there, device, dtype=compute, zero_copy=zero_copy), wanted)
    assert not caplog.records  # nothing was copied that should have been read where it lies


def test_rows_are_those_of_their_list_whatever_is_loaded_next(schedule, device, buffer):
    """None of the lists is waited for before the next is loaded."""
    host = shared_rows(33, torch.float32, buffer)
    assert_equal(load(host, None, device, late=True), load(host, None, CPU))


def test_caches_are_read_when_they_are_filled(schedule, device, buffer):
    """They are filled on another stream than the feed's, which has something else to do before."""
    host = shared_rows(33, torch.float32, buffer)
    keep_busy(device)
    for here, there in zip(caches(host, CPU), caches(host, device), strict=True):
        assert_equal(load(host, there, device), load(host, here, CPU))
        keep_busy(device)


def test_rows_that_are_not_there_are_refused_before_a_kernel_reads_them(device, buffer):
    host = shared_rows(3, torch.float32, buffer)
    for zero_copy in (False, True):
        loader = FeatureLoader(
            host, device=device, dtype=torch.float32, normalize=False, threads=1, zero_copy=zero_copy
        )
        with pytest.raises(ValueError, match=line_with(f"row {N}, 0 .. {N - 1}")):
            loader.load(np.array([0, N]))


def test_shared_rows_are_registered_as_long_as_they_are_used(device, buffer):
    torch.zeros(1, device=device)
    host = shared_rows(7, torch.bfloat16, buffer)
    memory = host.bytes_view
    assert not torch.from_numpy(memory).is_pinned()
    assert host.pin()
    assert host.pin()
    assert host.tensor().is_pinned()
    del host
    gc.collect()
    assert not torch.from_numpy(memory).is_pinned()
    again = HostRows(memory, torch.bfloat16)
    assert again.pin()


def test_rows_that_cannot_be_registered_are_copied_with_a_warning(device, tmp_path, caplog):
    np.save(tmp_path / "features.npy", np.random.default_rng(0).standard_normal((N, 5)).astype(np.float32))
    host = HostRows(np.load(tmp_path / "features.npy", mmap_mode="r"))
    assert_equal(load(host, None, device, zero_copy=True), load(host, None, CPU))
    assert len(caplog.records) == 1
    assert "not in memory that can be registered" in caplog.text


def read_peers(rank, port, kind, dtype, all_reach):
    """In each of three processes: rows out of the others' memory. What is wrong, and what other devices had to do.

    The second time trainer 0 has nothing to share. ``all_reach``: whether all have access to each other's memory.
    """
    buffer, offsets = SharedBuffer("test"), np.array([0, 300, 650, N])
    with joined(rank, 3, port, kind, threads=1) as member:

        def all_gather_object(value):
            gathered = [None, None, None]
            dist.all_gather_object(gathered, value)
            return gathered

        host = shared_rows(33, dtype, buffer)
        wrong, reached = [], []
        for cached in (60, 0):
            prefixes = Prefixes(offsets, np.array([cached, 80, 200]), 3)
            cache = PeerCaches.on_gpus(
                host, prefixes, rank, device=member.device, all_gather_object=all_gather_object, threads=1
            )
            wanted = load(host, peer_caches(host, prefixes)[rank], CPU)
            for zero_copy in (False, True):
                found = load(host, cache, member.device, zero_copy=zero_copy)
                if not torch.equal(found[0], wanted[0]) or (found[1] != wanted[1] and all_reach):
                    wrong.append((zero_copy, found[1], wanted[1]))
            reached.append((sorted(cache.peers), cache.reaches_all))
            cache.close(member.barrier)
        wrong += foreign_work(member.device)
    return wrong, reached


def foreign_work(device):
    """What this process has had to do with other devices than its own: contexts, launches, allocations."""
    if device.type != "sim":
        return []
    controls, others = torch.ops.sim, {*range(accelerator.count(device.type))} - {device.index}
    assert controls.has_context(device.index)
    assert controls.launches(device.index) > 0
    work = {
        d: (controls.has_context(d), controls.launches(d), controls.memory_stats(d)["allocations"]) for d in others
    }
    return [f"device {d}: context, launches and allocations {x}" for d, x in work.items() if any(x)]


@pytest.mark.parametrize(
    "dtype", [pytest.param(dtype, marks=pytest.mark.slow) for dtype in STORAGE[:2]] + STORAGE[2:]
)
def test_processes_read_each_other_s_memory_in_contexts_of_their_own(kind, dtype):
    with rendezvous(3) as port:
        found = start(read_peers, 3, port, kind, dtype, True).join()
    reached = [[([1, 2], True), ([1, 2], True)], [([0, 2], True), ([2], True)], [([0, 1], True), ([1], True)]]
    assert found == [([], each) for each in reached]


def test_a_device_without_access_to_a_peer_s_has_its_rows_from_the_host(controls, monkeypatch):
    monkeypatch.setenv("GSPLIT_SIM_FAULT", "peers:0-2")
    with rendezvous(3) as port:
        found = start(read_peers, 3, port, "sim", torch.float32, False).join()
    reached = [[([1], False), ([1], False)], [([0, 2], True), ([2], True)], [([1], False), ([1], True)]]
    assert found == [([], each) for each in reached]


def test_rows_are_staged_in_pieces_of_bounded_size(controls, device, buffer, monkeypatch):
    """The device has something else to do, so no copy is over by itself; all rows are those of the host."""
    piece = 64 << 10
    monkeypatch.setattr("gsplit.features.host_rows.PIECE_BYTES", piece)
    controls.set_schedule("lazy:3000")
    host = shared_rows(33, torch.float32, buffer)
    ids = np.random.default_rng(1).integers(0, N, 20_000)
    loader = FeatureLoader(host, device=device, dtype=torch.float32, normalize=False, threads=2)
    gc.collect()
    controls.give_pinned_back()
    before = controls.pinned_bytes()
    keep_busy(device)
    rows = loader.load(ids)
    assert controls.pinned_bytes() - before <= UNLIKE * STAGES * pinned_bytes(piece) < rows.nbytes / 5
    assert torch.equal(rows.cpu(), host.tensor()[torch.from_numpy(ids)])


def pinned_by_training(member, config):
    """What doctor says that all trainers pin, and what this one did."""
    run = run_for(config, member.world)
    gc.collect()
    torch.accelerator.synchronize(member.device)
    torch.ops.sim.give_pinned_back()
    before = torch.ops.sim.pinned_bytes()
    trainer = loop.ready(member, run, pool_module.SHARED)
    loop.train(trainer)
    trainer.close()
    said = next(need.num_bytes for need in needs_of(run).host if need.what == PINNED)
    return said, torch.ops.sim.pinned_bytes() - before


@pytest.mark.parametrize("flags", [{"loader": "gather"}, {"loader": "zero-copy"}, {"cache_size": "30%"}], ids=str)
def test_what_doctor_says_is_pinned_is(controls, accelerator_pool, tmp_path, flags):
    layout = lay_out(random_graph(3000, 20, seed=3, features=60), tmp_path, parts=2, method="deal")
    given = {"batch_size": 512, "fan_out": (10, 10), "cache": "auto" if "cache_size" in flags else "none", **flags}
    config = config_for(layout.path, tmp_path / "run", device="sim", **given)
    found = accelerator_pool.run(2, pinned_by_training, config)
    taken = sum(pinned for _, pinned in found)
    assert taken <= found[0][0] <= 32 * taken
