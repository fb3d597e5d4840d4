"""Sampler processes: the same mini-batches however many there are (law 1), whatever happens to them (law 5)."""

from __future__ import annotations

import gc
import itertools
import os
import resource
import signal
import subprocess
import sys
from unittest import mock

import psutil
import pytest
from support.cgroups import give_memory
from support.forked import STARTS
from support.messages import line_with, says
from support.rules import FirstNeighbours
from support.samplers import BATCH_SIZE, SEED, all_segments, attend, micro_batches_of, pool_of, segments_sampled_here

from gsplit.errors import InputError, ProcessDied
from gsplit.limits import HostMemory
from gsplit.supply.dispatch import Dispatcher
from gsplit.supply.pool import SamplerPool
from gsplit.supply.ring import LettingGo, Ring
from gsplit.supply.tickets import Position


@pytest.fixture(scope="module")
def wanted(layouts):
    return segments_sampled_here(layouts(3))


@pytest.mark.parametrize("samplers", [1, 2, 4])
def test_law_1_segments_are_bit_equal_for_any_number_of_samplers(layouts, wanted, samplers):
    assert all_segments(layouts(3), samplers=samplers, slots=samplers + 1) == wanted


@pytest.mark.parametrize("spec", [{"threads": 2}, {"memory": 0}, {"threads": 2, "memory": 0}], ids=str)
def test_law_1_for_any_number_of_threads_and_either_table(layouts, wanted, spec):
    assert all_segments(layouts(3), **spec) == wanted


def test_another_rule_needs_nothing_but_its_class(layouts):
    layout, rule = layouts(3), FirstNeighbours(keep=2, hops=2)
    batches = micro_batches_of(
        layout, micro_batches=1, splits=3, rule=rule, batch_size=BATCH_SIZE, seed=SEED, edge_ids=False
    )
    here = {
        (0, batch): [
            sampler.segment(rank).data.tobytes() for sampler in batches.sample_all(0, batch) for rank in range(3)
        ]
        for batch in range(rule.num_batches(layout, batch_size=BATCH_SIZE))
    }
    assert len(here) == 10  # all 300 vertices start
    assert all_segments(layout, rule=rule, epochs=1) == here


def test_one_slot_is_enough(layouts, wanted):
    assert all_segments(layouts(3), samplers=3, slots=1) == wanted


def test_edge_ids_travel(weighted_layouts):
    layout = weighted_layouts(2)
    assert all_segments(layout, edge_ids=True) == segments_sampled_here(layout, edge_ids=True)


@pytest.mark.parametrize("bulk", [1, 2])
def test_a_resumed_run_samples_what_is_left(layouts, wanted, bulk):
    start = Position(epoch=1, batch=3, ahead=(2, 4))  # 0, 2 and 4 are done
    left = all_segments(layouts(3), start=start, bulk=bulk)
    assert left == {(1, batch): wanted[1, batch] for batch in (1, 3)}


def test_samplers_that_are_killed_are_replaced_and_their_tickets_sampled_again(layouts, wanted):
    arrived = {}
    killed = []

    def finished(handles):
        (handle,) = handles
        key = handle.ticket.epoch, handle.ticket.batch
        assert key not in arrived
        arrived[key] = handle
        if len(arrived) in (1, 4, 6):
            # One that waits for a slot, or is at work: whichever it is, nothing may be missing.
            victim = pool.processes[len(killed) % 2]
            killed.append(victim.pid)
            victim.kill()
        pool.released(handle.slot)

    with pool_of(layouts(3), finished, samplers=2, slots=2) as pool:
        attend(pool, lambda: pool.done)
    assert len(killed) == 3
    assert arrived.keys() == wanted.keys()


@pytest.mark.parametrize(("bulk", "samplers", "has"), [(2, 2, 2), (7, 2, 5), (None, 1, 5)])
def test_bulks_give_the_same_segments(layouts, wanted, caplog, monkeypatch, bulk, samplers, has):
    if bulk is None:  # with less of an epoch in a part, so that a few mini-batches are some
        monkeypatch.setattr("gsplit.supply.pool.PARTS_OF_AN_EPOCH", 1)
        caplog.set_level("INFO")
    with mock.patch("gsplit.supply.pool.Dispatcher", wraps=Dispatcher) as made:
        dispatchers = []
        made.side_effect = lambda *given, **named: dispatchers.append(Dispatcher(*given, **named)) or dispatchers[-1]
        assert all_segments(layouts(3), bulk=bulk, epoch=5, samplers=samplers) == wanted
    assert dispatchers[0].bulk == has
    if bulk is None:
        says(caplog.text, "--bulk auto, 5 mini-batches")
    else:
        assert "--bulk auto" not in caplog.text


def test_a_bulk_of_unsaid_size_keeps_to_memory_and_to_a_part_of_an_epoch(layouts, monkeypatch):
    def bulk(available, each, epoch, samplers):
        monkeypatch.setattr(
            "gsplit.supply.pool.host_memory", lambda: HostMemory(total_bytes=10**12, available_bytes=available)
        )
        pool = mock.Mock(slots=[None] * 5, _epoch=epoch, _samplers=dict.fromkeys(range(samplers)))
        return SamplerPool._bulk_that_fits(pool, each)

    assert bulk(available=8 * 5 * 1000 * 30, each=1000, epoch=10**6, samplers=2) == 30
    assert bulk(available=10**11, each=1000, epoch=160, samplers=2) == 20
    assert bulk(available=10**11, each=1000, epoch=10**6, samplers=2) == 256
    assert bulk(available=10, each=1000, epoch=3, samplers=2) == 1


