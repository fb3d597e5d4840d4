"""Whole numbers that doubles and float32 do not hold: exact until the last step, and told of when they are not.

Right values are NumPy's, of Python's integers.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.stores import assert_equal_graphs

import gsplit
from gsplit.data.importers.tables import text_format

N = 60
FAR = 2**60
STEPS = np.cumsum(np.random.default_rng(1).integers(1, 9, N))
"""As numbers that a service gives to what happens: doubles of that size have steps of 256."""
NAMES = [f"v{at}" for at in range(N)]
RING = {"src": np.arange(N), "dst": np.roll(np.arange(N), 1)}
WEIGHTS = 2**24 + np.arange(N)
"""Every other one is no float32."""


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def scaled(values, of=None):
    """Numbers with mean 0 and deviation 1, or as far off as those of others make them."""
    of = values if of is None else of
    return (values - of.mean()) / of.std()


@pytest.mark.parametrize("far", [FAR, -FAR, 2**64 - 1000])
def test_steps_between_them_are_standardised(tmp_path, table_file, far):
    type_ = pa.uint64() if far > 2**63 else pa.int64()
    numbers = pa.array([far + int(step) for step in STEPS], type_)
    features = table_file("x", {"id": np.arange(N), "x": numbers})
    ring = table_file("ring", RING)
    store = gsplit.import_graph(ring, tmp_path / "store", features=features, standardize=True)
    np.testing.assert_allclose(store.graph.features[:, 0], scaled(STEPS), rtol=1e-6, atol=1e-7)
    (column,) = store.description["columns"]
    assert int(column["mean"][0]) == int(np.float64(far + STEPS.mean()))
    # More of them go by the same mean and deviation, to the last bit of float32.
    more = table_file("more", {"id": [N, N + 1], "x": pa.array([far + 3, far + 500], type_)})
    edges = table_file("edges", {"src": [0, 1], "dst": [N, N + 1]})
    grown = gsplit.import_graph(store.path, tmp_path / "grown", add=edges, features=more).graph.features
    np.testing.assert_allclose(grown[N:, 0], scaled(np.array([3, 500]), STEPS), rtol=1e-6)
    assert np.array_equal(grown[:N], store.graph.features)


def test_gaps_between_them_are_filled_with_their_mean(tmp_path, table_file):
    there = np.arange(N) % 7 > 0
    numbers = pa.array([FAR + int(step) if is_there else None for step, is_there in zip(STEPS, there, strict=True)])
    options = {"features": table_file("x", {"id": np.arange(N), "x": numbers}), "missing": "mean"}
    graph = gsplit.import_graph(table_file("ring", RING), tmp_path / "store", **options, standardize=True).graph
    wanted = np.where(there, scaled(STEPS, STEPS[there]), 0)
    np.testing.assert_allclose(graph.features[:, 0], wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("type_", [pa.int64(), pa.float64()], ids=str)
@pytest.mark.parametrize("lacking", ["value", "row"])
def test_a_mean_that_no_double_holds_is_told(tmp_path, table_file, caplog, lacking, type_):
    values = [2**53, 2**53 + 2] * (N // 2 - 1)  # doubles, with the mean 2**53 + 1, which is none
    rows = N - 1 if lacking == "value" else N - 2
    numbers = pa.array([*values, None][:rows]).cast(type_, safe=False)
    features = table_file("x", {"id": np.arange(rows), "x": numbers})
    options = {"features": features, "missing": "mean", "feature_dtype": "float64", "num_vertices": N - 1}
    ring = table_file("ring", {"src": np.arange(N - 1), "dst": np.roll(np.arange(N - 1), 1)})
    store = gsplit.import_graph(ring, tmp_path / "store", **options)
    assert store.graph.features[:, 0].tolist() == [*map(float, values), float(2**53 + 1)]
    told = "1 whole numbers above 9,007,199,254,740,992 are rounded, by up to 1 in float64"
    (said,) = warnings(caplog)
    assert said.startswith(f"{features}: column x: {told}")


def test_a_mean_of_a_store_that_no_double_holds_is_told(tmp_path, table_file, caplog):
    values = [2**53, 2**53 + 2] * (N // 2)
    features = table_file("x", {"id": np.arange(N), "x": pa.array(values)})
    store = gsplit.import_graph(
        table_file("ring", RING), tmp_path / "store", features=features, feature_dtype="float64"
    )
    edges, more = (
        table_file("edges", {"src": [0], "dst": [N + 1]}),
        table_file("more", {"id": [N], "x": [2.0**53 + 4]}),
    )
    assert not warnings(caplog)
    grown = gsplit.import_graph(store.path, tmp_path / "grown", add=edges, features=more, missing="mean").graph
    assert grown.features[:, 0].tolist() == [*map(float, values), 2.0**53 + 4, float(2**53 + 1)]
    (said,) = warnings(caplog)
    assert said.startswith(f"{more}: column x: 1 whole numbers above 9,007,199,254,740,992 are rounded, by up to 1")


TYPES = {"float64": (2**53, "9,007,199,254,740,992", 256), "float32": (2**24, "16,777,216", 2**37)}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("numbers", ["whole", "decimals", "array"])
def test_what_a_type_does_not_hold_is_told(tmp_path, table_file, caplog, monkeypatch, numbers, dtype):
    monkeypatch.setattr(text_format, "BLOCK_BYTES", 100)  # so that the first block has none of them
    values = [0] * (N // 2) + [FAR + int(step) for step in STEPS[N // 2 :]]
    whole = pa.array(values, pa.decimal128(22, 2) if numbers == "decimals" else pa.int64())
    features = table_file("x", {"id": np.arange(N), "x": whole})
    if numbers == "array":
        features = tmp_path / "x.npy"
        np.save(features, np.array(values))
    store = gsplit.import_graph(table_file("ring", RING), tmp_path / "store", features=features, feature_dtype=dtype)
    got = store.graph.features[:, 0]
    assert np.array_equal(got, [np.dtype(dtype).type(np.longdouble(value)) for value in values])
    off = [abs(int(rounded) - value) for rounded, value in zip(got.tolist(), values, strict=True)]
    first, written, step = TYPES[dtype]
    assert 0 < max(off) <= step // 2
    name = "1" if numbers == "array" else "x"
    what = f"{sum(map(bool, off))} whole numbers above {written} are rounded, by up to {max(off):,} in {dtype}"
    (said,) = warnings(caplog)
    assert said.startswith(f"{features}: column {name}: {what}; --standardize keeps their differences, and")
    assert first < FAR


def test_decimals_are_the_doubles_of_their_digits(tmp_path):
    digits = [Decimal(int(number)).scaleb(-5) for number in np.random.default_rng(2).integers(-(10**15), 10**15, N)]
    pq.write_table(pa.table({"x": pa.array(digits, pa.decimal128(20, 5))}), tmp_path / "x.parquet")
    pq.write_table(pa.table(RING), tmp_path / "ring.parquet")
    options = {"features": tmp_path / "x.parquet", "feature_dtype": "float64"}
    graph = gsplit.import_graph(tmp_path / "ring.parquet", tmp_path / "store", **options).graph
    assert graph.features[:, 0].tolist() == [float(str(each)) for each in digits]


def test_numbers_that_every_type_holds_are_not_told(tmp_path, table_file, caplog):
    values = pa.array([FAR * (-1) ** at for at in range(N)])
    graph = gsplit.import_graph(
        table_file("ring", RING), tmp_path / "store", features=table_file("x", {"x": values})
    ).graph
    assert set(graph.features[:, 0].tolist()) == {FAR, -FAR}
    assert not warnings(caplog)


def test_a_constant_that_is_rounded_is_told(tmp_path, table_file, caplog):
    features = table_file("x", {"x": pa.array([FAR + 1] * N)})
    gsplit.import_graph(table_file("ring", RING), tmp_path / "store", features=features, feature_dtype="float64")
    assert f"{N} whole numbers above 9,007,199,254,740,992 are rounded, by up to 1 in float64" in caplog.text


def test_targets_of_a_regression(tmp_path, table_file, caplog):
    labels = table_file("y", {"y": pa.array([FAR + int(step) for step in STEPS])})
    gsplit.import_graph(table_file("ring", RING), tmp_path / "store", labels=labels, task="regression")
    worst = int(STEPS.max())
    assert f"column 1: {N} whole numbers above 16,777,216 are rounded, by up to {worst} in float32" in caplog.text


@pytest.mark.parametrize("ids", ["whole", "any"])
@pytest.mark.parametrize("duplicates", ["first", "sum"])
def test_weights_are_told_by_their_number(tmp_path, table_file, caplog, ids, duplicates):
    call = np.array(NAMES) if ids == "any" else np.arange(N)
    edges = {"src": call, "dst": np.roll(call, 1)}
    options = {"ids": ids, "duplicates": duplicates}
    store = gsplit.import_graph(table_file("a", {**edges, "w": WEIGHTS}), tmp_path / "a.store", **options)
    assert sorted(store.graph.edge_weight.tolist()) == sorted(WEIGHTS.astype(np.float32).tolist())
    (said,) = warnings(caplog)
    assert "weights of edges: 30 whole numbers above 16,777,216 are rounded, by up to 1 in float32" in said
    caplog.clear()
    more = table_file("b", {"src": call, "dst": np.roll(call, 2), "w": pa.array([FAR + 3, *[1] * (N - 1)])})
    options.pop("ids")
    grown = gsplit.import_graph(store.path, tmp_path / "b.store", add=more, **options).graph
    assert np.isin(np.float32(FAR), grown.edge_weight)
    (said,) = warnings(caplog)
    assert "weights of edges: 1 whole numbers above " in said
    assert "are rounded, by up to 3 in " in said


def test_sums_of_weights_are_told(tmp_path, table_file, caplog):
    edges = pd.DataFrame({"src": [0, 0, 1], "dst": [1, 1, 0], "w": [2**24, 1, 5]})
    graph = gsplit.import_graph(table_file("e", edges.to_dict("list")), tmp_path / "g", duplicates="sum").graph
    assert sorted(graph.edge_weight.tolist()) == sorted(
        edges.groupby(["src", "dst"]).w.sum().astype(np.float32).tolist()
    )
    assert "weights of edges: 1 whole numbers above 16,777,216 are rounded, by up to 1 in float32" in caplog.text


def test_out_of_a_database_and_out_of_memory(tmp_path, table_file, caplog):
    edges = pd.DataFrame({**RING, "w": WEIGHTS})
    features = pd.DataFrame({"id": np.arange(N), "x": [FAR + int(step) for step in STEPS]})
    with closing(sqlite3.connect(tmp_path / "all.db")) as database:
        edges.to_sql("edges", database, index=False)
        features.to_sql("features", database, index=False)
    queries = {"edges_query": "SELECT * FROM edges", "features_query": "SELECT * FROM features"}
    stored = [
        gsplit.import_graph(tmp_path / "all.db", tmp_path / "queried", **queries, standardize=True),
        gsplit.from_arrays(edges, features, standardize=True, out=tmp_path / "framed"),
    ]
    np.testing.assert_allclose(stored[0].graph.features[:, 0], scaled(STEPS), rtol=1e-6, atol=1e-7)
    assert_equal_graphs(*(store.graph for store in stored))
    assert len([line for line in warnings(caplog) if "weights of edges: 30 whole numbers" in line]) == 2
    caplog.clear()
    pair = np.array(list(RING.values()))
    gsplit.from_arrays(pair, features[["x"]].to_numpy(), edge_weight=WEIGHTS)
    assert ["weights of edges: 30" in line or "column 1: 60" in line for line in warnings(caplog)] == [True, True]


def test_the_least_whole_number_of_a_type_is_told_of(tmp_path, caplog):
    """It has no absolute value in its type."""
    values = np.array([-(2**31), -(2**31) + 1, -(2**31) + 3, -3], np.int32).reshape(4, 1)
    np.save(tmp_path / "x.npy", values)
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n1,2\n2,3\n")
    gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "store", features=tmp_path / "x.npy")
    assert any("2 " in line and "float32" in line for line in warnings(caplog))
