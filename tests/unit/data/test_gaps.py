"""Gaps are the same words in columns of all kinds; lists in fields; what is odd about labels is told."""

from __future__ import annotations

import io
import logging

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import MultiLabelBinarizer

import gsplit
from gsplit.data.importers.tables.gaps import USUAL, Gaps
from gsplit.errors import InputError

KINDS = [
    ("number", "2.5", 2.5),
    ("category", "red", 1),
    ("code", "red", 1),
    ("bool", "true", 1),
    ("time", "1970-01-03", 2),
]
SPELT = ["", "NA", "n/a", "NaN", "null", "None"]


def column(name, values):
    return f"id,{name}\n" + "".join(f"{at},{value}\n" for at, value in enumerate(values))


@pytest.fixture(params=["csv", "parquet"])
def file(request, tmp_path):
    """file(text): the name of a table of text, or of Parquet with the same texts, where numbers are none."""

    def write(text, name="x"):
        if request.param == "csv":
            (tmp_path / f"{name}.csv").write_text(text)
            return f"{name}.csv"
        frame = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
        pq.write_table(pa.table({"id": frame["id"].astype(int), **{c: frame[c] for c in frame if c != "id"}}), name)
        return name

    def named(text, name="x"):
        return write(text, name if request.param == "csv" else f"{name}.parquet")

    return named


@pytest.mark.cases(18)
@pytest.mark.parametrize("gap", [*SPELT, "nA", "NONE", " NULL "])
@pytest.mark.parametrize(("kind", "value", "wanted"), KINDS)
def test_a_gap_is_one_in_every_kind(made, refused, file, kind, value, wanted, gap):
    rows = column("c", [value, gap, value, value, value, value])
    if kind == "number" and (gap != gap.strip() or file(rows).endswith("parquet")):
        return  # texts of Parquet are no numbers, and a parser of numbers does not trim
    options = {"features": file(rows), "columns": [f"c:{kind}"]}
    assert made(**options, missing="zero").features.ravel().tolist() == [wanted, 0, *[wanted] * 4]
    assert "column c has no value; --missing zero or mean fills it in" in refused(**options)


@pytest.mark.parametrize("gap", SPELT)
def test_a_gap_among_labels_is_no_class(made, file, gap, caplog):
    caplog.set_level(logging.INFO)
    graph = made(labels=file(column("y", ["a", gap, "b", "a", gap, "b"])), split=(1, 0, 0))
    assert (graph.classes, graph.labels.tolist()) == (("a", "b"), [0, -1, 1, 0, -1, 1])
    assert graph.train_idx.tolist() == [0, 2, 3, 5]
    assert "2 of 6 rows have no label" in caplog.text
    numbers = column("y", ["1", gap, "0", "1", gap, "1"])
    assert made({"n.csv": numbers}, labels="n.csv").labels.tolist() == [1, -1, 0, 1, -1, 1]


def test_gaps_in_lists_of_labels_are_no_classes(made, file):
    graph = made(labels=file(column("y", ["a;NA", "NA", "b;a", "null;", "b", "a"])), label_separator=";")
    assert graph.classes == ("a", "b")
    np.testing.assert_array_equal(graph.labels, [[1, 0], [np.nan] * 2, [1, 1], [0, 0], [0, 1], [1, 0]])


def test_words_of_the_data_s_own(made, refused, file):
    labels = file(column("y", ["a", "Unknown", "b", "NA", "a", "-"]), "y")
    assert made(labels=labels).classes == ("-", "Unknown", "a", "b")
    assert made(labels=labels, unlabelled=["unknown", "-"]).classes == ("a", "b")
    assert made(labels=labels, gaps=["unknown", "-"]).classes == ("NA", "a", "b")
    features = {"features": file(column("c", ["NA", "?", "b", "b", "NA", "?"])), "columns": ["c:category"]}
    assert made(**features, gaps=["?"], missing="zero").features.tolist() == [[1, 0], [0, 0]] + [[0, 1]] * 2 + [
        [1, 0],
        [0, 0],
    ]
    assert "--unlabelled is for labels" in refused(**features, unlabelled=["x"])


def test_numbers_that_are_gaps(made):
    table = {"x.csv": column("x", [1, -999, 3, "#N/A", 5, 6])}
    assert made(table, features="x.csv", missing="zero").features.ravel().tolist() == [1, -999, 3, 0, 5, 6]
    gaps = {"gaps": ["-999", "#N/A"]}
    assert made(table, features="x.csv", missing="zero", **gaps).features.ravel().tolist() == [1, 0, 3, 0, 5, 6]


