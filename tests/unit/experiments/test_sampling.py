"""The harness of the paper's table 4 on a tiny graph: what it writes, and what it says of mistakes."""

from __future__ import annotations

import json
import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from support.commands import python
from support.documents import undocumented
from support.libraries import HAS_DGL
from support.messages import says
from support.reference import splits_of

from experiments.paper import sampling
from experiments.paper.sampling_ways import iterations
from experiments.shared.datasets import open_dataset, store_order
from gsplit.data import open_store
from gsplit.errors import InputError

ROOT = Path(__file__).parent.parent.parent.parent
TINY = ("--dataset", "synthetic:tiny", "--batch-sizes", "32,100", "--fan-out", "4,3", "--rounds", "2")
OURS = [
    ("GSplit", "", "store", "mini-batch"),
    ("GSplit", "", "layout", "micro-batches"),
    ("GSplit", "", "layout", "segments"),
    ("GSplit", "", "layout", "mini-batch"),
    ("GSplit", "", "layout", "splits"),
]
THEIRS = [
    ("DGL", form, order, produces)
    for order in ("store", "layout")
    for form in ("int64 fused", "int64 unfused", "int32 unfused")
    for produces in ("micro-batches", "mini-batch")
]
ROW_KEYS = {
    *("system", "form", "order", "produces", "edges", "inputs", "seconds", "seconds_min", "seconds_max"),
    *("cpu_seconds", "edges_per_second", "seconds_per_epoch"),
}
RATIO_KEYS = {"name", "form", "ratio", "ratio_min", "ratio_max", "ratio_of_least", "bar", "met"}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def ran(work):
    """The process, and the JSON it wrote."""
    out = work / "result.json"
    done = python("-m", "experiments.paper.sampling", *TINY, "--work", work, "--json", out, cwd=ROOT)
    return done, json.loads(out.read_text())


def key(row):
    return row["system"], row["form"], row["order"], row["produces"]


def test_the_keys_are_those_documented(ran):
    _, result = ran
    sections = ["dataset", "settings", "versions", "threads", "excluded", "batch_sizes", "slab_path", "paper"]
    assert list(result) == sections
    assert result["dataset"]["generator"] == {"preset": "tiny", "version": 1, "seed": 0}
    assert [measured["batch_size"] for measured in result["batch_sizes"]] == [32, 100]
    for measured in result["batch_sizes"]:
        rows, ratios = measured["rows"], measured["ratios"]
        assert [key(row) for row in rows if row["system"] == "GSplit"] == OURS
        assert {key(row) for row in rows} == {*OURS, *(THEIRS if HAS_DGL else [])}
        assert all(set(row) == ROW_KEYS for row in rows)
        assert all(set(ratio) == RATIO_KEYS for ratio in ratios)
        assert len(ratios) == (10 if HAS_DGL else 4)
        assert all(0 < row["seconds_min"] <= row["seconds"] <= row["seconds_max"] for row in rows)
    slab_keys = {"samplers", "batch_size", "mini_batches_per_second", "edges_per_second"}
    slab_keys |= {"ratio", "ratio_min", "ratio_max"}
    assert [(row["samplers"], row["batch_size"]) for row in result["slab_path"]] == [(1, 100), (2, 100)]
    assert all(set(row) == slab_keys and row["ratio"] > 0 for row in result["slab_path"])
    keys = {*result, *result["dataset"]["generator"], *slab_keys, *ROW_KEYS, *RATIO_KEYS}
    keys |= {"fault", "dgl_s", "gsplit_s"}
    for section in ("dataset", "settings", "versions", "threads"):
        keys |= {*result[section]}
    assert undocumented("Sampling", keys) == []


def counted(dataset, iteration):
    """Edges and inputs of the mini-batch and of the micro-batches, by the slow reference sampler."""
    layout = dataset.layout
    counts, key = [], {"seed": 0, "epoch": iteration.epoch, "batch": iteration.batch}
    for pieces in ([iteration.targets["layout"]], iteration.micro_batches("layout")):
        splits = [
            splits_of(layout, targets, (4, 3), offsets=(0, layout.graph.num_vertices), micro=micro, **key)[0]
            for micro, targets in enumerate(pieces)
        ]
        edges = sum(len(row) for split in splits for rows in split.edges.values() for row in rows)
        counts.append((edges, sum(split.level_sizes[0] for split in splits)))
    return counts


def test_counts_are_those_of_an_independent_sampler(ran, work):
    _, result = ran
    dataset = open_dataset("synthetic:tiny", seed=0, work=work)
    for measured in result["batch_sizes"]:
        rounds = islice(iterations(dataset, measured["batch_size"], 0), 1, 3)  # the first one warms up
        whole, micro = np.mean([counted(dataset, iteration) for iteration in rounds], axis=0)
        for row in measured["rows"]:
            wanted = micro if row["produces"] == "micro-batches" else whole
            # DGL draws others, but as many of each vertex.
            tolerance = 0.5 if row["system"] == "GSplit" else 0.1 * wanted[0]
            assert np.abs([row["edges"], row["inputs"]] - wanted).max() <= tolerance, row


def test_what_is_printed(ran):
    done, result = ran
    assert "generator preset tiny, version 1, seed 0" in done.stdout
    assert "omp_num_threads 1" in done.stdout
    assert done.stdout.count("## ratios") == 2
    if HAS_DGL:
        assert result["threads"]["torch"] == 1
        assert [e["form"] for e in result["excluded"]] == ["int32 fused"] * 2
        assert "| int32 fused | layout |" in done.stdout


def test_a_second_run_takes_the_same_layout(work, ran):
    folder = work / "tiny-v1-seed0-4"
    before = (folder / "layout.json").stat().st_mtime_ns
    open_dataset("synthetic:tiny", seed=0, work=work)
    assert (folder / "layout.json").stat().st_mtime_ns == before
    assert {path.name for path in work.iterdir()} == {folder.name, "result.json"}


def test_threads_are_set_before_torch_is_loaded():
    python("-c", "import sys, experiments.paper.sampling; sys.exit('torch' in sys.modules)", cwd=ROOT)


@pytest.mark.parametrize("parts", [1, 3])
def test_the_store_order_is_that_of_the_store(layouts, parts):
    layout = layouts(parts)
    indptr, indices = store_order(layout)
    graph = open_store(layout.path.parent / "store").graph
    assert np.array_equal(indptr, graph.indptr)
    assert np.array_equal(indices, graph.indices)
    assert (indptr.dtype, indices.dtype) == (graph.indptr.dtype, graph.indices.dtype)


def test_without_dgl_our_own_figures(layouts, tmp_path, monkeypatch, caplog):
    def refuse():
        raise InputError("graphs of DGL need DGL")

    monkeypatch.setattr("gsplit.data.importers.formats.dgl.import_dgl", refuse)
    monkeypatch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    layout = layouts(3)
    words = ["--batch-sizes", "30", "--fan-out", "3,3", "--rounds", "1"]
    sampling.command(["--dataset", str(layout.path), *words, "--json", str(tmp_path / "out.json")])
    result = json.loads((tmp_path / "out.json").read_text())
    says(caplog.text, "DGL")
    assert result["dataset"]["generator"] is None
    assert result["dataset"]["parts"] == 3
    (measured,) = result["batch_sizes"]
    assert [key(row) for row in measured["rows"]] == OURS
    assert len(measured["ratios"]) == 4
