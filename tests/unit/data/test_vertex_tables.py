"""Which column of a table is what: ids match rows, and never become a feature."""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.feature_rows import dense

from gsplit.data import open_store
from gsplit.data.__main__ import command
from gsplit.data.importers.attached.attach import attach
from gsplit.data.importers.attached.vertex_files import VertexFiles
from gsplit.data.importers.source import GraphSource, array_edges
from gsplit.data.importers.tables import parquet_tables, text_format
from gsplit.errors import InputError

EDGES = array_edges(np.array([0]), np.array([1]))


@pytest.fixture
def attached(tmp_path):
    """attached(n, id_column, features=..., ...): attach tables with this content to a source of n vertices."""

    def run(n, id_column, **contents):
        paths = {}
        for name, content in contents.items():
            paths[name] = tmp_path / (f"{name}.csv" if isinstance(content, str) else f"{name}.parquet")
            if isinstance(content, str):
                paths[name].write_text(content)
            else:
                pq.write_table(pa.table(content), paths[name])
        source = GraphSource(name="x", edges=EDGES, num_vertices=n, where="edges.csv")
        return attach(source, VertexFiles(**paths, id_column=id_column))

    return run


def by_vertex(features):
    return dense(features).tolist()


@pytest.mark.parametrize("n", [3, None])
@pytest.mark.parametrize(
    ("id_column", "content"),
    [
        ("user", "user,a,b\n2,5,6\n0,1,2\n1,3,4\n"),
        ("USER", "a,User,b\n5,2,6\n1,0,2\n3,1,4\n"),
        ("user", "a,user,b\n5,2.0,6\n1,0.0,2\n3,1.0,4\n"),
        ("user", "user,a,b\n0,1,2\n1,3,4\n2,5,6\n"),
        ("user", ",user,a,b\n2,2,5,6\n0,0,1,2\n1,1,3,4\n"),  # pandas wrote its index beside the ids
        ("id", "id,a,b\n2,5,6\n0,1,2\n1,3,4\n"),
        (None, "id,a,b\n2,5,6\n0,1,2\n1,3,4\n"),  # a usual name: its order is not taken for the vertices'
        (None, ",a,b\n2,5,6\n0,1,2\n1,3,4\n"),  # pandas wrote its index after the rows were shuffled
        (None, {"a": [5.0, 1, 3], "node_id": [2, 0, 1], "b": [6, 2, 4]}),
        ("1", "2 5 6\n0 1 2\n1 3 4\n"),
        ("2", "5,2,6\n1,0,2\n3,1,4\n"),
        ("user", {"a": [5.0, 1, 3], "user": [2, 0, 1], "b": [6, 2, 4]}),
    ],
)
def test_rows_are_matched_by_ids(attached, monkeypatch, n, id_column, content):
    monkeypatch.setattr(parquet_tables, "BATCH_ROWS", 2)
    features = attached(n, id_column, features=content).features
    assert features.shape == (3, 2)
    assert by_vertex(features) == [[1, 2], [3, 4], [5, 6]]


def test_labels_and_splits_are_matched_by_ids(attached):
    text = "user,split\n2,train\n0,test\n1,train\n"
    source = attached(None, "user", labels="user,y\n2,7\n0,\n1,3\n", split_file=text)
    np.testing.assert_array_equal(source.labels, [np.nan, 3, 7])
    ids = {name: ids.tolist() for name, ids in source.vertex_sets.items()}
    assert ids == {"train": [1, 2], "valid": [], "test": [0]}
    many = attached(None, "user", labels="user,y,z\n2,1,0\n0,0,0\n1,0,1\n").labels
    assert many.tolist() == [[0, 0], [0, 1], [1, 0]]


AS_IDS = "as ids do, and is no feature; give --id-column"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "user,a\n2,5\n0,5\n1,3\n",
            rf"column user holds each of 0 \.\. 2 once, {AS_IDS} user .* --id-column none if",
        ),
        ("a,user\n5,0\n5,1\n3,2\n", rf"column user holds each of 0 \.\. 2 once, {AS_IDS} user"),
        ("a,user\n5,0.0\n5,2.0\n3,1\n", "column user holds each of 0"),
        ("5,2\n5,0\n3,1\n", rf"column 2 holds each of 0 \.\. 2 once, {AS_IDS} 2"),
        ("a,my id\n5,0\n5,1\n3,2\n", f"column my id holds .*, {AS_IDS} 'my id' to"),
        (
            "user,a\n3,5\n1,5\n2,3\n",
            r"column user holds each of 1 \.\. 3 once, as ids do that count from 1.* subtract 1",
        ),
        ({"a": [5, 5, 3], "user": [2, 0, 1]}, f"column user .*{AS_IDS} user"),
    ],
)
def test_a_column_of_ids_is_no_feature(attached, monkeypatch, content, message):
    monkeypatch.setattr(parquet_tables, "BATCH_ROWS", 2)
    with pytest.raises(InputError, match=message):
        attached(None, None, features=content)
    assert attached(None, "none", features=content).features.shape == (3, 2)


def test_other_ids_beside_the_named_ones_are_no_feature(attached):
    with pytest.raises(InputError, match=r"column row holds each of 0 \.\. 2 once, .* the ids are user; remove it"):
        attached(None, "user", features="row,user,a\n0,2,5\n1,0,5\n2,1,3\n")