@pytest.mark.parametrize("dtype", [float, int])
def test_numbers_that_are_gaps_are_compared_as_numbers(made, tmp_path, dtype):
    for suffix in ("csv", "parquet"):
        frame = pd.DataFrame({"id": range(6), "x": np.array([1, -999, 3, 9, 5, 6], dtype)})
        frame.to_csv(tmp_path / "x.csv", index=False) if suffix == "csv" else frame.to_parquet(tmp_path / "x.parquet")
        options = {"features": f"x.{suffix}", "gaps": ["-999"], "missing": "zero"}
        assert made(**options).features.ravel().tolist() == [1, 0, 3, 9, 5, 6]
        labels = {"labels": f"x.{suffix}", "unlabelled": ["9", "-999", "5", "6"]}
        assert made(**labels).labels.tolist() == [1, -1, 3, -1, -1, -1]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("category", [[1, 0], [0, 0], [0, 1]] * 2), ("code", [1, 0, 2] * 2), ("labels", [0, -1, 1] * 2)],
)
def test_numbers_that_are_gaps_are_no_texts(made, file, kind, wanted):
    table = file(column("c", ["a", "-999.0", "b"] * 2))
    if kind == "labels":
        assert made(labels=table, unlabelled=["-999"]).labels.tolist() == wanted
        lists = file(column("c", ["a", "-999.00;-999", "b"] * 2), "l")
        assert made(labels=lists, unlabelled=["-999"], label_separator=";").classes == ("a", "b")
    else:
        features = made(features=table, columns=[f"c:{kind}"], gaps=["-999"], missing="zero").features
        assert features.squeeze().tolist() == wanted


