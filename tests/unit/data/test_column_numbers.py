"""Columns are called by their names or their numbers by every flag, also where two have one name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.messages import says

import gsplit
from gsplit.errors import InputError

PAYMENTS = pd.DataFrame(
    [["t0", 10, "A1", 20, "A1", 3.5], ["t1", 20, "A1", 10, "A2", 1.25], ["t2", 10, "A2", 10, "A1", 9]],
    columns=["Timestamp", "From Bank", "Account", "To Bank", "Account", "Amount"],
)
ACCOUNTS = pd.DataFrame(
    [["A2", 5, 7, "x", 1, "train"], ["A1", 6, 8, "y", 0, "test"]], columns=["id", "v", "v", "kind", "y", "y"]
)
ENDS = {"source_column": "3", "destination_column": "5", "weight_column": "6"}


@pytest.fixture(params=["csv", "parquet"])
def table(request, tmp_path):
    """Return a function that writes a frame, and returns its path."""

    def write(frame, name):
        path = tmp_path / f"{name}.{request.param}"
        if request.param == "csv":
            frame.to_csv(path, index=False)
        else:
            columns = [pa.array(frame.iloc[:, at]) for at in range(frame.shape[1])]
            pq.write_table(pa.Table.from_arrays(columns, names=list(frame.columns)), path)
        return path

    return write


def imported(edges, out, **options):
    return gsplit.import_graph(edges, out, **{"ids": "any", **ENDS, **options})


def edges_of(store):
    ids = store.ids().of(np.arange(store.graph.num_vertices))
    names = list(zip(*ids, strict=True))
    found = zip(*(part.tolist() for part in (store.graph.indices, store.graph.edge_weight)), strict=True)
    destinations = np.repeat(np.arange(store.graph.num_vertices), np.diff(store.graph.indptr))
    return sorted((*names[u], *names[v], w) for v, (u, w) in zip(destinations, found, strict=True))


def test_ends_and_weights_by_number(table, tmp_path):
    store = imported(table(PAYMENTS, "edges"), tmp_path / "graph")
    assert edges_of(store) == sorted(PAYMENTS.iloc[:, [2, 4, 5]].itertuples(index=False, name=None))
    ends = {"source_column": "From Bank, 3", "destination_column": "to bank,5", "weight_column": "amount"}
    store = imported(table(PAYMENTS, "edges"), tmp_path / "pairs", **ends)
    assert edges_of(store) == sorted(PAYMENTS.iloc[:, [1, 2, 3, 4, 5]].itertuples(index=False, name=None))
    grown = imported(
        store.path, tmp_path / "grown", add=table(PAYMENTS, "edges"), duplicates="keep", ids="whole", **ends
    )
    assert edges_of(grown) == sorted(2 * edges_of(store))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"source_column": "Account"}, "Account, --source-column, 3, 5"),
        ({"source_column": "7"}, "7, --source-column, Timestamp, From Bank"),
        ({"source_column": "0"}, "0, --source-column"),
        ({"weight_column": "Account"}, "Account, --weight-column, 3, 5"),
        ({"weight_column": "5"}, "--weight-column 5, ids"),
        ({"weight_column": "Fee"}, "Fee, --weight-column, Amount"),
        ({"destination_column": "3"}, "--source-column, --destination-column"),
        ({"destination_column": None}, "--source-column, --destination-column"),
    ],
)
def test_what_is_no_column_of_edges_has_a_line(table, tmp_path, changes, parts):
    edges = table(PAYMENTS, "edges")
    with pytest.raises(InputError) as caught:
        imported(edges, tmp_path / "graph", **changes)
    says(caught.value, parts)
    assert not (tmp_path / "graph").exists()


def features(store):
    """Rows of features by id."""
    ids = store.ids().of(np.arange(store.graph.num_vertices))[0]
    return dict(zip(ids, store.graph.features.tolist(), strict=True))


def test_columns_of_vertices_by_number(table, tmp_path):
    edges, accounts = table(PAYMENTS, "edges"), table(ACCOUNTS, "accounts")
    both = {"features": accounts, "id_column": "1", "label_column": "5", "split_column": "6"}
    store = imported(edges, tmp_path / "graph", **both, columns=["kind:code", "3:skip"])
    assert features(store) == {"A1": [6, 2], "A2": [5, 1]}
    assert store.graph.labels.tolist() == [0, 1]
    assert (store.graph.train_idx.tolist(), store.graph.test_idx.tolist()) == ([1], [0])
    store = imported(edges, tmp_path / "both", features=accounts, columns=["4:category", "5:skip", "6:skip"])
    assert features(store) == {"A1": [6, 8, 0, 1], "A2": [5, 7, 1, 0]}
    timed = {"labels": accounts, "label_column": "5", "split_by": "3", "split": (7.5, 9)}
    store = imported(edges, tmp_path / "timed", **timed)
    assert (store.graph.train_idx.tolist(), store.graph.valid_idx.tolist()) == ([1], [0])


def test_columns_of_vertices_that_are_added_by_number(table, tmp_path):
    edges, accounts = table(PAYMENTS, "edges"), table(ACCOUNTS, "accounts")
    both = {"features": accounts, "label_column": "5", "split_column": "6"}
    store = imported(edges, tmp_path / "graph", **both, columns=["kind:code", "3:skip"])
    more = PAYMENTS.replace("A2", "A3")
    of_more = ACCOUNTS.replace("A2", "A3").set_axis(["Name", "V", "w", "kind", "y", "y"], axis=1)
    both = {"features": table(of_more, "more"), "id_column": "1", "label_column": "5", "split_column": "6"}
    grown = imported(store.path, tmp_path / "grown", add=table(more, "new"), ids="whole", **both)
    assert features(grown) == {"A1": [6, 2], "A2": [5, 1], "A3": [5, 1]}
    assert grown.graph.labels.tolist() == [0, 1, 1]
    assert grown.graph.train_idx.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"label_column": "y"}, "y, --label-column, 5, 6"),
        ({"split_column": "y"}, "y, --split-column, 5, 6"),
        ({"id_column": "v"}, "v, --id-column, 2, 3"),
        ({"columns": ["v:number"]}, "v, --columns, 2, 3"),
        ({"columns": ["4:code", "kind:category"]}, "kind, code, category"),
        ({"columns": ["1:number"]}, "--columns id:number"),
        ({"columns": ["9:number"]}, "--columns, 9, kind"),
        ({"label_column": "5", "columns": ["5:number"]}, "--columns 5:number, labels"),
    ],
)
def test_what_is_no_column_of_vertices_has_a_line(table, tmp_path, changes, parts):
    edges, accounts = table(PAYMENTS, "edges"), table(ACCOUNTS, "accounts")
    with pytest.raises(InputError) as caught:
        imported(edges, tmp_path / "graph", features=accounts, **changes)
    says(caught.value, parts)


def test_a_number_may_be_a_name(table, tmp_path):
    frame = pd.DataFrame({"id": ["A1", "A2"], "3": [1.0, 2], "2": [3.0, 4]})
    store = imported(table(PAYMENTS, "edges"), tmp_path / "graph", features=table(frame, "x"), columns=["3:skip"])
    assert features(store) == {"A1": [3], "A2": [4]}


def test_a_number_of_one_of_several_tables_is_none(table, tmp_path):
    accounts = table(ACCOUNTS, "accounts")
    paths = (accounts, table(ACCOUNTS, "others"))
    with pytest.raises(InputError) as caught:
        imported(table(PAYMENTS, "edges"), tmp_path / "graph", features=paths, label_column="5")
    says(caught.value, "--label-column 5, number")


def test_labels_in_a_table_of_features_by_number_also_when_it_grows(tmp_path):
    for name, edges, rows in (("old", "0,1\n1,2\n", "1,5,9\n0,6,8\n1,7,7\n"), ("new", "3,0\n", "0,4,6\n")):
        (tmp_path / f"{name}.csv").write_text(edges)
        (tmp_path / f"{name}-rows.csv").write_text(rows)
    old = gsplit.import_graph(
        tmp_path / "old.csv", tmp_path / "a", features=tmp_path / "old-rows.csv", label_column="1", id_column="none"
    )
    new = {"features": tmp_path / "new-rows.csv", "label_column": "1", "id_column": "none"}
    grown = gsplit.import_graph(old, tmp_path / "b", add=tmp_path / "new.csv", **new).graph
    assert grown.features.tolist() == [[5, 9], [6, 8], [7, 7], [4, 6]]
    assert grown.labels.tolist() == [1, 0, 1, 0]
