"""Every cache gives the rows the host has, bit for bit, and says where it took them from, against a count by hand."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import pool as pool_module
from support.caches import CPU, STORAGE, host_rows, owners, peer_caches
from support.messages import line_with, says

from gsplit.device.peer_memory import PeerMemory
from gsplit.errors import InputError
from gsplit.features import (
    FeatureLoader,
    HostRows,
    LoadCounters,
    PartitionedCache,
    PeerCaches,
    Prefixes,
    ReplicatedCache,
)
from gsplit.features.cache import _opened, _shared
from gsplit.features.placement import prefixes

OFFSETS = np.array([0, 10, 14, 14, 30, 61, 70])
"""Six parts, one of them empty."""


def load(host, cache, vertices, *, dtype=torch.float32, threads=1):
    """The rows, and what was counted."""
    loader = FeatureLoader(host, device=CPU, dtype=dtype, normalize=False, threads=threads, cache=cache)
    if cache is not None:
        cache.locate(vertices).validate(len(vertices))
    return loader.load(vertices), loader.take_counters()


def counted(host, hits, peers, others):
    return LoadCounters(
        rows=hits + peers + others,
        cache_hits=hits,
        peer_rows=peers,
        host_rows=others,
        host_to_device_bytes=others * host.row_bytes,
        device_to_device_bytes=peers * host.row_bytes,
    )


@settings(max_examples=60)
@given(
    dtype=st.sampled_from(STORAGE),
    compute=st.sampled_from([torch.float32, torch.float64]),
    width=st.sampled_from([1, 3, 33, 257]),
    holders=st.sampled_from([1, 2, 3, 4, 5, 6]),
    room=st.sampled_from([0, 1, 5, 13, 1000]),
    count=st.sampled_from([0, 1, 40, 2000]),
    threads=st.sampled_from([1, 4]),
    seed=st.integers(0, 1000),
)
def test_prefixes_give_the_host_s_rows_and_count(dtype, compute, width, holders, room, count, threads, seed):
    host, values = host_rows(70, width, dtype, seed=seed)
    cache_rows = prefixes(OFFSETS, holders, rows=room)
    vertices = np.random.default_rng(seed).integers(0, 70, count)
    wanted, owner = values[vertices].to(compute), owners(vertices, OFFSETS, cache_rows, holders)
    held, owned = Prefixes(OFFSETS, cache_rows, holders), owners(np.arange(OFFSETS[-1]), OFFSETS, cache_rows, holders)
    assert held.num_rows == np.bincount(owned[owned >= 0], minlength=holders).tolist()
    with_peers = peer_caches(host, held, threads=threads)
    for rank in range(holders):
        hits, cached = int((owner == rank).sum()), int((owner >= 0).sum())
        alone = PartitionedCache(host, held, rank, device=CPU, threads=threads)
        for cache, peers in ((alone, 0), (with_peers[rank], cached - hits)):
            x, counters = load(host, cache, vertices, dtype=compute, threads=threads)
            assert torch.equal(x, wanted)
            assert counters == counted(host, hits, peers, count - hits - peers)


@settings(max_examples=40)
@given(
    dtype=st.sampled_from(STORAGE),
    width=st.sampled_from([1, 7, 129]),
    cached=st.sampled_from([0, 1, 30, 70]),
    count=st.sampled_from([0, 1, 50, 3000]),
    threads=st.sampled_from([1, 4]),
    seed=st.integers(0, 1000),
)
def test_replicated_caches_give_the_host_s_rows_and_count(dtype, width, cached, count, threads, seed):
    random = np.random.default_rng(seed)
    host, values = host_rows(70, width, dtype, seed=seed)
    ids = random.permutation(70)[:cached]
    vertices = random.integers(0, 70, count)
    cache = ReplicatedCache(host, ids, device=CPU, threads=threads)
    assert torch.equal(cache.rows, values[ids])
    x, counters = load(host, cache, vertices, threads=threads)
    assert torch.equal(x, values[vertices].float())
    hits = sum(int(v) in set(ids.tolist()) for v in vertices)
    assert counters == counted(host, hits, 0, count - hits)


def test_a_row_is_read_from_the_cache_and_not_from_the_host():
    host, values = host_rows(30, 4, torch.float32)
    held = Prefixes(np.array([0, 10, 30]), np.array([3, 5]), 2)
    first, second = peer_caches(host, held)
    values = values.clone()
    host.bytes_view[:] = 0
    x, _ = load(host, first, np.array([12, 0, 5, 2, 15]))
    assert torch.equal(x[[0, 1, 3]], values[[12, 0, 2]])
    assert not x[[2, 4]].any()
    assert first.peers[1].data_ptr() != second.rows.data_ptr()  # two maps of one memory
    second.rows[2] = 8.0
    assert load(host, first, np.array([12]))[0].unique().tolist() == [8.0]


def test_trainers_let_go_of_the_others_memory_before_of_their_own():
    host, _ = host_rows(30, 4, torch.float32)
    first, second = peer_caches(host, Prefixes(np.array([0, 10, 30]), np.array([3, 5]), 2))
    mine, seen = weakref.ref(first.rows), []
    first.close(lambda: seen.append((dict(first.peers), mine() is not None)))
    assert seen == [({}, True)]  # nobody reads the others' any more, and they may still read these
    assert mine() is None
    assert len(first.rows) == 0
    assert len(second.peers[0]) == 3  # its map of that memory is its own


def test_caches_are_filled_piece_by_piece(monkeypatch):
    monkeypatch.setattr("gsplit.features.host_rows.PIECE_BYTES", 5 * 12)
    host, values = host_rows(70, 3, torch.float32)
    cache = PartitionedCache(host, Prefixes(OFFSETS, np.diff(OFFSETS), 2), 1, device=CPU, threads=1)
    assert torch.equal(cache.rows, values[14:])
    ids = np.random.default_rng(0).permutation(70)
    assert torch.equal(ReplicatedCache(host, ids, device=CPU, threads=1).rows, values[ids])


def test_a_mapped_file_fills_a_cache(tmp_path):
    rows = np.random.default_rng(0).standard_normal((20, 5)).astype(np.float16)
    np.save(tmp_path / "features.npy", rows)
    host = HostRows(np.load(tmp_path / "features.npy", mmap_mode="r"))
    cache = PartitionedCache(host, Prefixes(np.array([0, 20]), np.array([8]), 1), 0, device=CPU, threads=2)
    x, counters = load(host, cache, np.arange(20), dtype=torch.float64)
    assert (x.numpy() == rows.astype(np.float64)).all()
    assert (counters.cache_hits, counters.host_rows, counters.host_to_device_bytes) == (8, 12, 12 * 10)


@pytest.mark.parametrize("bad", [-1, 70])
def test_vertices_that_are_not_there_are_refused(bad):
    host, _ = host_rows(70, 3, torch.float32)
    cache = PartitionedCache(host, Prefixes(OFFSETS, np.diff(OFFSETS), 1), 0, device=CPU, threads=1)
    for some in (None, cache):
        loader = FeatureLoader(host, device=CPU, dtype=torch.float32, normalize=False, threads=1, cache=some)
        with pytest.raises(ValueError, match=line_with(f"row {bad}, 0 .. 69")):
            loader.load(np.array([0, bad]))
        assert loader.take_counters() == LoadCounters()


def shared_by_processes(member, dtype):
    """Each process converts its half of the rows and reads the other's cache."""
    random = np.random.default_rng(0)
    features = random.standard_normal((50, 7)).astype(np.float32)
    rank, buffers = member.rank, pool_module.SHARED.levels
    offsets = np.array([0, 20, 50])
    begin, end = (int(bound) for bound in offsets[rank : rank + 2])
    held = Prefixes(offsets, np.array([6, 9]), 2)
    host = HostRows(features.astype(np.float16))
    cache = PeerCaches.in_buffers(host, held, rank, buffers=buffers, barrier=member.barrier, threads=1)
    vertices = random.integers(0, 50, 300)
    x, counters = load(host, cache, vertices)
    right = torch.equal(x, torch.from_numpy(features).half()[vertices].float())
    member.barrier()
    copy = HostRows.shared(
        features, dtype, buffers[0], begin=begin, end=end, create=rank == 0, barrier=member.barrier
    )
    right &= torch.equal(copy.tensor(), torch.from_numpy(features).to(dtype))
    member.barrier()
    owner = owners(vertices, offsets, [6, 9], 2)
    hits, peers = int((owner == rank).sum()), int((owner == 1 - rank).sum())
    return right and hits * peers > 0 and counters == counted(host, hits, peers, 300 - hits - peers)


