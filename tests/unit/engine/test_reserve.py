"""What training takes of an accelerator beside a cache, and that whoever makes a cache is told."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from support.runs import run_for
from torch import nn

from gsplit.config.train import TrainConfig
from gsplit.device import accelerator
from gsplit.device.precision import Precision
from gsplit.engine.dry import StepBytes
from gsplit.engine.evaluation.evaluation_memory import chunk_bytes
from gsplit.engine.feed import MOST_BEGUN
from gsplit.engine.level_widths import widths_of
from gsplit.engine.rows.loading import Loading
from gsplit.engine.rows.reserve import reserve_of
from gsplit.features import Memory, PeerCaches
from gsplit.nn import SAGE
from gsplit.parallel import Member
from gsplit.units import CacheSize

STEP = StepBytes(weights=100, kept=400, mini_batch=1000, loading=300, step=9000, slot=0, between=2500)


@pytest.fixture
def run(layouts, tmp_path):
    """run(flag=value, ...): a run of two trainers, which evaluates nothing."""

    def make(**flags):
        given = {"fan_out": (5, 5), "batch_size": 20, "evaluate": "none", "device": "cpu", **flags}
        return replace(run_for(TrainConfig(layout=layouts(2).path, out=tmp_path, **given), 2), step=STEP)

    return make


@pytest.mark.parametrize(("prefetch", "most"), [(0, 9000), (1, 9000 + 300 + 1000), (3, 9000 + 300 + 3000)])
def test_the_peak_is_a_step_with_what_is_loaded_beside_it(prefetch, most):
    assert STEP.peak(prefetch) == most
    assert STEP.reserved(prefetch) == most + MOST_BEGUN * 1000
    assert STEP.activations == 9000 - 400 - 1000


def test_between_small_steps_two_mini_batches_are_there():
    small = replace(STEP, step=2000)
    assert small.peak(prefetch=0) == 2500 + 300
    assert small.peak(prefetch=2) == 2500 + 300 + 2000
    assert replace(STEP, step=1000).activations == 0


def test_a_reserve_is_what_a_step_takes(run, layouts):
    layout = layouts(2)
    assert reserve_of(run(prefetch=2), layout) == STEP.reserved(2)
    assert reserve_of(replace(run(), step=None), layout) is None


def test_evaluation_may_take_more(run, layouts):
    layout, exact = layouts(2), run(evaluate="exact", hidden=64)
    chunk = chunk_bytes(layout, [layout.graph.num_features, 64, layout.graph.num_classes], Precision.named("32"), 2)
    assert chunk > STEP.step
    assert reserve_of(exact, layout) == STEP.kept + 2 * STEP.mini_batch + chunk
    large = replace(exact, step=replace(STEP, step=chunk + 10_000))
    assert reserve_of(large, layout) == large.step.reserved(1)
    assert reserve_of(run(evaluate="sampled"), layout) == STEP.reserved(1)


def test_metrics_keep_an_epoch_s_logits(run, layouts):
    layout = layouts(2)
    pytest.importorskip("sklearn")
    said = reserve_of(run(metrics="ap"), layout) - STEP.reserved(1)
    each = layout.graph.num_classes * 4 + 8
    assert said == int(0.625 * len(layout.graph.train_idx) * each)  # half the vertices, by five quarters
    of_rule = {"fan_out": TrainConfig.fan_out, "batch_size": TrainConfig.batch_size, "num_layers": 2}
    drawn = run(metrics="ap", sampling="saint", subgraph="50%", **of_rule)
    assert reserve_of(drawn, layout) - STEP.reserved(1) == int(0.625 * layout.graph.num_vertices * each)


def test_whoever_makes_a_cache_is_told(monkeypatch, run, layouts):
    told = []
    monkeypatch.setattr(accelerator, "count", lambda kind: {"xpu": 2}[kind])
    monkeypatch.setattr(Memory, "of", lambda *where, **beside: told.append((where, beside)))
    device = torch.device("xpu", 0)
    loading = SimpleNamespace(_run=run(), _layout=layouts(2), _member=Member(rank=0, world=2, device=device))
    Loading._memory(loading)
    assert told == [((device, 1), {"working_bytes": STEP.reserved(1)})]


@pytest.mark.parametrize("reached", [[True, True], [True, False]])
def test_rows_that_a_device_cannot_reach_are_rows_of_the_host(monkeypatch, layouts, reached):
    """The host's rows are made readable for kernels by all where one lacks some, and by none where all is cached."""
    monkeypatch.setattr(PeerCaches, "on_gpus", lambda *_, **__: SimpleNamespace(reaches_all=True))
    member = SimpleNamespace(device=torch.device("xpu", 0), rank=0, local=0)
    whole = {"cache": "partitioned", "cache_size": CacheSize.parse("100%"), "cache_holders": 2, "peers": True}
    memory = Memory(device="xpu:0", total_bytes=1 << 30, free_bytes=1 << 30, auto_bytes=1 << 30)
    loading = SimpleNamespace(
        _strategy=SimpleNamespace(**whole),
        _layout=layouts(2),
        _member=member,
        _host=SimpleNamespace(row_bytes=4),
        _threads=1,
        _memory=lambda: memory,
        _gathered=lambda own: reached if own is True else [own, own],
        _gathered_here=lambda own: [own, own],
    )
    Loading._make_cache(loading)
    assert loading._everything_cached == all(reached)


def test_widths():
    assert widths_of(SAGE(12, 7, 3, num_layers=2), 12, 2) == [12, 7, 3]
    unknown = nn.Sequential(nn.Linear(12, 50), nn.BatchNorm1d(50), nn.Linear(50, 3)).to(torch.float64)
    assert widths_of(unknown, 12, 2) == [12, 50, 50]
    assert widths_of(nn.Identity(), 12, 1) == [12, 12]
