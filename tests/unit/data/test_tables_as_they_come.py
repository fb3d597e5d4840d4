"""Tables as pandas, databases and people write them: indexes, duplicate names, gaps in odd places, odd numbers."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.messages import says

from gsplit.data.columns import assembled
from gsplit.data.columns.assembled import Assembled, FeatureBlock, FeatureColumn
from gsplit.data.columns.filled import Filled
from gsplit.data.importers.tables import times

NAMES = [f"v{i}" for i in range(6)]
LABELS = "id,y\n" + "".join(f"{i},{i % 2}\n" for i in range(6))


def sets_of(graph):
    """Training, validation and test vertices."""
    return [ids.tolist() for ids in (graph.train_idx, graph.valid_idx, graph.test_idx)]


def shuffled(ids):
    """A table of pandas with ids, numbers and an index that stands in no order."""
    frame = pd.DataFrame({"id": ids, "x": [5.0, 4, 3, 2, 1, 0.5]})
    return frame.sample(frac=1, random_state=0)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("ids", ["whole", "any"])
def test_the_index_of_pandas_is_no_feature_beside_ids(made, suffix, ids, tmp_path):
    frame = shuffled(NAMES if ids == "any" else range(6))
    path = tmp_path / f"x.{suffix}"
    frame.to_csv(path) if suffix == "csv" else frame.to_parquet(path)
    assert made(features=path, ids=ids).features.tolist() == [[5], [4], [3], [2], [1], [0.5]]


@pytest.mark.parametrize("ids", ["whole", "any"])
def test_the_index_of_pandas_is_no_label_nor_set(made, ids, tmp_path):
    called = NAMES if ids == "any" else range(6)
    frame = pd.DataFrame({"id": called, "y": [0, 1, 0, 1, 1, 1]})[::-1].reset_index(drop=True)[:5]
    frame.to_csv(tmp_path / "y.csv")
    sets = pd.DataFrame({"id": called, "set": ["none", "valid", "test", "none", "train", "none"]})[::-1]
    sets.reset_index(drop=True).to_csv(tmp_path / "sets.csv")
    rest = {} if ids == "any" else {"num_vertices": 6}
    graph = made(labels="y.csv", split_file="sets.csv", ids=ids, **rest)
    assert graph.labels.tolist() == [-1, 1, 0, 1, 1, 1]
    assert sets_of(graph) == [[4], [1], [2]]


def test_decimals_are_numbers(made, refused, tmp_path):
    amounts = [Decimal("1.50"), None, Decimal("-2.25"), Decimal("4"), Decimal("5"), Decimal("6")]
    pq.write_table(pa.table({"id": NAMES, "x": pa.array(amounts, pa.decimal128(10, 2))}), tmp_path / "x.parquet")
    assert made(features="x.parquet", ids="any", missing="zero").features.ravel().tolist() == [1.5, 0, -2.25, 4, 5, 6]
    times = made(labels="x.parquet", split_by="x", split=(0, 5), ids="any", task="regression")
    assert sets_of(times) == [[2], [0, 3], [4, 5]]
    codes = made(features="x.parquet", ids="any", columns=["x:code"], missing="zero").features.ravel().tolist()
    assert codes == [2, 0, 1, 3, 4, 5]  # -2.25, 1.50, 4.00, 5.00, 6.00


BY_TIME = {"split_file": "t.csv", "split_by": "t", "split": (2, 4)}


def test_times_without_ids_are_as_many_as_vertices(refused):
    line = refused({"y.csv": LABELS, "t.csv": "t\n3\n1\n4\n1\n5\n"}, labels="y.csv", **BY_TIME)
    assert line == (
        "t.csv: t has 5 rows; there must be one for each of the 6 vertices, or a column of ids (--id-column)"
    )


def test_times_without_labels_split_nothing(refused):
    times = "id,t\n" + "".join(f"{i},{i}\n" for i in range(7))
    line = refused({"t.csv": times}, **BY_TIME)
    assert line == "t.csv: t: --split-by needs labels, and no vertex has one; give --labels FILE"


@pytest.mark.parametrize("bound", [date(2024, 1, 1), None])
def test_bounds_that_are_no_numbers_are_refused_for_numbers(refused, bound):
    times = "id,t\n" + "".join(f"{i},{i}\n" for i in range(6))
    options = {**BY_TIME, "split": (bound, bound)}
    line = refused({"y.csv": LABELS, "t.csv": times}, labels="y.csv", **options)
    assert line == f"--split {bound}: t.csv: t holds numbers, so its bounds are numbers"


def test_bounds_may_be_dates_of_python(made):
    days = "id,t\n" + "".join(f"{i},2024-01-0{i + 1}\n" for i in range(6))
    options = {**BY_TIME, "split": (date(2024, 1, 3), pd.Timestamp("2024-01-05"))}
    graph = made({"y.csv": LABELS, "t.csv": days}, labels="y.csv", **options)
    assert sets_of(graph) == [[0, 1], [2, 3], [4, 5]]


def labels(*words):
    return {"y.csv": "id,y\n" + "".join(f'{i},"{word}"\n' for i, word in enumerate(words))}


@pytest.mark.parametrize("gap", ["NA", "null", "nan", ""])
def test_a_gap_at_the_top_makes_no_names_of_numbers(made, gap):
    graph = made(labels(gap, 0, 1, 0, 1, 0), labels="y.csv")
    assert graph.classes is None
    assert graph.labels.tolist() == [-1, 0, 1, 0, 1, 0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("huge", ["1e30", "-1e30", "9223372036854775808"])
def test_a_label_too_large_for_a_class_is_refused(refused, huge):
    assert "y.csv[0] is " in (line := refused(labels(huge, 0, 1, 0, 1, 0), labels="y.csv"))
    assert line.endswith("too large for a class")


def test_a_class_of_thousands_of_digits_is_refused(refused):
    line = refused(labels("9" * 5000, 0, 1, 0, 1, 0), labels="y.csv", label_separator=";")
    assert line == f"y.csv lists class {'9' * 40}; there may be 65,536 classes"


def test_a_separator_is_not_for_arrays(refused, tmp_path):
    np.save(tmp_path / "y.npy", np.arange(6))
    line = refused(labels="y.npy", label_separator=";")
    assert line == "--label-separator is for a column of a table, and y.npy is an array; drop it"


@pytest.mark.parametrize(("words", "options"), [("abcabc", {}), ("010101", {"label_separator": ";"})])
def test_names_of_classes_are_not_regressed(refused, words, options):
    line = refused(labels(*words), labels="y.csv", task="regression", **options)
    assert line == "y.csv holds classes by name, and --task regression takes numbers; drop it"


GAPS = {"x.csv": "id,k\n" + "".join(f"{i},{'' if i < 3 else 'ab'[i % 2]}\n" for i in range(6)), "y.csv": LABELS}
GAPS["train.csv"] = "0\n1\n2\n"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("code", {"missing": "mean"}),
        ("code", {"missing": "zero", "standardize": True}),
        ("category", {"missing": "zero", "standardize": True}),
    ],
)
def test_a_column_whose_mean_is_not_used_needs_none(made, kind, options):
    graph = made(GAPS, features="x.csv", labels="y.csv", train="train.csv", columns=[f"k:{kind}"], **options)
    whole = {"code": [[0], [0], [0], [2], [1], [2]], "category": [[0, 0]] * 3 + [[0, 1], [1, 0], [0, 1]]}
    assert graph.features.tolist() == whole[kind]


def test_a_category_whose_share_is_used_needs_a_value(refused):
    options = {"features": "x.csv", "labels": "y.csv", "train": "train.csv", "columns": ["k:category"]}
    assert "x.csv: column k has no value of any training vertex" in refused(GAPS, **options, missing="mean")


@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"missing": "mean"}])
def test_infinite_features_have_a_line_and_a_column(refused, options, tmp_path):
    table = "id,a,b\n" + "".join(f"{i},{i}.5,{'1e39' if i == 3 else i * 2}\n" for i in range(6))
    if not options.get("standardize"):
        said = refused({"x.csv": table}, features="x.csv", **options)
        assert said.startswith("x.csv, line 5: column b is 1e+39, too large for float32")
    said = refused({"x.csv": table.replace("1e39", "1e999")}, features="x.csv", **options)
    assert said.startswith("x.csv, line 5: column b is infinite")
    np.save(tmp_path / "x.npy", np.where(np.eye(6, 2), np.inf, 1))
    options = {"standardize": True, **options}
    assert refused(features="x.npy", **options).startswith("x.npy, row 0: column 1 is infinite")


def test_infinite_features_of_rows_left_out_do_not_matter(made):
    table = "id,a\n9,inf\n" + "".join(f"{i},{i}.5\n" for i in range(6))
    graph = made({"x.csv": table}, features="x.csv", unknown="drop", num_vertices=6)
    assert graph.features.ravel().tolist() == [i + 0.5 for i in range(6)]


def test_times_do_not_fit_float16_unless_standardised(made, refused):
    days = {"x.csv": "id,t\n" + "".join(f"{i},2024-01-0{i + 1}\n" for i in range(6))}
    options = {"features": "x.csv", "columns": ["t:time"], "feature_dtype": "float16"}
    assert refused(days, **options).startswith("x.csv: column t holds times, and float16 rounds days since 1970")
    assert len(set(made(days, **options, standardize=True).features.ravel().tolist())) == 6


def test_arrays_of_float16_stay_so_also_standardised(made, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12, dtype=np.float16).reshape(6, 2))
    assert made(features="x.npy", standardize=True).features.dtype == np.float16
    np.save(tmp_path / "z.npy", np.arange(6, dtype=np.float16))
    assert made(features=["x.npy", "z.npy"]).features.dtype == np.float16
    assert made({"x.csv": LABELS}, features=["x.npy", "x.csv"]).features.dtype == np.float32


def test_wide_arrays_are_standardised_in_small_pieces(monkeypatch):
    wide = np.random.default_rng(0).normal(size=(50, 30))
    monkeypatch.setattr(assembled, "VALUES_AT_ONCE", 100)
    block = FeatureBlock(
        path="x", columns=(FeatureColumn(table="x", kind="array", columns=30),), chunks=lambda: iter([wide])
    )
    made = Filled(
        Assembled(num_vertices=60, blocks=(block,), missing="mean", standardize=True), np.arange(0), "float64"
    )
    pieces = list(made.pieces())
    assert max(values.size for _, _, values in pieces) <= 100
    out = np.full((60, 30), np.nan)
    for vertices, columns, values in pieces:
        out[vertices, columns] = values
    np.testing.assert_allclose(out[:50], (wide - wide.mean(axis=0)) / wide.std(axis=0), atol=1e-12)
    assert not out[50:].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": [np.zeros(2)]}, "--features must be a list of single values, not of array([0., 0.])"),
        ({"features": [None]}, "--features must be a path, not None"),
        ({"features": b"x.csv"}, "--features must be a list, not b'x.csv'"),
        ({"columns": "y:category"}, "--columns must be a list, not 'y:category'"),
        ({"columns": [b"y:code"]}, "--columns must be a list of single values, not of b'y:code'"),
        ({"split": "0.6,0.2,0.2"}, "--split must be a list, not '0.6,0.2,0.2'"),
        ({"split": [[1], 2]}, "--split must be a list of single values, not of [1]"),
    ],
)
def test_other_types_are_refused(refused, options, message):
    assert refused({"x.csv": LABELS}, **{"features": "x.csv", **options}).startswith(message)


def test_one_table_several_or_what_makes_them(made):
    for features in ("x.csv", Path("x.csv"), ["x.csv"], (Path("x.csv"),), (name for name in ["x.csv"])):
        assert made({"x.csv": LABELS}, features=features).features.ravel().tolist() == [0, 1, 0, 1, 0, 1]


TABLE = {"x.csv": "id,a,y,set,t\n" + "".join(f"{i},{i}.5,{i % 2},train,{i * 2}\n" for i in range(6))}


def test_labels_sets_and_times_are_no_features_whatever_way_leads_to_the_table(made, tmp_path):
    (tmp_path / "link.csv").symlink_to("x.csv")
    for other in (tmp_path / "x.csv", "link.csv"):
        columns = {"label_column": "y", "columns": ["set:skip"], "split_by": "t", "split": (2, 4)}
        graph = made(TABLE, features="x.csv", labels=other, split_file=other, **columns)
        assert graph.features.tolist() == [[i + 0.5] for i in range(6)]


def test_a_column_of_ids_has_no_kind(made, refused):
    options = {"features": "x.csv", "columns": ["ID:category", "set:skip"]}
    assert refused(TABLE, **options) == (
        "--columns id:category: that column of x.csv holds the ids; drop it, or name another by --id-column"
    )
    assert made(TABLE, features="x.csv", columns=["id:skip", "*:skip", "a:number"]).num_features == 1


def test_two_columns_of_ids_are_refused(refused):
    table = "id,a,id\n" + "".join(f"v{i},{i}.5,{i}\n" for i in range(6))
    says(refused({"x.csv": table}, features="x.csv", ids="any"), "x.csv, id, --id-column, 1, 3")


def test_ids_of_any_kind_need_a_column(refused):
    assert refused({"x.csv": LABELS}, features="x.csv", ids="any", id_column="none") == (
        "--id-column none leaves no ids to match x.csv by, as --ids any does; drop it"
    )


@pytest.mark.parametrize("options", [{"columns": ["*:skip"]}, {"label_column": "y"}])
def test_a_table_without_any_feature_says_why(refused, options):
    assert refused({"x.csv": LABELS}, features="x.csv", **options) == (
        "x.csv has no column of features beside the ids and those that hold or are configured to be something else"
    )


def test_unknown_vertices_of_a_list_are_dropped(made, refused, caplog):
    files = {"y.csv": LABELS, "train.csv": "1\n99\n-5\n0\n"}
    options = {"labels": "y.csv", "train": "train.csv"}
    assert "train.csv, line 2: train_idx[1] is 99, outside" in refused(files, **options)
    with caplog.at_level("INFO"):
        assert sets_of(made(files, **options, unknown="drop", num_vertices=6))[0] == [1, 0]
    assert "train.csv: left out 2 rows whose ids are no vertex's" in caplog.text


def test_unknown_needs_tables_and_the_number_of_vertices(refused, tmp_path):
    np.save(tmp_path / "y.npy", np.arange(6) % 2)
    line = "--unknown drop is for rows of tables of features, labels and vertex sets; there is none"
    assert refused(unknown="drop") == refused(unknown="drop", labels="y.npy") == line
    line = refused({"train.csv": "0\n"}, train="train.csv", unknown="drop")
    assert (
        line == "train.csv: --unknown drop has to know how many vertices there are; give --num-vertices, or --ids any"
    )


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_header_with_nothing_below(made, refused, end):
    files = {"x.csv": f"id,x{end}"}
    line = refused(files, features="x.csv")
    assert line == "x.csv has no rows; there must be one for each vertex, or give --num-vertices"
    assert made(files, features="x.csv", missing="zero", num_vertices=6).features.ravel().tolist() == [0] * 6


@pytest.mark.parametrize("word", ["1_0", "\u0663"])
def test_what_only_python_takes_for_a_number_has_a_line(refused, word):
    table = {"x.csv": f"id,x\n0,{word}\n"}
    assert refused(table, features="x.csv").startswith(f"x.csv, line 2: {word!r} is not a number, as column x should")


@pytest.mark.parametrize("at", [0, 1, 499, 500, 998, 999])
def test_the_first_text_that_is_no_time_is_found_by_halves(monkeypatch, at):
    moments, calls = times._moments, []
    monkeypatch.setattr(times, "_moments", lambda *texts: (calls.append(1), moments(*texts))[1])
    texts = pa.array(["2024-01-01", "2024-01-01T00:00Z"] * 500, pa.large_string()).to_pylist()
    texts[at] = texts[999] = "never"
    assert times.days_of(pa.array(texts, pa.large_string()))[1] == at
    assert len(calls) < 20
