"""Numbers to be predicted arrive from every importer with --task regression, and are no classes without it."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import torch
import yaml
from support.graphs import lay_out, random_graph, regression_graph
from support.libraries import HAS_DGL
from support.stores import assert_equal_graphs

from gsplit.data import open_store, write_store
from gsplit.data.__main__ import command
from gsplit.data.exporters import export
from gsplit.data.graph import check_graph
from gsplit.data.importers.formats import dgl as dgl_importer
from gsplit.errors import InputError

EDGES = np.array([[0, 2, 4, 4], [1, 1, 0, 1]])
NUMBERS = np.array([0.5, -1.0, np.nan, 3.25, -1e6])
TWO = np.stack([NUMBERS, [1.0, np.nan, np.nan, -1, 0]], axis=1)
TRAIN, VALID = [0, 1, 4], [3]


def csv(folder, labels):
    (folder / "edges.csv").write_text("".join(f"{s},{d}\n" for s, d in EDGES.T))
    rows = ("".join(f",{'' if np.isnan(number) else number}" for number in np.atleast_1d(row)) for row in labels)
    columns = ",".join(f"price{i}" for i in range(np.atleast_1d(labels[0]).size))
    (folder / "labels.csv").write_text(f"id,{columns}\n" + "".join(f"{i}{row}\n" for i, row in enumerate(rows)))
    np.save(folder / "train.npy", TRAIN)
    np.save(folder / "valid.npy", VALID)
    sets = ["--train", str(folder / "train.npy"), "--valid", str(folder / "valid.npy")]
    return ["edges.csv", "--labels", str(folder / "labels.csv"), "--id-column", "id", *sets]


def numpy(folder, labels):
    np.save(folder / "edge_index.npy", EDGES)
    np.save(folder / "y.npy", labels)
    np.save(folder / "train_idx.npy", TRAIN)
    np.save(folder / "valid_idx.npy", VALID)
    return ["."]


def matrix(folder, labels):
    """Edges of a Matrix Market file; everything else in files of its own."""
    words = csv(folder, labels)
    entries = scipy.sparse.coo_array((np.ones(4), (EDGES[0], EDGES[1])), shape=(5, 5))
    scipy.io.mmwrite(folder / "graph.mtx", entries)
    return ["graph.mtx", *words[1:]]


def npz(folder, labels):
    indptr, indices = np.array([0, 1, 4, 4, 4, 4]), np.array([4, 0, 2, 4])
    sets = {"train_idx": np.array(TRAIN), "valid_idx": np.array(VALID)}
    np.savez(folder / "graph.npz", indptr=indptr, indices=indices, y=labels, **sets)
    return ["graph.npz"]


def pyg(folder, labels):
    from torch_geometric.data import Data

    masks = {"train_mask": np.isin(np.arange(5), TRAIN), "val_mask": np.isin(np.arange(5), VALID)}
    data = Data(edge_index=torch.from_numpy(EDGES), y=torch.from_numpy(labels), num_nodes=5)
    data.update({name: torch.from_numpy(mask) for name, mask in masks.items()})
    torch.save(data, folder / "graph.pt")
    return ["graph.pt"]


def dgl(folder, labels):
    library = dgl_importer.import_dgl()
    graph = library.graph(tuple(torch.from_numpy(EDGES)), num_nodes=5)
    graph.ndata["label"] = torch.from_numpy(labels)
    for name, ids in (("train_mask", TRAIN), ("val_mask", VALID)):
        graph.ndata[name] = torch.from_numpy(np.isin(np.arange(5), ids))
    library.save_graphs(str(folder / "graph.bin"), [graph])
    return ["graph.bin"]


def graphbolt(folder, labels):
    np.save(folder / "edges.npy", EDGES)
    for name, ids in (("train", TRAIN), ("valid", VALID)):
        np.save(folder / f"{name}-seeds.npy", np.array(ids))
        np.save(folder / f"{name}-labels.npy", labels[ids])

    def entry(name, what):
        return {"name": what, "format": "numpy", "path": f"{name}-{what}.npy"}

    sets = {
        key: [{"type": None, "data": [entry(name, "seeds"), entry(name, "labels")]}]
        for name, key in (("train", "train_set"), ("valid", "validation_set"))
    }
    graph = {"nodes": [{"num": 5}], "edges": [{"format": "numpy", "path": "edges.npy"}]}
    description = {"dataset_name": "tiny", "graph": graph, "tasks": [{"name": "regression", **sets}]}
    (folder / "metadata.yaml").write_text(yaml.safe_dump(description))
    return ["."]


def ogb(folder, labels):
    files = {
        "raw/edge": EDGES.T,
        "raw/num-node-list": [5],
        "raw/num-edge-list": [4],
        "raw/node-label": labels,
        "split/time/train": TRAIN,
        "split/time/valid": VALID,
        "split/time/test": VALID,
    }
    for name, rows in files.items():
        path = folder / "ogbn_arxiv" / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt") as file:
            file.writelines(",".join(map(str, np.atleast_1d(row).tolist())) + "\n" for row in rows)
    return ["ogb:ogbn-arxiv", "--root", "."]


IMPORTERS = [csv, numpy, matrix, npz, pyg, graphbolt, ogb, *([dgl] if HAS_DGL else [])]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Sources lie in the working directory; trying a DGL file in a process of its own takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dgl_importer, "_probe", lambda path: None)


def imported(words, out="store", *more):
    command(["import", *words, "--out", out, "--task", "regression", *more])
    return open_store(out).graph


@pytest.mark.parametrize("labels", [NUMBERS, NUMBERS[:, None], TWO], ids=["N", "N, 1", "N, 2"])
@pytest.mark.parametrize("importer", IMPORTERS)
def test_numbers_arrive_as_they_are(importer, labels, tmp_path):
    if importer is ogb:
        labels = labels.reshape(5, -1)[:, 0]  # none of its datasets has several columns of numbers
    graph = imported(importer(tmp_path, labels))
    assert (graph.task, graph.num_classes, graph.labels.dtype) == ("regression", labels[0].size, np.float32)
    own = [*TRAIN, *VALID]  # GraphBolt's sets have no labels of other vertices
    wanted = labels.reshape(5, -1).astype(np.float32)
    np.testing.assert_array_equal(graph.labels[own], wanted[own])
    assert np.isnan(graph.labels[2]).all()
    assert [sorted(graph.train_idx.tolist()), graph.valid_idx.tolist()] == [TRAIN, VALID]
    assert lay_out_again(graph, tmp_path).task == "regression"


def lay_out_again(graph, folder):
    """The graph of a layout of a store."""
    layout = lay_out(graph, folder / "again", parts=2, method="random").graph
    known = np.sort(layout.labels[~np.isnan(layout.labels)])
    assert known.tolist() == np.sort(graph.labels[~np.isnan(graph.labels)]).tolist()
    return layout


@pytest.mark.parametrize("importer", IMPORTERS)
def test_as_classes_they_are_refused_in_one_line(importer, tmp_path):
    words = importer(tmp_path, NUMBERS)
    with pytest.raises(InputError, match=r"(\[0\]|, line 2) is 0\.5, not a class; --task regression takes any"):
        command(["import", *words, "--out", "store"])
    assert not (tmp_path / "store").exists()


def test_whole_numbers_may_be_regressed_and_minus_1_is_one(tmp_path):
    graph = imported(npz(tmp_path, np.array([3, -1, 7, 0, 2])))
    assert graph.labels.tolist() == [[3], [-1], [7], [0], [2]]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0.5, np.inf, 1, 2, 3]), r"y\[1\] is infinite as float32; NaN is for what is unlabelled"),
        (np.array([0.5, 1e39, 1, 2, 3]), r"y\[1\] is infinite as float32"),
        (np.full(5, np.nan), "the train set has no label at all: those of its 3 vertices are NaN"),
        (np.zeros((5, 0)), "y has no column; a regression has one for each output"),
        (np.array(list("abcde")), r"y must be numbers of shape \(5,\) or \(5, C\), not <U1"),
    ],
)
def test_what_cannot_be_regressed_is_refused(labels, message, tmp_path):
    words = npz(tmp_path, labels)
    with pytest.raises(InputError, match=message):
        imported(words)
    assert not (tmp_path / "store").exists()


def test_without_labels_there_is_nothing_to_regress(tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n")
    with pytest.raises(InputError, match="labels: there are none, and --task regression needs some; give --labels"):
        imported(["edges.csv"])


def test_a_split_is_drawn_of_the_vertices_with_some_number(tmp_path):
    np.save(tmp_path / "labels.npy", TWO)
    (tmp_path / "edges.csv").write_text("0,1\n4,3\n")
    graph = imported(["edges.csv", "--labels", "labels.npy"], "store", "--split", "0.5,0.25,0.25")
    assert sorted([*graph.train_idx, *graph.valid_idx, *graph.test_idx]) == [0, 1, 3, 4]


@pytest.mark.parametrize("to", ["npz", "pyg", *(["dgl"] if HAS_DGL else [])])
def test_what_is_exported_comes_back(to, tmp_path):
    graph = regression_graph(40, 4, seed=5)
    write_store("first", graph, name="test", source="test")
    file = {"npz": "graph.npz", "pyg": "graph.pt", "dgl": "graph.bin"}[to]
    export("first", to, file)
    assert_equal_graphs(imported([file], "second", "--duplicates", "keep"), graph)


def test_a_store_of_an_earlier_release_has_classes(tmp_path):
    write_store("store", random_graph(30, 4, seed=1), name="test", source="test")
    path = tmp_path / "store" / "graph.json"
    path.write_text(path.read_text().replace('"regression": false,', ""))
    assert "regression" not in path.read_text()
    assert open_store("store").graph.task == "classes"


def test_infinite_labels_of_a_graph_made_by_hand_are_refused():
    graph = regression_graph(30, 4, seed=1)
    graph.labels[graph.valid_idx[2], 1] = np.inf
    with pytest.raises(InputError, match=f"the valid set has an infinite label at vertex {graph.valid_idx[2]}"):
        check_graph(graph, "here")


def test_info_says_what_is_predicted(tmp_path, capsys):
    imported(npz(tmp_path, TWO))
    command(["info", "store"])
    printed = capsys.readouterr().out
    assert "2 outputs of a regression" in printed
    assert "regression labels" in printed
