"""A dry run of one training step: the same count wherever it is made, for all models, and nothing left of it."""

from __future__ import annotations

import logging
import os
from dataclasses import astuple, replace

import numpy as np
import pytest
import torch
from support.messages import line_with, says
from support.models import PyGNet
from support.runs import run_for
from support.samplers import micro_batches_of
from support.typed_graphs import lay_out_types, random_typed_graph
from torch import nn

from gsplit.config.train import TrainConfig
from gsplit.data import open_layout
from gsplit.device import accelerator
from gsplit.engine.dry import StepBytes, dry_step, room_for_step
from gsplit.engine.dry.dry_step import _loading, largest_split, measured
from gsplit.engine.sampled import Sampled
from gsplit.errors import InputError
from gsplit.features.room import floor_bytes
from gsplit.launch import resolve as resolve_module

ONE_PIECE = 2 * 512
"""Bytes by which counts on two devices may differ: what the CPU keeps of a scalar."""


@pytest.fixture
def run(layouts, tmp_path):
    """run(flag=value, ...): a run of two trainers."""

    def make(handed=None, **flags):
        given = {"fan_out": (5, 5), "batch_size": 50, "hidden": 32, "device": "cpu", **flags}
        return run_for(TrainConfig(layout=layouts(2).path, out=tmp_path / "run", **given), 2, handed)

    return make


def taken(run) -> StepBytes | None:
    return Sampled().step_bytes(run)


def split_of(run):
    layout, engine = open_layout(run.layout), Sampled()
    return layout, largest_split(run, layout, engine.sampling(run, layout), engine.num_batches(run, layout))[0]


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"exchange": "auto", "norm": "batch", "dropout": 0.5},
        {"model": "gat", "dtype": "float64"},
        {"model": "gat", "attention_dropout": 0.2, "input_projection": True},
        {"model": "gcn", "clip_grad_norm": 1.0, "accumulate": 2},
        {"class_weights": "balanced", "optimizer": "sgd", "momentum": 0.9},
        {"sampling": "ladies", "layer_sizes": (50, 50), "fan_out": TrainConfig.fan_out},
        {"precision": "bf16-mixed", "norm": "batch"},
        {"precision": "bf16-mixed", "model": "gat"},
    ],
)
def test_without_values_the_same_is_counted(run, flags):
    decided = run(**flags)
    layout, segment = split_of(decided)
    on = {kind: measured(decided, layout, segment, torch.device(kind)) for kind in ("cpu", "meta")}
    parameters = sum(1 for _ in decided.new_model().parameters())
    for here, there in zip(astuple(on["cpu"]), astuple(on["meta"]), strict=True):
        assert there == pytest.approx(here, abs=ONE_PIECE + 512 * parameters)  # Adam counts its steps on the host


@pytest.mark.parametrize("flags", [{}, {"model": "rgat", "norm": "batch"}, {"bases": 2, "optimizer": "sgd"}], ids=str)
def test_of_several_types_the_same_is_counted_without_values(tmp_path, flags):
    layout = lay_out_types(random_typed_graph(4, 8, seed=5, vertices=300), tmp_path, parts=2)
    given = {"model": "rgcn", "train_features": 16, "fan_out": (5, 5), "batch_size": 50, "hidden": 32, **flags}
    decided = run_for(TrainConfig(layout=layout.path, out=tmp_path / "run", device="cpu", **given), 2)
    engine = Sampled()
    segment, _ = largest_split(decided, layout, engine.sampling(decided, layout), engine.num_batches(decided, layout))
    on = {kind: measured(decided, layout, segment, torch.device(kind)) for kind in ("cpu", "meta")}
    parameters = sum(1 for _ in decided.new_model().parameters())
    for here, there in zip(astuple(on["cpu"]), astuple(on["meta"]), strict=True):
        assert there == pytest.approx(here, abs=ONE_PIECE + 512 * parameters)
    rows = max(np.diff(layout.offsets_by_type[3])) * 16 * 4
    assert on["cpu"].weights >= rows + sum(p.nbytes for p in decided.new_model().parameters())
    assert on["cpu"].kept >= 2 * rows


