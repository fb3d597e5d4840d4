"""Which cores a trainer stays on, and which allocate what all read, on hosts of several nodes: trees like theirs."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gsplit.device import numa
from gsplit.features import HostRows
from gsplit.host import SharedBuffer
from gsplit.parallel import join

GPUS = ("0000:17:00.0", "0000:65:00.0", "0000:ca:00.0", "0000:e3:00.0")
"""Two of each of two nodes."""
NODES = ({0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15})
ALL = NODES[0] | NODES[1]


@pytest.fixture
def host(monkeypatch, tmp_path):
    """host(nodes, allowed): a host of so many nodes, and the cores of this process; gives the calls to the kernel."""

    def there(nodes=2, allowed=ALL):
        folder = tmp_path / "sys/devices/system/node"
        for node in range(nodes):
            (folder / f"node{node}").mkdir(parents=True)
            (folder / f"node{node}/cpulist").write_text(f"{4 * node}-{4 * node + 3},{4 * node + 8}-{4 * node + 11}\n")
        for name in ("has_memory", "has_cpu"):
            (folder / name).write_text(f"0-{nodes - 1}\n" if nodes > 1 else "0\n")
        for number, gpu in enumerate(GPUS):
            (tmp_path / f"sys/bus/pci/devices/{gpu}").mkdir(parents=True)
            (tmp_path / f"sys/bus/pci/devices/{gpu}/numa_node").write_text(f"{number // 2 if nodes > 1 else -1}\n")
        calls, now = [], [set(allowed)]

        def set_affinity(_, cores):
            calls.append(cores)
            now[0] = cores

        allocate = os.posix_fallocate
        monkeypatch.setattr(numa, "ROOT", tmp_path)
        monkeypatch.setattr(numa, "_chosen", [])
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: now[0])
        monkeypatch.setattr(os, "sched_setaffinity", set_affinity)
        monkeypatch.setattr(os, "posix_fallocate", lambda fd, *where: calls.append(where) or allocate(fd, *where))
        return calls

    return there


def test_each_trainer_stays_on_the_cores_of_its_gpu_s_node(host):
    calls = host()
    for rank in (0, 3):
        numa._chosen.clear()
        os.sched_setaffinity(0, ALL)
        assert numa.bind(GPUS, rank, threads=4)
    assert calls == [ALL, NODES[0], ALL, NODES[1]]


@pytest.mark.parametrize(
    ("nodes", "allowed", "addresses", "threads"),
    [
        (1, NODES[0], GPUS, 1),
        (2, {0, 1, 4, 5}, GPUS, 1),
        (2, ALL - {15}, GPUS, 1),
        (2, ALL, (None, *GPUS[1:]), 1),
        (2, ALL, ("0000:ff:00.0", *GPUS[1:]), 1),
        (2, ALL, GPUS, 5),
        (2, ALL, (*GPUS[:2], *GPUS[:2]), 3),
    ],
    ids=["one node", "chosen", "one core less", "no address", "no such GPU", "too few cores", "all on one node"],
)
def test_a_trainer_stays_where_it_is_where_there_is_nothing_to_gain_or_somebody_chose(
    host, nodes, allowed, addresses, threads
):
    calls = host(nodes, allowed)
    assert not numa.bind(addresses, 0, threads)
    assert calls == []


def test_what_all_read_is_spread_over_the_nodes_and_the_cores_are_as_before(host, monkeypatch):
    calls = host()
    monkeypatch.setattr(numa, "PIECE_BYTES", 8192)
    numa.bind(GPUS, 0, threads=1)
    buffer = SharedBuffer("test")
    buffer.grow(20_000, allocate=numa.allocate)
    pieces = [NODES[0], (0, 8192), NODES[1], (8192, 8192), NODES[0], (16384, 3616)]
    assert calls == [NODES[0], *pieces, NODES[0]]
    assert (buffer.view((20_000,), np.uint8) == 0).all()
    buffer.close()


def test_feature_rows_that_trainers_share_are_spread(host, monkeypatch):
    calls = host()
    monkeypatch.setattr(numa, "PIECE_BYTES", 8192)
    buffer, features = SharedBuffer("test"), np.ones((1000, 4), np.float32)
    HostRows.shared(features, torch.float32, buffer, begin=0, end=1000, create=True, barrier=lambda: None)
    assert calls == [NODES[0], (0, 8192), NODES[1], (8192, 7808), ALL]
    buffer.close()


def test_a_trainer_is_bound_before_it_joins_by_the_places_of_all_gpus(monkeypatch):
    done = []
    monkeypatch.setattr(join.accelerator, "count", lambda _: 2)
    for name in ("work_on", "synchronize"):
        monkeypatch.setattr(join.accelerator, name, lambda device, name=name: done.append((name, device)))
    monkeypatch.setattr(join.runtime, "pci_address", lambda device: f"place {device.index}")
    monkeypatch.setattr(join.numa, "bind", lambda *what: done.append(what))
    monkeypatch.setattr(join, "_member", lambda *_: done.append("joined") or SimpleNamespace(barrier=lambda: None))
    threads = torch.get_num_threads()
    with join.joined(1, 3, 0, "xpu", threads):
        own = torch.device("xpu", 1)
        assert done == [("work_on", own), (["place 0", "place 1", "place 0"], 1, threads), "joined"]


@pytest.mark.parametrize(("nodes", "allowed"), [(1, NODES[0]), (2, {0, 1})])
def test_a_process_of_one_node_allocates_there(host, nodes, allowed):
    calls = host(nodes, allowed)
    buffer = SharedBuffer("test")
    buffer.grow(20_000, allocate=numa.allocate)
    assert calls == [(0, 20_000)]
    buffer.close()


def test_where_a_sandbox_forbids_it_nobody_is_bound_and_memory_is_had_all_the_same(host, monkeypatch):
    host()

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert not numa.bind(GPUS, 0, threads=1)
    buffer = SharedBuffer("test")
    buffer.grow(20_000, allocate=numa.allocate)
    assert (buffer.view((20_000,), np.uint8) == 0).all()
    buffer.close()


def test_cores_are_as_before_where_there_is_no_memory(host, monkeypatch):
    calls = host()

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    buffer = SharedBuffer("test")
    with pytest.raises(MemoryError, match="No space left"):
        buffer.grow(20_000, allocate=numa.allocate)
    assert calls == [NODES[0], ALL]
    buffer.close()


def test_a_system_that_says_nothing_has_no_nodes(monkeypatch, tmp_path):
    monkeypatch.setattr(numa, "ROOT", tmp_path)
    assert numa.cores_of_nodes() == {}
