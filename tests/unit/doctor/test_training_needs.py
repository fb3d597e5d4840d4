"""What doctor says that a training of a layout takes, and whether it fits."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from support.cgroups import give_memory
from support.devices import fit
from support.messages import line_with
from support.typed_graphs import lay_out_types, random_typed_graph

from gsplit.config.train import TrainConfig
from gsplit.device import accelerator
from gsplit.device.seen import Accelerator
from gsplit.doctor import diagnosis
from gsplit.doctor.__main__ import command
from gsplit.doctor.diagnosis import examine, why_too_large
from gsplit.doctor.diagnosis_text import lines
from gsplit.doctor.host_state import host_state
from gsplit.doctor.training_needs import BEHIND, Need, needs_of
from gsplit.engine.sampled import Sampled
from gsplit.errors import InputError
from gsplit.features.room import floor_bytes
from gsplit.launch.resolve import resolve
from gsplit.supply.ring import HEADROOM


@pytest.fixture
def config(layouts):
    """config(flag=value, ...): a training of two trainers."""
    return lambda **flags: TrainConfig(
        **{"layout": layouts(2).path, "device": "cpu", "fan_out": (5, 5), "batch_size": 50, "samplers": 2, **flags}
    )


def by_name(needs):
    return {need.what: need.num_bytes for need in needs}


def test_a_step_is_what_a_dry_run_took(config):
    run = resolve(config(prefetch=3))
    needs, step = needs_of(run), Sampled().step_bytes(run)
    device = by_name(needs.accelerator)
    assert needs.step == step
    assert device["weights"] + device["gradients and optimizer"] == step.kept
    assert device["mini-batches"] == 4 * step.mini_batch
    assert sum(device.values()) == needs.accelerator_bytes == step.reserved(3)
    assert needs.accelerator_bytes - device[BEHIND] == step.peak(3)
    host, own = by_name(needs.host), Sampled().host_step_bytes(run)
    assert needs.host_step == own
    assert host["activations, of all"] == 2 * (own.peak(3) - own.kept - 4 * own.mini_batch)
    assert f"{BEHIND}, of all" not in host
    assert sum(host.values()) == needs.host_bytes


def test_what_trainers_are_supplied_from_is_counted(config, layouts):
    n, d = layouts(2).graph.features.shape
    run = resolve(config(slots=7, feature_dtype="bfloat16"))
    needs = needs_of(run)
    host = by_name(needs.host)
    assert host["features, copied"] == n * d * 2
    assert host["slots"] == 7 * int(HEADROOM * needs.step.slot)
    assert host["samplers"] >= 2 * 8 * n
    assert by_name(needs_of(resolve(config(slots=7, bulk="3"))).host)["slots"] == pytest.approx(
        3 * host["slots"], rel=0.01
    )
    alone = by_name(needs_of(resolve(config(samplers=0))).host)
    assert not {"samplers", "slots", "features, copied"} & set(alone)


def test_caches_are_the_host_s_on_the_cpu(config, layouts):
    n, d = layouts(2).graph.features.shape
    needs = needs_of(resolve(config(cache_size="100%")))
    assert by_name(needs.host)["caches"] == 2 * needs.cache_bytes
    assert needs.cache_bytes * 2 >= n * d * 4
    assert needs_of(resolve(config(cache_size="4KiB"))).cache_bytes == 4 << 10
    assert needs_of(resolve(config(cache_size="1MiB"))).cache_bytes == n * d * 4  # there are no more
    assert needs_of(resolve(config(cache_size="auto"))).cache_bytes is None
    replicated = needs_of(resolve(config(cache_size="50%", cache="replicated", strategy="data")))
    assert replicated.cache_bytes == n // 2 * d * 4


def test_evaluation_is_counted_at_most(config):
    exact, none = (by_name(needs_of(resolve(config(evaluate=how))).host) for how in ("exact", "none"))
    assert exact["evaluation"] > 0
    assert "evaluation" not in none


def test_a_graph_of_several_types(tmp_path, monkeypatch):
    fit(monkeypatch)
    graph = random_typed_graph(4, 6, seed=38)
    layout = lay_out_types(graph, tmp_path, parts=2)
    given = {"layout": layout.path, "device": "cpu", "model": "rgcn", "fan_out": (5, 5), "batch_size": 20}
    found = examine(TrainConfig(**given, samplers=2, train_features=8))
    assert found.problems == []
    needs, rows = found.training, graph.schema.types[3].num_vertices
    host, plain = by_name(needs.host), {"evaluation", "samplers", "slots", "trained features", "weights, of all"}
    assert plain <= set(host)
    assert host["trained features"] == rows * 8 * 4
    assert host["weights, of all"] >= 2 * (rows // 2) * 8 * 4
    assert "it would take of an accelerator" in "\n".join(lines(found))
    run = resolve(TrainConfig(**given, samplers=2, train_features=8))
    assert needs.step == Sampled().step_bytes(run)
    beside = replace(run, config=replace(run.config, device="xpu"))
    monkeypatch.setattr(accelerator, "reads_host_memory", lambda _: True)
    on_device = by_name(needs_of(beside).host)
    assert on_device["trained features"] == 2 * host["trained features"]
    assert "features, copied" not in on_device
    assert on_device["pinned staging"] > 0
    (problem,) = examine(TrainConfig(**given)).problems
    assert "--train-features" in problem


def test_plans_of_the_whole_graph_are_for_a_dry_run(config, monkeypatch, tmp_path):
    fit(monkeypatch)
    whole = config(strategy="full", fan_out=TrainConfig.fan_out, samplers=None, batch_size=512)
    found = examine(whole)
    assert (found.training, found.problems) == (None, [])
    assert any("--dry-run" in remark for remark in found.remarks)
    give_memory(monkeypatch, tmp_path, 64 << 20)
    assert "no plan fits" in examine(whole).problems[0]


@pytest.fixture
def fits(config):
    """fits(host=bytes, device=bytes, ...): the problems of a training that takes 1,000 and 900."""
    needs = replace(
        needs_of(resolve(config())),
        host=[Need(what="slots", num_bytes=600, about="--slots"), Need(what="rest", num_bytes=400, about="")],
        host_bytes=1000,
        accelerator=[Need(what="activations", num_bytes=900, about="--batch-size")],
        accelerator_bytes=900,
    )

    def problems(*, host=1000, device=900, kind="xpu", known=True):
        total = next(total for total in range(device, 2 * device) if total - floor_bytes(total) == device)
        free = total if known else None
        cards = [Accelerator(kind="xpu", index=i, name="", total_bytes=total, free_bytes=free) for i in range(2)]
        there = replace(host_state(), memory_available_bytes=host)
        return list(why_too_large(replace(needs, device=kind), there, cards))

    return problems


def test_what_fits_exactly_fits(fits):
    assert fits() == []
    assert fits(known=False) == []
    assert fits(device=800, kind="cpu") == []


def test_what_does_not_fit_is_named_with_what_takes_most(fits):
    (of_host,), (of_device,) = fits(host=999), fits(device=899)
    for part in ("1000 B", "999 B", "slots", "600 B", "--slots"):
        assert part in of_host
    for part in ("900 B", "xpu:0", "899 B", "activations", "--batch-size"):
        assert part in of_device
    assert fits(device=899, known=False) == [of_device]


def test_a_host_with_little_memory_is_a_problem(config, monkeypatch, tmp_path, capsys):
    give_memory(monkeypatch, tmp_path, 64 << 20)
    with pytest.raises(InputError, match=line_with("host, # MiB, 64.0 MiB")):
        command([str(config().layout), "--fan-out", "5,5", "--device", "cpu", "--evaluate", "none"])
    assert "processes of trainers" in capsys.readouterr().out


def test_what_a_training_refuses_is_a_problem(config, monkeypatch, tmp_path):
    fit(monkeypatch)
    assert examine(config(cache_size="900TiB")).problems[0].startswith("--cache-size 900.0 TiB: cpu has")
    (problem,) = examine(TrainConfig(layout=tmp_path / "missing")).problems
    assert str(tmp_path / "missing") in problem
    assert examine(config(train_features=8)).training is None


def test_nothing_is_started_or_written(config, monkeypatch, tmp_path, capsys):
    def no_process(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", no_process)
    monkeypatch.setattr("subprocess.Popen.__init__", no_process)
    monkeypatch.chdir(tmp_path)
    folder = config().layout
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    command([str(folder), "--device", "cpu", "--out", "run", "--json"])
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert os.listdir(tmp_path) == []
    training = json.loads(capsys.readouterr().out)["training"]
    assert (training["trainers"], training["device"]) == (2, "cpu")
    assert training["accelerator_bytes"] == sum(need["num_bytes"] for need in training["accelerator"])


def test_lines_say_what_a_training_takes(config, monkeypatch):
    text = "\n".join(lines(examine(config(cache_size="auto"))))
    for part in ("2 trainers and 2 samplers", "processes of trainers", "it would take of an accelerator", "weights"):
        assert part in text
    card = Accelerator(kind="xpu", index=0, name="Card", total_bytes=1 << 30, free_bytes=1 << 29)
    monkeypatch.setattr("gsplit.doctor.diagnosis.seen", lambda: [card])
    monkeypatch.setattr(diagnosis, "resolve", lambda _: resolve(config(cache_size="auto")))
    needs = needs_of(resolve(config(cache_size="auto")))
    monkeypatch.setattr(diagnosis, "needs_of", lambda _: replace(needs, device="xpu"))
    text = "\n".join(lines(examine(config())))
    for part in ("it takes of an accelerator", "of 512.0 MiB free", "--cache-size auto"):
        assert part in text
    monkeypatch.setattr(diagnosis, "needs_of", lambda _: replace(needs, accelerator=[], accelerator_bytes=0))
    assert "what it takes of an accelerator is not known" in "\n".join(lines(examine(config())))


def test_zero_copy_takes_a_copy_of_the_features(config, monkeypatch, layouts):
    run = resolve(config())
    run = replace(run, config=replace(run.config, device="xpu"))
    monkeypatch.setattr(accelerator, "reads_host_memory", lambda _: True)
    n, d = layouts(2).graph.features.shape
    assert by_name(needs_of(run).host)["features, copied"] == n * d * 4
    monkeypatch.setattr(accelerator, "reads_host_memory", lambda _: False)
    assert "features, copied" not in by_name(needs_of(run).host)