def test_a_step_grows_with_what_it_is_made_of(run):
    plain = taken(run())
    parameters = sum(-(-p.nbytes // 512) * 512 for p in run().new_model().parameters())
    assert plain.weights == pytest.approx(parameters, abs=ONE_PIECE)
    assert plain.kept == pytest.approx(4 * parameters, rel=0.3)  # gradients in one piece, and two of Adam
    plainer = taken(run(optimizer="sgd"))
    assert plain.kept - plainer.kept == pytest.approx(2 * parameters, abs=ONE_PIECE)
    assert plain.step - plainer.step == pytest.approx(2 * parameters, abs=ONE_PIECE)  # in forward and backward, too
    assert taken(run(hidden=64)).activations > 1.5 * plain.activations
    assert taken(run(fan_out=(5, 2))).mini_batch < plain.mini_batch
    assert taken(run(batch_size=20)).step < plain.step
    assert taken(run(dtype="float64")).activations > 1.5 * plain.activations
    mixed = taken(run(precision="bf16-mixed"))
    assert mixed.activations < 0.9 * plain.activations
    assert mixed.mini_batch < plain.mini_batch


def test_the_split_that_takes_most_is_measured(run):
    """Beside the splits that the run's own sampler makes of each of the mini-batches that are looked at."""
    decided = run(batch_size=40)
    layout, segment = split_of(decided)
    engine, widths = Sampled(), [layout.graph.num_features, 32, layout.graph.num_classes]
    micro_batches = micro_batches_of(
        layout, micro_batches=1, splits=2, rule=engine.rule(decided), batch_size=40, seed=0, edge_ids=False
    )
    sizes = []
    for batch in range(engine.num_batches(decided, layout)):
        (sampler,) = micro_batches.sample_all(0, batch)
        for split in (0, 1):
            own = sampler.segment(split)
            rows = sum(size * width for size, width in zip(own.level_sizes, widths, strict=True))
            sizes.append(own.num_bytes + 4 * rows)
    rows = sum(size * width for size, width in zip(segment.level_sizes, widths, strict=True))
    assert segment.num_bytes + 4 * rows == max(sizes)
    assert sizes.index(max(sizes)) > 0


def test_large_steps_are_made_without_values_if_they_can_be(run, monkeypatch):
    made = []

    def fails_first(*where, on_host):
        assert not on_host
        made.append(where[-1].type)
        if len(made) == 1:
            raise RuntimeError("no values")
        return STEP

    monkeypatch.setattr(dry_step, "measured", fails_first)
    decided = run()
    assert taken(decided) is None
    assert made == ["cpu"]
    monkeypatch.setattr(dry_step, "SMALL", 0)
    made[:] = []
    assert taken(decided).step == STEP.step
    assert made == ["meta", "cpu"]


class Looks(nn.Module):
    """A layer of the user's that looks at values, which there are none of on meta."""

    def __init__(self, width, fails=None):
        super().__init__()
        self.lin, self.fails = nn.Linear(width, 3), fails

    def forward(self, blocks, x):
        if self.fails is not None:
            raise self.fails
        for block in blocks.values():
            x = block.mean(x)
        assert float(x.detach().sum()) == 0.0
        return self.lin(x)


def test_a_model_that_looks_at_values_is_computed(run, monkeypatch):
    monkeypatch.setattr(dry_step, "SMALL", 0)
    decided = run(Looks(5))
    layout, segment = split_of(decided)
    found = taken(decided)
    assert found == replace(measured(decided, layout, segment, torch.device("cpu")), slot=found.slot)
    assert found.slot > 1.5 * segment.num_bytes  # of both trainers


def test_a_model_that_fails_is_left_to_the_trainers(run, caplog):
    assert taken(run(Looks(5, ZeroDivisionError("of the user's")))) is None
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING and "its dry run fails" in r.message]
    says(record.message, "of the user's")
    with pytest.raises(InputError, match="of ours"):
        taken(run(Looks(5, InputError("of ours"))))


@pytest.mark.parametrize(
    ("name", "value", "said"), [("CPU_SHARE", 1e-9, "it takes more than"), ("CPU_S", 0.0, "it takes longer than 0 s")]
)
def test_a_model_that_looks_at_values_is_not_computed_beyond_bounds(run, monkeypatch, caplog, name, value, said):
    monkeypatch.setattr(dry_step, "SMALL", 0)
    monkeypatch.setattr(dry_step, name, value)
    assert taken(run(Looks(5))) is None
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING and "its dry run fails" in r.message]
    assert f"its dry run fails: {said}" in record.message


