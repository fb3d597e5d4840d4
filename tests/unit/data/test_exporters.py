"""Store -> PyG, DGL, npz -> store: every array comes back as it was, dtypes included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.models import names
from support.stores import assert_equal_graphs, build

from gsplit.data import open_store, write_store
from gsplit.data.exporters import export
from gsplit.data.importers.formats import dgl as dgl_importer
from gsplit.data.importers.formats.dgl import load_dgl
from gsplit.data.importers.formats.npz import load_npz
from gsplit.data.importers.formats.pyg import load_pyg
from gsplit.errors import InputError

NONE = np.empty(0, np.int64)
# Directed, with double edges, self-loops, rows out of order and vertices without neighbours.
PLAIN = random_graph(60, 4, seed=1)
MULTI = random_graph(60, 4, seed=2, multi_label=True)


def holes(labels, ids):
    """Labels with the vertices ``ids`` unlabelled."""
    labels = labels.copy()
    labels[ids] = -1 if labels.ndim == 1 else np.nan
    return labels


def weights(graph):
    return np.random.default_rng(3).standard_normal(graph.num_edges).astype(np.float32)


GRAPHS = {
    "plain": PLAIN,
    "weighted": replace(PLAIN, edge_weight=weights(PLAIN)),
    "all weights 1": replace(PLAIN, edge_weight=np.ones(PLAIN.num_edges, np.float32)),
    "multi-label": MULTI,
    "multi-label, some unlabelled": replace(MULTI, labels=holes(MULTI.labels, MULTI.test_idx), test_idx=NONE),
    "float16": replace(PLAIN, features=PLAIN.features.astype(np.float16)),
    "some unlabelled": replace(PLAIN, labels=holes(PLAIN.labels, PLAIN.valid_idx), valid_idx=NONE),
    "no sets": replace(PLAIN, train_idx=NONE, valid_idx=NONE, test_idx=NONE),
    "sets out of order": replace(PLAIN, train_idx=PLAIN.train_idx[::-1].copy(), test_idx=PLAIN.test_idx[::-1].copy()),
    "no features": replace(PLAIN, features=None),
    "more classes than labels": replace(PLAIN, num_classes=9),
    "no label at all": replace(
        PLAIN, labels=np.full(60, -1), num_classes=0, train_idx=NONE, valid_idx=NONE, test_idx=NONE
    ),
    "no edges": replace(PLAIN, indptr=np.zeros(61, np.int64), indices=np.empty(0, np.int32), features=None),
    "last vertices alone": replace(
        PLAIN,
        indptr=np.minimum(PLAIN.indptr, PLAIN.indptr[3]),
        indices=np.minimum(PLAIN.indices[: PLAIN.indptr[3]], 2),
        features=None,
    ),
}


@pytest.fixture(autouse=True)
def _without_the_trial(monkeypatch):
    """Trying a DGL file in a process of its own takes seconds; test_dgl.py tests that."""
    monkeypatch.setattr(dgl_importer, "_probe", lambda path: None)


def imported(path, to, folder):
    if to == "npz":
        return load_npz(path)
    return build({"pyg": load_pyg, "dgl": load_dgl}[to](path), folder)


def exported(graph, to, folder):
    """The file made of the store of a graph."""
    write_store(folder / "store", graph, name="test", source="test")
    export(folder / "store", to, folder / "out")
    return folder / "out"


@pytest.mark.parametrize("to", names(["pyg", "dgl", "npz"]))
@pytest.mark.parametrize("kind", GRAPHS)
def test_every_array_comes_back(kind, to, tmp_path):
    file = exported(GRAPHS[kind], to, tmp_path)
    assert_equal_graphs(imported(file, to, tmp_path / "back"), GRAPHS[kind])
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "back") == ["out", "store"]


@pytest.mark.parametrize("to", names(["pyg", "dgl", "npz"]))
@pytest.mark.parametrize("method", ["random", "metis"])
def test_a_layout_is_exported_in_global_ids(to, method, tmp_path):
    graph = GRAPHS["weighted"]
    layout = lay_out(graph, tmp_path, parts=3, method=method)
    assert layout.permutation.tolist() != list(range(60))
    export(layout.path, to, tmp_path / "out")
    assert_equal_graphs(imported(tmp_path / "out", to, tmp_path / "back"), graph)


def test_pyg_gets_what_its_models_expect(tmp_path):
    import torch
    import torch_geometric.data as data_module

    file = exported(GRAPHS["weighted"], "pyg", tmp_path)
    data = torch.load(file, weights_only=False)
    assert isinstance(data, data_module.Data)
    data.validate(raise_on_error=True)
    graph = GRAPHS["weighted"]
    # An edge runs from row 0 to row 1: vertex v hears of its in-neighbours.
    v = int(np.argmax(np.diff(graph.indptr)))
    own = data.edge_index[1] == v
    assert data.edge_index[0][own].tolist() == graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist()
    assert data.edge_weight[own].tolist() == graph.edge_weight[graph.indptr[v] : graph.indptr[v + 1]].tolist()
    assert data.val_mask.dtype == torch.bool
    assert data.val_mask.nonzero().flatten().tolist() == graph.valid_idx.tolist()
    assert data.num_nodes == 60


@pytest.mark.parametrize("to", ["pyg", "npz"])
def test_a_file_is_replaced_only_when_asked(to, tmp_path):
    file = exported(PLAIN, to, tmp_path)
    before = file.read_bytes()
    file.write_bytes(b"mine")
    with pytest.raises(InputError, match=r"out exists already; choose another --out or add --overwrite"):
        export(tmp_path / "store", to, file)
    assert file.read_bytes() == b"mine"
    export(tmp_path / "store", to, file, overwrite=True)
    assert len(file.read_bytes()) == len(before)


def test_nothing_is_left_of_an_export_that_fails(tmp_path, monkeypatch):
    write_store(tmp_path / "store", PLAIN, name="test", source="test")

    def fail(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fail)
    (tmp_path / "out").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"cannot write .*out: No space left on device"):
        export(tmp_path / "store", "npz", tmp_path / "out", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]
    assert (tmp_path / "out").read_bytes() == b"mine"


def test_wrong_requests(tmp_path):
    write_store(tmp_path / "store", PLAIN, name="test", source="test")
    with pytest.raises(InputError, match="cannot export to 'csv'; choose one of pyg, dgl, npz"):
        export(tmp_path / "store", "csv", tmp_path / "out")
    with pytest.raises(InputError, match="store is a folder; name the file to write"):
        export(tmp_path / "store", "npz", tmp_path / "store", overwrite=True)
    with pytest.raises(InputError, match="nowhere is not a folder: no such path"):
        export(tmp_path / "nowhere", "npz", tmp_path / "out")
    assert open_store(tmp_path / "store", verify=True).graph.num_vertices == 60
