"""Data frames as graphs: the stores that the same tables give in Parquet files; arrays beside them; mistakes."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from support.messages import says
from support.stores import assert_equal_graphs

import gsplit
from gsplit.data.importers import frames
from gsplit.errors import InputError

pytestmark = pytest.mark.usefixtures("temporary")
EDGES = pd.DataFrame({"payer": ["Ann", "Bob", "Cid"], "payee": ["Bob", "Cid", "Bob"], "weight": [1.5, 2, 3]})
PEOPLE = pd.DataFrame(
    {
        "name": ["Cid", "Ann", "Bob", "Dan"],
        "age": np.array([1, 2, 3, 4], np.uint8),
        "height": [1.5, None, 0.1, 3],
        "land": pd.Categorical(["de", None, "fr", "it"]),
        "joined": pd.to_datetime(["2024-01-01 00:00", None, "2024-02-01 12:00", "2024-01-05 00:00"]),
        "member": pd.array([True, False, None, True], "boolean"),
        "kind": ["a", None, "b", "a"],
        "part": ["train", "none", "valid", "test"],
    }
)
FLAGS = {
    "ids": "any",
    "source_column": "payer",
    "destination_column": "payee",
    "id_column": "name",
    "columns": ["land:category", "joined:time", "member:bool"],
    "missing": "mean",
    "unknown": "drop",
    "label_column": "kind",
    "split_column": "part",
    "undirected": True,
}


class Exported:
    """A table of a library that has nothing but Arrow's protocol."""

    def __init__(self, frame):
        self._table = pa.Table.from_pandas(frame)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def as_relation(frame):
    table = pa.Table.from_pandas(frame)
    return duckdb.connect().from_arrow(table)


FORMS = {
    "pandas": lambda frame: frame,
    "pandas by its index": lambda frame: frame.set_index("name") if "name" in frame else frame,
    "pandas in another order": lambda frame: frame if "name" in frame else frame.set_axis([7, 3, 5]),
    "arrow": pa.Table.from_pandas,
    "a batch": lambda frame: pa.RecordBatch.from_pandas(frame),
    "a reader": lambda frame: pa.Table.from_pandas(frame).to_reader(),
    "duckdb": as_relation,
    "the protocol of arrow": Exported,
}


def columns_of(store):
    return [{**column, "table": ""} for column in store.description["columns"]]


@pytest.mark.parametrize("form", FORMS)
def test_a_frame_is_its_parquet_file(tmp_path, form):
    EDGES.to_parquet(tmp_path / "edges.parquet")
    PEOPLE.to_parquet(tmp_path / "people.parquet")
    wanted = gsplit.import_graph(
        tmp_path / "edges.parquet", tmp_path / "wanted", features=tmp_path / "people.parquet", **FLAGS
    )
    edges, people = FORMS[form](EDGES), FORMS[form](PEOPLE)
    with gsplit.from_arrays(edges, people, **FLAGS) as got:
        assert_equal_graphs(got.graph, wanted.graph)
        assert (got.checksum, got.classes, columns_of(got)) == (wanted.checksum, wanted.classes, columns_of(wanted))
        assert got.ids().columns() == wanted.ids().columns()
        assert (got.name, got.description["source"]) == ("graph", "gsplit.from_arrays")
        assert got.description["columns"][0]["table"] == "gsplit.from_arrays: x"