def test_gaps_after_a_space_and_in_a_first_line(made):
    rows = "id,x\n0,1\n1, NA\n2,3\n3,4\n4,  5\n5, null\n"
    assert made({"x.csv": rows}, features="x.csv", missing="zero").features.ravel().tolist() == [1, 0, 3, 4, 5, 0]
    bare = "NA,NA\n1,2\n3,4\n5,6\n7,8\n9,10\n"
    graph = made({"x.csv": bare}, features="x.csv", missing="zero")
    assert graph.features.tolist() == [[0, 0], [1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]


def test_many_words_are_few_enough(made, refused):
    table = {"x.csv": column("x", [1, "w7ABcd", 3, 4, 5, 6])}
    words = [f"w{at}abcd" for at in range(100)]
    assert made(table, features="x.csv", missing="zero", gaps=words).features[1] == 0
    assert "100 words at most, not 101" in refused(table, features="x.csv", gaps=[*words, "x"])


def test_times_that_are_gaps_are_in_no_set(made):
    table = {"x.csv": column("t", ["2024-01-01", "NA", "2024-03-01", "none", "2024-05-01", "2024-06-01"])}
    labels = {"y.csv": column("y", [0, 1, 0, 1, 0, 1])}
    graph = made(
        {**table, **labels}, labels="y.csv", split_file="x.csv", split_by="t", split=("2024-02-01", "2024-05-15")
    )
    assert [graph.vertex_set(name).tolist() for name in ("train", "valid", "test")] == [[0], [2, 4], [5]]


def test_ids_are_no_gaps(made):
    ring = "src,dst\nNA,null\nnull,None\nNone,NA\n"
    features = "id,x\nNone,3\nNA,1\nnull,2\n"
    graph = made({"ring.csv": ring, "x.csv": features}, features="x.csv", ids="any")
    assert graph.features.ravel().tolist() == [1, 2, 3]


def test_a_growing_store_has_the_same_gaps(made, tmp_path):

    made(
        {"x.csv": column("c", ["a", "NA", "b", "a", "b", "a"])}, features="x.csv", columns=["c:code"], missing="zero"
    )
    (tmp_path / "new.csv").write_text("6,0\n")
    (tmp_path / "more.csv").write_text("id,c\n6,null\n")
    options = {"add": "new.csv", "features": "more.csv", "missing": "zero"}
    assert gsplit.import_graph("graph", "grown", **options).graph.features.ravel().tolist() == [1, 0, 2, 1, 2, 1, 0]


def test_words_of_an_import_hold_for_what_is_added(made, tmp_path):
    made({"x.csv": column("x", [1, -999, 3, 4, 5, 6])}, features="x.csv", gaps=["-999"], missing="zero")
    (tmp_path / "new.csv").write_text("6,0\n")
    (tmp_path / "more.csv").write_text("id,x\n6,-999.0\n")
    options = {"add": "new.csv", "features": "more.csv", "missing": "zero"}
    store = gsplit.import_graph("graph", "grown", **options)
    assert store.graph.features.ravel().tolist() == [1, 0, 3, 4, 5, 6, 0]
    assert store.description["gaps"] == ["-999"]
    with pytest.raises(InputError, match=r"--gaps NA with --add: .* -999; drop it"):
        gsplit.import_graph("graph", "again", **options, gaps=["NA"])


LISTS = [["b", "a"], ["c"], [], ["a, x"], ["b"], None]


def written(each, quote):
    return None if each is None else str(each).replace("'", quote)


def table_of_lists(path, lists, quote="'"):
    ids = list(lists) if isinstance(lists, dict) else range(len(lists))
    values = lists.values() if isinstance(lists, dict) else lists
    words = pa.array([written(each, quote) for each in values], pa.string())
    pq.write_table(pa.table({"id": ids, "y": words}), path)


@pytest.mark.parametrize("separator", [None, ";"])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_lists_as_data_frames_write_them(made, tmp_path, quote, separator):
    table_of_lists(tmp_path / "y.parquet", LISTS, quote)
    graph = made(labels="y.parquet", **({} if separator is None else {"label_separator": separator}))
    binarizer = MultiLabelBinarizer()
    wanted = binarizer.fit_transform([each or [] for each in LISTS]).astype(float)
    wanted[5] = np.nan
    assert graph.classes == tuple(binarizer.classes_)
    np.testing.assert_array_equal(graph.labels, wanted)


@pytest.mark.parametrize("odd", ["['b'", "['a' 'b']", "[True, 1]", "['a', -2]", "[a]", "b"])
def test_what_is_no_list_among_lists_has_a_row(made, refused, odd):
    said = refused(
        {"y.csv": column("y", ["\"['a']\"", "\"['b', None]\"", f'"{odd}"', "", "NA", "[]"])}, labels="y.csv"
    )
    assert "y.csv, line 4" in said
    assert "is no list of classes" in said


def test_names_in_brackets_are_names(made):
    graph = made({"y.csv": column("y", ["cat", "[deleted]", "dog", "", "cat", "(other)"])}, labels="y.csv")
    assert graph.classes == ("(other)", "[deleted]", "cat", "dog")


@pytest.mark.parametrize("value", ["['a']", "[0]"])
def test_lists_of_one_class_alone_are_refused(refused, value):
    rows = column("y", [f'"{value}"', "[]", f'"{value}"', "[]", "[]", "[]"])
    assert "lists one class alone" in refused({"y.csv": rows}, labels="y.csv")


@pytest.mark.parametrize(
    ("first", "more", "classes", "rows"),
    [
        ({0: ["a", "b"], 1: ["a"]}, {6: ["b", "z"], 7: None}, ("a", "b", "z"), [[0, 1, 1], [np.nan] * 3]),
        ({0: ["a", "b"], 1: ["a"]}, {6: ["b"], 7: []}, ("a", "b"), [[0, 1], [0, 0]]),
        ({0: [0, 3], 1: [1]}, {6: [2], 7: [5]}, None, [[0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1]]),
    ],
)
def test_lists_that_are_added_keep_their_classes(made, tmp_path, first, more, classes, rows):
    table_of_lists(tmp_path / "y.parquet", first)
    made(labels="y.parquet", num_vertices=6)
    (tmp_path / "new.csv").write_text("6,0\n7,1\n")
    table_of_lists(tmp_path / "more.parquet", more)
    graph = gsplit.import_graph("graph", "grown", add="new.csv", labels="more.parquet").graph
    assert graph.classes == classes
    np.testing.assert_array_equal(graph.labels[6:], rows)


def test_one_word_among_numbers_is_told_with_its_line(made, caplog):
    table = {"y.csv": column("y", ["unknown", 1, 2, 0, 1, "unknown"])}
    assert made(table, labels="y.csv").classes == ("0", "1", "2", "unknown")
    (said,) = [each.getMessage() for each in caplog.records if "--unlabelled" in each.getMessage()]
    assert "y.csv, line 2: 'unknown'" in said
    assert made(table, labels="y.csv", unlabelled=["unknown"]).labels.tolist() == [-1, 1, 2, 0, 1, -1]


def test_a_gap_is_not_blamed_for_another_s_mistake(refused):
    rows = column("x", [1, "NA", 3, "x", 5, 6])
    assert "x.csv, line 5: 'x' is not a number" in refused({"x.csv": rows}, features="x.csv")


def test_all_cases_of_a_word_are_listed():
    assert {"", "NA", "na", "Na", "nA"} == {word.strip() for word in Gaps.of(["na"]).spellings}
    assert {"", "unknown", "UNKNOWN", "Unknown"} == {word.strip() for word in Gaps.of(["Unknown"]).spellings}
    assert len(USUAL.spellings) < 400
