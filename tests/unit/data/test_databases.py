"""Tables out of databases: the stores that the same tables give as CSV, also grown; types of SQLite; mistakes."""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from contextlib import closing
from types import SimpleNamespace

import duckdb
import pandas as pd
import pytest
from support.messages import says
from support.stores import assert_equal_graphs

import gsplit
from gsplit.data.importers.tables import databases
from gsplit.errors import InputError

SALES = pd.DataFrame(
    {"buyer": ["Ann", "Bob", "Ann", "Cid"], "item": ["Bag", "Bag", "Cup, big", "Bag"], "n": [2, 1, 1, 3]}
)
PEOPLE = pd.DataFrame(
    {
        "name": ["Bob", "Ann", "Bag", "Cid", "Cup, big", "Dan"],
        "age": [30, 41, 9007199254740993, 0, 7, 1],
        "height": [1.5, None, 0.1, -1e-30, 1e30, 2],
        "land": ["de", "fr", None, "de", "NA", "it"],
        "joined": ["2024-01-01", "2024-02-01 12:00", None, "2023-12-31", "2024-01-01", None],
        "kind": ["b", "a", None, "a", "b", "c"],
        "part": ["train", "valid", "none", "test", "train", "train"],
    }
)
QUERIES = {
    "edges_query": "SELECT buyer AS src, item AS dst, n AS weight FROM sales",
    "features_query": "SELECT name, age, height, land, joined FROM people",
    "labels_query": "SELECT name, kind FROM people",
    "split_query": "SELECT name, part FROM people",
}
FLAGS = {
    "id_column": "name",
    "columns": ["land:category", "joined:time"],
    "missing": "mean",
    "unknown": "drop",
    "standardize": True,
}
MORE_SALES = pd.DataFrame({"buyer": ["Eve", "Bob"], "item": ["Ann", "Eve"], "n": [5, 1]})
MORE_PEOPLE = pd.DataFrame(
    {"name": ["Eve", "Ann"], "age": [1, 2], "height": [None, 3], "land": ["fr", "de"], "joined": [None, "2024-01-02"]}
    | {"kind": ["c", "b"], "part": ["test", "train"]}
)


def database(path, **tables):
    """A database with these frames as its tables."""
    if path.suffix == ".duckdb":
        with closing(duckdb.connect(str(path))) as connection:
            for name, frame in tables.items():
                connection.register("given", frame)
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    else:
        with closing(sqlite3.connect(path)) as connection:
            for name, frame in tables.items():
                frame.to_sql(name, connection, index=False)
    return path


def files(folder, sales, people):
    """The results of the queries, as files."""
    tables = {
        "edges": sales.set_axis(["src", "dst", "weight"], axis=1),
        "features": people[["name", "age", "height", "land", "joined"]],
        "labels": people[["name", "kind"]],
        "split": people[["name", "part"]],
    }
    folder.mkdir()
    for name, frame in tables.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return {"features": folder / "features.csv", "labels": folder / "labels.csv", "split_file": folder / "split.csv"}


def columns_of(store):
    return [{**column, "table": ""} for column in store.description["columns"]]


def assert_same(got, wanted):
    assert_equal_graphs(got.graph, wanted.graph)
    assert (got.checksum, got.classes, columns_of(got)) == (wanted.checksum, wanted.classes, columns_of(wanted))
    assert got.ids().columns() == wanted.ids().columns()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_query_gives_what_a_table_gives(tmp_path, kind):
    path = database(tmp_path / f"shop.{kind}", sales=SALES, people=PEOPLE)
    before = hashlib.sha256(path.read_bytes()).digest()
    got = gsplit.import_graph(path, tmp_path / "got", ids="any", **QUERIES, **FLAGS)
    tables = files(tmp_path / "first", SALES, PEOPLE)
    wanted = gsplit.import_graph(tmp_path / "first" / "edges.csv", tmp_path / "wanted", ids="any", **tables, **FLAGS)
    assert_same(got, wanted)
    assert (got.name, got.description["source"]) == ("shop", str(path))
    assert {column["table"] for column in got.description["columns"]} == {f"{path} (--features-query)"}

    more = database(tmp_path / f"more.{kind}", sales=MORE_SALES, people=MORE_PEOPLE)
    tables = files(tmp_path / "second", MORE_SALES, MORE_PEOPLE)
    flags = {"id_column": "name", "missing": "mean"}
    got = gsplit.import_graph(got, tmp_path / "got-2", add=more, **QUERIES, **flags)
    wanted = gsplit.import_graph(
        wanted, tmp_path / "wanted-2", add=tmp_path / "second" / "edges.csv", **tables, **flags
    )
    assert_same(got, wanted)
    assert hashlib.sha256(path.read_bytes()).digest() == before
    made = {"got", "wanted", "got-2", "wanted-2", "first", "second", f"shop.{kind}", f"more.{kind}"}
    assert {entry.name for entry in tmp_path.iterdir()} == made


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_whole_ids_and_files_beside_a_database(tmp_path, kind):
    """0 --> 2, 1 --> 0; features in the order of the vertices."""
    path = database(
        tmp_path / f"a.b.{kind}",
        edges=pd.DataFrame({"u": [0, 1], "v": [2, 0]}),
        x=pd.DataFrame({"x": ["1.5", "NA", "-2"], "y": [3, 4, 5]}),  # numbers as texts, as CSV has them
    )
    (tmp_path / "labels.csv").write_text("id,label\n2,1\n0,0\n")
    store = gsplit.import_graph(
        path.rename(tmp_path / "data.of"),
        tmp_path / "out",
        edges_query="SELECT u, v FROM edges; ",
        features_query="SELECT * FROM x",
        labels=tmp_path / "labels.csv",
        missing="zero",
    )
    assert store.graph.features.tolist() == [[1.5, 3], [0, 4], [-2, 5]]
    assert (store.graph.labels.tolist(), store.graph.indices.tolist()) == ([0, -1, 1], [1, 0])


