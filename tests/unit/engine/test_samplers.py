"""How many samplers a run has by default, and how many it may have."""

from __future__ import annotations

import os

import pytest
from support.graphs import lay_out, random_graph

from gsplit.config.train import TrainConfig
from gsplit.data import open_layout
from gsplit.engine.sampled.engine import Sampled, samplers_of
from gsplit.errors import InputError


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
    assert samplers_of(TrainConfig(samplers=asked), world, device) == samplers


def test_no_more_than_a_host_can_start(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    with pytest.raises(InputError, match="--samplers is 10000, but there are 2 cores; use at most 64"):
        samplers_of(TrainConfig(samplers=10000), 4, "cpu")


def test_slots_that_nobody_asked_for_keep_to_the_most_there_may_be(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(256)))
    layout = open_layout(lay_out(random_graph(30, 3), tmp_path, parts=2).path)
    config = TrainConfig(gpus=2, device="cpu", samplers=900, prefetch=256)
    assert Sampled().resolve(config, layout).slots == 1024
