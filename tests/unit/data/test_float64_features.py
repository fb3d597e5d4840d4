"""Features that are stored as float64 stay what they are, from the tables to exports; by NumPy and pandas."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from support.libraries import needs_dgl
from support.messages import says

import gsplit
from gsplit.data import open_store
from gsplit.data.__main__ import command
from gsplit.data.importers.formats import dgl as importer
from gsplit.errors import InputError

N = 40
RNG = np.random.default_rng(3)
NUMBERS = 4.5e6 + RNG.normal(0, 0.1, N)
WHOLE = 2**40 + np.arange(N)
TIMES = pd.Series(pd.date_range("2024-01-01 00:00:01", periods=N, freq="61s"))
DAYS = ((TIMES - pd.Timestamp(0)) / pd.Timedelta("1D")).to_numpy()
WANTED = np.column_stack([NUMBERS, WHOLE, DAYS])
COLUMNS = ("at:time",)


@pytest.fixture
def table(table_file):
    """table(rows): a file with these rows of the three columns beside ids."""

    def write(rows, **changed):
        columns = {
            "x": NUMBERS[rows],
            "n": WHOLE[rows],
            "at": TIMES[rows].dt.strftime("%Y-%m-%d %H:%M:%S").to_numpy(),
        }
        return table_file(f"{rows.start}-{rows.stop}", {"id": np.arange(N)[rows], **columns, **changed})

    return write


@pytest.fixture
def edges(tmp_path):
    """The edges among the first vertices, and those of the others."""
    for name, begin, end in (("old", 0, 30), ("new", 30, N)):
        (tmp_path / f"{name}.csv").write_text("".join(f"{v},{(v + 7) % end}\n" for v in range(begin, end)))
    return tmp_path / "old.csv", tmp_path / "new.csv"


OPTIONS = {"columns": COLUMNS, "feature_dtype": "float64"}


def features(path):
    return open_store(path).graph.features


def test_an_import_in_steps_loses_nothing(edges, table, tmp_path, caplog):
    old = gsplit.import_graph(edges[0], tmp_path / "old", features=table(slice(0, 30)), **OPTIONS)
    assert old.graph.features.dtype == np.float64
    assert np.array_equal(old.graph.features, WANTED[:30])
    grown = gsplit.import_graph(old.path, tmp_path / "all", add=edges[1], features=table(slice(30, N)))
    assert np.array_equal(grown.graph.features, WANTED)
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]
    copied = gsplit.import_graph(grown.path, tmp_path / "copy")
    assert copied.graph.features.dtype == np.float64
    assert copied.checksum == grown.checksum
    less = gsplit.import_graph(grown.path, tmp_path / "less", feature_dtype="float32")
    assert np.array_equal(less.graph.features, WANTED.astype(np.float32))
    assert "whole numbers above 16,777,216" in caplog.text


def test_a_store_of_float32_says_the_way_out(edges, table, tmp_path, caplog):
    store = gsplit.import_graph(edges[0], tmp_path / "old", features=table(slice(0, 30)), columns=COLUMNS)
    assert store.graph.features.dtype == np.float32
    assert caplog.text.count("--feature-dtype float64") == 3


def test_scaled_and_filled_values_are_doubles(edges, table, tmp_path):
    gaps = [None, *NUMBERS[1:30]]
    path = table(slice(0, 30), x=pa.array(gaps))
    store = gsplit.import_graph(
        edges[0], tmp_path / "old", features=path, missing="mean", standardize=True, **OPTIONS
    )
    filled = pd.Series(gaps).astype(float).fillna(NUMBERS[1:30].mean())
    wanted = (filled - NUMBERS[1:30].mean()) / NUMBERS[1:30].std()
    got = store.graph.features[:, 0]
    np.testing.assert_allclose(got, wanted, atol=3e-8)
    assert (got != got.astype(np.float32)).any()


@pytest.mark.parametrize("value", [1e39, -1e300])
def test_what_no_float32_run_could_take_is_refused(edges, table, tmp_path, value):
    path = table(slice(0, 30), x=np.where(np.arange(30) == 4, value, 1.0))
    place = "line 6" if path.suffix == ".csv" else "row 4"
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(edges[0], tmp_path / "old", features=path, **OPTIONS)
    says(caught.value, f"{path}, {place}, x, {value:.6g}, float32, float64")
    np.save(tmp_path / "x.npy", np.where(np.arange(30) == 4, value, 1.0))
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(edges[0], tmp_path / "old", features=tmp_path / "x.npy", feature_dtype="float64")
    says(caught.value, f"{tmp_path / 'x.npy'}, 4, float32, float64")


@pytest.mark.parametrize(
    ("to", "suffix"), [("npz", "npz"), ("pyg", "pt"), pytest.param("dgl", "bin", marks=needs_dgl)]
)
def test_exports_and_layouts_keep_doubles(edges, tmp_path, monkeypatch, to, suffix):
    monkeypatch.setattr(importer, "_probe", lambda path: None)  # takes seconds, for what can be read
    np.save(tmp_path / "x.npy", WANTED[:30])
    np.save(tmp_path / "y.npy", np.arange(30) % 2)
    store = gsplit.import_graph(
        edges[0], tmp_path / "s", features=tmp_path / "x.npy", labels=tmp_path / "y.npy", feature_dtype="float64"
    )
    layout = gsplit.partition(store, tmp_path / "layout", parts=2)
    assert np.array_equal(layout.graph.features, WANTED[layout.permutation])
    file = tmp_path / f"x.{suffix}"
    command(["export", str(layout.path), "--to", to, "--out", str(file)])
    command(["import", str(file), "--out", str(tmp_path / "again"), "--feature-dtype", "float64"])
    assert np.array_equal(features(tmp_path / "again"), WANTED[:30])


def test_sparse_features_are_doubles(tmp_path):
    indptr = np.arange(5)
    data = np.array([0.1, 2**24 + 1, 3, 4])
    arrays = {"indptr": indptr, "indices": np.arange(4)[::-1], "x_indptr": indptr, "x_indices": np.arange(4)}
    np.savez(tmp_path / "g.npz", **arrays, x_data=data)
    store = gsplit.import_graph(tmp_path / "g.npz", tmp_path / "g", feature_dtype="float64")
    assert np.array_equal(store.graph.features, np.diag(data))


def test_what_is_shown_of_doubles(edges, tmp_path, capsys):
    np.save(tmp_path / "x.npy", WANTED[:30])
    store = gsplit.import_graph(edges[0], tmp_path / "s", features=tmp_path / "x.npy", feature_dtype="float64")
    command(["info", str(store.path), "--verify"])
    assert "float64" in capsys.readouterr().out
