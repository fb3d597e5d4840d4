"""The .npz importer: both forms of features, labels of every kind, and each way an archive can be wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsplit.data.importers import load_source
from gsplit.data.importers.formats.npz import load_npz
from gsplit.errors import InputError

# 0 <-- 1 --> 2 <-- 2 (a loop stays), 0 --> 1
GRAPH = {
    "indptr": np.array([0, 1, 2, 4]),
    "indices": np.array([1, 0, 1, 2], np.int32),
    "x": np.array([[0, 2], [0, 0], [3, 4]], np.float64),
    "y": np.array([1, 0, -1]),
    "train_idx": np.array([0], np.int32),
    "valid_idx": np.array([1]),
}
CSR = {
    "x": None,
    "x_indptr": np.array([0, 1, 1, 3]),
    "x_indices": np.array([1, 0, 1], np.int32),
    "x_data": np.array([2, 3, 4], np.float32),
}


@pytest.fixture
def load(tmp_path):
    """load(key=array, ...) writes GRAPH with these changes, None leaving a key out, and imports it."""

    def write_and_load(**changes):
        arrays = {key: array for key, array in {**GRAPH, **changes}.items() if array is not None}
        np.savez(tmp_path / "graph.npz", **arrays)
        return load_npz(tmp_path / "graph.npz")

    return write_and_load


def test_every_array_arrives(load, tmp_path):
    graph = load(edge_weight=np.array([1, 2, 3, 4.5]))
    assert load_source(str(tmp_path / "graph.npz")).name == "graph"
    assert graph.indptr.tolist() == [0, 1, 2, 4]
    assert graph.indices.tolist() == [1, 0, 1, 2]
    assert graph.features.tolist() == [[0, 2], [0, 0], [3, 4]]
    assert graph.labels.tolist() == [1, 0, -1]
    assert graph.edge_weight.tolist() == [1, 2, 3, 4.5]
    assert [graph.vertex_set(name).tolist() for name in ("train", "valid", "test")] == [[0], [1], []]
    assert graph.num_classes == 2
    names = ("indptr", "indices", "features", "labels", "edge_weight", "train_idx")
    dtypes = [str(getattr(graph, name).dtype) for name in names]
    assert dtypes == ["int64", "int32", "float32", "int64", "float32", "int64"]


@pytest.mark.parametrize("num_features", [None, 2, 5])
def test_csr_features_become_dense(load, num_features):
    features = load(**CSR, num_features=num_features).features
    assert features.dtype == np.float32
    assert features.shape == (3, num_features or 2)
    assert features[:, :2].tolist() == [[0, 2], [0, 0], [3, 4]]
    assert not features[:, 2:].any()


def test_half_precision_stays_and_can_be_asked_for(load):
    assert load(x=GRAPH["x"].astype(np.float16)).features.dtype == np.float16
    assert load().features.dtype == np.float32
    assert load().with_feature_dtype("float16").features.dtype == np.float16


def test_only_the_adjacency_is_needed(load):
    graph = load(x=None, y=None, train_idx=None, valid_idx=None)
    assert graph.features is None
    assert graph.labels.tolist() == [-1, -1, -1]
    assert graph.num_classes == 0
    assert len(graph.train_idx) == 0


def test_float_labels_with_nan(load):
    graph = load(y=np.array([2.0, 0.0, np.nan]))
    assert graph.labels.dtype == np.int64
    assert graph.labels.tolist() == [2, 0, -1]
    assert graph.num_classes == 3


def test_number_of_classes_can_exceed_the_labels_seen(load):
    assert load(num_classes=np.int64(7)).num_classes == 7


def test_multi_label(load):
    y = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [np.nan] * 4])
    graph = load(y=y)
    assert graph.multi_label
    assert graph.num_classes == 4
    assert graph.labels.dtype == np.float32
    np.testing.assert_array_equal(graph.labels, y)


INTEGERS = "must be integers in 1 dimension"
WRONG = [
    ({"indptr": None}, "has no array 'indptr'; it has indices, "),
    ({"indices": None}, "has no array 'indices'"),
    ({"indptr": GRAPH["indptr"] * 1.0}, f"indptr {INTEGERS}, not float64"),
    ({"indptr": np.array(3)}, f"indptr {INTEGERS}"),
    ({"indptr": np.array([0]), "indices": np.empty(0, int)}, "no vertices"),
    ({"indptr": np.empty(0, int)}, "no vertices"),
    ({"indices": np.array([[1, 0], [1, 2]])}, f"indices {INTEGERS}"),
    ({"indices": np.array([1, 0, 3, 2])}, r"indices\[2\] is 3, outside the vertices 0 \.\. 2"),
    ({"indices": np.array([1, -7, 1, 2])}, r"indices\[1\] is -7"),
    ({"indices": np.array([1, 0, 2**32, 2])}, r"indices\[2\] is 4294967296"),  # not 0, as int32 would have it
    ({"train_idx": np.array([0.5])}, f"train_idx {INTEGERS}"),
    ({"train_idx": np.array([True, False, True])}, f"train_idx {INTEGERS}, not bool"),
    ({"x": np.zeros((2, 2))}, r"x must be numbers of shape \(3, D\), not float64 of shape \(2, 2\)"),
    ({"x": np.zeros(3)}, r"x must be numbers of shape \(3, D\)"),
    ({"x": np.full((3, 1), "a")}, r"x must be numbers of shape \(3, D\), not <U1"),
    ({**CSR, "x_indices": None}, "has x_indptr but no x_indices"),
    ({**CSR, "x_indices": None, "x_data": None}, "has x_indptr but no x_indices and no x_data"),
    ({**CSR, "x_indptr": np.array([0, 1, 3])}, "x_indptr does not ascend from 0 to 3 in 4 entries"),
    ({**CSR, "x_indptr": np.array([0, 2, 1, 3])}, "x_indptr does not ascend"),
    ({**CSR, "x_indptr": np.array([1, 1, 1, 3])}, "x_indptr does not ascend"),
    ({**CSR, "x_indptr": np.array([0, 1, 1, 2])}, "x_indptr does not ascend"),
    ({**CSR, "x_data": np.array([2, 3])}, "x_data must be 3 numbers"),
    ({**CSR, "num_features": np.int64(1)}, "x_indices reach 1, outside the 1 features"),
    ({**CSR, "x_indices": np.array([1, -1, 1])}, "x_indices .*outside"),
    ({**CSR, "num_features": np.int64(-1)}, "num_features"),
    ({**CSR, "num_features": np.array([2, 2])}, "num_features"),
    ({"y": np.zeros(2, int)}, r"y must be numbers of shape \(3,\) or \(3, C\), not int64 of shape \(2,\)"),
    ({"y": np.array(1)}, "y must be numbers of shape"),
    ({"y": np.zeros((3, 2, 1))}, "y must be numbers of shape"),
    ({"y": np.array(["a", "b", "c"])}, "y must be numbers"),
    ({"y": np.array([0, 0.5, 1])}, r"y\[1\] is 0\.5, not a class"),
    ({"y": np.array([0, 1, np.inf])}, r"y\[2\] is inf, not a class"),
    ({"num_classes": np.array([2, 2])}, "num_classes"),
    ({"num_classes": np.array("two")}, "num_classes"),
    ({"edge_weight": np.ones(3)}, r"edge_weight must be 4 numbers, not float64"),
    ({"edge_weight": np.array(list("abcd"))}, "edge_weight"),
    ({"edge_weight": np.full(4, 1j)}, "edge_weight"),
    ({"z": np.array([None])}, "not a readable .npz of plain arrays"),
]


@pytest.mark.filterwarnings("error")  # a warning of numpy would be a second line on the terminal
@pytest.mark.parametrize(
    ("changes", "message"), WRONG, ids=[f"{i}: {message[:40]}" for i, (_, message) in enumerate(WRONG)]
)
def test_arrays_that_do_not_fit_are_named(load, changes, message):
    with pytest.raises(InputError, match=message):
        load(**changes)


def save_npy(path):
    with path.open("wb") as file:
        np.save(file, np.arange(3))


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.touch(),
        lambda path: path.write_text("0 1\n1 2\n"),
        lambda path: path.write_bytes(b"PK\3\4"),
        lambda path: path.mkdir(),
        save_npy,
    ],
    ids=["empty", "text", "cut", "folder", "npy"],
)
def test_files_that_are_no_archive(tmp_path, write):
    write(tmp_path / "graph.npz")
    with pytest.raises(InputError, match=r"graph\.npz is not a readable \.npz"):
        load_source(str(tmp_path / "graph.npz"))


@pytest.mark.parametrize(
    ("source", "message"), [("nowhere.npz", "no such file"), (__file__, "unknown kind of source")]
)
def test_sources_that_do_not_exist(source, message):
    with pytest.raises(InputError, match=message):
        load_source(source)


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "graph.npz"
    np.savez_compressed(path, **{**GRAPH, "x": np.random.default_rng(0).integers(0, 9, (3, 200))})
    return path, path.read_bytes()


@given(data=st.data(), mask=st.integers(0, 255))
def test_damage_of_any_byte_is_an_input_error_or_harmless(packed, data, mask):
    path, content = packed
    at = data.draw(st.integers(0, len(content) - 1))
    # No mask stands for an archive that was cut short.
    path.write_bytes(content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :] if mask else content[:at])
    try:
        graph = load_npz(path)
    except InputError:
        return
    assert graph.indices.tolist() == GRAPH["indices"].tolist()
