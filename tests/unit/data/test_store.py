"""A store gives back what was written, bit for bit, and refuses what no training could use."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from gsplit.data import open_store, write_store
from gsplit.errors import InputError

NONE = np.empty(0, np.int64)
NAN = np.nan
MULTI_LABELS = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1], [NAN, NAN, NAN]], np.float32)


def assert_same(found, wanted):
    for field in fields(wanted):
        have, want = getattr(found, field.name), getattr(wanted, field.name)
        if isinstance(want, np.ndarray):
            assert have.dtype == want.dtype, field.name
            np.testing.assert_array_equal(have, want, err_msg=field.name)
        else:
            assert have == want, field.name


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"indices": np.array([1, 2, 0, 2, 1, 3, 1, 2], np.int64)},
        {"features": np.arange(10, dtype=np.float16).reshape(5, 2)},
        {"features": None},
        {"features": np.empty((5, 0), np.float32)},
        {"labels": MULTI_LABELS, "num_classes": 3},
        {"edge_weight": np.linspace(-1, 1, 8, dtype=np.float32)},
        {"train_idx": NONE, "valid_idx": NONE, "test_idx": NONE},
        {"train_idx": np.array([3, 0])},  # the order is the user's
        {"indptr": np.zeros(6, np.int64), "indices": np.empty(0, np.int32)},
    ],
    ids=lambda changes: ",".join(changes) or "plain",
)
def test_round_trip(tmp_path, tiny_graph, changes):
    graph = tiny_graph(**changes)
    write_store(tmp_path / "store", graph, name="path graph", source="a test")
    opened = open_store(tmp_path / "store", verify=True)
    assert opened.name == "path graph"
    assert_same(opened.graph, graph)
    assert opened.graph.multi_label == ("num_classes" in changes)


def test_arrays_that_are_mapped_round_trip(tmp_path, tiny_graph):
    features = np.random.default_rng(0).standard_normal((5, 20_000)).astype(np.float32)
    write_store(tmp_path / "store", tiny_graph(features=features), name="wide", source="a test")
    opened = open_store(tmp_path / "store").graph
    assert isinstance(opened.features, np.memmap)
    np.testing.assert_array_equal(opened.features, features)


def test_checksum_is_of_the_content(tmp_path, tiny_graph):
    def checksum(folder, **changes):
        write_store(tmp_path / folder, tiny_graph(**changes), name=folder, source=folder)
        return open_store(tmp_path / folder).checksum

    first = checksum("first")
    assert checksum("again") == first
    assert checksum("other", valid_idx=np.array([3])) != first


REFUSED = [
    ({"indices": np.array([1, 2, 0, 5, 1, 3, 1, 2], np.int32)}, r"indices\[3\] is 5, outside the vertices 0 \.\. 4"),
    ({"indices": np.array([1, 2, 0, 2, 1, 3, -1, 2], np.int32)}, r"indices\[6\] is -1, outside"),
    ({"train_idx": np.array([0, 5])}, r"train_idx\[1\] is 5, outside"),
    ({"valid_idx": np.array([-1])}, r"valid_idx\[0\] is -1, outside"),
    ({"test_idx": np.array([10**12])}, r"test_idx\[0\] is 1000000000000, outside"),
    ({"indptr": np.array([0, 4, 1, 7, 8, 8])}, "indptr falls from 4 to 1 at vertex 1"),
    ({"indptr": np.array([0, 1, 4, 7, 8, 9])}, "indptr must run from 0 to the 8 edges, not from 0 to 9"),
    ({"indptr": np.array([1, 1, 4, 7, 8, 8])}, "indptr must run from 0 to the 8 edges, not from 1 to 8"),
    ({"train_idx": np.array([0, 4])}, "the train set has vertex 4, which has no label; label it"),
    ({"test_idx": np.array([4])}, "the test set has vertex 4, which has no label"),
    ({"labels": np.array([0, 1, 2, 1, -1])}, r"the valid set has a label outside 0 \.\. 1 at vertex 2"),
    (
        {"labels": MULTI_LABELS, "num_classes": 3, "valid_idx": np.array([4])},
        "valid set has vertex 4, which has no label",
    ),
    ({"labels": MULTI_LABELS * 2, "num_classes": 3}, "the train set has labels other than 0 and 1"),
    ({"train_idx": np.array([0, 1, 0])}, "train_idx lists a vertex twice"),
    ({"features": np.array([[0, 0], [0, 0], [0, NAN], [0, 0], [0, 0]], np.float32)}, "features of vertex 2 hold NaN"),
    ({"features": np.array([[0, 0], [0, 0], [0, 0], [0, 0], [-np.inf, 0]], np.float16)}, "features of vertex 4"),
    ({"edge_weight": np.array([1, 1, 1, NAN, 1, 1, 1, 1], np.float32)}, r"edge_weight\b.*NaN"),
    ({"num_classes": -3, "train_idx": NONE, "valid_idx": NONE, "test_idx": NONE}, "classes"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_graphs_are_refused_and_nothing_is_written(tmp_path, tiny_graph, changes, message):
    with pytest.raises(InputError, match=f"the source: .*{message}"):
        write_store(tmp_path / "store", tiny_graph(**changes), name="bad", source="the source")
    assert list(tmp_path.iterdir()) == []


def test_no_vertices(tmp_path, tiny_graph):
    graph = tiny_graph(
        indptr=np.zeros(1, np.int64),
        indices=np.empty(0, np.int32),
        features=None,
        labels=NONE,
        train_idx=NONE,
        valid_idx=NONE,
        test_idx=NONE,
    )
    with pytest.raises(InputError, match="no vertices"):
        write_store(tmp_path / "store", graph, name="empty", source="the source")


def test_vertices_in_two_splits_get_a_warning(tmp_path, tiny_graph, caplog):
    write_store(tmp_path / "store", tiny_graph(test_idx=np.array([2, 1, 3])), name="two", source="the source")
    assert [record.getMessage() for record in caplog.records] == [
        "the source: 1 vertices are in both the train and the test set",
        "the source: 1 vertices are in both the valid and the test set",
    ]


@pytest.mark.parametrize(
    ("array", "value", "message"),
    [
        ("indices", np.array([1, 2, 0, 2, 1, 9, 1, 2], np.int32), r"indices\[5\] is 9"),
        ("indptr", np.array([0, 4, 1, 7, 8, 8]), "indptr falls"),
        ("labels", np.array([-1, 1, 0, 1, -1]), "the train set"),
        ("train_idx", np.array([1, 1]), "train_idx lists a vertex twice"),
        ("features", np.zeros((5, 2), np.float64), "truncated or changed"),
        ("labels", np.zeros((5, 1), np.int64), "labels.npy is damaged or changed: int64 of shape"),
        ("indptr", np.zeros(6, np.uint64), "indptr.npy is damaged or changed: uint64"),
    ],
)
def test_contents_that_changed_on_disk_are_refused(tmp_path, tiny_graph, array, value, message):
    write_store(tmp_path / "store", tiny_graph(), name="store", source="the source")
    np.save(tmp_path / "store" / f"{array}.npy", value)
    with pytest.raises(InputError, match=message):
        open_store(tmp_path / "store")


def test_overwriting_a_store(tmp_path, tiny_graph):
    write_store(tmp_path / "store", tiny_graph(edge_weight=np.ones(8, np.float32)), name="old", source="a test")
    with pytest.raises(InputError, match="exists already"):
        write_store(tmp_path / "store", tiny_graph(), name="new", source="a test")
    assert open_store(tmp_path / "store").name == "old"
    write_store(tmp_path / "store", tiny_graph(), name="new", source="a test", overwrite=True)
    assert_same(open_store(tmp_path / "store").graph, tiny_graph())
