"""How many rows a cache may have: what was asked for against what there is, and one line where it cannot be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.caches import CPU
from support.graphs import random_graph
from support.messages import line_with

from gsplit.errors import InputError
from gsplit.features import Memory, prefix_rows, replicated_ids
from gsplit.features.placement import hottest
from gsplit.features.room import SEGMENTS_BYTES, spare_bytes, sufficient_bytes, usable_bytes
from gsplit.limits import host_memory
from gsplit.units import CacheSize

OFFSETS = np.array([0, 600, 1000])
ROW_BYTES = 1024


def memory(*, total=4 << 20, free=256 << 10, auto=100 << 10, device="cpu"):
    return Memory(device=device, total_bytes=total, free_bytes=free, auto_bytes=auto)


def asked(text, *, holders=2, offsets=OFFSETS, **of_memory):
    return prefix_rows(CacheSize.parse(text), offsets, holders, ROW_BYTES, memory(**of_memory)).tolist()


def test_bytes_are_strict_shares_are_of_all_and_auto_takes_what_is_spare():
    assert asked("50KiB") == [50, 50]
    assert asked("50.9KiB") == [50, 50]  # whole rows
    assert asked("10%") == [120, 80]
    assert asked("auto") == [100, 100]
    assert asked("50KiB", holders=1) == [30, 20]
    # No more than there is, so this fits although more was asked than is free.
    assert asked("2MiB", free=600 << 10) == [600, 400]
    assert asked("auto", auto=3 << 20, free=4 << 20) == [600, 400]


TOO_MUCH = [
    ("300KiB", {}, "--cache-size, 300.0 KiB, cpu, 256.0 KiB, auto"),
    ("25%", {}, "--cache-size, 25%, 300.0 KiB, cpu, 256.0 KiB, auto"),
    ("500GiB", {}, "--cache-size, 500.0 GiB, cpu, 4.0 MiB, auto"),
    ("500GiB", {"free": 4 << 20, "device": "xpu:1"}, "--cache-size, 500.0 GiB, xpu:1, 4.0 MiB, auto"),
]
TOO_LITTLE = [
    ("1000", {}, "--cache-size, 1000 B, 1.0 KiB, --cache none"),
    ("auto", {"auto": 0, "free": 512}, "--cache-size auto, cpu, 512 B, --cache none"),
]


@pytest.mark.parametrize(("text", "of_memory", "line"), TOO_MUCH + TOO_LITTLE)
def test_complaints_are_one_line(text, of_memory, line):
    with pytest.raises(InputError, match=line_with(line)):
        asked(text, **of_memory)


def test_a_row_that_several_parts_would_have_to_share_is_too_little():
    with pytest.raises(InputError, match=line_with("--cache-size, 1.0 KiB, --cache none")):
        asked("1KiB", holders=1)


def replicated(text, targets, **of_memory):
    graph = random_graph(1000, 6)
    ids = replicated_ids(
        CacheSize.parse(text), graph.indptr, graph.indices, targets, 2, ROW_BYTES, memory(**of_memory)
    )
    return ids, hottest(graph.indptr, graph.indices, targets, 2, 1000)


def test_the_hottest_that_fit():
    targets = np.arange(40)
    for text, count in (("30KiB", 30), ("12.5%", 125), ("auto", 100)):
        ids, all_ids = replicated(text, targets)
        assert len(ids) == count < len(all_ids)
        assert (ids == all_ids[:count]).all()
    ids, all_ids = replicated("100%", np.arange(2), free=4 << 20)
    assert (ids == all_ids).all()
    assert len(replicated("30KiB", np.array([], np.int64))[0]) == 0  # nothing to cache, so nothing is missing


@pytest.mark.parametrize(("text", "of_memory", "line"), [*TOO_MUCH[2:], *TOO_LITTLE])
def test_replicated_caches_complain_alike(text, of_memory, line):
    with pytest.raises(InputError, match=line_with(line)):
        replicated(text, np.arange(500), **of_memory)
    with pytest.raises(InputError, match=line_with("--cache-size, 300.0 KiB, cpu")):
        replicated("300KiB", np.arange(500))


def test_the_host_s_memory_is_shared_out():
    host = host_memory()
    one, four = Memory.of(CPU, 1), Memory.of(CPU, 4)
    assert (one.device, one.total_bytes, four.total_bytes) == ("cpu", host.total_bytes, host.total_bytes // 4)
    assert four.auto_bytes * 2 == pytest.approx(four.free_bytes, abs=2)
    assert four.free_bytes * 4 == pytest.approx(host.available_bytes, rel=0.2)


GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "total", "spare"),
    [(70, 80, 70 - 20 - 2), (21, 80, 0), (8, 8, 8 - 2 - 0.5)],  # a quarter for training, 2 or a sixteenth beside
)
def test_auto_leaves_a_quarter_where_nobody_knows_what_training_takes(monkeypatch, free, total, spare):
    monkeypatch.setattr(torch.xpu, "mem_get_info", lambda _: (free << 30, total << 30))
    found = Memory.of(torch.device("xpu", 1), 1)
    assert found == Memory(
        device="xpu:1", total_bytes=total << 30, free_bytes=free << 30, auto_bytes=int(spare * GIB)
    )


def test_auto_leaves_what_training_takes_an_eighth_more_and_a_floor(monkeypatch):
    assert spare_bytes(70 * GIB, 80 * GIB, working_bytes=8 * GIB) == (70 - 9 - 2) * GIB
    assert spare_bytes(70 * GIB, 80 * GIB, working_bytes=0) == 68 * GIB
    assert spare_bytes(70 * GIB, 80 * GIB, working_bytes=900 * GIB) == 0
    monkeypatch.setattr(torch.xpu, "mem_get_info", lambda _: (70 * GIB, 80 * GIB))
    found = Memory.of(torch.device("xpu", 0), 2, working_bytes=8 * GIB)
    assert found.auto_bytes == (70 - 2 * 9 - 2) * GIB // 2  # two share the GPU, each takes its 8
    assert (found.free_bytes, found.working_bytes) == (26 * GIB - SEGMENTS_BYTES, 8 * GIB)


def test_a_small_device_leaves_little_for_what_only_a_gpu_shows():
    mib = 1 << 20
    assert spare_bytes(64 * mib, 64 * mib, working_bytes=8 * mib) == (64 - 9 - 4) * mib


def test_a_cache_that_leaves_no_room_for_training_is_refused(monkeypatch):
    monkeypatch.setattr(torch.xpu, "mem_get_info", lambda _: ((12 << 20) + (128 << 10), 16 << 20))
    found = Memory.of(torch.device("xpu", 0), 1, working_bytes=10 << 20)
    said = "xpu:0, 128.0 KiB, 10.0 MiB"
    with pytest.raises(InputError, match=line_with("--cache-size, 2.0 MiB", said)):
        prefix_rows(CacheSize.parse("2MiB"), np.array([0, 10_000]), 1, 1024, found)
    with pytest.raises(InputError, match=line_with("--cache-size auto", said)):
        prefix_rows(CacheSize.parse("auto"), np.array([0, 10_000]), 1, 1024, found)
    assert prefix_rows(CacheSize.parse("64KiB"), np.array([0, 10_000]), 1, 1024, found).tolist() == [64]


def test_trainers_agree_on_the_least():
    memories = [memory(free=9, auto=3), memory(free=7, auto=5, device="xpu:1"), memory(total=80, free=8, auto=4)]
    assert Memory.least(memories) == memory(total=80, free=7, auto=3, device="xpu:1")


@pytest.mark.parametrize("gib", [4, 8, 16, 80])
def test_a_ninth_and_some_segments_are_in_pieces_that_nobody_can_use(gib):
    assert usable_bytes(9 * gib * GIB + SEGMENTS_BYTES) == 8 * gib * GIB
    assert usable_bytes(16 * 9 * 1024) == 15 * 8 * 1024  # of a small device a sixteenth


def test_a_cache_leaves_what_has_to_be_free_for_a_step(monkeypatch):
    """One rule decides: where a cache is as large as it may be, a step fits into the rest, and by no byte less."""
    monkeypatch.setattr(torch.xpu, "mem_get_info", lambda _: (78 * GIB, 80 * GIB))
    for working in (30 * GIB, 30 * GIB + 1, GIB // 3, 9 << 20, 12_345):
        found = Memory.of(torch.device("xpu", 0), 1, working_bytes=working)
        rest = 78 * GIB - found.free_bytes
        assert rest == sufficient_bytes(working)
        assert usable_bytes(rest) >= working > usable_bytes(rest - 2)
    found = Memory.of(torch.device("xpu", 0), 1, working_bytes=30 * GIB)
    prefix_rows(CacheSize.parse("44GiB"), np.array([0, 44 << 20]), 1, 1024, found)
    with pytest.raises(InputError, match=line_with("44.2 GiB, 30.0 GiB")):
        prefix_rows(CacheSize.parse("48GiB"), np.array([0, 48 << 20]), 1, 1024, found)
