"""Folders of .npy arrays in each shape that an adjacency has."""

from __future__ import annotations

import numpy as np
import pytest
from support.stores import build_store

from gsplit.data.build_options import BuildOptions
from gsplit.data.importers import load_source
from gsplit.errors import InputError

# 0 --> 1, 3 --> 2, 1 --> 0 by destination: 0 has 1; 1 has 0; 2 has 3; 3 has none.
PAIRS = np.array([[1, 0], [0, 1], [3, 2]])
CSC = {"indptr": np.array([0, 1, 2, 3, 3]), "indices": np.array([1, 0, 3], np.int32)}
ADJACENCIES = [
    CSC,
    {"edge_index": PAIRS.T},
    {"edge_index": PAIRS.astype(np.uint32)},
    {"edge_index": np.asfortranarray(PAIRS.T)},
    {"src": PAIRS[:, 0], "dst": PAIRS[:, 1].astype(np.int32)},
]


@pytest.fixture
def build(tmp_path):
    """build(key=array, ...): the graph of the store made from a folder with these arrays."""

    def run(**arrays):
        (tmp_path / "graph").mkdir()
        for key, array in arrays.items():
            np.save(tmp_path / "graph" / f"{key}.npy", array)
        source = load_source(str(tmp_path / "graph"))
        assert (source.name, source.where) == ("graph", str(tmp_path / "graph"))
        return build_store(source, tmp_path / "store", BuildOptions(), name="x", described_as="x")

    return run


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("names", "train", "valid"),
    [
        (
            ("features", "labels"),
            {"train_idx": np.array([2, 0])},
            {"valid_mask": np.array([False, True, False, True])},
        ),
        (("x", "y"), {"train_mask": np.array([1, 0, 1, 0])}, {"val_idx": np.array([1, 3])}),
    ],
)
def test_every_array_arrives(build, adjacency, names, train, valid):
    features, labels = np.arange(8.0).reshape(4, 2), np.array([0, 1, 2, 1])
    rest = {names[0]: features, names[1]: labels, "edge_weight": np.array([1, 2, 3.5])}
    graph = build(**adjacency, **rest, **train, **valid)
    assert graph.indptr.tolist() == [0, 1, 2, 3, 3]
    assert graph.indices.tolist() == [1, 0, 3]
    assert graph.edge_weight.tolist() == [1, 2, 3.5]
    assert graph.features.tolist() == features.tolist()
    assert graph.labels.tolist() == labels.tolist()
    assert sorted(graph.train_idx.tolist()) == [0, 2]
    assert graph.valid_idx.tolist() == [1, 3]
    assert len(graph.test_idx) == 0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_only_the_adjacency_is_needed(build, adjacency):
    graph = build(**adjacency)
    assert graph.indices.tolist() == [1, 0, 3]
    assert (graph.features, graph.edge_weight, graph.num_classes) == (None, None, 0)


def test_a_single_edge_index(tmp_path):
    np.save(tmp_path / "edges.npy", np.array([[0, 4], [1, 2]]))  # two edges: the first row has the sources
    (chunk,) = load_source(str(tmp_path / "edges.npy")).edges.chunks()
    assert (chunk.source.tolist(), chunk.destination.tolist()) == ([0, 4], [1, 2])


def test_a_large_csc_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("gsplit.data.importers.source.EDGES_AT_ONCE", 7)
    degrees = np.array([0, 3, 0, 20, 1, 0, 0, 7, 7, 0])
    for name, array in (("indptr", np.concatenate([[0], np.cumsum(degrees)])), ("indices", np.arange(38) % 10)):
        np.save(tmp_path / f"{name}.npy", array)
    chunks = list(load_source(str(tmp_path)).edges.chunks())
    assert len(chunks) == 6
    assert np.concatenate([chunk.source for chunk in chunks]).tolist() == (np.arange(38) % 10).tolist()
    destinations = np.concatenate([chunk.destination for chunk in chunks])
    assert destinations.tolist() == np.repeat(np.arange(10), degrees).tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"indptr": CSC["indptr"]}, "graph has no edges: .*it has indptr.npy"),
        ({"edge_index": np.zeros((3, 3), int)}, r"edge_index.npy must be integers of shape \(2, E\)"),
        ({"edge_index": PAIRS * 0.5}, "edge_index.npy must be integers"),
        ({"src": np.array([0, 1]), "dst": np.array([0])}, "src.npy has 2 edges, but dst.npy has 1"),
        ({**CSC, "indptr": np.array([0, 2, 1, 3])}, "indptr.npy does not ascend from 0 to the 3 indices"),
        ({**CSC, "indptr": np.array([0, 2])}, "indptr.npy does not ascend"),
        ({**CSC, "indptr": np.array([0])}, "no vertices"),
        ({**CSC, "indices": np.array([1, 0, 4])}, r"edge 2: 4 -> 2 names a vertex outside the vertices 0 \.\. 3"),
        ({**CSC, "edge_weight": np.ones(2)}, "edge_weight.npy must be 3 numbers"),
        ({**CSC, "x": np.ones((3, 2))}, r"x.npy must be numbers of shape \(4, D\)"),
        ({**CSC, "y": np.ones(3)}, r"y.npy must be numbers of shape \(4,\)"),
        ({**CSC, "train_mask": np.ones(3, bool)}, "train_mask.npy must be a mask of the 4 vertices"),
        ({**CSC, "train_idx": np.array([4])}, r"train_idx.npy\[0\] is 4, outside the vertices 0 \.\. 3"),
        ({**CSC, "x": np.array([None] * 4)}, "x.npy is not a readable .npy file: .*Python objects"),
    ],
)
def test_arrays_that_do_not_fit_are_named(build, tmp_path, arrays, message):
    with pytest.raises(InputError, match=message):
        build(**arrays)
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_damage_is_an_input_error_or_harmless(tmp_path):
    path = tmp_path / "edges.npy"
    np.save(path, PAIRS.T)
    content = path.read_bytes()
    for cut in range(0, len(content), 5):
        path.write_bytes(content[:cut])
        with pytest.raises(InputError, match=r"edges\.npy is not a readable \.npy file"):
            load_source(str(path))
    for at in range(128):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x15]) + content[at + 1 :])
        try:
            load_source(str(path))
        except InputError as error:
            assert "edges.npy" in str(error)  # noqa: PT017 (some bytes are padding)
