"""Features made of columns, in a store that grows: made as those there were; labels and sets in the same table."""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gsplit
from gsplit.errors import InputError

KINDS = ("number", "category", "code", "bool", "time")
VALUES = {
    "number": ("1", "-2.5", "1e3", "7", ""),
    "category": ("a", "b b", "ü", 'q"uote', ""),
    "code": ("x,y", "NB", "1", "z", ""),
    "bool": ("true", "0", "Yes", "n", ""),
    "time": ("2024-01-31", "1969-12-31 23:00:01.5", "2024-01-01 00:00:00Z", "2001-09-09 01:46+02:00", ""),
}


def write(path: Path, *rows) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


@st.composite
def histories(draw):
    """Columns of two tables by kind, rows of three steps by table and vertex, training vertices of the first."""
    kinds = [[draw(st.sampled_from(KINDS)) for _ in range(draw(st.integers(1, 3)))] for _ in range(2)]
    steps, known = [], []
    training: list[str] = []
    for step in range(3):
        new = [f"v{len(known) + at}" for at in range(draw(st.integers(3, 5) if step == 0 else st.integers(0, 3)))]
        training = training or draw(st.lists(st.sampled_from(new), min_size=1, unique=True))
        others = [vertex for vertex in known if vertex not in training]
        tables = []
        for number, of_table in enumerate(kinds):
            rows = draw(st.lists(st.sampled_from(new), min_size=step == 0, unique=True)) if new else []
            rows += draw(st.lists(st.sampled_from(others), unique=True)) if others else []
            choices = [
                VALUES[kind] if step == 0 else (*steps[0][1][number].columns[at], "")
                for at, kind in enumerate(of_table)
            ]
            tables.append(Table({row: [draw(st.sampled_from(some)) for some in choices] for row in rows}))
        steps.append((new, tables))
        known += new
    return kinds, steps, training


class Table:
    """Rows by vertex."""

    def __init__(self, rows):
        self.rows = rows

    @property
    def columns(self):
        return list(zip(*self.rows.values(), strict=True))

    def write(self, path, kinds, number):
        return write(path, header(kinds, number), *([row, *values] for row, values in self.rows.items()))


def header(kinds, number):
    return ["id", *(f"c{number}{at}" for at in range(len(kinds[number])))]


def imported(folder, name, source, tables, kinds, **options):
    paths = [table.write(folder / f"{name}{number}.csv", kinds, number) for number, table in enumerate(tables)]
    return gsplit.import_graph(source, folder / name, features=paths, **options)


