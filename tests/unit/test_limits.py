"""Limits of cgroups, as the kernel shows them on hosts and in containers, and that everything heeds them."""

from __future__ import annotations

import os
from types import SimpleNamespace

import psutil
import pytest
from support.caches import CPU
from support.cgroups import MOUNTS, POINTS, give_memory, write_tree
from support.graphs import random_graph
from support.messages import line_with, says

from gsplit import limits
from gsplit.data.adjacency import check_num_vertices as check_vertices
from gsplit.errors import InputError
from gsplit.features import Memory
from gsplit.host import SharedBuffer, check_memory
from gsplit.limits import HostMemory, host_memory
from gsplit.partition import methods, relabel
from gsplit.partition.estimate import estimate_of
from gsplit.partition.problem import problem_size

HOST = HostMemory(total_bytes=1000, available_bytes=700)
UNLIMITED_1 = 9223372036854771712
"""What version 1 says where there is no limit."""
CGROUP, MEMORY = POINTS[2], POINTS[1]


@pytest.fixture
def found(tmp_path, monkeypatch):
    """found(version, path, files, ...): the memory of a process in that cgroup, on a host with 700 of 1000 bytes."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=1000, available=700))
    monkeypatch.setattr(limits, "ROOT", tmp_path)

    def measure(version, path, files, *, root="/", point=None, lines=None, mounts=None):
        point = point or POINTS[version]
        lines = lines or {1: f"9:name=systemd:/\n4:cpuset,memory:{path}", 2: f"0::{path}"}[version]
        mounts = mounts or [MOUNTS[version].format(root=root, point=point)]
        write_tree(tmp_path, lines, mounts, files)
        memory = host_memory()
        return memory.total_bytes, memory.available_bytes

    return measure


def test_without_cgroups_it_is_the_host_s(monkeypatch, tmp_path):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=1000, available=700))
    monkeypatch.setattr(limits, "ROOT", tmp_path / "nothing")
    assert host_memory() == HOST


def test_version_2(found):
    files = {f"{CGROUP}/job/memory.max": 500, f"{CGROUP}/job/memory.current": 120}
    assert found(2, "/job", files) == (500, 380)
    # Pages of files are dropped when memory is wanted; anonymous ones and shared memory are not.
    stat = "anon 60\nshmem 10\ninactive_anon 30\nactive_file 20\ninactive_file 30\nslab 5"
    assert found(2, "/job", {f"{CGROUP}/job/memory.stat": stat}) == (500, 430)
    assert found(2, "/job", {f"{CGROUP}/job/memory.current": 900}) == (500, 0)  # never less than nothing
    assert found(2, "/job", {f"{CGROUP}/job/memory.max": "max"}) == (1000, 700)
    assert found(2, "/job", {f"{CGROUP}/job/memory.high": 950}) == (950, 100)  # beyond it processes are held up
    assert found(2, "/job", {f"{CGROUP}/job/memory.max": 2000}) == (950, 100)


def test_version_1(found):
    files = {f"{MEMORY}/job/memory.limit_in_bytes": 500, f"{MEMORY}/job/memory.usage_in_bytes": 120}
    assert found(1, "/job", files) == (500, 380)
    # Its "active_file" and "inactive_file" leave out the cgroups below.
    stat = "active_file 1\ninactive_file 2\ntotal_active_file 20\ntotal_inactive_file 30"
    assert found(1, "/job", {f"{MEMORY}/job/memory.stat": stat}) == (500, 430)
    stat += "\nhierarchical_memory_limit 400"  # of a cgroup above that is not mounted here
    assert found(1, "/job", {f"{MEMORY}/job/memory.stat": stat}) == (400, 330)
    stat = f"hierarchical_memory_limit {UNLIMITED_1}"
    files = {f"{MEMORY}/job/memory.limit_in_bytes": UNLIMITED_1, f"{MEMORY}/job/memory.stat": stat}
    assert found(1, "/job", files) == (1000, 700)


@pytest.mark.parametrize("version", [1, 2])
def test_the_least_on_the_way_up(found, version):
    point = POINTS[version]
    limit = {1: "memory.limit_in_bytes", 2: "memory.max"}[version]
    taken = {1: "memory.usage_in_bytes", 2: "memory.current"}[version]
    unlimited = {1: UNLIMITED_1, 2: "max"}[version]
    files = {
        f"{point}/a/b/c/{limit}": unlimited,
        f"{point}/a/b/c/{taken}": 50,
        f"{point}/a/b/{limit}": 600,
        f"{point}/a/b/{taken}": 100,
        f"{point}/a/{limit}": 800,
        f"{point}/a/{taken}": 750,  # the others in it leave the least
        f"{point}/other/{limit}": 1,
        f"{point}/a/b/c/below/{limit}": 2,
        f"{point}/a/other/{limit}": 3,
    }
    assert found(version, "/a/b/c", files) == (600, 50)


@pytest.mark.parametrize("version", [1, 2])
def test_containers(found, version):
    point = POINTS[version]
    limit = {1: "memory.limit_in_bytes", 2: "memory.max"}[version]
    # With a namespace of cgroups its own is "/", and the mount shows it.
    assert found(version, "/", {f"{point}/{limit}": 500}) == (500, 500)
    # Without one, the path is the host's, and the mount shows the container's part of it.
    assert found(version, "/docker/1f", {}, root="/docker/1f") == (500, 500)
    assert found(version, "/docker/1f/in", {f"{point}/in/{limit}": 300}, root="/docker/1f") == (300, 300)
    # A process that was put in from outside, and a path of which nothing is mounted here.
    assert found(version, "/../../else", {}) == (500, 500)
    assert found(version, "/docker/1f", {}, root="/../..") == (500, 500)
    assert found(version, "/docker/1f", {}, root="/docker/1") == (500, 500)  # no prefix by letters
    assert found(version, "/docker/gone", {}) == (500, 500)


def test_a_mount_point_with_a_space(found):
    files = {"/my groups/job/memory.max": 500}
    assert found(2, "/job", files, point=r"/my\040groups") == (500, 500)


def test_hosts_with_both_versions(found):
    # systemd keeps a tree of version 2 without controllers beside those of version 1.
    mounts = [MOUNTS[1].format(root="/", point=MEMORY), MOUNTS[2].format(root="/", point="/sys/fs/cgroup/unified")]
    files = {f"{MEMORY}/job/memory.limit_in_bytes": 500, "/sys/fs/cgroup/unified/job/cgroup.procs": 1}
    assert found(1, "", files, lines="4:memory:/job\n0::/job", mounts=mounts) == (500, 500)


def test_a_limit_is_heeded_by_all_that_asks_for_memory(monkeypatch, tmp_path):
    graph = random_graph(5000, 6)
    size = problem_size(graph, None)
    give_memory(monkeypatch, tmp_path, 100 << 10, total=1 << 20)
    with pytest.raises(MemoryError, match=line_with("1.0 MiB, 100.0 KiB")):
        check_memory(1 << 20)
    buffer = SharedBuffer("test")
    with pytest.raises(MemoryError, match=line_with("100.0 KiB")):
        buffer.grow(200 << 10)
    buffer.close()
    with pytest.raises(InputError, match=line_with("10,000")):
        check_vertices(10_000, "edges.csv")
    room = Memory.of(CPU, 2)
    assert (room.total_bytes, room.free_bytes, room.auto_bytes) == (512 << 10, 50 << 10, 25 << 10)
    assert methods.choose_method("auto", size) == "streaming"
    with pytest.raises(InputError, match=line_with("--method metis, 100.0 KiB")):
        methods.choose_method("metis", size)
    assert relabel.memory_for_rows() == 50 << 10
    says(estimate_of(graph).lines(tmp_path)[0], "100.0 KiB")


@pytest.mark.parametrize(
    ("version", "files", "quota"),
    [
        (2, {"/job/cpu.max": "150000 100000"}, 1.5),
        (2, {"/job/cpu.max": "max 100000"}, None),
        (2, {"/job/cpu.max": "400000 100000", "/cpu.max": "50000 100000"}, 0.5),
        (1, {"/job/cpu.cfs_quota_us": 250000, "/job/cpu.cfs_period_us": 100000}, 2.5),
        (1, {"/job/cpu.cfs_quota_us": -1, "/job/cpu.cfs_period_us": 100000}, None),
        (2, {}, None),
    ],
)
def test_the_quota_of_cores_is_the_least_on_the_way_up(tmp_path, monkeypatch, version, files, quota):
    monkeypatch.setattr(limits, "ROOT", tmp_path)
    point = {1: "/sys/fs/cgroup/cpu", 2: CGROUP}[version]
    lines = {1: "5:memory:/other\n4:cpu,cpuacct:/job", 2: "0::/job"}[version]
    mount = {1: "36 31 0:33 / {point} rw - cgroup cgroup rw,cpu,cpuacct", 2: MOUNTS[2]}[version]
    mounts = [mount.format(root="/", point=point)]
    write_tree(tmp_path, lines, mounts, {f"{point}{name}": value for name, value in files.items()})
    assert limits.core_quota() == quota
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert limits.usable_cores() == min(2, quota or 2)
