"""The report's figures, beside brute force over the slow reference sampler."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.messages import line_with
from support.reference import splits_of

from gsplit.errors import InputError
from gsplit.partition import show
from gsplit.partition.__main__ import command
from gsplit.partition.presample import Training, presample
from gsplit.partition.report import CACHE_PERCENTS, hit_rates, measure
from gsplit.sampling.plan import EpochPlan

TRAINING = Training(fan_out=(3, 4), batch_size=30)


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return lay_out(random_graph(200, 6), tmp_path_factory.mktemp("report"), parts=3)


def epoch_of(layout, seed):
    """The splits of each mini-batch of the first epoch of a training with this seed, by the reference."""
    plan = EpochPlan(layout.graph.train_idx, layout.permutation, TRAINING.batch_size, seed)
    for batch, targets in plan.batches(0):
        yield splits_of(layout, targets, TRAINING.fan_out, seed=seed, batch=batch)


def test_sampled_figures_equal_the_reference(layout):
    report = measure(layout, TRAINING, epochs=1, seed=4, threads=1)
    offsets, skews, inputs = layout.offsets.tolist(), [], []
    edges_P, targets_P, local = np.zeros(3), np.zeros(3), 0
    for splits in epoch_of(layout, 4):
        edges = [sum(len(row) for rows in split.edges.values() for row in rows) for split in splits]
        skews.append((max(edges) - min(edges)) / (sum(edges) / 3))
        edges_P += edges
        targets_P += [split.level_sizes[2] for split in splits]
        inputs.append([len(split.vertices) for split in splits])
        for p, split in enumerate(splits):
            local += sum(
                offsets[p] <= u < offsets[p + 1] for rows in split.edges.values() for row in rows for u in row
            )
    sampled = report["sampled"]
    assert sampled["iterations"] == len(skews) == 4
    assert sampled["edges_per_part"] == edges_P.tolist()
    assert sampled["edges"] == edges_P.sum()
    assert sampled["local_edges"] == pytest.approx(local / edges_P.sum())
    assert sampled["edge_skew"] == pytest.approx(np.mean(skews))
    assert sampled["balance_edges"] == pytest.approx(edges_P.max() / edges_P.mean())
    assert sampled["balance_targets"] == pytest.approx(targets_P.max() / targets_P.mean())
    assert sampled["balance_inputs"] == pytest.approx(np.sum(inputs, 0).max() / np.sum(inputs, 0).mean())
    assert sampled["inputs_per_iteration"] == pytest.approx(np.sum(inputs) / 4)


def test_hit_rates_equal_a_count(layout):
    seen = [{v for split in splits for v in split.vertices} for splits in epoch_of(layout, 0)]
    loaded = np.array([sum(v in inputs for inputs in seen) for v in range(200)])
    out_degrees = np.bincount(layout.graph.indices, minlength=200)
    counts = presample(layout.graph, TRAINING, epochs=1, seed=0, global_ids=[layout.permutation]).loaded
    counts = 1000 * counts + out_degrees
    report = measure(layout, TRAINING, epochs=1, seed=0, threads=1)["cache"]
    assert report["percent"] == list(CACHE_PERCENTS)
    heats = {"this layout": -np.arange(200), "degree": out_degrees, "presample": counts, "optimal": loaded}
    for name, heat in heats.items():
        for percent, rate in zip(CACHE_PERCENTS, report["hit_rate"][name], strict=True):
            cached: set[int] = set()
            for begin, end in zip(layout.offsets[:-1].tolist(), layout.offsets[1:].tolist(), strict=True):
                hottest = begin + np.argsort(-heat[begin:end], kind="stable")
                cached |= set(hottest[: round((end - begin) * percent / 100)].tolist())
            assert rate == pytest.approx(sum(len(inputs & cached) for inputs in seen) / loaded.sum())
    best = report["hit_rate"]["optimal"]
    assert all(a >= b for rates in report["hit_rate"].values() for a, b in zip(best, rates, strict=True))
    assert best[-1] == 1


def test_without_edges_all_are_local(tmp_path):
    graph = replace(random_graph(20, 3), indptr=np.zeros(21, np.int64), indices=np.zeros(0, np.int32))
    report = measure(lay_out(graph, tmp_path, parts=3), TRAINING, epochs=1, seed=0, threads=1)
    assert report["sampled"]["local_edges"] == report["graph"]["local_edges"] == 1.0
    assert report["sampled"]["edge_skew"] == 0.0


def test_no_inputs_no_hits():
    assert hit_rates(np.zeros(4, np.int64), np.array([0, 2, 4]), None) == [0.0] * len(CACHE_PERCENTS)


def test_the_command_prints_and_writes(layout, tmp_path, capsys):
    command(
        ["report", str(layout.path), "--out", str(tmp_path / "quality"), "--fan-out", "3,4", "--batch-size", "30"]
    )
    printed = capsys.readouterr().out
    assert json.loads((tmp_path / "quality.json").read_text()) == measure(
        layout, TRAINING, epochs=1, seed=0, threads=1
    )
    assert (tmp_path / "quality.png").read_bytes().startswith(b"\x89PNG")
    for words in ("3 parts by metis", "4 iterations counted", "edge skew", "optimal", "quality.json and"):
        assert words in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quality.json", "quality.png"]


@pytest.mark.parametrize(
    ("out", "stem"),
    [("rep.json", "rep"), ("rep.png", "rep"), ("rep.PNG", "rep"), ("v1.2", "v1.2"), ("v1.json.2", "v1.json.2")],
)
def test_an_ending_of_out_does_not_come_twice(layout, tmp_path, monkeypatch, out, stem):
    monkeypatch.setattr(show, "draw", lambda report: b"a picture")
    command(["report", str(layout.path), "--out", str(tmp_path / out)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{stem}.json", f"{stem}.png"]


def test_by_default_beside_the_layout_and_with_what_it_was_presampled_with(tmp_path):
    lay_out(random_graph(200, 6), tmp_path, parts=2)
    flags = ["--weights", "presample", "--fan-out", "2,2", "--batch-size", "50"]
    command([str(tmp_path / "store"), "--parts", "2", "--out", str(tmp_path / "layout"), *flags])
    command(["report", str(tmp_path / "layout")])
    report = json.loads((tmp_path / "layout-report.json").read_text())
    assert report["training"] == {"fan_out": [2, 2], "batch_size": 50, "epochs": 1, "seed": 0}
    assert (report["layout"]["weights"], report["layout"]["hotness"]) == ("presample", "presample")


def test_without_matplotlib_there_is_no_picture(layout, tmp_path, monkeypatch, caplog, capsys):
    def missing(report):
        raise ImportError

    monkeypatch.setattr(show, "draw", missing)
    command(["report", str(layout.path), "--out", str(tmp_path / "quality")])
    assert "pip install matplotlib" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["quality.json"]
    assert "quality.png" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("quality", {}, "layout.json, balance_edges"),
        ("presample", {"fan_out": 3}, "layout.json"),
        ("presample", {"fan_out": [3], "batch_size": "many"}, "layout.json"),
        ("presample", {"fan_out": [3], "batch_size": 9, "fan_out_of": {"r": 3}}, "layout.json"),
    ],
)
def test_damaged_descriptions(tmp_path, key, value, message):
    path = lay_out(random_graph(50, 4), tmp_path, parts=2).path
    description = json.loads((path / "layout.json").read_text())
    (path / "layout.json").write_text(json.dumps({**description, key: value}))
    with pytest.raises(InputError, match=line_with(message)):
        command(["report", str(path)])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--epochs", "0"], "--epochs, 1, 0"),
        (["--batch-size", "0"], "--batch-size, 1, 0"),
        (["--fan-out", "0"], "--fan-out, 1, 0"),
        (["--threads", "257"], "--threads, 256, 257"),
        (["--out", "a" * 300], "File name too long"),
        (["--out", "rep.html"], ".html, JSON, .json, .png"),
        (["--out", "rep.npz"], ".npz, JSON"),
        (["--out", "nowhere/quality"], "--out nowhere/quality.json"),
    ],
)
def test_bad_flags(layout, monkeypatch, tmp_path, flags, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=line_with(message)):
        command(["report", str(layout.path), *flags])
    assert not list(tmp_path.iterdir())
