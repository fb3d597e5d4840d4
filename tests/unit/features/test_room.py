"""How many rows a cache may have: what was asked for against what there is, and one line where it cannot be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.caches import CPU
from support.graphs import random_graph

from gsplit.errors import InputError
from gsplit.features import Memory, prefix_rows, replicated_ids
from gsplit.features.placement import hottest
from gsplit.features.room import CONTEXT_BYTES, spare_bytes
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
    (
        "300KiB",
        {},
        "--cache-size 300.0 KiB: a trainer would cache 300.0 KiB of rows, but cpu has 256.0 KiB free; "
        "use a smaller size or auto",
    ),
    (
        "25%",
        {},
        "--cache-size 25%: a trainer would cache 300.0 KiB of rows, but cpu has 256.0 KiB free; "
        "use a smaller size or auto",
    ),
    ("500GiB", {}, "--cache-size 500.0 GiB: cpu has 4.0 MiB in all for a trainer; use a smaller size or auto"),
    (
        "500GiB",
        {"free": 4 << 20, "device": "cuda:1"},
        "--cache-size 500.0 GiB: cuda:1 has 4.0 MiB in all for a trainer; use a smaller size or auto",
    ),
]
TOO_LITTLE = [
    (
        "1000",
        {},
        "--cache-size 1000 B: that is less than a row of 1.0 KiB for each part; use a larger size or --cache none",
    ),
    (
        "auto",
        {"auto": 0, "free": 512},
        "--cache-size auto: cpu has 512 B free, which leaves nothing for a cache; use --cache none",
    ),
]


@pytest.mark.parametrize(("text", "of_memory", "line"), TOO_MUCH + TOO_LITTLE)
def test_complaints_are_one_line(text, of_memory, line):
    with pytest.raises(InputError) as error:
        asked(text, **of_memory)
    assert str(error.value) == line


def test_a_row_that_several_parts_would_have_to_share_is_too_little():
    with pytest.raises(InputError, match="less than a row"):
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
    with pytest.raises(InputError) as error:
        replicated(text, np.arange(500), **of_memory)
    assert str(error.value) == line
    with pytest.raises(InputError, match=r"--cache-size 300.0 KiB: a trainer would cache 300.0 KiB of rows, but cpu"):
        replicated("300KiB", np.arange(500))


def test_the_host_s_memory_is_shared_out():
    host = host_memory()
    one, four = Memory.of(CPU, 1), Memory.of(CPU, 4)
    assert (one.device, one.total_bytes, four.total_bytes) == ("cpu", host.total_bytes, host.total_bytes // 4)
    assert four.auto_bytes * 2 == pytest.approx(four.free_bytes, abs=2)
    assert four.free_bytes * 4 == pytest.approx(host.available_bytes, rel=0.2)


@pytest.mark.parametrize(("free", "total", "spare"), [(70, 80, 50), (20, 80, 0), (5, 6, 3)])
def test_auto_leaves_a_gpu_a_quarter_or_2_gib(monkeypatch, free, total, spare):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free << 30, total << 30))
    found = Memory.of(torch.device("cuda", 1), 1)
    assert found == Memory(device="cuda:1", total_bytes=total << 30, free_bytes=free << 30, auto_bytes=spare << 30)


def test_auto_leaves_a_gpu_what_training_will_take(monkeypatch):
    gib = 1 << 30
    assert spare_bytes(70 * gib, 80 * gib) == 50 * gib
    assert spare_bytes(70 * gib, 80 * gib, working_bytes=19 * gib) == 50 * gib  # the quarter is more
    assert spare_bytes(70 * gib, 80 * gib, working_bytes=30 * gib) == 40 * gib
    assert spare_bytes(70 * gib, 80 * gib, working_bytes=900 * gib) == 35 * gib  # an estimate: half at most
    assert spare_bytes(70 * gib, 80 * gib, visitors=3) == 50 * gib - 3 * CONTEXT_BYTES
    assert spare_bytes(3 * gib, 80 * gib, visitors=3) == 0
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (70 * gib, 80 * gib))
    found = Memory.of(torch.device("cuda", 0), 2, working_bytes=15 * gib, visitors=2)
    assert found.auto_bytes == (40 * gib - 2 * CONTEXT_BYTES) // 2  # two share the GPU, and each takes its 15
    assert found.free_bytes == 35 * gib  # what is asked for in bytes is the user's to decide


def test_trainers_agree_on_the_least():
    memories = [memory(free=9, auto=3), memory(free=7, auto=5, device="cuda:1"), memory(total=80, free=8, auto=4)]
    assert Memory.least(memories) == memory(total=80, free=7, auto=3, device="cuda:1")