def test_with_the_kernels_of_the_cpu_less_is_kept_unless_that_is_beyond_bounds(run, monkeypatch):
    monkeypatch.setattr(dry_step, "SMALL", 0)
    decided = run(hidden=128)
    of_device, of_host = taken(decided), Sampled().host_step_bytes(decided)
    assert of_host.activations < of_device.activations
    monkeypatch.setattr(dry_step, "CPU_S", 0.0)
    assert Sampled().host_step_bytes(decided) == of_device


@pytest.mark.parametrize("large", [False, True])
def test_a_model_of_pyg_with_loops_of_its_own(run, monkeypatch, large):
    convs = pytest.importorskip("torch_geometric.nn")
    monkeypatch.setattr(dry_step, "SMALL", 0 if large else 1 << 30)
    model = PyGNet([convs.GATv2Conv((5, 5), 8), convs.GATv2Conv((8, 8), 3)])
    found = taken(run(model))
    assert found.activations > found.mini_batch > found.weights


def test_rows_that_are_converted_or_placed_are_there_twice_for_a_while(run):
    layout, segment = split_of(run())
    rows, width = len(segment.vertices), layout.graph.num_features
    assert _loading(run(), layout, segment) == 0
    assert _loading(run(dtype="float64"), layout, segment) == rows * width * 4
    assert _loading(run(feature_dtype="float16"), layout, segment) == rows * width * 2
    assert _loading(run(cache_size="50%"), layout, segment) == rows * (width * 4 + 16)


def test_nothing_is_left_and_nothing_is_drawn(run, layouts):
    decided = run()
    before = sorted(os.listdir(layouts(2).path)), torch.random.get_rng_state()
    taken(decided)
    assert sorted(os.listdir(layouts(2).path)) == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])


STEP = StepBytes(weights=1 << 20, kept=4 << 20, mini_batch=2 << 20, loading=0, step=20 << 20, slot=0, between=8 << 20)


@pytest.mark.parametrize(
    ("total", "sharers", "flags", "said"),
    [
        (28, 1, {}, None),
        (56, 2, {}, None),
        (27, 1, {}, "26.0 MiB, 14.0 MiB, 2.0 MiB, 25.3 MiB"),
        (54, 2, {}, "cpu, 25.3 MiB, --batch-size, --fan-out"),
        (6, 1, {}, "4.0 MiB, smaller model, --batch-size"),
        (27, 1, {"sampling": "uniform", "subgraph": "20%", "num_layers": 2}, "--subgraph"),
    ],
)
def test_a_step_that_does_not_fit_is_refused_with_a_way_out(run, total, sharers, flags, said):
    of_rule = {"fan_out": TrainConfig.fan_out, "batch_size": TrainConfig.batch_size} if flags else {}
    there = ((total << 20) - floor_bytes(total << 20)) // sharers
    line = room_for_step.why_not(STEP, run(prefetch=1, **flags, **of_rule), there)
    assert (line is None) == (said is None)
    if line is not None:
        says(line, said)


FITS = 1.1
"""A device with so many times what a step takes has room for it, and for nothing else: a sixteenth stays free."""


@pytest.mark.parametrize(
    ("share", "flags", "said"),
    [
        (FITS, {"cache": "none"}, None),
        (0.9, {"cache": "none"}, "# KiB, xpu, --batch-size"),
        (FITS, {"cache_size": "auto"}, "--cache-size auto, xpu, # KiB"),
        (10, {"cache_size": "auto"}, None),
    ],
)
def test_a_run_on_accelerators_is_refused_before_it_starts(run, monkeypatch, share, flags, said):
    alike = {"hidden": 64, "evaluate": "none", **flags}
    decided = run(**alike)
    step = taken(decided)
    monkeypatch.setattr(accelerator, "find", lambda _: ("xpu", 2))
    monkeypatch.setattr(accelerator, "count", lambda _: 2)
    monkeypatch.setattr(accelerator, "smallest_bytes", lambda _: int(share * step.reserved(1)))
    config = replace(decided.asked, device="xpu")
    if said is None:
        assert resolve_module.resolve(config).step == step
        return
    with pytest.raises(InputError, match=line_with(said)):
        resolve_module.resolve(config)


def test_on_the_cpu_no_step_is_made(run):
    assert run().step is None