def test_the_types_of_sqlite_are_those_of_values(tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "ROWS_AT_ONCE", 2)
    rows = [
        ("a", 1, 1, "x", None, 2**62 + 1, "2"),
        ("b", 2.5, "2", 7, None, 3, 1.5),
        ("c", None, None, 0.1, None, 4, None),
        ("d", 2**53, 3.5, "NA", None, 5, "-1e3"),
        ("e", -1, "", 1, None, 6, 0),
    ]
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute("CREATE TABLE t (id, i, m, c, z, big, n)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    header = ["id", "i", "m", "c", "z", "big", "n"]
    pd.DataFrame(rows, columns=header, dtype=object).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "edges.csv").write_text("src,dst\na,b\nb,c\nc,d\nd,e\n")
    flags = {"ids": "any", "missing": "zero", "columns": ["c:category", "big:code"]}
    wanted = gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "w", features=tmp_path / "t.csv", **flags)
    got = gsplit.import_graph(
        tmp_path / "t.db",
        tmp_path / "g",
        edges_query="SELECT a.id AS src, b.id AS dst FROM t a JOIN t b ON b.rowid = a.rowid + 1 ORDER BY a.rowid",
        features_query="SELECT * FROM t -- all",
        **flags,
    )
    assert_same(got, wanted)
    empty = {"edges_query": "SELECT id AS src, id AS dst FROM t WHERE id > 'z'"}
    with pytest.raises(InputError, match="no vertices"):
        gsplit.import_graph(tmp_path / "t.db", tmp_path / "e", ids="any", **empty)


EDGES = "SELECT buyer AS src, item AS dst FROM sales"
BAD: list[tuple[dict, str]] = [
    ({}, "--edges-query 'SELECT"),
    ({"features_query": EDGES}, "--edges-query 'SELECT"),
    ({"edges_query": "SELECT src FROM nowhere"}, "(--edges-query), nowhere"),
    ({"edges_query": "SELECT buyer, nothing FROM sales"}, "(--edges-query), nothing"),
    ({"edges_query": "SELEC 1"}, "(--edges-query), syntax error"),
    ({"edges_query": ""}, "(--edges-query), SELECT"),
    ({"edges_query": "SELECT 1; SELECT 2"}, "(--edges-query), one"),
    ({"edges_query": "DELETE FROM sales"}, "(--edges-query)"),
    ({"edges_query": "CREATE TABLE other (a int)"}, "(--edges-query)"),
    ({"edges_query": "ATTACH '{folder}/new.db' AS other"}, "(--edges-query), SELECT"),
    ({"edges_query": "SELECT buyer FROM sales"}, "(--edges-query), one column"),
    ({"edges_query": "SELECT buyer, item, n FROM sales"}, "(--edges-query), buyer, --source-column"),
    (
        {"edges_query": EDGES, "features_query": "SELECT name, land FROM people", "unknown": "drop"},
        "(--features-query), row 0, 'de', land",
    ),
    ({"edges_query": EDGES, "labels_query": "SELECT nobody FROM people"}, "(--labels-query), nobody"),
    (
        {"edges_query": EDGES, "features_query": "SELECT name, age FROM people", "missing": "mean"},
        "(--features-query), row 5, --unknown drop",
    ),
    (
        {"edges_query": EDGES, "split_query": "SELECT name, land AS part FROM people", "unknown": "drop"},
        "(--split-query), row 4, 'NA'",
    ),
    (
        {"edges_query": EDGES, "labels_query": "SELECT name, kind FROM people", "labels": "labels.csv"},
        "--labels-query, --labels",
    ),
    ({"edges_query": EDGES, "split_query": "SELECT 1", "split_file": "split.csv"}, "--split-query, --split-file"),
    ({"edges_query": EDGES, "split_query": "SELECT name, part FROM people", "train": "a.csv"}, "--train"),
    ({"edges_query": EDGES, "columns": ["age:number"]}, "--columns, --features"),
]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_mistakes_are_a_line(tmp_path, kind):
    path = database(tmp_path / f"shop.{kind}", sales=SALES, people=PEOPLE)
    for flags, message in BAD:
        queries = {
            name: value.replace("{folder}", str(tmp_path)) if isinstance(value, str) else value
            for name, value in flags.items()
        }
        with pytest.raises(InputError) as caught:
            gsplit.import_graph(path, tmp_path / "out", **{"ids": "any", "id_column": "name", **queries})
        says(caught.value, message)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_values_that_a_table_cannot_hold(tmp_path):
    path = database(tmp_path / "shop.duckdb", sales=SALES)
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(path, tmp_path / "out", edges_query="SELECT 0 AS src, 1 AS dst, INTERVAL 1 DAY AS i")
    says(caught.value, "(--edges-query), 'i', month_day_nano_interval")
    with pytest.raises(InputError) as caught:  # when many rows are read already
        gsplit.import_graph(
            path,
            tmp_path / "out",
            edges_query="SELECT i AS src, CAST(CASE WHEN i = 299999 THEN 'x' ELSE '1' END AS int) AS dst "
            "FROM range(300000) r(i)",
        )
    says(caught.value, "(--edges-query), 'x'")
    path = database(tmp_path / "shop.sqlite", sales=SALES)
    for value, message in (("x'00'", "'b', BLOBs"), ("CAST(x'ff' AS TEXT)", "UTF-8")):
        with pytest.raises(InputError) as caught:
            gsplit.import_graph(path, tmp_path / "out", edges_query=f"SELECT 0 AS src, 1 AS dst, {value} AS b")
        says(caught.value, "(--edges-query)", message)


