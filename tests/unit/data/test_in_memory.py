"""Graphs from memory: the stores that files give, mistakes in a line, other keys, and folders that go."""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from support.libraries import needs_dgl
from support.stores import assert_equal_graphs, edges_of
from torch_geometric.data import Data, HeteroData

import gsplit
from gsplit.config.partition import PartitionConfig
from gsplit.data import open_store
from gsplit.data.__main__ import command
from gsplit.data.build_options import BuildOptions
from gsplit.data.importers.formats import dgl as dgl_importer
from gsplit.errors import InputError
from gsplit.partition.interface.api import OF_COMMAND
from gsplit.processes.scripts import NO_GUARD

# 1 --> 0, 0 --> 1, 3 --> 2, 1 --> 2; vertex 4 is alone
pytestmark = pytest.mark.usefixtures("temporary")
EDGES = np.array([[1, 0, 3, 1], [0, 1, 2, 2]])
X = np.arange(10.0).reshape(5, 2)
Y = np.array([1, 0, 2, 1, -1])
TRAIN = np.array([True, False, True, False, False])
WEIGHT = np.array([1.0, 2, 3, 4])


def tensors(device="cpu"):
    """The graph as a Data's attributes."""
    masks = {"train_mask": TRAIN, "val_mask": [False, True] + 3 * [False], "test_mask": 3 * [False] + [True, False]}
    arrays = {"edge_index": EDGES, "x": X, "y": Y, "edge_weight": WEIGHT, **masks}
    return {key: torch.tensor(array, device=device) for key, array in arrays.items()}


def as_dgl(names=("feat", "label", "train_mask", "val_mask", "test_mask")):
    dgl = dgl_importer.import_dgl()
    given = tensors()
    graph = dgl.graph(tuple(given["edge_index"]), num_nodes=5)
    for name, key in zip(names, ("x", "y", "train_mask", "val_mask", "test_mask"), strict=True):
        graph.ndata[name] = given[key]
    graph.edata["w"] = given["edge_weight"]
    return graph


def file_of_arrays(folder):
    files = {"edge_index": EDGES, "x": X, "y": Y, "edge_weight": WEIGHT, "train_mask": TRAIN}
    (folder / "arrays").mkdir()
    for name, array in {**files, "val_idx": [1], "test_idx": [3]}.items():
        np.save(folder / "arrays" / f"{name}.npy", array)
    return folder / "arrays"


def file_of_pyg(folder):
    torch.save(Data(**tensors()), folder / "data.pt")
    return folder / "data.pt"


def file_of_dgl(folder):
    dgl_importer.import_dgl().save_graphs(str(folder / "graph.bin"), [as_dgl()])
    return folder / "graph.bin"


def arrays_of(**changes):
    given = {"edge_index": EDGES, "x": X, "y": Y, "edge_weight": WEIGHT, "train": TRAIN, "valid": [1], "test": [3]}
    return gsplit.from_arrays(**{**given, **changes})


SAME = [
    pytest.param(file_of_arrays, arrays_of, id="arrays"),
    pytest.param(file_of_pyg, lambda **more: gsplit.from_pyg(Data(**tensors()), **more), id="pyg"),
    pytest.param(file_of_dgl, lambda **more: gsplit.from_dgl(as_dgl(), **more), id="dgl", marks=needs_dgl),
]


@pytest.mark.parametrize(("file", "take"), SAME)
@pytest.mark.parametrize("flags", [{}, {"undirected": True, "self_loops": "add", "feature_dtype": "float16"}])
def test_a_store_from_memory_is_that_of_the_file(file, take, flags, tmp_path, monkeypatch):
    monkeypatch.setattr(dgl_importer, "_probe", lambda path: None)  # takes seconds
    words = [f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}") for key, value in flags.items()]
    command(["import", str(file(tmp_path)), "--out", str(tmp_path / "store"), *words])
    of_file = open_store(tmp_path / "store")
    with take(**flags) as store:
        assert_equal_graphs(store.graph, of_file.graph)
        assert store.checksum == of_file.checksum
    kept = take(out=tmp_path / "kept", name="mine", **flags)
    kept.close()
    assert open_store(tmp_path / "kept", verify=True).checksum == of_file.checksum
    assert (kept.name, os.fspath(kept)) == ("mine", str(tmp_path / "kept"))


