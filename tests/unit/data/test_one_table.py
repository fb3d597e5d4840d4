"""One table of people with everything in it: labels, lists of labels, sets and times by the names of columns."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.garbage import assert_holds

import gsplit
from gsplit.config.flags import flags_of
from gsplit.data.build_options import BuildOptions
from gsplit.errors import InputError

EDGES = "src,dst\nann,bob\nbob,cid\ncid,dan\ndan,eve\n"
PEOPLE = (
    "name,age,land,joined,topics,kind,part\n"
    "eve,50,de,2024-07-01,art,human,test\n"
    'ann,30,fr,2023-12-31,"art;law",human,train\n'
    "cid,,de,2024-03-01,law,bot,valid\n"
    "bob,20,,2024-01-01,,bot,train\n"
    "dan,40,at,,law;bio,,none\n"
)
COLUMNS = ("land:category", "joined:time", "topics:skip")
ALL = (*COLUMNS, "part:skip")


@pytest.fixture
def imported(tmp_path):
    """imported(people, edges, **options): the store of these tables; ids are names unless ``ids`` says otherwise."""

    def run(people=PEOPLE, edges=EDGES, **options):
        (tmp_path / "edges.csv").write_text(edges)
        (tmp_path / "people.csv").write_text(people)
        for key in ("features", "labels", "split_file", "train"):
            if isinstance(options.get(key), str):
                options[key] = tmp_path / options[key]
        options = {"ids": "any", "id_column": "name", **options}
        return gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "g", **options)

    return run


def test_everything_is_in_one_table(imported, tmp_path):
    store = imported(features="people.csv", columns=COLUMNS, missing="mean", label_column="kind", split_column="part")
    graph = store.graph  # ann, bob, cid, dan, eve: the order of appearance
    assert graph.labels.tolist() == [1, 0, 0, -1, 1]
    assert graph.classes == ("bot", "human")
    assert [graph.vertex_set(name).tolist() for name in ("train", "valid", "test")] == [[0, 1], [2], [4]]
    # Means are those of the training vertices, ann and bob; of the categories ann alone has one.
    days = [19722, 19723, 19783, 19722.5, 19905]
    lands = [[0, 0, 1], [0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 0]]
    wanted = [[age, *land, day] for age, land, day in zip([30, 20, 25, 40, 50], lands, days, strict=True)]
    np.testing.assert_allclose(graph.features, wanted)
    columns = json.loads((tmp_path / "g" / "graph.json").read_text())["columns"]
    assert [(entry["column"], entry["kind"], entry["features"]) for entry in columns] == [
        ("age", "number", [0, 1]),
        ("land", "category", [1, 4]),
        ("joined", "time", [4, 5]),
    ]
    assert columns[1]["categories"] == ["at", "de", "fr"]
    assert [entry["missing"] for entry in columns] == [1, 1, 1]
    assert columns[0]["filled_with"] == [25]


def test_what_was_made_of_columns_is_said(imported, caplog):
    with caplog.at_level("INFO"):
        imported(
            features="people.csv", columns=(*COLUMNS, "kind:code", "part:skip"), missing="mean", standardize=True
        )
    printed = [line.split("people.csv: ", 1)[1] for line in caplog.messages if "people.csv: column" in line]
    assert printed == [
        "column age: 1 missing, filled with 35; standardised (mean 35, deviation 11.18)",
        "column land: 3 categories, a feature each; 1 missing",
        "column joined: days since 1970-01-01; 1 missing, filled with 1.978e+04; standardised (mean 1.978e+04, "
        "deviation 74.51)",
        "column kind: codes of 2 categories, from 1 on; 1 missing, filled with 0",
    ]


def test_lists_of_classes(imported):
    graph = imported(labels="people.csv", label_column="topics", label_separator=";").graph
    assert graph.classes == ("art", "bio", "law")
    np.testing.assert_array_equal(graph.labels, [[1, 0, 1], [np.nan] * 3, [0, 0, 1], [0, 1, 1], [1, 0, 0]])


def test_lists_of_class_numbers(imported):
    graph = imported("name,y\nann,2|0\nbob,|\ncid,\n", labels="people.csv", label_separator="|").graph
    assert graph.classes is None
    np.testing.assert_array_equal(graph.labels, [[1, 0, 1], [0, 0, 0], [np.nan] * 3, [np.nan] * 3, [np.nan] * 3])


@pytest.mark.parametrize(
    ("column", "bounds", "train", "valid", "test"),
    [
        ("joined", ("2024-01-01", "2024-07-01"), [0], [1, 2], [4]),
        ("joined", ("2024-01-01T00:00:01", "2024-03-01"), [0, 1], [], [2, 4]),
        ("joined", ("2024-01-01 02:00+02:00", "2024-03-01"), [0], [1], [2, 4]),
        ("age", (30, 50.5), [1], [0, 4], []),
        ("age", ("30", "50"), [1], [0], [4]),
    ],
)
def test_split_by_a_column(imported, column, bounds, train, valid, test):
    if bounds[0] == "30":  # words of a command line
        (flag,) = (flag for flag in flags_of(BuildOptions) if flag.field == "split")
        bounds = flag.value("--split", [",".join(bounds)])
    graph = imported(labels="people.csv", label_column="kind", split_by=column, split=bounds).graph
    assert [graph.vertex_set(name).tolist() for name in ("train", "valid", "test")] == [train, valid, test]


def test_parquet_knows_types(imported, tmp_path):
    table = pa.table(
        {
            "name": ["ann", "bob", "cid", "dan", "eve"],
            "when": pa.array([0, 86_400_000_000, None, 1, 2], pa.timestamp("us")),
            "day": pa.array([0, 1, 2, None, 4], pa.date32()),
            "flag": [True, False, None, True, False],
            "kind": pa.array(["x", "y", "x", None, "y"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "p.parquet")
    columns = ("when:time", "day:time", "flag:bool", "kind:category")
    graph = imported(features="p.parquet", columns=columns, missing="zero").graph
    wanted = [[0, 0, 1, 1, 0], [1, 1, 0, 0, 1], [0, 2, 0, 1, 0], [0, 0, 1, 0, 0], [0, 4, 0, 0, 1]]
    np.testing.assert_allclose(graph.features, wanted, atol=1e-9)
    graph = imported(
        labels="p.parquet", label_column="kind", split_by="day", split=("1970-01-02", "1970-01-03"), overwrite=True
    ).graph
    assert (graph.train_idx.tolist(), graph.valid_idx.tolist(), graph.test_idx.tolist()) == ([0], [1], [2, 4])


def test_arrays_stand_beside_tables_and_are_standardised(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,3\n")
    np.save(tmp_path / "x.npy", np.array([[1.0, 5], [3, 5], [np.nan, 5], [5, 5]]))
    (tmp_path / "x.csv").write_text("id,a\n3,1\n0,2\n1,4\n2,6\n")
    np.save(tmp_path / "train.npy", np.array([0, 1]))
    np.save(tmp_path / "y.npy", np.zeros(4))
    graph = gsplit.import_graph(
        tmp_path / "e.csv",
        tmp_path / "g",
        features=[tmp_path / "x.npy", tmp_path / "x.csv"],
        labels=tmp_path / "y.npy",
        train=tmp_path / "train.npy",
        missing="mean",
        standardize=True,
    ).graph
    np.testing.assert_allclose(graph.features, [[-1, 0, -1], [1, 0, 1], [0, 0, 3], [3, 0, -2]])


def test_features_of_a_source_are_standardised(tmp_path):
    x = np.random.default_rng(0).normal(5, 3, (40, 3)).astype(np.float32)
    np.savez(tmp_path / "g.npz", indptr=np.arange(41), indices=np.zeros(40, np.int64), x=x, y=np.arange(40) % 2)
    options = {"split": (0.5, 0.2, 0.3), "seed": 4}
    plain = gsplit.import_graph(tmp_path / "g.npz", tmp_path / "plain", **options).graph
    scaled = gsplit.import_graph(tmp_path / "g.npz", tmp_path / "scaled", standardize=True, **options).graph
    np.testing.assert_array_equal(plain.train_idx, scaled.train_idx)
    some = x[plain.train_idx].astype(np.float64)
    np.testing.assert_allclose(scaled.features, (x - some.mean(0)) / some.std(0), rtol=1e-5, atol=1e-5)


ONE = {"features": "people.csv", "columns": ALL, "missing": "zero", "label_column": "kind"}
WRONG = [
    (
        None,
        {**ONE, "columns": ("age",)},
        r"--columns takes NAME:KIND with KIND one of number, category, .* not 'age'",
    ),
    (None, {**ONE, "columns": ("age:date",)}, "not 'age:date'"),
    (None, {**ONE, "columns": ("age:bool", "AGE:time")}, "--columns calls AGE both bool and time"),
    (
        None,
        {**ONE, "columns": ("ages:bool",)},
        "--columns names ages, which is in none of .*people.csv; there are age",
    ),
    (
        None,
        {**ONE, "columns": (*ALL, "Kind:category")},
        "--columns kind:category makes a feature of the labels; drop",
    ),
    (None, {"columns": ("age:bool",)}, "--columns is for tables of --features; there is none"),
    (None, {**ONE, "columns": ()}, r"people.csv, line 2: 'de' is not a number, as column land should be; say what"),
    (None, {**ONE, "columns": (*ALL, "age:bool")}, "line 2: '50' is not true or false, as column age should be"),
    (
        None,
        {**ONE, "columns": ("land:time", "joined:skip", "topics:skip", "part:skip")},
        "line 2: 'de' is not a date or time such as 2024-07-31 .* column land",
    ),
    (None, {**ONE, "missing": "refuse"}, r"people.csv, line 4: column age has no value; --missing zero or mean"),
    (
        PEOPLE.replace("dan", "zoe"),
        {**ONE, "missing": "zero"},
        "line 6: the id is in no edge, nor are .* 0 other rows; .*--unknown drop",
    ),
    (
        PEOPLE.replace("dan", "zoe"),
        {**ONE, "missing": "refuse", "unknown": "drop"},
        "people.csv has no row for 'dan', nor for 0 other .*--missing zero or mean",
    ),
    (PEOPLE.replace("dan", "ann"), ONE, "line 6: id 'ann' was in line 3 already"),
    (None, {**ONE, "columns": ("*:skip",)}, "people.csv has no column of features beside the ids and those"),
    (None, {"labels": "people.csv"}, "line 2: 'de' is not a number.*; --label-column names the one with the classes"),
    (None, {**ONE, "label_column": "species"}, "people.csv has no column called species, the --label-column; it has"),
    (None, {**ONE, "label_column": None, "label_separator": ";"}, "--label-separator is for labels; give --labels"),
    (None, {**ONE, "label_separator": " "}, "--label-separator takes what stands between the classes"),
    (None, {"label_column": "kind"}, "--label-column kind is for a table of --labels, --features or --split-file"),
    (
        None,
        {"labels": "people.csv", "label_separator": ";"},
        "people.csv has 6 columns of labels; --label-separator is for one",
    ),
    (
        None,
        {"labels": "people.csv", "label_column": "empty", "label_separator": ";"},
        "no column called empty, the --label-column",
    ),
    (
        "name,y\nann,\nbob,\n",
        {"labels": "people.csv", "label_separator": ";"},
        "people.csv has no class in its column of labels",
    ),
    (
        "name,y\nann,1;99999999\n",
        {"labels": "people.csv", "label_separator": ";"},
        "people.csv lists class 99999999; there may be 65,536 classes",
    ),
    (None, {**ONE, "split_column": "kind"}, "people.csv, line 4: 'bot' is none of train, valid, test and none"),
    (None, {**ONE, "split_column": "part", "split_by": "age"}, "--split-column part gives all .*; drop --split-by"),
    (None, {**ONE, "split_column": "part", "train": "t.txt"}, "--split-column part gives all .*; drop --train"),
    (None, {**ONE, "split_by": "age", "train": "t.txt"}, "--split-by age makes all vertex sets; drop --train"),
    (None, {**ONE, "split_column": "part", "split": (0.5, 0.2, 0.3)}, "has vertex sets already .*; drop --split"),
    (None, {**ONE, "split_by": "age"}, "--split-by age needs two bounds, such as --split 2024-01-01,2024-07-01"),
    (None, {**ONE, "split_by": "age", "split": (0.6, 0.2, 0.2)}, "--split-by age needs two bounds"),
    (
        None,
        {**ONE, "split": (0.6, 0.2)},
        "--split takes the shares of train, valid and test, not 0.6,0.2; two bounds need",
    ),
    (None, {**ONE, "split": (0.6, 0.2, "x")}, "--split takes the shares of train, valid and test.*not 0.6,0.2,x"),
    (
        None,
        {**ONE, "split_by": "age", "split": ("a", "b")},
        "--split a: .*age holds numbers, so its bounds are numbers",
    ),
    (
        None,
        {**ONE, "split_by": "joined", "split": (1, 2)},
        "--split 1: .*joined holds dates, so its bounds are such as",
    ),
    (None, {**ONE, "split_by": "land", "split": (1, 2)}, "line 2: 'de' is not a date or time such as .* column land"),
    (None, {**ONE, "split_by": "age", "split": (50, 20)}, "--split 50,20: the second bound .* lies before the first"),
    (None, {**ONE, "split_by": "age", "split": (1, 2)}, "people.csv: age: no labelled vertex lies before 1"),
    (
        None,
        {**ONE, "split_by": "age", "split": (25, 45), "stratify": True},
        "--stratify draws at random, and --split-by does not",
    ),
    (None, {"standardize": True}, "--standardize is for features, and .*edges.csv has none; give --features"),
    (None, {"missing": "mean"}, "--missing mean is for features, and .*edges.csv has none"),
    (None, {"missing": "median"}, "--missing must be one of refuse, zero, mean, not 'median'"),
    (
        PEOPLE.replace(",30,", ",,").replace(",20,", ",,"),
        {**ONE, "missing": "mean", "split_column": "part"},
        "people.csv: column age has no value of any training vertex to take a mean of",
    ),
    (
        "name,a\nann,\nbob,\n",
        {"features": "people.csv", "columns": ("a:category",), "missing": "zero"},
        "column a is empty; --columns a:skip drops it",
    ),
    (
        "name,a\n" + "".join(f"p{i},{i}\n" for i in range(1002)),
        {"features": "people.csv", "columns": ("a:category",), "missing": "zero", "unknown": "drop"},
        "column a has over 1,000 categories; --columns a:code makes one number",
    ),
    (
        "name,a\n" + "".join(f"p{i},{i}\n" for i in range(3000)),
        {
            "features": "people.csv",
            "columns": ("a:code",),
            "missing": "zero",
            "unknown": "drop",
            "feature_dtype": "float16",
        },
        "column a has 3,000 codes, but float16 tells 2,048 apart; drop --feature-dtype float16",
    ),
]


@pytest.mark.filterwarnings("error")  # files are closed, too
@pytest.mark.parametrize(("people", "options", "message"), WRONG)
def test_a_mistake_is_one_line_and_nothing_is_left(imported, tmp_path, people, options, message):
    (tmp_path / "t.txt").write_text("ann\n")
    with pytest.raises(InputError, match=message) as caught:
        imported(PEOPLE if people is None else people, **options)
    assert "\n" not in str(caught.value)
    del caught
    assert_holds(tmp_path, "edges.csv", "people.csv", "t.txt")


def test_a_column_of_ids_may_be_said_to_be_a_number(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,3\n")
    (tmp_path / "f.csv").write_text("id,rank\n1,2\n2,0\n3,1\n0,3\n")
    with pytest.raises(
        InputError, match=r"column rank holds each of 0 \.\. 3 once, .* --columns rank:skip or :number"
    ):
        gsplit.import_graph(tmp_path / "e.csv", tmp_path / "g", features=tmp_path / "f.csv")
    ranks = gsplit.import_graph(
        tmp_path / "e.csv", tmp_path / "g", features=tmp_path / "f.csv", columns=["rank:number"]
    )
    assert ranks.graph.features.tolist() == [[3], [2], [0], [1]]