def test_a_sampler_killed_in_a_bulk_is_replaced_and_the_bulk_sampled_again(layouts, wanted):
    segments, killed, done = {}, [], LettingGo()

    def finished(handles):
        assert len(handles) <= 2
        for handle in handles:
            key = handle.ticket.epoch, handle.ticket.batch
            assert key not in segments
            segments[key] = [Ring(pool.slots).read(handle, rank).tobytes() for rank in range(3)]
            if done.of(handle):
                pool.released(handle.slot)
        if len(killed) < 2:  # it has its next bulk, or is at it
            pool.processes[0].kill()
            killed.append(1)

    with pool_of(layouts(3), finished, samplers=1, slots=3, bulk=2) as pool:
        attend(pool, lambda: pool.done)
    assert len(killed) == 2
    assert segments == wanted


def test_a_bulk_that_does_not_fit_says_how_many_would(layouts, monkeypatch):
    monkeypatch.setattr(
        "gsplit.supply.pool.host_memory", lambda: HostMemory(total_bytes=10**6, available_bytes=10**6)
    )
    monkeypatch.setattr("gsplit.host.host_memory", lambda: HostMemory(total_bytes=10**6, available_bytes=10**6))
    with (
        pool_of(layouts(2), lambda handles: None, bulk=1000, epoch=1000) as pool,
        pytest.raises(InputError, match=line_with("# slots, 1000 mini-batches, --bulk #")),
    ):
        attend(pool, lambda: pool.done)


def test_after_too_many_the_run_ends_with_the_signal(layouts):
    def finished(handles):
        for process in pool.processes:
            process.kill()

    with (
        pool_of(layouts(2), finished, samplers=1, slots=9, max_restarts=1) as pool,
        pytest.raises(ProcessDied, match=line_with("sampler 0, pid #, SIGKILL")),
    ):
        attend(pool, lambda: pool.done)


def test_samplers_end_when_all_is_sampled_and_their_slots_stay(layouts):
    layout, arrived = layouts(2), []
    with pool_of(layout, arrived.extend, samplers=2, slots=9, epochs=1, max_restarts=0) as pool:
        pids = [process.pid for process in pool.processes]
        attend(pool, lambda: len(arrived) == 5)
        assert pool.processes == []
        assert pool.files() == []
        assert not any(psutil.pid_exists(pid) for pid in pids)
        assert not pool.done  # nobody has read them yet
        wanted = segments_sampled_here(layout, epochs=1)
        for handle in arrived:
            read = [Ring(pool.slots).read(handle, rank).tobytes() for rank in range(2)]
            assert read == wanted[0, handle.ticket.batch]
            pool.released(handle.slot)
        assert pool.done


def test_a_sampler_that_cannot_start_is_not_tried_again(tmp_path, layouts):
    layout = mock.Mock(path=tmp_path / "none", parts=2, graph=layouts(2).graph)
    with pool_of(layout, lambda handle: None) as pool, pytest.raises(ProcessDied, match=r"sampler \d failed"):
        attend(pool, lambda: pool.done)


def test_slots_that_do_not_fit_are_told_before_anything_is_sampled(layouts, monkeypatch, tmp_path):
    give_memory(monkeypatch, tmp_path, 1000)
    with (
        pool_of(layouts(2), lambda handle: None) as pool,
        pytest.raises(InputError, match=line_with("3 slots, --slots")),
    ):
        attend(pool, lambda: pool.done)


def limit_that_leaves(files: int) -> int:
    """The limit on the numbers of open files below which so many are free: high numbers in use do not count."""
    used = {int(number) for number in os.listdir("/proc/self/fd")}
    free = (number for number in itertools.count() if number not in used)
    return next(itertools.islice(free, files, None))


def test_more_slots_than_files_may_be_open(layouts):
    gc.collect()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = psutil.Process().num_fds()
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit_that_leaves(20), limits[1]))
    try:
        with (
            pytest.raises(InputError, match=line_with("50 slots, --slots, ulimit -n")),
            pool_of(layouts(2), lambda handle: None, slots=50),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert psutil.Process().num_fds() == files


def test_a_mini_batch_that_does_not_fit_enlarges_its_slot_with_a_warning(layouts, wanted, caplog):
    with mock.patch("gsplit.supply.pool.with_headroom", return_value=64):
        assert all_segments(layouts(3)) == wanted
    says(caplog.text, "64 B, slot")


def test_samplers_import_no_torch_and_end_with_the_pool(layouts, monkeypatch):
    monkeypatch.setenv(STARTS, "1")
    layout = layouts(2)
    arrived = []
    with pool_of(layout, arrived.extend) as pool:
        attend(pool, lambda: len(arrived) >= 2)
        pids = [process.pid for process in pool.processes]
        for pid in pids:
            assert not any("torch" in entry.path for entry in psutil.Process(pid).memory_maps())
    assert not any(psutil.pid_exists(pid) for pid in pids)


ORPHANS = """
import sys, time
sys.path[:0] = [{tests!r}]
from support.cgroups import give_memory
from support.rules import FirstNeighbours
from support.samplers import attend, pool_of
from gsplit.data import open_layout
arrived = []
with pool_of(open_layout({layout!r}), arrived.extend) as pool:
    attend(pool, lambda: len(arrived) >= 2)
    print(*(process.pid for process in pool.processes), flush=True)
    sys.stdin.read()
"""


def test_samplers_go_with_their_parent(layouts):
    code = ORPHANS.format(
        tests=str(os.path.dirname(os.path.dirname(os.path.dirname(__file__)))), layout=str(layouts(2).path)
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    samplers = [psutil.Process(pid) for pid in pids]
    parent.send_signal(signal.SIGKILL)
    parent.communicate(timeout=30)
    _, alive = psutil.wait_procs(samplers, timeout=10)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
