"""How many samplers a run has by default, and how many it may have."""

from __future__ import annotations

import os

import pytest
from support.graphs import lay_out, random_graph
from support.messages import line_with, says

from gsplit.config.resolved import Placed
from gsplit.config.train import TrainConfig
from gsplit.data import open_layout
from gsplit.engine.sampled import engine
from gsplit.engine.sampled.engine import Sampled, sampler_bytes, samplers_of
from gsplit.errors import InputError
from gsplit.limits import HostMemory
from gsplit.sampling.fresh import bytes_of_sets

GIB = 1 << 30


@pytest.mark.parametrize(
    ("cores", "world", "device", "asked", "samplers"),
    [
        (64, 4, "cpu", None, 8),  # two for each trainer
        (64, 4, "xpu", None, 32),  # eight for each GPU
        (256, 16, "xpu", None, 64),
        (8, 4, "cpu", None, 4),  # what the trainers leave over
        (8, 4, "xpu", None, 4),
        (2, 4, "cpu", None, 1),  # but one: the alternative is that every trainer samples all
        (2, 4, "cpu", 0, 0),
        (2, 4, "xpu", 5, 5),
    ],
)
def test_the_default_is_what_the_trainers_leave_over(monkeypatch, cores, world, device, asked, samplers):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    monkeypatch.setattr(engine, "host_memory", lambda: HostMemory(total_bytes=64 * GIB, available_bytes=64 * GIB))
    assert samplers_of(TrainConfig(samplers=asked), world, device, 24 << 20) == samplers


def test_samplers_that_nobody_asked_for_keep_to_a_share_of_the_memory(monkeypatch, caplog):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    monkeypatch.setattr(engine, "host_memory", lambda: HostMemory(total_bytes=64 * GIB, available_bytes=10 * GIB))
    assert samplers_of(TrainConfig(), 4, "xpu", GIB) == 2
    says(caplog.text, "--samplers, 2, 32, 1.0 GiB, 10.0 GiB")
    assert samplers_of(TrainConfig(), 4, "xpu", 20 * GIB) == 1
    assert samplers_of(TrainConfig(samplers=10), 4, "xpu", GIB) == 10
    with pytest.raises(InputError, match=line_with("--samplers, 11, 11.0 GiB, 10.0 GiB, 10")):
        samplers_of(TrainConfig(samplers=11), 4, "xpu", GIB)


def test_a_sampler_takes_its_maps(layouts):
    n = layouts(2).graph.num_vertices
    alone = sampler_bytes(TrainConfig(sampler_memory="0B"), layouts(2))
    assert sampler_bytes(TrainConfig(), layouts(2)) == alone + 8 * n
    assert sampler_bytes(TrainConfig(sampler_memory="1KiB"), layouts(2)) == alone + 1024
    fresh = TrainConfig(sampling="uniform", subgraph="50", fresh=True, num_layers=3, sampler_memory="0B")
    assert sampler_bytes(fresh, layouts(2)) == alone + bytes_of_sets(n, 50, 3)


def test_no_more_than_a_host_can_start(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    with pytest.raises(InputError, match=line_with("--samplers, 10000, 2, 64")):
        samplers_of(TrainConfig(samplers=10000), 4, "cpu", 0)


def test_slots_that_nobody_asked_for_keep_to_the_most_there_may_be(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(256)))
    monkeypatch.setattr(engine, "host_memory", lambda: HostMemory(total_bytes=64 * GIB, available_bytes=64 * GIB))
    layout = open_layout(lay_out(random_graph(30, 3), tmp_path, parts=2).path)
    config = TrainConfig(layout=layout.path, device="cpu", samplers=900, prefetch=256)
    assert Sampled().resolve(Placed.of(config, 2, "cpu"), layout).slots == 1024