def test_tables_and_arrays_side_by_side(tmp_path):
    """Whole ids: 0 --> 1, 1 --> 2."""
    edges = np.array([[0, 1], [1, 2]])
    x = pd.DataFrame({"id": [2, 0, 1], "land": ["b", "a", "b"], "n": [1, 2, 5]})
    y = pd.Series(["dog", None, "cat"], dtype="object")
    options = {"columns": ["land:category"]}
    with gsplit.from_arrays(edges, x, y, train=[0], test=np.array([False, False, True]), **options) as store:
        assert store.graph.features.tolist() == [[1, 0, 2], [0, 1, 5], [0, 1, 1]]
        assert (store.classes, store.graph.labels.tolist()) == (("cat", "dog"), [1, -1, 0])
        assert (store.graph.train_idx.tolist(), store.graph.test_idx.tolist()) == ([0], [2])
    table = pd.DataFrame({"u": edges[0], "v": edges[1]}, index=["some", "index"])
    half = np.arange(6, dtype=np.float16).reshape(3, 2)
    with gsplit.from_arrays(
        table, torch.tensor(half), [0, 1, 0], train=[True, False, False], num_classes=4, out=tmp_path / "kept"
    ) as store:
        assert (store.graph.features.dtype, store.graph.features.tolist()) == (np.float16, half.tolist())
        assert (store.graph.num_classes, store.graph.train_idx.tolist()) == (4, [0])
        assert (store.graph.indices.tolist(), store.graph.indptr.tolist()) == ([0, 1], [0, 0, 1, 2])
    split = pd.DataFrame({"split": ["test", "train", "valid"]})
    with gsplit.from_arrays(edges, y=[1, 0, 1], split_file=split) as store:
        assert [store.graph.vertex_set(name).tolist() for name in ("train", "valid", "test")] == [[1], [2], [0]]
    with gsplit.from_arrays(table, num_vertices=7) as store:
        assert store.graph.num_vertices == 7


@pytest.mark.parametrize("ids", [["c", "a"], np.array(["c", "a"]), pd.Series(["c", "a"], index=[4, 2])])
def test_vertex_sets_are_ids_of_any_kind(ids):
    edges = pa.table({"src": ["a", "b"], "dst": ["b", "c"]})
    labels = pd.Series([0, 1, 0], index=pd.Index(["a", "c", "b"], name="id"), name="label")
    with gsplit.from_arrays(edges, y=labels, train=ids, ids="any") as store:
        assert (store.graph.train_idx.tolist(), store.graph.labels.tolist()) == ([2, 0], [0, 0, 1])
    numbers = pa.table({"src": [70, 80], "dst": [80, 90]})
    with gsplit.from_arrays(
        numbers, y=labels.set_axis([70, 90, 80]).rename_axis("id"), train=[90], ids="any"
    ) as store:
        assert (store.graph.train_idx.tolist(), store.graph.labels.tolist()) == ([2], [0, 0, 1])


ARRAY = np.array([[0, 1], [1, 2]])
BY_ID = pd.DataFrame(
    {"a": [0.2, 0, 0.1], "y": [2, 0, 1], "set": [True, False, False]}, index=pd.Index([2, 0, 1], name="id")
)
UNNAMED = BY_ID["set"].rename_axis(None)
MASKS = {
    "a column": BY_ID["set"],
    "a frame": BY_ID[["set"]],
    "of pandas' own type": BY_ID["set"].astype("boolean"),
    "of some vertices": BY_ID["set"][:1],
}


@pytest.mark.parametrize("mask", MASKS)
def test_masks_go_by_the_index_that_features_and_labels_go_by(mask):
    for x, y in ((BY_ID[["a"]], BY_ID["y"]), (None, BY_ID["y"]), (None, [0, 1, 2]), (np.eye(3), [0, 1, 2])):
        with gsplit.from_arrays(ARRAY, x, y, train=MASKS[mask], test=[0]) as store:
            assert (store.graph.train_idx.tolist(), store.graph.test_idx.tolist()) == ([2], [0])
            assert store.graph.labels.tolist() == [0, 1, 2]
    people = BY_ID.rename(index=["a", "b", "c"].__getitem__)
    for name, options in (("id", {}), ("who", {"id_column": "who"})):
        named = people.rename_axis(name)
        with gsplit.from_arrays(NAMED, y=named["y"], train=named[["set"]], ids="any", **options) as store:
            assert (store.graph.train_idx.tolist(), store.graph.labels.tolist()) == ([2], [0, 1, 2])