@pytest.mark.parametrize(
    "changes",
    [
        {key: torch.tensor(array) for key, array in (("edge_index", EDGES), ("x", X), ("y", Y), ("train", TRAIN))},
        {"edge_index": (EDGES[0], torch.tensor(EDGES[1]))},
        {"edge_index": EDGES.tolist(), "x": X.tolist(), "y": Y.tolist(), "train": [0, 2]},
        {"edge_index": EDGES.astype(np.uint16), "x": torch.tensor(X, requires_grad=True).float()},
        {"x": torch.tensor(X).bfloat16(), "valid": torch.tensor([1]), "test": np.array([3], np.uint8)},
        {"x": torch.tensor(X).to_sparse(), "y": Y[:, None], "edge_weight": WEIGHT[:, None]},
    ],
    ids=["tensors", "a pair", "lists", "other types", "more types", "other shapes"],
)
def test_arrays_of_many_kinds_give_the_same_store(changes):
    with arrays_of() as one, arrays_of(**changes) as other:
        assert_equal_graphs(other.graph, one.graph)


def test_only_edges_are_needed():
    with gsplit.from_arrays(EDGES) as store:
        assert (store.graph.num_vertices, store.graph.features, len(store.graph.train_idx)) == (4, None, 0)
    with gsplit.from_arrays(EDGES, num_vertices=9, num_classes=3, y=np.full(9, -1)) as store:
        assert (store.graph.num_vertices, store.graph.num_classes) == (9, 3)
        assert edges_of(store.graph) == [(1, 0), (0, 1), (3, 2), (1, 2)]
    with gsplit.from_arrays(EDGES, X, X, task="regression", train=TRAIN) as store:
        assert store.graph.task == "regression"
    with gsplit.from_arrays(EDGES, X, Y, split=(0.5, 0.25, 0.25), seed=1) as store:
        assert sorted(map(len, (store.graph.train_idx, store.graph.valid_idx, store.graph.test_idx))) == [1, 1, 2]


def test_arrays_are_copied():
    x = X.copy()
    with gsplit.from_arrays(EDGES, x) as store:
        x[:] = -1
        assert store.graph.features.tolist() == X.tolist()


