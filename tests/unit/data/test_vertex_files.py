"""Features, labels and vertex sets in files of their own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.feature_rows import dense

from gsplit.data.importers.attached.attach import attach
from gsplit.data.importers.attached.vertex_files import VertexFiles
from gsplit.data.importers.source import GraphSource, array_edges
from gsplit.data.importers.tables import parquet_tables
from gsplit.errors import InputError

EDGES = array_edges(np.array([0]), np.array([1]))
BARE = GraphSource(name="x", edges=EDGES, num_vertices=3, where="edges.csv")
FULL = GraphSource(
    name="x", edges=EDGES, num_vertices=3, labels=np.zeros(3), num_classes=7, vertex_sets={"test": np.array([0])}
)


@pytest.fixture
def given(tmp_path):
    """given(features=..., labels=...): attach files with this content to BARE; text, an array, or a table."""

    def run(*, to=BARE, **contents):
        paths = {}
        for name, content in contents.items():
            suffix = {str: "csv", dict: "parquet", np.ndarray: "npy"}[type(content)]
            paths[name] = tmp_path / f"{name}.{suffix}"
            if isinstance(content, str):
                paths[name].write_text(content)
            elif isinstance(content, dict):
                pq.write_table(pa.table(content), paths[name])
            else:
                np.save(paths[name], content)
        return attach(to, VertexFiles(**paths))

    return run


@pytest.mark.parametrize(
    "content",
    [
        np.array([[1, 2], [3, 4], [5, 6]]),
        "1,2\n3,4\n5,6\n",
        "1 2\n3 4\n5 6\n",
        "a,b\n1,2\n3,4\n5,6\n",
        "id,a,b\n0,1,2\n1,3,4\n2,5,6\n",
        ",a,b\n0,1,2\n1,3,4\n2,5,6\n",
        "a,node_id,b\n1,0,2\n3,1,4\n5,2,6\n",
        {"a": [1.0, 3, 5], "id": [0, 1, 2], "b": [2, 4, 6]},
    ],
)
def test_features(given, monkeypatch, content):
    monkeypatch.setattr(parquet_tables, "BATCH_ROWS", 2)
    features = given(features=content).features
    assert features.shape == (3, 2)
    assert dense(features).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_one_feature_a_vertex(given):
    assert given(features=np.array([1, 2, 3])).features.shape == (3, 1)


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        (np.array([2, -1, 0]), [2, -1, 0]),
        ("2\n-1\n0\n", [2, -1, 0]),
        ("label\n2\nnan\n0\n", [2, np.nan, 0]),
        ("id,label\n0,2\n1,\n2,0\n", [2, np.nan, 0]),
        ({"label": [2, None, 0]}, [2, np.nan, 0]),
        ("1,0\n0,1\n1,1\n", [[1, 0], [0, 1], [1, 1]]),
    ],
)
def test_labels(given, content, labels):
    np.testing.assert_array_equal(given(labels=content).labels, labels)


@pytest.mark.parametrize(
    "files",
    [
        {"train": np.array([2, 0]), "test": np.array([False, True, False])},
        {"train": "2\n0\n", "test": "id\n1\n"},
        {"train": {"ids": [2, 0]}, "test": {"ids": [1]}},
    ],
)
def test_splits(given, files):
    vertex_sets = given(**files).vertex_sets
    assert {name: ids.tolist() for name, ids in vertex_sets.items()} == {"train": [2, 0], "test": [1]}


@pytest.mark.parametrize(
    "content",
    [
        "train\ntest\ntrain\n-\nval\n",
        "split\ntrain\nTest\ntrain\nnone\nvalid\n",
        "id,split\n0,train\n1,test\n2,train\n3,\n4,validation\n",
        {"split": ["train", "test", "train", None, "val"]},
        np.array(["train", "test", "train", "", "valid"]),
    ],
)
def test_split_file(given, content):
    source = given(to=GraphSource(name="x", edges=EDGES, num_vertices=None), split_file=content)
    assert [source.vertex_sets[name].tolist() for name in ("train", "valid", "test")] == [[0, 2], [4], [1]]
    assert source.num_vertices == 5


def test_files_win_over_the_source(given):
    source = given(to=FULL, labels=np.array([1, 0, 1]), train=np.array([1]))
    assert source.labels.tolist() == [1, 0, 1]
    assert source.num_classes is None
    assert list(source.vertex_sets) == ["train"]
    assert given(to=FULL).vertex_sets is FULL.vertex_sets
    assert given(to=FULL).num_classes == 7


def test_messages_name_the_file(given, tmp_path):
    source = given(features=np.ones((3, 1)), train=np.array([1]))
    assert source.call("features") == str(tmp_path / "features.npy")
    assert source.call("train") == str(tmp_path / "train.npy")
    assert source.call("labels") == "edges.csv: labels"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"features": "1,2\n3\n"}, r"features\.csv, line 2: 1 columns, not 2"),
        ({"features": "1,2\n3,x\n5,6\n"}, r"features\.csv, line 2: 'x' is not a number"),
        ({"features": "id,a\n0,1\n\n3,5\n"}, r"features\.csv, line 4: 3 is no id of the vertices 0 \.\. 2"),
        ({"features": "id,a\n0,1\n\n2,5\n"}, r"features\.csv has no row for 1, nor for 0 other"),
        ({"features": "id\n0\n"}, r"features\.csv has no column of [a-z]+ beside the ids"),
        ({"features": {"a": ["x", "y", "z"]}}, r"features\.parquet, row 0: 'x' is not a number, as column a"),
        ({"labels": "0\ndog\n"}, r"labels\.csv, line 2: 'dog' is not a number"),
        ({"train": "0,1\n"}, r"train\.csv has 2 columns; the ids of a vertex set need one"),
        ({"train": "0\n0.5\n"}, r"train\.csv, line 2: '0\.5' is not a whole number"),
        ({"train": np.array([0.5])}, r"train\.npy must be integers"),
        ({"split_file": "train\ntset\n"}, r"split_file\.csv, line 2: 'tset' is none of train, valid, test"),
        ({"split_file": "0,train\n1,test\n"}, "two columns and no header"),
        ({"split_file": "a,b,c\n1,train,3\n"}, "has 3 columns; a split file has one"),
        ({"split_file": "id,split\n0,train\n3,test\n"}, r"split_file\.csv, line 3: 3 is no id of the vertices"),
        ({"split_file": np.array([0, 1])}, "must be texts"),
        ({"split_file": "train\n\ntest\n"}, "has 2 rows; there must be one for each of the 3 vertices"),
        ({"train": np.array([True, False])}, r"train\.npy must be a mask of the 3 vertices, not of shape \(2,\)"),
        ({"split_file": "train\n", "test": "1\n"}, "--split-file gives all vertex sets; drop --test"),
    ],
)
def test_files_that_are_wrong(given, files, message):
    with pytest.raises(InputError, match=message):
        assert given(**files).features is None or len(dense(given(**files).features))


@pytest.mark.parametrize("name", ["nowhere.npy", "nowhere.csv", "nowhere.parquet"])
def test_files_that_are_missing(tmp_path, name):
    with pytest.raises(InputError, match=f"{name}: no such file"):
        attach(BARE, VertexFiles(features=tmp_path / name))
