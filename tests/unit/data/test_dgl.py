"""The DGL importer: its names for things, and files on which DGL's own reader ends the process."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from support.libraries import HAS_DGL
from support.stores import build, edges_of

from gsplit.data.importers.formats import dgl as importer
from gsplit.data.importers.formats.dgl import load_dgl
from gsplit.errors import InputError

if not HAS_DGL:
    pytest.skip("DGL 1.1.3 has no wheel for Python 3.12 and later", allow_module_level=True)
dgl = importer.import_dgl()

# 1 --> 0, 0 --> 1, 3 --> 2, 1 --> 2; vertex 4 is alone
EDGES = [(1, 0), (0, 1), (3, 2), (1, 2)]
X = torch.arange(10.0).reshape(5, 2)
Y = torch.tensor([1, 0, 2, 1, 0])
TRAIN = torch.tensor([True, False, True, False, False])


@pytest.fixture
def untried(monkeypatch):
    """Trying a file in a process of its own takes seconds: only for files that can be read."""
    monkeypatch.setattr(importer, "_probe", lambda path: None)


@pytest.fixture
def save(tmp_path):
    """save(ndata, edata, beside) writes the graph and gives its path."""

    def save(ndata=(), edata=(), beside=None):
        graph = dgl.graph(tuple(torch.tensor(EDGES).T), num_nodes=5)
        graph.ndata.update(dict(ndata))
        graph.edata.update(dict(edata))
        dgl.save_graphs(str(tmp_path / "graph.bin"), [graph], beside)
        return tmp_path / "graph.bin"

    return save


@pytest.mark.parametrize(
    ("feat", "label", "valid", "weight"),
    [
        ("feat", "label", "val_mask", "w"),
        ("x", "y", "valid_mask", "weight"),
        ("features", "labels", "val_mask", "edge_weight"),
    ],
)
def test_every_name_is_found(save, untried, tmp_path, feat, label, valid, weight):
    ndata = {feat: X, label: Y, "train_mask": TRAIN, valid: ~TRAIN, "year": Y}
    source = load_dgl(save(ndata, {weight: torch.tensor([1.0, 2, 3, 4])}))
    graph = build(source, tmp_path / "store")
    assert edges_of(graph) == [(1, 0), (0, 1), (3, 2), (1, 2)]
    assert graph.edge_weight.tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(graph.features, X)
    assert graph.labels.tolist() == Y.tolist()
    assert [graph.train_idx.tolist(), graph.valid_idx.tolist(), graph.test_idx.tolist()] == [[0, 2], [1, 3, 4], []]
    assert source.name == "graph"


def test_only_the_topology_is_needed(save, tmp_path):
    source = load_dgl(save())  # tried first in a process of its own, as always
    assert (source.features, source.labels, source.vertex_sets, source.num_vertices) == (None, None, {}, 5)


def test_what_lies_beside_the_graph(save, untried):
    beside = {"num_classes": torch.tensor([7]), "train_idx": torch.tensor([4, 0]), "other": torch.zeros(3)}
    source = load_dgl(save({"train_mask": TRAIN}, beside=beside))
    assert source.num_classes == 7
    assert source.vertex_sets["train"].tolist() == [4, 0]


def test_a_number_a_vertex_is_no_list_of_ids(save, untried):
    source = load_dgl(save({"train_mask": TRAIN, "train_idx": torch.zeros(5, dtype=torch.int64)}))
    assert source.vertex_sets["train"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("ndata", "beside", "message"),
    [
        ({"feat": torch.zeros(5, 2, 2)}, {}, r"ndata\['feat'\] must be numbers of shape \(5, D\)"),
        ({"label": torch.zeros(5, 2, 2)}, {}, r"ndata\['label'\] must be numbers of shape \(5,\)"),
        ({"train_mask": Y}, {}, r"ndata\['train_mask'\] must be a mask of 5 booleans"),
        ({}, {"test_idx": torch.tensor([5])}, r"test_idx\[0\] is 5, outside the vertices 0 \.\. 4"),
        ({}, {"num_classes": torch.tensor([1, 2])}, "num_classes must be one integer"),
        (
            {},
            {"num_classes": torch.tensor(7)},
            "num_classes is a tensor of no dimension, of which DGL keeps no value",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_named(save, untried, ndata, beside, message):
    with pytest.raises(InputError, match=rf"graph\.bin: {message}"):
        load_dgl(save(ndata, beside=beside))
    with pytest.raises(InputError, match=r"edata\['w'\] must be 4 numbers"):
        load_dgl(save(edata={"w": torch.zeros(4, 2)}))


def test_one_graph_with_vertices_is_wanted(tmp_path, untried):
    path = str(tmp_path / "graph.bin")
    one = dgl.graph(([0], [1]))
    dgl.save_graphs(path, [one, one])
    with pytest.raises(InputError, match=r"graph\.bin holds 2 graphs"):
        load_dgl(tmp_path / "graph.bin")
    dgl.save_graphs(path, [dgl.graph(([], []))])
    with pytest.raises(InputError, match=r"graph\.bin: the graph has no vertices"):
        load_dgl(tmp_path / "graph.bin")


@pytest.mark.cases(1)
@pytest.mark.parametrize("content", ["empty", "text", "cut", "magic"])
def test_damage_does_not_end_the_process(save, content):
    path = save({"feat": X})
    whole = path.read_bytes()
    damaged = {"empty": b"", "text": b"0 1\n1 2\n", "cut": whole[:-400], "magic": b"\0" + whole[1:]}
    path.write_bytes(damaged[content])
    with pytest.raises(InputError, match=r"graph\.bin is damaged or not a file of dgl\.save_graphs") as error:
        load_dgl(path)
    assert "\n" not in str(error.value)


def test_paths_that_are_no_file(tmp_path):
    with pytest.raises(InputError, match=r"graph\.bin is missing"):
        load_dgl(tmp_path / "graph.bin")
    with pytest.raises(InputError, match=r"is a folder; name the \.bin file"):
        load_dgl(tmp_path)


def test_without_dgl_the_message_says_how_to_get_it(save, monkeypatch):
    path = save()
    monkeypatch.setitem(sys.modules, "dgl", None)
    with pytest.raises(InputError, match=r"graphs of DGL need DGL .*pip install 'gsplit\[dgl\]'"):
        load_dgl(path)