WRONG = {
    "edges as rows": (
        {"edge_index": EDGES.T},
        r"edge_index must have the shape \(2, E\).* not \(4, 2\); turn it round",
    ),
    "edges in one dimension": ({"edge_index": EDGES[0]}, r"edge_index must have the shape \(2, E\).* not \(4,\)"),
    "no edges": ({"edge_index": None}, r"edge_index is None; give the edges"),
    "half a pair": ({"edge_index": (EDGES[0], None)}, r"edge_index must be a pair .* one of them is None"),
    "float ids": ({"edge_index": EDGES / 1}, r"edge_index must hold whole numbers, not float64; convert it to int64"),
    "an uneven pair": ({"edge_index": (EDGES[0], EDGES[1, :3])}, r"edge_index has 4 sources, but 3 destinations"),
    "an id too large": ({"edge_index": EDGES + 2}, r"edge 2 of edge_index: 5 -> 4 .*outside the vertices 0 \.\. 4"),
    "an id below 0": ({"edge_index": EDGES - 1}, r"edge 0 of edge_index: 0 -> -1 names a vertex outside"),
    "words": ({"edge_index": [["a", "b"], ["b", "a"]]}, r"edge_index is a list of <U1; give an array or a tensor"),
    "complex features": ({"x": X * 1j}, r"x is a ndarray of complex128; give an array"),
    "ragged features": ({"x": [[1], [2, 3]]}, r"x is a list that makes no array"),
    "a number": ({"y": 3}, r"y must be an array, not the single number 3"),
    "short features": ({"x": X[:4]}, r"x has 4 rows, but y has 5; give each vertex a row in both"),
    "short labels": ({"y": Y[:4]}, r"x has 5 rows, but y has 4"),
    "a short mask": ({"train": TRAIN[:4]}, r"x has 5 rows, but train has 4"),
    "another number": ({"num_vertices": 6}, r"num_vertices is 6, but x has 5"),
    "cubes": ({"x": X.reshape(5, 2, 1)}, r"x must be numbers of shape \(5, D\), not float64 of shape \(5, 2, 1\)"),
    "NaN": ({"x": np.where(X == 4, np.nan, X)}, r"x: the features of vertex 2 hold NaN or infinity .*; replace them"),
    "too large": ({"x": X * 1e40}, r"x: the features of vertex 0 hold NaN or infinity as float32"),
    "a share of a class": ({"y": Y + 0.5}, r"y\[0\] is 1\.5, not a class; --task regression"),
    "few weights": ({"edge_weight": WEIGHT[:3]}, r"edge_weight must be 4 numbers, not float64 of shape \(3,\)"),
    "a weight of NaN": ({"edge_weight": WEIGHT * np.nan}, r"edge 0 of edge_index: the weight is nan; clean"),
    "a set of floats": ({"valid": [0.5]}, r"valid must be a mask of booleans or a list of vertex ids, not float64"),
    "a set outside": ({"test": [9]}, r"test\[0\] is 9, outside the vertices 0 \.\. 4"),
    "a vertex twice": ({"test": [3, 3]}, r"test_idx lists a vertex twice"),
    "an unlabelled target": ({"train": [4]}, r"the train set has vertex 4, which has no label; label it"),
    "no labels for a set": ({"y": None}, r"the train set needs labels, and there are none; give y"),
    "no labels to split": (
        {"y": None, "train": None, "split": (1, 0, 0)},
        r"split needs labels, and there are none; give y",
    ),
    "two splits": ({"split": (0.5, 0.5, 0)}, r"has vertex sets already \(train, valid, test\); drop --split"),
    "bad shares": ({"split": (2, 0, 0)}, r"--split takes the shares"),
    "a mask of numbers": ({"train": [1, 1, 0, 0, 0]}, r"train has a 0 or 1 for each vertex; give booleans"),
    "a number in words": ({"num_vertices": "5"}, r"num_vertices must be a whole number, not '5'"),
    "half a class": ({"num_classes": 2.0}, r"num_classes must be a whole number, not 2\.0"),
    "masked": ({"y": np.ma.masked_equal(Y, 1)}, r"y has masked values; fill them first"),
    "no name": ({"name": None}, r"name must be a line of text, not None"),
    "a number for a folder": ({"out": 3}, r"out takes a folder, not 3"),
    "no such option": ({"undirect": True}, r"has no option 'undirect'; it has undirected, reverse, self_loops"),
    "no such value": ({"duplicates": "add"}, r"--duplicates must be one of first, sum, mean, max"),
    "no such task": ({"task": "ranking"}, r"--task must be one of classification, regression"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line(changes, message, temporary):
    with pytest.raises(InputError, match=message) as caught:
        arrays_of(**changes)
    assert "\n" not in str(caught.value)
    assert os.listdir(temporary) == []  # while the traceback is there
    assert str(caught.value).startswith(("gsplit.from_arrays", "--"))


def full(**changes):
    return Data(**{**tensors(), **changes})


def hetero():
    data = HeteroData()
    data["a"].x = torch.tensor(X)
    return data


WRONG_PYG = {
    "several types": (hetero, {}, r"no type of vertices has labels"),
    "a list": (
        list,
        {},
        r"takes a Data or HeteroData of torch_geometric\.data, not a list; of a dataset give its graph, dataset\[0\]",
    ),
    "nothing": (lambda: None, {}, r"takes a Data or HeteroData of torch_geometric\.data, not a NoneType$"),
    "empty": (Data, {}, r"has neither edge_index nor adj_t; it has nothing"),
    "features": (
        full,
        {"feature_key": "feats"},
        r"has no 'feats', which --feature-key names; it has edge_index, .*, x, y$",
    ),
    "labels": (
        full,
        {"label_key": "klass"},
        r"has no 'klass', which --label-key names; it has edge_index, .*, x, y$",
    ),
    "masks": (
        full,
        {"mask_key": ("train_mask", "val")},
        r"has no 'val', which --mask-key names; it has edge_index, ",
    ),
    "no mask": (full, {"mask_key": ""}, r"--mask-key takes up to 3 keys, of train, valid and test, such as"),
    "four masks": (full, {"mask_key": "a,b,c,d"}, r"--mask-key takes up to 3 keys"),
    "no labels": (
        lambda: full(y=None),
        {},
        r"the train set needs labels, and there are none; name them with label_key",
    ),
}


@pytest.mark.parametrize(("data", "keys", "message"), WRONG_PYG.values(), ids=WRONG_PYG)
def test_a_mistake_in_a_graph_of_pyg_is_one_line(data, keys, message):
    with pytest.raises(InputError, match=rf"^gsplit\.from_pyg:? {message}"):
        gsplit.from_pyg(data(), **keys)


@needs_dgl
def test_a_mistake_in_a_graph_of_dgl_is_one_line():
    dgl = dgl_importer.import_dgl()
    there = "feat, label, test_mask, train_mask, val_mask"
    for keys, message in (
        ({"feature_key": "x"}, rf"has no 'x', which --feature-key names; it has {there}"),
        ({"label_key": "y"}, rf"has no 'y', which --label-key names; it has {there}"),
        ({"mask_key": "train"}, rf"has no 'train', which --mask-key names; it has {there}"),
    ):
        with pytest.raises(InputError, match=rf"gsplit\.from_dgl {message}$"):
            gsplit.from_dgl(as_dgl(), **keys)
    with pytest.raises(InputError, match=r"no type of vertices has labels"):
        gsplit.from_dgl(dgl.heterograph({("a", "cites", "b"): ([0], [0])}))
    with pytest.raises(InputError, match=r"takes a dgl\.DGLGraph, not a list; of a dataset give its graph"):
        gsplit.from_dgl([as_dgl()])


NAMES = ("feats", "klass", "tr", "stop_mask", "te")
KEYS = {"feature_key": "feats", "label_key": "klass", "mask_key": "tr,stop_mask,te"}
WORDS = [word for key, value in KEYS.items() for word in (f"--{key.replace('_', '-')}", value)]


def test_other_keys_of_pyg(tmp_path):
    given = tensors()
    usual = ("x", "y", "train_mask", "val_mask", "test_mask")
    data = Data(edge_index=given["edge_index"], edge_weight=given["edge_weight"])
    for name, key in zip(NAMES, usual, strict=True):
        data[name] = given[key]
    data.te = torch.tensor([3])  # a list of ids
    torch.save(data, tmp_path / "data.pt")
    command(["import", str(tmp_path / "data.pt"), "--out", str(tmp_path / "store"), *WORDS])
    with arrays_of() as wanted, gsplit.from_pyg(data, **{**KEYS, "mask_key": ["tr", "stop_mask", "te"]}) as store:
        assert_equal_graphs(store.graph, wanted.graph)
        assert store.checksum == open_store(tmp_path / "store").checksum
    with gsplit.from_pyg(data, label_key="klass", mask_key=("", "stop_mask")) as store:
        assert [len(store.graph.vertex_set(name)) for name in ("train", "valid", "test")] == [0, 1, 0]


@needs_dgl
def test_other_keys_of_dgl(tmp_path, monkeypatch):
    monkeypatch.setattr(dgl_importer, "_probe", lambda path: None)
    graph = as_dgl(NAMES)
    beside = {"held_out": torch.tensor([3])}
    dgl_importer.import_dgl().save_graphs(str(tmp_path / "graph.bin"), [graph], beside)
    words = [*WORDS[:-1], "tr,stop_mask,held_out"]
    command(["import", str(tmp_path / "graph.bin"), "--out", str(tmp_path / "store"), *words])
    with arrays_of() as wanted, gsplit.from_dgl(graph, **KEYS) as store:
        assert_equal_graphs(store.graph, wanted.graph)
        assert store.checksum == open_store(tmp_path / "store").checksum


def test_a_store_says_what_it_is_and_where(tmp_path):
    with arrays_of(name="cora") as store:
        assert repr(store) == "<GraphStore cora (temporary): 5 vertices, 4 directed edges, 2 features>"
    assert str(tmp_path) in repr(arrays_of(out=tmp_path / "kept"))
    with pytest.raises(InputError, match="this GraphStore was closed, and its temporary folder is gone"):
        gsplit.partition(store, parts=2)
    assert store.graph.features.tolist() == X.tolist()  # what was mapped stays
    with pytest.raises(InputError, match="exists already"):
        arrays_of(out=tmp_path / "kept")
    arrays_of(out=tmp_path / "kept", overwrite=True)


def test_the_options_of_partition_are_all_there_and_others_are_refused(caplog, temporary):
    with pytest.raises(InputError, match=r"gsplit\.partition has no option 'dry_run'; it has parts, ") as caught:
        gsplit.partition("nowhere", parts=2, dry_run=True)
    known = {field.name for field in dataclasses.fields(PartitionConfig)} - set(OF_COMMAND)
    assert all(name in str(caught.value) for name in known)
    with pytest.raises(InputError, match="--method must be one of"):
        gsplit.partition("nowhere", parts=2, method="best")
    with pytest.raises(InputError, match=r"takes a graph store, its folder, or a graph of PyG or DGL, not a ndarray"):
        gsplit.partition(EDGES, parts=2)
    with arrays_of() as store:
        there = os.listdir(temporary)
        with pytest.raises(InputError, match=r"^--parts 9 is more than the 5 vertices of .*graph$") as caught:
            gsplit.partition(store, parts=9)
        assert (os.listdir(temporary), caught.tb is None) == (there, False)  # while there is a traceback
        caplog.set_level(logging.WARNING)
        with gsplit.partition(store, parts=2, method="range", imbalance=0.2) as layout:
            assert (layout.parts, layout.description["method"]) == (2, "range")
        assert "--imbalance 0.2 has no effect with --method range" in caplog.text
    assert {"undirected", "split"} < {field.name for field in dataclasses.fields(BuildOptions)}


@pytest.mark.parametrize("call", ["from_arrays([[0], [1]])", "from_pyg(None)", "from_dgl(None)", "partition('no')"])
def test_a_trainer_that_imports_the_script_makes_no_graph_again(call, temporary):
    """It ends without a word, and its parent says that the script has no guard."""
    script = (
        f"import multiprocessing, gsplit; multiprocessing.current_process().name = 'gsplit-trainer-0'; gsplit.{call}"
    )
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (NO_GUARD, "", "")
