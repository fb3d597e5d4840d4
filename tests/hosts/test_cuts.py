"""Wires that are cut and processes that are killed on hosts: all trainers end in time, and each host says why."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest
from support.hosts import ENDLESS, FLAGS, TRAIN
from support.messages import says
from support.waiting import wait_until
from support.worlds import torchrun

from experiments.hosts.namespaces import children_of

CUT_S, KILLED_S = 15.0, 5.0
"""Seconds within which all trainers end, with the ten of --silence."""
LEFT_S = 5.0

# What trainers are in the middle of, by what the run does all the time.
EVALUATES = (*FLAGS, "--epochs", "100000", "--log-every", "0", "--batch-size", "200")
SAVES = (*ENDLESS, "--checkpoint-every-batches", "1")
OVER = (*ENDLESS, "--split-group", "4", "--hidden", "64")
CUTS = {
    "reduce": (2, 1, ENDLESS),
    "forward": (2, 2, OVER),
    "evaluation": (2, 2, EVALUATES),
    "checkpoint": (2, 1, SAVES),
}


def nothing_is_left(hosts):
    wait_until(lambda: not any(host.left() for host in hosts.hosts), LEFT_S, lambda: [h.left() for h in hosts.hosts])


@pytest.mark.parametrize("kind", ["reduce", *(pytest.param(kind, marks=pytest.mark.slow) for kind in list(CUTS)[1:])])
def test_both_sides_of_a_cut_end_and_name_the_other(make_hosts, start, layout, tmp_path, kind):
    number, here, flags = CUTS[kind]
    hosts = make_hosts(number)
    world = start(hosts, here, [*TRAIN, layout, "--out", tmp_path / "run", *flags])
    world.train(tmp_path / "run")
    since_s = time.monotonic()
    hosts.cut(hosts[1])
    assert world.codes(CUT_S, since_s) == [1] * number * here
    first, second = world.last_words()
    says(first, f"host1, host2, trainers {here} to {2 * here - 1}, silent for")
    says(second, f"host2, {hosts[0].address}:*, silent for")
    assert [f"error: {cause}" for cause in world.root_causes()] == [first] * here + [second] * here
    nothing_is_left(hosts)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 2])
def test_one_of_three_hosts_is_cut_off(make_hosts, start, layout, tmp_path, lost):
    """The first has the store."""
    hosts = make_hosts(3)
    world = start(hosts, 1, [*TRAIN, layout, "--out", tmp_path / "run", *ENDLESS])
    world.train(tmp_path / "run")
    since_s = time.monotonic()
    hosts.cut(hosts[lost])
    assert world.codes(CUT_S, since_s) == [1, 1, 1]
    words = world.last_words()
    for at in {0, 1, 2} - {lost}:
        says(words[at], f"host{at + 1}, silent for", f"{hosts[0].address}:*" if lost == 0 else "host3")
    nothing_is_left(hosts)


@pytest.mark.slow
def test_a_wire_that_is_mended_in_time_ends_nothing(make_hosts, start, layout, tmp_path):
    hosts, run = make_hosts(2), tmp_path / "run"
    world = start(hosts, 1, [*TRAIN, layout, "--out", run, *ENDLESS])
    world.train(run)
    hosts.cut(hosts[1])
    with pytest.raises(AssertionError):
        wait_until(world.ended, 4.0, lambda: "it goes on")
    hosts.heal(hosts[1])
    before = (run / "metrics.jsonl").stat().st_size
    wait_until(lambda: (run / "metrics.jsonl").stat().st_size > before + 10_000, 30.0, world.told)
    assert not world.ended()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["trainer 0", "trainer 3", "supplier", "host1", "host2"])
def test_what_is_killed_is_named_on_every_host_that_is_left(make_hosts, start, layout, tmp_path, what):
    hosts = make_hosts(2)
    world = start(hosts, 2, [*TRAIN, layout, "--out", tmp_path / "run", *ENDLESS])
    world.train(tmp_path / "run")
    since_s, left = time.monotonic(), [0, 1, 2, 3]
    if what == "supplier":
        (supplier,) = children_of(world.trainers[2].own_pid)
        os.kill(supplier, signal.SIGKILL)
    elif what.startswith("host"):
        at = int(what[-1]) - 1
        hosts[at].kill()
        left = [rank for rank in left if rank not in world.of_host[at]]
    else:
        killed = int(what[-1])
        world.trainers[killed].signal_it(signal.SIGKILL)
        left.remove(killed)
    codes = world.codes(KILLED_S, since_s)
    assert [codes[rank] for rank in left] == [1] * len(left)
    assert all(codes[rank] == -signal.SIGKILL for rank in {0, 1, 2, 3} - set(left))
    for at, ranks in enumerate(world.of_host):
        if set(ranks) & set(left):
            lines = {line for rank in ranks for line in world.said(rank).splitlines() if line.startswith("error: ")}
            assert len(lines) == 1, world.told()
            named = {"supplier": "host2, trainer 2, supplier", "host1": "trainer 0", "host2": "host2, trainer #"}
            says(lines.pop(), named.get(what, what), f"host{at + 1}" if what in ("trainer 0", "host1") else "host2")
    nothing_is_left(hosts)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["cut", "power"])
def test_torchrun_has_the_last_line_as_root_cause(make_hosts, layout, tmp_path, way):
    hosts = make_hosts(2)
    agents = torchrun(hosts, 2, tmp_path, layout, "--out", tmp_path / "run", *ENDLESS)
    file = tmp_path / "run" / "metrics.jsonl"
    printed = [tmp_path / f"torchrun-{number}" for number in (1, 2)]
    try:
        wait_until(lambda: file.is_file() and file.stat().st_size, 90.0, lambda: [p.read_text() for p in printed])
        hosts.cut(hosts[1])
        if way == "power":
            hosts[1].end()
        wait_until(lambda: agents[0].poll() is not None, 60.0, printed[0].read_text)
        root = printed[0].read_text().partition("Root Cause")[2]
        says(root, "host1, host2, trainers 2 to 3, silent for")
        last = [line for line in printed[0].read_text().splitlines() if line.startswith("error: ")]
        assert len(last) == 1
        says(last[0], "host1, host2, trainers 2 to 3, silent for")
    finally:
        for agent in agents:
            agent.end()


def fill(path):
    """Write until nothing more goes there."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass


@pytest.mark.slow
def test_a_full_disk_of_trainer_0_is_the_cause_on_all(make_hosts, start, layout, tmp_path):
    """The run's folder is in /dev/shm of the first host, which is filled while it trains."""
    hosts = make_hosts(2)
    world = start(hosts, 1, [*TRAIN, layout, "--out", "/dev/shm/run", *SAVES])
    shared = hosts[0].inside / "dev/shm"
    file = shared / "run" / "metrics.jsonl"
    wait_until(lambda: file.is_file() and file.stat().st_size, 60.0, world.told)
    since_s = time.monotonic()
    hosts[0].resize_shared_memory("1m")
    fill(shared / "filler")
    codes = world.codes(CUT_S, since_s)
    assert len(set(codes)) == 1
    words = world.last_words()
    assert words[0] == words[1]
    says(words[0], "host1, No space left on device")
