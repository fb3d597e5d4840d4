"""A run predicts new vertices of the store that its graph has grown to, without training again."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from support.graphs import random_graph
from support.messages import line_with, says
from support.predictions import whole_graph_vectors
from support.runs import config_for, train_in_trainer

import gsplit
from gsplit.data import GraphArrays, open_store
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, partition


def write_tables(folder, graph: GraphArrays, begin: int, end: int, name: str) -> dict:
    """The edges, features, labels and sets of the vertices begin .. end - 1, called v0, v1, ..., as options."""

    def table(what, header, rows):
        path = folder / f"{name}-{what}.csv"
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        return path

    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    pairs = [pair for pair in zip(graph.indices.tolist(), destination.tolist(), strict=True) if max(pair) < end]
    pairs = [(v, v) for v in range(begin, end)] + [pair for pair in pairs if max(pair) >= begin]
    vertices = range(begin, end)
    word = dict.fromkeys(graph.train_idx.tolist(), "train") | dict.fromkeys(graph.valid_idx.tolist(), "valid")
    return {
        "edges": table("edges", ("src", "dst"), [(f"v{a}", f"v{b}") for a, b in pairs]),
        "features": table("x", ("id", *"abcde"), [(f"v{v}", *graph.features[v].tolist()) for v in vertices]),
        "labels": table("y", ("id", "label"), [(f"v{v}", graph.labels[v]) for v in vertices]),
        "split_file": table("sets", ("id", "set"), [(f"v{v}", word.get(v, "test")) for v in vertices]),
    }


@pytest.fixture
def grown(pool, tmp_path):
    """A folder: old, its layout, a run on it; new, which has 20 more vertices, and kept, its layout."""
    graph = random_graph(120, 6, seed=4)
    files = write_tables(tmp_path, graph, 0, 100, "old")
    gsplit.import_graph(files.pop("edges"), tmp_path / "old", ids="any", **files)
    partition(PartitionConfig(store=tmp_path / "old", out=tmp_path / "layout", parts=2))
    config = config_for(tmp_path / "layout", tmp_path / "run", epochs=1, dtype="float64", fan_out=(3, 3, 3))
    config.out.mkdir()
    (config.out / "config.json").write_text(config.to_json())
    pool.run(2, train_in_trainer, config)
    files = write_tables(tmp_path, graph, 100, 120, "new")
    gsplit.import_graph(tmp_path / "old", tmp_path / "new", add=files.pop("edges"), **files)
    partition(PartitionConfig(store=tmp_path / "new", out=tmp_path / "kept", keep=tmp_path / "layout"))
    return tmp_path


def test_new_vertices_are_predicted_by_the_old_run(grown, in_pool, caplog):
    expected = whole_graph_vectors(open_store(grown / "new").graph, gsplit.load(grown / "run"), 3)[3]
    asked = [f"v{vertex}" for vertex in (119, 3, 100)]
    (grown / "asked.txt").write_text("\n".join(asked))
    ((_, ids),) = open_store(grown / "new").ids().columns()
    with in_pool():
        values = gsplit.predict(
            grown / "run",
            grown / "kept",
            vertices=grown / "asked.txt",
            what="logits",
            out=grown / "out.csv",
            device="cpu",
        )
    np.testing.assert_allclose(values, expected[[ids.index(name) for name in asked]], rtol=0, atol=1e-10)
    rows = list(csv.reader((grown / "out.csv").open()))
    assert rows[0] == ["id", "logit_0", "logit_1", "logit_2"]
    assert [row[0] for row in rows[1:]] == asked
    assert not caplog.records


def test_classes_that_the_run_has_not_learned_are_told(grown, in_pool, caplog):
    for name, what in (("edges", "src,dst\nw,v1\n"), ("x", "id,a,b,c,d,e\nw,1,2,3,4,5\n"), ("y", "id,label\nw,3\n")):
        (grown / f"{name}.csv").write_text(what)
    files = {"features": grown / "x.csv", "labels": grown / "y.csv"}
    gsplit.import_graph(grown / "new", grown / "newer", add=grown / "edges.csv", **files)
    partition(PartitionConfig(store=grown / "newer", out=grown / "again", keep=grown / "kept"))
    with in_pool():
        values = gsplit.predict(grown / "run", grown / "again", what="logits", device="cpu")
    assert values.shape == (121, 3)
    says(caplog.text, "4 classes, 3")


@pytest.mark.parametrize(("changes", "message"), [({"grown_from": ["x", 3]}, "layout.json"), ({}, "layout.json")])
def test_a_layout_that_cannot_be_of_a_grown_store_is_refused(grown, changes, message):
    path = grown / "kept" / "layout.json"
    described = json.loads(path.read_text())
    described["store"].update(changes)
    path.write_text(json.dumps(described))
    if not changes:
        about = grown / "run" / "model.json"
        about.write_text(about.read_text().replace('"num_vertices": 100', '"num_vertices": 121'))
    with pytest.raises(InputError, match=line_with(message)):
        gsplit.predict(grown / "run", grown / "kept", device="cpu", out=grown / "out.npy")
    assert not (grown / "out.npy").exists()