@pytest.mark.parametrize("dtype", STORAGE)
def test_processes_share_rows_and_read_each_other_s_caches(pool, dtype):
    assert pool.run(2, shared_by_processes, dtype) == [True, True]


@pytest.mark.parametrize("wrong", [False, True])
def test_other_numbers_than_a_peer_caches_are_an_error(monkeypatch, wrong):
    """The memory of both is the host's here; that of the peer is opened with something else in it."""
    host, values = host_rows(70, 5, torch.float32)
    theirs = values[30:45].clone()
    theirs[2, 4] += wrong

    def memory(rows):
        return SimpleNamespace(bytes=rows.view(torch.uint8).view(-1), handle=b"", close=lambda: None)

    monkeypatch.setattr("gsplit.features.cache.reaches", lambda *_: True)
    monkeypatch.setattr(PeerMemory, "allocated", lambda num_bytes, _: memory(torch.empty(num_bytes // 20, 5)))
    monkeypatch.setattr(PeerMemory, "opened", lambda *_: memory(theirs))
    peer = torch.device("xpu", 1), b""

    def opened():
        prefixes = Prefixes(np.array([0, 30, 70]), np.array([10, 15]), 2)
        gathered = {"all_gather_object": lambda own: [own, peer]}
        return PeerCaches.on_gpus(host, prefixes, 0, device=CPU, threads=1, **gathered)

    if wrong:
        with pytest.raises(InputError, match=line_with("cpu, xpu:1, --cache replicated")):
            opened()
    else:
        assert torch.equal(opened().peers[1], theirs)


@pytest.mark.parametrize(
    ("reached", "said"), [(False, "it has no access to its memory"), (True, "Open: invalid argument")]
)
def test_memory_that_cannot_be_opened_is_told_of(monkeypatch, caplog, reached, said):
    def opened(*_):
        raise RuntimeError("Open: invalid argument")

    monkeypatch.setattr("gsplit.features.cache.reaches", lambda *_: reached)
    monkeypatch.setattr(PeerMemory, "opened", opened)
    assert _opened(torch.device("xpu", 1), b"", 4, torch.device("xpu", 0)) is None
    says(caplog.text, f"xpu:0, xpu:1, {said}, --cache replicated")


def test_memory_that_a_driver_does_not_share_is_kept_to_oneself_with_a_warning(caplog):
    class Refused:
        @property
        def handle(self):
            raise RuntimeError("IpcGetMemHandle: operation not supported")

    assert _shared(Refused(), torch.device("cpu")) is None
    assert "operation not supported" in caplog.text
