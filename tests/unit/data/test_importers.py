"""Which importer a source is given to, and a whole import through the command."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import scipy.sparse
from support.messages import says

from gsplit.data import importers, open_store
from gsplit.data.__main__ import command
from gsplit.errors import InputError


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """asked(source): kind and path that load_source hands on, importers being replaced; in a folder with files."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "a.csv",
        "a.tsv.gz",
        "a.TXT",
        "a.edges",
        "a.parquet",
        "a.npy",
        "a.mtx",
        "a.mtx.gz",
        "a.pt",
        "a.bin",
        "a.xyz",
        "noext",
    ):
        (tmp_path / name).touch()
    for name in (
        "bolt/metadata.yaml",
        "bolt2/preprocessed/metadata.yaml",
        "arrays/src.npy",
        "pygs/processed/data.pt",
        "empty/readme",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    scipy.sparse.save_npz(tmp_path / "matrix.npz", scipy.sparse.eye_array(2, format="csr"))
    np.savez(tmp_path / "own.npz", indptr=[0, 1], indices=[0])

    class Module:
        def __init__(self, name):
            self.name = name.removeprefix("gsplit.data.importers.")

        def __getattr__(self, function):
            return lambda path, *_: (f"{self.name}.{function}", str(path))

    monkeypatch.setattr(importers.importlib, "import_module", Module)
    return importers.load_source


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("a.csv", "csv"),
        ("a.tsv.gz", "csv"),
        ("a.TXT", "csv"),
        ("a.edges", "csv"),
        ("a.parquet", "parquet"),
        ("a.npy", "numpy"),
        ("arrays", "numpy"),
        ("a.mtx", "mtx"),
        ("a.mtx.gz", "mtx"),
        ("matrix.npz", "scipy"),
        ("a.pt", "pyg"),
        ("pygs", "pyg"),
        ("a.bin", "dgl"),
        ("bolt", "graphbolt"),
        ("bolt2", "graphbolt"),
    ],
)
def test_names_and_contents_tell_the_kind(asked, source, kind):
    assert asked(source) == (importers.IMPORTERS[kind], source)


@pytest.mark.parametrize("kind", importers.IMPORTERS)
def test_a_prefix_wins(asked, kind):
    assert asked(f"{kind}:a.xyz") == (importers.IMPORTERS[kind], "a.xyz")
    assert asked(f"{kind}:a:b") == (importers.IMPORTERS[kind], "a:b")


def test_our_own_sources(asked):
    assert asked("own.npz").as_is
    assert asked("npz:own.npz").name == "own"
    assert asked("synthetic:tiny", seed=1).num_vertices == 1000


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a.xyz", "unknown kind of source; expected .csv"),
        ("noext", "unknown kind"),
        ("empty", "a folder with neither"),
        ("nowhere", "no such file or folder"),
        ("xyz:a.csv", "xyz:a.csv: no such file"),
        ("synthetic:vast", "unknown preset 'vast'"),
    ],
)
def test_sources_of_no_kind(asked, source, message):
    with pytest.raises(InputError, match=message):
        asked(source)


@pytest.mark.parametrize("spec", importers.IMPORTERS.values())
def test_every_importer_is_there(spec):
    module, _, function = spec.rpartition(".")
    assert callable(getattr(importers.importlib.import_module(f"gsplit.data.importers.{module}"), function))


def test_a_whole_import(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("src,dst,weight\n0,1,2\n0,1,3\n2,2,1\n1,3,4\n")
    (tmp_path / "x.csv").write_text("1 2\n3 4\n5 6\n7 8\n9 10\n")
    np.save(tmp_path / "y.npy", np.array([0.0, 1.0, np.nan, 2.0, 1.0]))
    flags = "--features x.csv --labels y.npy --split 0.5,0.25,0.25 --seed 3 --feature-dtype float16 --name mine"
    with caplog.at_level(logging.INFO):
        command(["import", "edges.csv", "--out", "store", "--undirected", "--self-loops=drop", *flags.split()])
    assert (
        "store: 5 vertices, 4 directed edges, 2 features, 3 classes, edge weights, train/valid/test 2/1/1"
        in capsys.readouterr().out
    )
    assert (
        "edges.csv: dropped 1 self-loops (--self-loops drop); added 2 reverse edges (--undirected)"
    ) in caplog.text
    says(caplog.text, "edges.csv, 1, --duplicates first, keep, sum")
    store = open_store("store", verify=True)
    graph = store.graph
    assert (store.name, store.description["source"]) == ("mine", "edges.csv")
    assert graph.indptr.tolist() == [0, 1, 3, 3, 4, 4]
    assert graph.indices.tolist() == [1, 0, 3, 1]
    assert graph.edge_weight.tolist() == [2, 2, 4, 4]
    assert graph.features.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
    assert graph.features.dtype == np.float16
    assert graph.labels.tolist() == [0, 1, -1, 2, 1]


@pytest.mark.parametrize("flags", [(), ("--undirected", "--self-loops", "add")])
def test_flags_work_for_synthetic_graphs(tmp_path, flags):
    command(["import", "synthetic:tiny", "--seed", "1", "--out", str(tmp_path / "store"), *flags])
    graph = open_store(tmp_path / "store", verify=True).graph
    bare = importers.load_source("synthetic:tiny", seed=1)
    edges = bare.edges.count + (1000 if flags else 0)  # they are symmetric, without self-loops
    assert (graph.num_edges, graph.features.tolist()) == (edges, bare.features.tolist())
    for name in ("train", "valid", "test"):
        assert graph.vertex_set(name).tolist() == bare.vertex_sets[name].tolist()