@settings(max_examples=25)
@given(histories(), st.sampled_from(("zero", "mean")), st.booleans())
def test_three_steps_make_the_features_that_one_makes(history, missing, standardize):
    """Statistics are those of the training vertices, which all are in the first step."""
    kinds, steps, training = history
    first, everyone = steps[0][0], [vertex for new, _ in steps for vertex in new]
    encoding = {
        "columns": [f"c{n}{at}:{kind}" for n, some in enumerate(kinds) for at, kind in enumerate(some)],
        "standardize": standardize,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sets = {
            "labels": write(folder / "y.csv", ["id", "y"], *([vertex, 0] for vertex in training)),
            "train": write(folder / "train.csv", ["id"], *([vertex] for vertex in training)),
        }
        edges = write(folder / "edges.csv", ["src", "dst"], *zip(first, [*first[1:], first[0]], strict=True))
        try:
            store = imported(folder, "0", edges, steps[0][1], kinds, ids="any", missing=missing, **encoding, **sets)
        except InputError as error:
            assume("has no value of any" not in str(error) and "is empty" not in str(error))
            raise
        for number, (new, tables) in enumerate(steps[1:], 1):
            add = write(folder / f"add{number}.csv", ["src", "dst"], *([vertex, first[0]] for vertex in new))
            store = imported(folder, str(number), store, tables, kinds, add=add, missing=missing)
        rows = [{}, {}]
        for _, tables in steps:
            for merged, table in zip(rows, tables, strict=True):
                merged.update(table.rows)
        others = [[vertex, first[0]] for vertex in everyone if vertex not in first]
        edges = write(folder / "all.csv", ["src", "dst"], *zip(first, [*first[1:], first[0]], strict=True), *others)
        tables = [Table(merged) for merged in rows]
        # A category that no row has any more is still a feature; at once none would be made of it.
        same = all(
            {value for value in one if value} == {value for value in other if value}
            for before, now in zip(steps[0][1], tables, strict=True)
            for one, other in zip(before.columns, now.columns, strict=True)
        )
        assume(same)
        once = imported(folder, "all", edges, tables, kinds, ids="any", missing=missing, **encoding, **sets)
        np.testing.assert_allclose(store.graph.features, once.graph.features, rtol=2e-6, atol=2e-6)
        recorded, recorded_once = (
            [
                {key: entry[key] for key in entry if key in ("column", "kind", "features", "categories")}
                for entry in each
            ]
            for each in (store.description["columns"], once.description["columns"])
        )
        assert recorded == recorded_once


EDGES = (["src", "dst"], ["ann", "bob"], ["bob", "cid"], ["cid", "dan"])
PEOPLE = (
    ["name", "age", "land", "joined", "human", "kind", "part", "note"],
    ["ann", 30, "fr", "2024-01-01", "yes", "art;law", "train", "x"],
    ["bob", 20, "de", "2024-01-03", "no", "law", "train", "x"],
    ["cid", 60, "de", "2024-01-05", "yes", "law", "valid", "x"],
    ["dan", 10, "", "2024-01-07", "no", "", "none", "x"],
)
ENCODING = {"columns": ["land:category", "joined:time", "human:bool", "note:skip"], "missing": "zero"}
MORE = (["src", "dst"], ["eve", "ann"], ["fay", "ann"])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the store ``old`` of people, the tables it was made of, and edges of two new ones."""
    monkeypatch.chdir(tmp_path)
    write(Path("edges.csv"), *EDGES)
    write(Path("people.csv"), *PEOPLE)
    write(Path("more.csv"), *MORE)
    options = {"label_column": "kind", "label_separator": ";", "split_column": "part", "standardize": True}
    gsplit.import_graph("edges.csv", "old", ids="any", id_column="name", features="people.csv", **ENCODING, **options)
    np.save("x.npy", np.arange(12.0).reshape(4, 3))
    write(Path("numbered.csv"), ["src", "dst"], [0, 1], [1, 2], [2, 3])
    gsplit.import_graph("numbered.csv", "arrays", features="x.npy", standardize=True)
    return tmp_path


def grown(*rows, **options):
    options = {"features": write(Path("new.csv"), *rows), "id_column": "name", **options}
    return gsplit.import_graph("old", "grown", add="more.csv", overwrite=True, **options)


NEW = (
    ["fay", 35, "fr", "2024-02-01", "Y", "bio", "test", ""],
    ["eve", 25, "de", "2024-01-02", "F", "law", "train", ""],
)


def test_a_table_as_before_gives_features_labels_and_sets(place):
    store = grown(PEOPLE[0], *NEW, label_column="kind", label_separator=";", split_column="part")
    graph = store.graph
    assert store.classes == ("art", "law", "bio")
    np.testing.assert_array_equal(graph.labels, [[1, 1, 0], [0, 1, 0], [0, 1, 0], [np.nan] * 3, [0, 1, 0], [0, 0, 1]])
    assert [graph.vertex_set(name).tolist() for name in ("train", "valid", "test")] == [[0, 1, 4], [2], [5]]
    # ann and bob trained when the scale was taken: ages 25 and 5, days 19724 and 1.
    np.testing.assert_allclose(graph.features[4:], [[0, 1, 0, -0.0, 0], [2, 0, 1, 30, 1]], atol=1e-6)
    before = json.loads(Path("old/graph.json").read_text())["columns"]
    assert store.description["columns"] == before


def test_lists_are_no_numbers_to_be_predicted(place):
    numbers = write(Path("y.csv"), ["id", "y"], ["ann", 0.5], ["bob", -1])
    gsplit.import_graph("edges.csv", "numbers", ids="any", labels=numbers, task="regression")
    for labels, options in (("1;2", {"label_separator": ";"}), ("high", {})):
        table = write(Path("y2.csv"), ["id", "y"], ["eve", labels])
        with pytest.raises(InputError, match=r"y2\.csv holds classes, and the labels of numbers are numbers"):
            gsplit.import_graph("numbers", "grown", add="more.csv", labels=table, **options)


def test_columns_are_found_by_name_and_others_are_left_out(place):
    order = [4, 0, 3, 1, 2, 7]
    shuffled = [[row[at] for at in order] for row in (PEOPLE[0], *NEW)]
    assert grown(*shuffled).checksum == grown(PEOPLE[0], *NEW).checksum


def test_what_is_missing_is_filled_and_counted(place, caplog):
    rows = (["eve", "", "nl", "", "", "", "", ""],)  # fay has no row
    scaled = {"zero": [-5, 0, 0, -19724, 0], "mean": [0, 0.5, 0.5, 0, 0.5]}
    for missing, wanted in scaled.items():
        store = grown(PEOPLE[0], *rows, missing=missing)
        np.testing.assert_allclose(store.graph.features[4:], [wanted, wanted], atol=1e-6)
    columns = {entry["column"]: entry for entry in store.description["columns"]}
    assert {name: entry.get("missing") for name, entry in columns.items()} == {
        "age": 2,
        "land": 3,
        "joined": 2,
        "human": 2,
    }
    assert columns["land"]["filled_with"] == [0.5, 0.5]
    assert columns["age"]["filled_with"] == [25]


def test_arrays_are_scaled_as_those_there_were(place):
    np.save("more.npy", np.array([[4, 1]]))
    np.save("x2.npy", np.full((1, 3), 4.5))
    options = {"add": "more.npy", "overwrite": True}
    graph = gsplit.import_graph("arrays", "grown", features="x2.npy", **options).graph
    np.testing.assert_allclose(graph.features[4], (4.5 - np.array([4.5, 5.5, 6.5])) / np.sqrt(11.25), atol=1e-6)
    table = write(Path("x2.csv"), ["vertex", "p", "q", "r"], [4, 4.5, 4.5, 4.5], [0, 4.5, 5.5, 6.5])
    updated = gsplit.import_graph("arrays", "grown", features=table, **options).graph
    np.testing.assert_array_equal(updated.features[4], graph.features[4])
    np.testing.assert_allclose(updated.features[0], 0, atol=1e-6)


def test_several_files_or_one_that_has_all_columns(place):
    write(Path("a.csv"), ["vertex", "p"], [0, 1], [1, 2], [2, 3], [3, 5])
    write(Path("b.csv"), ["vertex", "q", "r"], [0, "u", 1], [1, "v", 0], [2, "u", 1], [3, "v", 1])
    gsplit.import_graph("numbered.csv", "two", features=["a.csv", "b.csv"], columns=["q:code", "r:bool"])
    write(Path("add.csv"), ["src", "dst"], [4, 0])
    new = write(Path("a2.csv"), ["vertex", "p"], [4, 6], [1, 9])
    other = write(Path("b2.csv"), ["vertex", "r", "q"], [4, 0, "v"], [2, 0, "v"])
    graph = gsplit.import_graph("two", "grown", add="add.csv", features=[new, other]).graph
    assert graph.features.tolist() == [[1, 1, 1], [9, 2, 0], [3, 2, 0], [5, 2, 1], [6, 2, 0]]
    one = write(Path("c.csv"), ["r", "p", "vertex", "q"], [0, 6, 4, "v"])
    graph = gsplit.import_graph("two", "again", add="add.csv", features=one).graph
    assert graph.features.tolist()[3:] == [[5, 2, 1], [6, 2, 0]]
    in_order = write(Path("d.csv"), ["r", "p", "q"], [0, 6, "v"], [1, 7, "u"])
    graph = gsplit.import_graph("two", "rows", add="add.csv", features=in_order).graph
    assert graph.features.tolist()[3:] == [[5, 2, 1], [6, 2, 0], [7, 1, 1]]


def test_a_column_of_ids_that_nobody_named_is_refused(place):
    write(Path("a.csv"), ["account", "age"], [3, 30], [2, 20], [1, 11], [0, 5])
    gsplit.import_graph("numbered.csv", "old", features="a.csv", id_column="account", overwrite=True)
    write(Path("add.csv"), ["src", "dst"], [4, 0], [5, 0])
    rows = (["account", "age", "note"], [5, 50, "x"], [4, 40, "y"])
    options = {"add": "add.csv", "features": write(Path("b.csv"), *rows), "overwrite": True}
    with pytest.raises(InputError, match=r"b\.csv: column account was not asked for.* give --id-column account"):
        gsplit.import_graph("old", "grown", **options)
    for id_column, ages in (("account", [40, 50]), ("none", [50, 40])):
        graph = gsplit.import_graph("old", "grown", id_column=id_column, **options).graph
        assert graph.features[4:, 0].tolist() == ages
    labels = write(Path("y.csv"), ["account", "kind"], [5, 1], [4, 0])
    options |= {"id_column": None, "features": write(Path("x.csv"), ["age"], [40], [50]), "labels": labels}
    with pytest.raises(InputError, match=r"y\.csv: column account was not asked for"):
        gsplit.import_graph("old", "grown", label_column="kind", **options)


def test_a_feature_is_not_taken_as_the_ids(place):
    write(Path("a.csv"), ["acc", "node", "age"], [3, 7, 40], [2, 1, 30], [1, 7, 20], [0, 4, 10])
    gsplit.import_graph("numbered.csv", "old", features="a.csv", id_column="acc", overwrite=True)
    write(Path("add.csv"), ["src", "dst"], [4, 0], [5, 0])
    table = write(Path("b.csv"), ["acc", "node", "age"], [4, 5, 50], [5, 4, 60])
    for wrong in (None, "node"):
        with pytest.raises(InputError, match=r"b\.csv: column node is a feature of old, and not the ids"):
            gsplit.import_graph("old", "grown", add="add.csv", features=table, id_column=wrong)
    graph = gsplit.import_graph("old", "grown", add="add.csv", features=table, id_column="acc").graph
    assert graph.features[4:].tolist() == [[5, 50], [4, 60]]


def test_names_that_are_there_twice_go_by_their_order(place):
    write(Path("a.csv"), ["id", "a", "a"], *([name, at, 5] for at, name in enumerate(("ann", "bob", "cid", "dan"))))
    gsplit.import_graph("edges.csv", "twice", ids="any", features="a.csv")
    table = write(Path("b.csv"), ["id", "a", "b"], ["eve", 7, 8], ["fay", 8, 9])
    graph = gsplit.import_graph("twice", "grown", add="more.csv", features=table).graph
    assert graph.features[4:].tolist() == [[7, 8], [8, 9]]


def test_ids_that_nobody_named_are_refused_at_an_import_too(place):
    write(Path("a.csv"), ["account", "age"], [3, 30], [2, 20], [1, 11], [0, 5])
    options = {"features": "a.csv", "columns": ["age:number", "*:skip"], "overwrite": True}
    with pytest.raises(InputError, match=r"a\.csv: column account holds each of 0 \.\. 3 once, as ids do"):
        gsplit.import_graph("numbered.csv", "one", **options)
    options["columns"] = ["account:skip"]  # a user who names it knows it
    assert gsplit.import_graph("numbered.csv", "one", **options).graph.features[0].tolist() == [30]


def test_a_store_that_is_standardised_anew_has_an_array(place):
    """What its columns were made of no longer says what the features are."""
    store = gsplit.import_graph("old", "anew", standardize=True)
    assert [(entry["kind"], entry["features"]) for entry in store.description["columns"]] == [("array", [0, 5])]
    mean, deviation = (np.array(store.description["columns"][0][key]) for key in ("mean", "deviation"))
    table = write(Path("x.csv"), ["id", *"abcde"], ["eve", 1, 2, 3, 4, 5], ["fay", 5, 4, 3, 2, 1])
    graph = gsplit.import_graph(store, "grown", add="more.csv", features=table).graph
    np.testing.assert_allclose(graph.features[4], (np.arange(1, 6) - mean) / deviation, rtol=1e-6)
    same = gsplit.import_graph("old", "same", missing="mean")
    assert same.description["columns"] == json.loads(Path("old/graph.json").read_text())["columns"]


def test_names_may_be_numbers(place):
    rows = (["ann", 1, 5], ["bob", 2, 5], ["cid", 3, 6], ["dan", 5, 7])
    first = write(Path("a.csv"), ["id", "10", "20"], *rows)
    gsplit.import_graph("edges.csv", "years", ids="any", features=first)
    new = write(Path("b.csv"), ["20", "10", "id"], [8, 9, "eve"], [6, 7, "fay"])
    graph = gsplit.import_graph("years", "grown", add="more.csv", features=new).graph
    assert graph.features[4:].tolist() == [[9, 8], [7, 6]]
    later = write(Path("c.csv"), ["id", "20", "30"], ["eve", 8, 9], ["fay", 6, 7])
    with pytest.raises(InputError, match=r"c\.csv has no column called 10"):
        gsplit.import_graph("years", "grown", add="more.csv", features=later, overwrite=True)


def test_rows_of_strangers_are_left_out(place, caplog):
    stranger = ["zoe", *NEW[0][1:]]
    both = grown(PEOPLE[0], *NEW, label_column="kind", label_separator=";").checksum
    options = {"unknown": "drop", "label_column": "kind", "label_separator": ";"}
    assert grown(PEOPLE[0], *NEW, stranger, **options).checksum == both
    write(Path("add.csv"), ["src", "dst"], [4, 0])
    table = write(Path("x2.csv"), ["vertex", "p", "q", "r"], [4, 1, 1, 1], [9, 1, 1, 1])
    with pytest.raises(InputError, match=r"x2\.csv has no row for 5, nor for 3 other of the 6 vertices"):
        gsplit.import_graph("arrays", "ten", add="add.csv", features=table)  # whole numbers make vertices
    store = gsplit.import_graph("arrays", "five", add="add.csv", features=table, unknown="drop")
    assert store.graph.num_vertices == 5


MISTAKES = [
    ([PEOPLE[0], NEW[0]], {}, "new.csv has no row for 'eve', nor for 0 other"),
    (
        [PEOPLE[0], NEW[0], ["eve", "", *NEW[1][2:]]],
        {},
        "new.csv, line 3: column age has no value; --missing zero or",
    ),
    (
        [PEOPLE[0], NEW[0], ["eve", 1, "nl", *NEW[1][3:]]],
        {},
        "new.csv, line 3: 'nl' is not one of the categories that there were, as column land should be; --",
    ),
    ([PEOPLE[0], NEW[0], ["eve", 1, "de", "soon", *NEW[1][4:]]], {}, "new.csv, line 3: 'soon' is not a date or time"),
    ([PEOPLE[0], NEW[0], ["eve", "x", *NEW[1][2:]]], {"missing": "mean"}, "new.csv, line 3: 'x' is not a number"),
    ([PEOPLE[0][:2], NEW[0][:2]], {}, "new.csv has no column called land, the column that features of old were made"),
    ([PEOPLE[0], *NEW], {"columns": ["age:number"]}, "--columns does not go with --add, which makes features as"),
    ([PEOPLE[0], *NEW], {"split_by": "joined", "split": (0, 1)}, "--split 0: new.csv: joined holds dates"),
    ([PEOPLE[0], *NEW], {"label_column": "sort"}, "new.csv has no column called sort, the --label-column"),
    ([PEOPLE[0], *NEW], {"label_column": "kind"}, "new.csv has labels of one class a vertex, and old of 2 columns"),
    ([PEOPLE[0], *NEW], {"split_column": "land"}, "new.csv, line 3: 'de' is none of train, valid, test"),
    (
        [PEOPLE[0], *NEW],
        {"features": ["new.csv", "more.csv"]},
        "features of old were made of people.csv; --features takes",
    ),
    ([PEOPLE[0], *NEW], {"features": (), "missing": "zero", "id_column": None}, "--missing zero is for --features"),
    ([PEOPLE[0], *NEW], {"features": "x.npy", "id_column": None}, "x.npy has no ids to match its rows by"),
]


@pytest.mark.parametrize(("rows", "options", "message"), MISTAKES)
def test_mistakes_are_one_line_and_leave_nothing(place, rows, options, message):
    there = sorted({path.name for path in place.iterdir()} | {"new.csv"})
    with pytest.raises(InputError, match=message) as caught:
        grown(*rows, **options)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in place.iterdir()) == there


def test_an_array_cannot_stand_for_columns_of_other_kinds(place):
    gsplit.import_graph(
        "numbered.csv", "kinds", features=write(Path("k.csv"), ["c", "d"], *["ab"] * 4), columns=["*:category"]
    )
    with pytest.raises(
        InputError, match=r"x\.npy is an array, and features of kinds were made of columns such as c:cat"
    ):
        gsplit.import_graph("kinds", "grown", add="numbered.csv", features="x.npy")
    np.save("x2.npy", np.zeros((1, 2)))
    with pytest.raises(InputError, match=r"x2\.npy has 2 features a vertex, and arrays has 3"):
        gsplit.import_graph("arrays", "grown", add="numbered.csv", features="x2.npy")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"features": [\n        1,', '"features": [\n        2,'),
        ('"kind": "bool"', '"kind": "boolean"'),
        ('"deviation"', '"division"'),
        ('"categories"', '"cats"'),
        ('"columns": [\n    {', '"columns": [\n    7, {'),
    ],
)
def test_a_store_that_is_damaged_where_it_says_what_features_were_made_of(place, old, new):
    path = place / "old" / "graph.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=r"graph\.json is damaged where it says what the features were made of"):
        grown(PEOPLE[0], *NEW)