def test_weights_go_by_no_index_that_the_edges_have_not():
    edges = pd.DataFrame({"src": [0, 1, 2, 3], "dst": [1, 2, 3, 0], "weight": [1.0, 2, 3, 4]}).iloc[[3, 1, 2]]
    wanted = gsplit.from_arrays(edges, num_vertices=4).graph
    pair = edges.src, edges.dst
    for weight in (edges.weight, edges[["weight"]]):
        assert_equal_graphs(gsplit.from_arrays(pair, edge_weight=weight, num_vertices=4).graph, wanted)
    array = np.array(pair)
    for own, weight in ((array, edges.weight), (pair, edges.weight.sort_index()), (pair, edges.weight.to_numpy())):
        with pytest.raises(InputError, match=r"gsplit.from_arrays: .* edge_weight has another index .*reset_index"):
            gsplit.from_arrays(own, edge_weight=weight)
    in_order = edges.weight.reset_index(drop=True)
    assert_equal_graphs(gsplit.from_arrays(array, edge_weight=in_order, num_vertices=4).graph, wanted)
    with pytest.raises(InputError):
        gsplit.from_arrays((edges.src, edges.dst.sort_index()))


def test_masks_go_by_an_index_of_several_columns():
    edges = pd.DataFrame({"a": [1, 1], "b": [1, 2], "c": [1, 2], "d": [2, 1]})
    ids = pd.MultiIndex.from_tuples([(1, 2), (2, 1), (1, 1)], names=["shop", "till"])
    tills = pd.DataFrame({"y": [0, 1, 2], "set": [False, True, True]}, index=ids)
    options = {"ids": "any", "source_column": "a,b", "destination_column": "c,d", "id_column": "shop,till"}
    with gsplit.from_arrays(edges, y=tills["y"], train=tills["set"], **options) as store:
        assert store.graph.labels[store.graph.train_idx].tolist() == [1, 2]


def test_spaces_around_ids_are_removed():
    edges = pd.DataFrame({"src": ["a ", "b "], "dst": ["b", " c"]})
    labels = pd.Series([0, 1, 2], index=pd.Index([" c", "a", "b "], name="id"))
    with gsplit.from_arrays(edges, y=labels, train=[" b"], ids="any", strip=True) as store:
        assert (store.graph.labels.tolist(), store.graph.train_idx.tolist()) == ([1, 2, 0], [1])
    with gsplit.from_arrays(edges, ids="any") as store:  # the rule goes with its call
        assert store.graph.num_vertices == 4


class Column:
    """A column of a library that has no index, as Polars."""

    def __init__(self, values, name=""):
        self._values, self.name = values, name

    def rename(self, name):
        return Column(self._values, name)

    def to_frame(self):
        return Exported(pd.DataFrame({self.name: self._values}))


@pytest.mark.parametrize("name", ["", "id", "Node", None, 0, "label"])
def test_a_column_alone_is_the_labels_whatever_its_name(name):
    columns = [pd.Series([0, 1, 1], name=name), pd.Series([1, 0, 1], index=pd.Index([2, 0, 1], name="id"), name=name)]
    for column in [*columns, pd.Index([0, 1, 1], name=name), Column([0, 1, 1], str(name or ""))]:
        with gsplit.from_arrays(ARRAY, y=column) as store:
            assert store.graph.labels.tolist() == [0, 1, 1]


