"""Numbers of tables stay doubles until the last step: values by NumPy, from text and Parquet, also with --add."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest

import gsplit
from gsplit.data.columns import assembled, rounding
from gsplit.data.importers.tables.table import open_table
from gsplit.errors import InputError

N = 200
RNG = np.random.default_rng(0)
NEAR = 4.5e6 + RNG.normal(0, 0.1, N)
"""Prices, say, or coordinates of a projection: float32 has steps of 0.5 there."""
SECONDS = np.cumsum(RNG.integers(1, 90, N))
TIMES = np.datetime64("2024-03-01T08:00:00", "s") + SECONDS


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.csv"
    np.savetxt(path, np.column_stack([np.arange(N), np.roll(np.arange(N), 1)]), fmt="%d", delimiter=",")
    return path


@pytest.fixture
def table(table_file):
    """table(name=values, ...): a file with these columns beside ids."""

    def write(**columns):
        rows = len(next(iter(columns.values())))
        return table_file("_".join(columns), {"id": np.arange(rows), **columns})

    return write


def stored(edges, tmp_path, **options):
    return gsplit.import_graph(edges, tmp_path / "store", **options).graph


def test_small_differences_of_large_numbers_are_standardised(edges, tmp_path, table):
    got = stored(edges, tmp_path, features=table(x=NEAR), standardize=True).features[:, 0]
    assert np.array_equal(got, ((NEAR - NEAR.mean()) / NEAR.std()).astype(np.float32))


def test_deviations_are_those_of_all_pieces_of_a_table(edges, tmp_path, table, monkeypatch):
    monkeypatch.setattr(assembled, "ROWS_AT_ONCE", 7)
    rising = np.arange(N) ** 2.0
    got = stored(edges, tmp_path, features=table(x=rising), standardize=True).features[:, 0]
    np.testing.assert_allclose(got, (rising - rising.mean()) / rising.std(), rtol=1e-6)


def test_seconds_between_times_are_standardised(edges, tmp_path, table):
    path = table(at=TIMES if table(x=NEAR).suffix == ".parquet" else TIMES.astype(str))
    got = stored(edges, tmp_path, features=path, columns=("at:time",), standardize=True).features[:, 0]
    np.testing.assert_allclose(got, (SECONDS - SECONDS.mean()) / SECONDS.std(), rtol=1e-4)


TIMES_AS_WRITTEN = (
    "2022/09/01 00:20",
    "2024-01-01 10:00:00+00",
    "2024-01-01 10:00:00.25-03",
    "2024-01-01 10:00 UTC",
    "2022/09/01",
    "2024-01-01 10:00:00GMT",
    "2024-01-01T10:00:00.123456789+05:30",
)


@pytest.mark.parametrize("written", TIMES_AS_WRITTEN)
def test_times_as_databases_write_them(edges, tmp_path, table, written):
    wanted = [pd.to_datetime(text, utc=True).timestamp() / 86_400 for text in (written, "2024-05-05")]
    path = table(at=[written, "2024-05-05"] * (N // 2))
    options = {"columns": ("at:time",), "standardize": True}
    got = stored(edges, tmp_path, features=path, **options).features[:2, 0]
    middle, apart = np.mean(wanted), abs(wanted[0] - wanted[1]) / 2
    np.testing.assert_allclose(got, (np.array(wanted) - middle) / apart, rtol=1e-6)


def test_the_mean_of_the_training_vertices_is_taken_of_doubles(edges, tmp_path, table):
    gaps = NEAR.copy()
    gaps[7] = np.nan
    options = {
        "missing": "mean",
        "standardize": True,
        "split": (0.5, 0.25, 0.25),
        "labels": table(y=np.arange(N) % 3),
    }
    graph = stored(edges, tmp_path, features=table(x=gaps), **options)
    own = gaps[np.setdiff1d(graph.train_idx, [7])]
    wanted = (np.where(np.isnan(gaps), own.mean(), gaps) - own.mean()) / own.std()
    np.testing.assert_allclose(graph.features[:, 0], wanted, rtol=2e-5, atol=2e-5)


def test_a_store_that_grows_scales_doubles(edges, tmp_path, table):
    graph = gsplit.import_graph(edges, tmp_path / "store", features=table(x=NEAR), standardize=True)
    new = tmp_path / "new.csv"
    new.write_text(f"{N},0\n{N + 1},1\n")
    more = np.array([4_500_000.05, 4_499_999.9])
    path = tmp_path / "more.csv"
    path.write_text("id,x\n" + "".join(f"{N + at},{value!r}\n" for at, value in enumerate(more.tolist())))
    grown = gsplit.import_graph(graph.path, tmp_path / "grown", add=new, features=path).graph.features
    assert np.array_equal(grown[N:, 0], ((more - NEAR.mean()) / NEAR.std()).astype(np.float32))
    assert np.array_equal(grown[:N], graph.graph.features)


def test_a_constant_stays_one(tmp_path):
    """The mean of many doubles is off by a little, and that is no deviation."""
    rows = 300_000
    np.save(tmp_path / "edges.npy", np.array([[0], [rows - 1]]))
    (tmp_path / "x.csv").write_text("x\n" + "0.1\n" * rows)
    options = {"features": tmp_path / "x.csv", "standardize": True}
    store = gsplit.import_graph(tmp_path / "edges.npy", tmp_path / "graph", **options)
    assert not store.graph.features.any()
    assert store.description["columns"][0]["deviation"] == [1.0]


ROUNDED = {
    "ids": (1234567890123456789 - 1024 * np.arange(N) ** 3, {}, ["200 whole numbers above 16,777,216"]),
    "large": (2**24 + 1 + np.arange(N), {}, ["100 whole numbers above 16,777,216", "by up to 1"]),
    "epoch": (1_709_280_000 + SECONDS, {}, ["whole numbers above 16,777,216", "by up to 64"]),
    "near": (NEAR, {}, ["numbers between 4499999.7", "by up to 0.2"]),
    "at": (TIMES.astype(str), {"columns": ("at:time",)}, ["times are rounded, by up to 84 s"]),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_what_float32_does_not_hold_is_told_by_column(edges, tmp_path, table, caplog, name):
    values, options, words = ROUNDED[name]
    path = table(**{name: values})
    graph = stored(edges, tmp_path, features=path, **options)
    (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert all(word in said for word in (str(path), f"column {name}:", *words, "--standardize"))
    if name != "at":
        off = np.abs(graph.features[:, 0].astype(np.float64) - values)
        assert off.max() > 0
        if name == "large":
            assert (off > 0).sum() == 100
            assert off.max() == 1


@pytest.mark.parametrize("values", [RNG.normal(0, 1, N), 2**24 - np.arange(N), np.full(N, 0.1), 1e30 * RNG.random(N)])
def test_measurements_lose_nothing_that_is_told(edges, tmp_path, table, caplog, values):
    graph = stored(edges, tmp_path, features=table(x=values))
    assert np.array_equal(graph.features[:, 0], values.astype(np.float32))
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]


def test_arrays_are_told_of_by_their_column(edges, tmp_path, caplog):
    np.save(tmp_path / "x.npy", np.column_stack([np.zeros(N, np.int64), np.arange(N) + 2**24]))
    stored(edges, tmp_path, features=tmp_path / "x.npy")
    assert f"{tmp_path / 'x.npy'}: column 2: 100 whole numbers" in caplog.text


def test_many_columns_are_told_of_in_few_lines(edges, tmp_path, caplog):
    np.save(tmp_path / "x.npy", np.full((N, 30), 2**25 + 1))
    stored(edges, tmp_path, features=tmp_path / "x.npy")
    assert caplog.text.count("whole numbers above") == rounding.LINES
    assert "10 other columns" in caplog.text


def test_what_is_too_large_is_named_with_its_place(edges, tmp_path):
    for name, rows in (("fine", ["1"] * N), ("large", ["1"] * (N - 1) + ["1e39"])):
        (tmp_path / f"{name}.csv").write_text("\n".join([name, *rows]) + "\n")
    both = {"features": (tmp_path / "fine.csv", tmp_path / "large.csv")}
    with pytest.raises(InputError, match=rf"large.csv, line {N + 1}: column large is 1e\+39, too large for float32"):
        stored(edges, tmp_path, **both)
    assert np.isfinite(stored(edges, tmp_path, **both, standardize=True).features).all()
    (tmp_path / "large.csv").write_text("\n".join(["large", *["1"] * (N - 1), "70000"]) + "\n")
    with pytest.raises(InputError, match=rf"large.csv, line {N + 1}: column large is 70000, too large for float16"):
        stored(edges, tmp_path / "half", **both, feature_dtype="float16")


def test_deviations_whose_squares_are_infinite_are_refused(edges, tmp_path, table):
    values = np.where(np.arange(N) == 3, 1e300, 1.0)
    with pytest.raises(InputError, match="numbers of column x are too large"):
        stored(edges, tmp_path, features=table(x=values), standardize=True)


def test_classes_above_float32_are_no_classes(edges, tmp_path, table):
    labels = np.where(np.arange(N) % 2, 16_777_216, 16_777_217)
    with pytest.raises(InputError, match=r"16,777,218 classes .* 200 labelled"):
        stored(edges, tmp_path, labels=table(y=labels))


@pytest.mark.parametrize("largest", [10_000_000_000, 5000])
def test_far_more_classes_than_labels_are_refused(edges, tmp_path, table, largest):
    labels = np.full(N, -1)
    labels[:4] = [0, 1, 2, largest]
    with pytest.raises(InputError, match=rf"{largest + 1:,} classes .* 4 labelled"):
        stored(edges, tmp_path, labels=table(y=labels))


def test_a_thousand_classes_need_no_more_labels(edges, tmp_path, table):
    labels = np.full(N, -1)
    labels[:4] = [0, 1, 2, 999]
    assert stored(edges, tmp_path, labels=table(y=labels)).num_classes == 1000


def test_targets_of_a_regression_that_are_rounded_are_told_of(edges, tmp_path, table, caplog):
    path = table(y=2**24 + np.arange(N))
    stored(edges, tmp_path, labels=path, task="regression")
    assert f"{path}" in caplog.text
    assert "100 whole numbers above 16,777,216 are rounded, by up to 1" in caplog.text


@pytest.mark.parametrize(("categories", "times"), [(2, 1), (40, 2)])
def test_a_table_is_read_once_for_means_and_values_unless_features_are_far_more_than_columns(
    edges, tmp_path, table, monkeypatch, categories, times
):
    of = np.arange(N) % categories
    path = table(x=NEAR, of=np.char.mod("c%02d", of))
    kind = type(open_table(path))
    read, ended = kind.read, []

    def counted(self, columns, kinds):
        yield from read(self, columns, kinds)
        ended.extend([columns] * (kinds == [np.float64, str]))

    monkeypatch.setattr(kind, "read", counted)
    columns = ("x:number", "of:category")
    got = stored(edges, tmp_path, features=path, columns=columns, missing="mean", standardize=True).features
    assert len(ended) == times
    scaled = (NEAR - NEAR.mean()) / NEAR.std()
    assert np.array_equal(got, np.column_stack([scaled, np.eye(categories)[of]]).astype(np.float32))
    assert not [*(tmp_path / "store").glob("spill*")]