def test_a_whole_number_among_others_is_not_rounded(tmp_path):
    path = database(tmp_path / "shop.sqlite", sales=SALES)
    values = "SELECT 0 AS id, {} AS x UNION ALL SELECT 1, 0.5"
    queries = {"edges_query": "SELECT 0 AS src, 1 AS dst", "features_query": values.format(2**53 + 1)}
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(path, tmp_path / "out", **queries)
    says(caught.value, "(--features-query), 'x', 9007199254740993", "TEXT")
    for whole in (2**53, f"CAST({2**53 + 2} AS TEXT)"):
        queries["features_query"] = values.format(whole)
        store = gsplit.import_graph(path, tmp_path / "out", **queries, feature_dtype="float64", overwrite=True)
        assert store.graph.features.tolist() in ([[2**53], [0.5]], [[2**53 + 2], [0.5]])


def test_what_is_no_database(tmp_path, monkeypatch):
    queries = {"edges_query": "SELECT 1 AS src, 2 AS dst"}
    (tmp_path / "edges.csv").write_text("0,1\n")
    (tmp_path / "text.db").write_text("0,1\n")
    (tmp_path / "cut").write_bytes(b"12345678DUCK0000")
    path = database(tmp_path / "shop.duckdb", sales=SALES)
    for source, message in (
        (tmp_path / "edges.csv", "--edges-query, edges.csv"),
        (tmp_path / "text.db", "text.db, DuckDB, SQLite"),
        (f"duckdb:{tmp_path}/text.db", "text.db, DuckDB"),
        (tmp_path / "cut", "cut"),
        (f"sqlite:{tmp_path}/none.db", "none.db: no such file"),
    ):
        with pytest.raises(InputError) as caught:
            gsplit.import_graph(source, tmp_path / "out", **queries)
        says(caught.value, message.rpartition("/")[2])
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(path, tmp_path / "out", **queries)
    says(caught.value, "shop.duckdb, pip install 'gsplit[database]'")
    monkeypatch.chdir(tmp_path)
    database(tmp_path / "shop.sqlite", sales=SALES)
    assert gsplit.import_graph("sqlite:///shop.sqlite", tmp_path / "out", **queries).graph.num_vertices == 3


def test_a_password_is_not_shown(tmp_path, monkeypatch):
    def refused(query):
        raise duckdb.IOException(f"cannot connect to\n {address}")

    connection = SimpleNamespace(execute=refused, close=lambda: None)
    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: connection)
    for address in (
        "postgresql://me:secret@host:5432/shop",
        "postgresql://me:s@secret/w@host/shop",
        "postgres://host/shop?user=me&password=secret",
        "postgres:host=here dbname=shop password='my secret'",
        "postgres:host=here password = secret dbname=shop",
    ):
        with pytest.raises(InputError) as caught:
            gsplit.import_graph(address, tmp_path / "out", edges_query="SELECT 1")
        says(caught.value, "host, postgres, ***")
        assert "secret" not in str(caught.value)
        shown = databases.shown_source(address)
        assert "secret" not in shown
        assert shown.count("***") == 1
        assert "shop" in shown