TABLE = pd.DataFrame({"src": [0, 1], "dst": [1, 2]})
NAMED = pd.DataFrame({"src": ["a", "b"], "dst": ["b", "c"]})
BAD: list[tuple[dict, str]] = [
    ({"edge_index": NAMED}, "edge_index, row 0, 'a', src, --ids any"),
    ({"edge_index": TABLE, "edge_weight": [1, 2]}, "edge_weight, column, weight"),
    ({"edge_index": TABLE[["src"]]}, "edge_index, one column"),
    ({"edge_index": pd.DataFrame({"a": [0], "b": [1], "c": [2]})}, "edge_index, a, b, c, --source-column"),
    ({"edge_index": ARRAY, "x": pd.DataFrame({"a": [1, 2]})}, "x has 2 rows, edge 1"),
    ({"edge_index": ARRAY, "x": pd.DataFrame({"a": ["u", "v", "w"]})}, "x, row 0, 'u', a, --columns"),
    ({"edge_index": ARRAY, "x": pd.DataFrame({"a": [[1], [2], [3]]})}, "x, column a, list<element: int64>"),
    ({"edge_index": ARRAY, "x": pd.DataFrame({"a": [1, "x", 3.5]})}, "x, DataFrame, a"),
    ({"edge_index": ARRAY, "x": pd.DataFrame({"a": [1, 2, 4]}, index=[2, 0, 1])}, "x, index, .rename_axis('id')"),
    ({"edge_index": ARRAY, "y": pd.Series([1, 2, 4], index=[2, 0, 1])}, "y, index, .reset_index(drop=True)"),
    ({"edge_index": ARRAY, "y": [0, 1, 1], "train": UNNAMED}, "train, index, .rename_axis('id')"),
    ({"edge_index": ARRAY, "y": BY_ID["y"], "train": UNNAMED}, "train, index, .reset_index"),
    ({"edge_index": ARRAY, "y": [0, 1, 1], "train": BY_ID["set"].rename_axis("group")}, "train, index, group"),
    (
        {"edge_index": ARRAY, "y": [0, 1, 1], "train": BY_ID["set"].where(BY_ID["a"] > 0).astype("boolean")},
        "train, gaps",
    ),
    ({"edge_index": ARRAY, "y": pd.Series([0, 1, 1], index=pd.Index([0, 1, 1], name="group"))}, "y, index, group"),
    ({"edge_index": ARRAY, "y": BY_ID["y"], "id_column": "who"}, "y, index, id, .rename_axis('who')"),
    ({"edge_index": ARRAY, "y": BY_ID["y"], "id_column": "none"}, "y, index, id, .reset_index(drop=True)"),
    (
        {"edge_index": NAMED, "y": pd.Series([0, 1, 1], pd.Index([*"abc"], name="who")), "ids": "any"},
        "y, who, --id-column",
    ),
    ({"edge_index": ARRAY, "x": pd.DataFrame([[1, 2]] * 3, columns=["a", "a"])}, "x, DataFrame, a"),
    ({"edge_index": NAMED, "ids": "any", "x": np.eye(3)}, "x, ids, --ids any"),
    ({"edge_index": NAMED, "ids": "any", "train": ["d"], "y": PEOPLE}, "y"),
    ({"edge_index": ARRAY, "ids": "any", "x": PEOPLE}, "--ids any, gsplit.from_arrays"),
    ({"edge_index": NAMED, "ids": "any", "num_vertices": 5}, "--num-vertices"),
    ({"edge_index": TABLE, "features": "x.csv"}, "gsplit.from_arrays, 'features'"),
    ({"edge_index": TABLE, "edges_query": "SELECT 1"}, "gsplit.from_arrays, 'edges_query'"),
    ({"edge_index": TABLE, "quote": "'"}, "gsplit.from_arrays, 'quote', strip"),
    ({"edge_index": TABLE, "strip": "yes"}, "--strip"),
    ({"edge_index": TABLE, "colums": ["a:time"]}, "gsplit.from_arrays, 'colums'"),
    ({"edge_index": TABLE, "name": "a\nb"}, "name"),
    ({"edge_index": ARRAY, "columns": ["a:time"]}, "gsplit.from_arrays, 'columns'"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_mistakes_are_a_line(given, message):
    with pytest.raises(InputError) as caught:
        gsplit.from_arrays(**given)
    says(caught.value, message)


def test_what_is_no_frame():
    assert not any(map(frames.is_frame, (None, [1], np.eye(2), torch.ones(2), pa.chunked_array([[1]]), (1, 2))))
    chunked = pa.chunked_array([[0, 1], [2]])
    with gsplit.from_arrays(ARRAY, chunked, y=chunked) as store:
        assert (store.graph.features[:, 0].tolist(), store.graph.labels.tolist()) == ([0, 1, 2], [0, 1, 2])