@pytest.mark.parametrize(
    "content",
    [
        "a\n5\n5\n3\n",
        "a\n2\n0\n2\n",
        "a\n0\n1\n3.5\n",
        "a\n0\n1\n7\n",
        "a\n-1\n0\n1\n",
        "a,b\n0,1\n1,0\n",  # two rows: these may be flags
    ],
)
def test_other_whole_numbers_are_features(attached, content):
    assert len(by_vertex(attached(None, None, features=content).features)) == content.count("\n") - 1


def test_ids_are_found_behind_the_first_chunk_and_beyond_float32(attached, monkeypatch):
    monkeypatch.setattr(parquet_tables, "BATCH_ROWS", 5000)
    ids = np.random.default_rng(0).permutation(20_000)
    with pytest.raises(InputError, match="column user holds each of 0"):
        attached(None, None, features={"user": ids, "a": ids % 7})
    late = np.where(ids == ids[-1], ids[0], ids)  # one is there twice, at the end
    assert attached(None, None, features={"user": late, "a": ids % 7}).features.shape == (20_000, 2)
    far = ids + 2**24  # neighbours are one number in float32; here they are no ids: there are too few rows
    assert attached(None, None, features={"user": far, "a": ids % 7}).features.shape == (20_000, 2)


def test_one_column_of_labels_may_be_anything_several_may_not(attached):
    assert attached(None, None, labels="y\n2\n0\n1\n").labels.tolist() == [2, 0, 1]
    with pytest.raises(InputError, match=r"column user .* and is no label; give --id-column user"):
        attached(None, None, labels="user,y\n2,5\n0,5\n1,3\n")


@pytest.mark.parametrize(
    ("n", "id_column", "content", "message"),
    [
        (None, "user", "user,a\n0,1\n\n3,1\n1,1\n", r"features\.csv, line 4: 3 is no id of the vertices 0 \.\. 2"),
        (None, "user", "user,a\n0,1\n-1,1\n", r"line 3: -1 is no id of the vertices 0 \.\. 1"),
        (None, "user", "user,a\n0,1\n0.5,1\n", "line 3: 0.5 is no id"),
        (None, "user", "user,a\n0,1\n,1\n", "line 3: the id is missing"),
        (None, "user", "user,a\n0,1\nsue,1\n", "line 3: 'sue' is not a number"),
        (None, "user", "user,a\n1,1\n0,1\n1,1\n", "line 4: id 1 was in line 2 already"),
        (None, "user", {"user": [1, 1], "a": [0, 0]}, r"features\.parquet, row 1: id 1 was in row 0 already"),
        (4, "user", "user,a\n3,1\n0,1\n1,1\n", "has no row for 2, nor for 0 other of the 4 vertices"),
        (None, "usr", "user,a\n0,1\n", "has no column called usr, the --id-column; it has user, a"),
        (None, "user", "user,a,user\n0,1,1\n", "has several columns called user, the --id-column"),
        (
            None,
            "user",
            "0,1\n1,1\n",
            r"has no header, so --id-column takes the number of a column, 1 \.\. 2, not user",
        ),
        (None, "3", "0,1\n1,1\n", "1 .. 2, not 3"),
        (None, "user", "user\n0\n", "has no column of [a-z]+ beside the ids"),
        (None, None, "id,a\n1,1\n2,1\n", r"line 3: 2 is no id of the vertices 0 \.\. 1"),
    ],
)
def test_ids_that_are_wrong(attached, n, id_column, content, message):
    with pytest.raises(InputError, match=message):
        by_vertex(attached(n, id_column, features=content).features)


@pytest.mark.parametrize(
    ("id_column", "content", "printed"),
    [
        ("user", "user,a,b\n1,5,5\n0,3,6\n", "rows are matched by the ids in user; features (2): a, b"),
        ("user", ",user,a\n0,1,5\n1,0,5\n", "the ids in user; features (1): a; (nameless) is left out"),
        (None, "a,id\n5,0\n3,1\n", "taken in the order of the vertices (id counts them); features (1): a"),
        (None, "5,0.5\n3,1\n", "taken in the order of the vertices; features (2): column 1, 2"),
        ("none", "id,a\n5,0\n3,1\n", "taken in the order of the vertices; features (2): id, a"),
    ],
)
def test_which_column_is_what_is_said(attached, caplog, id_column, content, printed):
    with caplog.at_level(logging.INFO):
        attached(None, id_column, features=content)
    assert caplog.messages[-1].endswith(printed), caplog.messages


def test_an_import_by_ids_equals_one_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(text_format, "BLOCK_BYTES", 2000)
    rng = np.random.default_rng(0)
    features, labels = rng.random((500, 4), np.float32).round(3), rng.integers(0, 3, 500)
    (tmp_path / "edges.csv").write_text("0,1\n1,499\n")
    order = rng.permutation(500)
    for name, rows in (("ordered", np.arange(500)), ("shuffled", order)):
        lines = [f"{v},{','.join(map(str, features[v]))}\n" for v in rows]
        (tmp_path / f"{name}.csv").write_text("user,a,b,c,d\n" + "".join(lines))
        (tmp_path / f"{name}-labels.csv").write_text("label,user\n" + "".join(f"{labels[v]},{v}\n" for v in rows))
        files = f"--features {name}.csv --labels {name}-labels.csv --id-column user"
        command(["import", "edges.csv", "--out", name, "--split", "0.5,0.2,0.3", *files.split()])
    graphs = [open_store(name, verify=True).graph for name in ("ordered", "shuffled")]
    for graph in graphs:
        np.testing.assert_array_equal(graph.features, features)
        np.testing.assert_array_equal(graph.labels, labels)
