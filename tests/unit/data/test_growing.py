"""Stores that grow: the same as imported at once, whatever the steps; what is replaced; mistakes."""

from __future__ import annotations

import csv
import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.messages import says
from support.stores import ARRAYS

from gsplit import import_graph
from gsplit.data import open_store
from gsplit.data.__main__ import command
from gsplit.errors import InputError


def write(path: Path, *rows) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Step:
    """What one step adds: edges, and rows of features, labels and sets by vertex."""

    def __init__(self, edges, features, labels, sets):
        self.edges, self.features, self.labels, self.sets = edges, features, labels, sets

    def write(self, folder: Path, name: str, called, weighted: bool) -> dict:
        """The files, as options of an import; ``called`` is what a vertex is called."""
        header = ["src", "dst", "weight"][: 3 if weighted else 2]
        edges = [[called(a), called(b), w][: len(header)] for a, b, w in self.edges]
        tables = {"features": (["x", "y"], self.features), "labels": (["label"], self.labels)}
        tables["split_file"] = (["split"], self.sets)
        options = {"edges": write(folder / f"{name}.csv", header, *edges)}
        for table, (columns, rows) in tables.items():
            if rows is not None:
                lines = [[called(vertex), *values] for vertex, values in rows.items()]
                options[table] = write(folder / f"{name}-{table}.csv", ["id", *columns], *lines)
        return options

    def before(self, later: Step) -> Step:
        """Both at once: what comes later wins."""
        both = [None if a is None else {**a, **b} for a, b in zip(self.rows(), later.rows(), strict=True)]
        return Step([*self.edges, *later.edges], *both)

    def rows(self):
        return self.features, self.labels, self.sets


@st.composite
def histories(draw, names: bool):
    """Three steps, each with features of all its new vertices and perhaps of old ones."""
    labelled, known = draw(st.booleans()), []
    steps = []
    for _ in range(3):
        top = len(known) + 3
        ends = st.integers(0, top)
        edges = draw(st.lists(st.tuples(ends, ends, st.integers(1, 5)), min_size=0 if known else 1, max_size=8))
        seen = list(dict.fromkeys([*known, *(end for a, b, _ in edges for end in (a, b))]))
        if not names:
            seen = list(range(max(seen) + 1))
        new = [vertex for vertex in seen if vertex not in known]
        old = draw(st.lists(st.sampled_from(known), unique=True, max_size=3)) if known else []
        named = draw(st.permutations(new + old))
        number = st.integers(-9, 9).map(lambda whole: whole + 0.5)  # whole ones may look like ids
        features = {vertex: draw(st.tuples(number, number)) for vertex in named}
        labels = sets = None
        if labelled:
            labels = {vertex: (draw(st.sampled_from((0, 1, 2))),) for vertex in named}
            words = st.sampled_from(("train", "valid", "test", "none"))
            sets = {vertex: (draw(words),) for vertex in named}
            for vertex in draw(st.lists(st.sampled_from(new), unique=True, max_size=2)) if new else []:
                labels[vertex], sets[vertex] = ("",), ("none",)
        steps.append(Step(edges, features, labels, sets))
        known = seen
    return steps


@pytest.mark.parametrize("names", [False, True])
@settings(max_examples=15)
@given(st.data(), st.booleans(), st.sampled_from(("drop", "keep")))
def test_three_steps_are_the_same_as_one(tmp_path_factory, names, data, weighted, duplicates):
    folder, steps = tmp_path_factory.mktemp("steps"), data.draw(histories(names))

    def called(vertex):
        return f"{chr(ord('z') - vertex % 26)}-{vertex}" if names else vertex

    options = {"ids": "any"} if names else {"id_column": "id"}
    files = steps[0].before(steps[1]).before(steps[2]).write(folder, "once", called, weighted)
    once = import_graph(files.pop("edges"), folder / "once", duplicates=duplicates, **files, **options)
    files = steps[0].write(folder, "0", called, weighted)
    store = import_graph(files.pop("edges"), folder / "0", duplicates=duplicates, **files, **options)
    lineage = []
    for number, step in enumerate(steps[1:], 1):
        files = step.write(folder, str(number), called, weighted)
        lineage.append(store.checksum)
        add = files.pop("edges")
        store = import_graph(store, folder / str(number), add=add, duplicates=duplicates, **files)
    for name in ARRAYS:
        one, other = getattr(store.graph, name), getattr(once.graph, name)
        if one is None or other is None:
            assert one is other
        else:
            np.testing.assert_array_equal(one, other, err_msg=name, strict=True)
    assert store.checksum == once.checksum
    assert store.description["grown_from"] == lineage
    assert store.graph.num_classes >= once.graph.num_classes
    assert store.description.get("ids") == once.description.get("ids")
    if names:
        assert (folder / "2" / "ids.arrow").read_bytes() == (folder / "once" / "ids.arrow").read_bytes()


# 0 --> 1 --> 2, and later 3 --> 1, 0 --> 4
OLD = (["src", "dst"], [0, 1], [1, 2])
NEW = (["src", "dst"], [3, 1], [0, 4], [0, 1])


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path("old.csv"), *OLD)
    write(Path("new.csv"), *NEW)
    write(Path("x.csv"), ["id", "a", "b"], [0, 1, 2], [1, 3, 4], [2, 5, 6])
    write(Path("y.csv"), ["id", "label"], [0, 0], [1, 1], [2, 0])
    write(Path("sets.csv"), ["id", "split"], [0, "train"], [1, "valid"], [2, "test"])
    write(Path("x2.csv"), ["id", "a", "b"], [4, 9, 10], [3, 7, 8])
    tables = {"features": "x.csv", "labels": "y.csv", "split_file": "sets.csv"}
    import_graph("old.csv", "old", **tables)
    import_graph("old.csv", "named", ids="any", **tables)
    return tmp_path


def test_only_what_is_new_needs_rows_and_the_old_store_stays(place):
    before = contents(place / "old")
    store = import_graph("old", "grown", add="new.csv", features="x2.csv")
    assert contents(place / "old") == before
    graph = store.graph
    assert graph.features.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
    assert (graph.indptr.tolist(), graph.indices.tolist()) == ([0, 0, 2, 3, 3, 4], [0, 3, 1, 0])
    assert graph.labels.tolist() == [0, 1, 0, -1, -1]
    assert [graph.vertex_set(name).tolist() for name in ("train", "valid", "test")] == [[0], [1], [2]]
    assert (store.name, store.description["source"]) == ("old", "old --add new.csv")
    assert store.description["grown_from"] == [open_store("old").checksum]


def test_rows_without_ids_are_those_of_the_new_vertices(place):
    np.save("x2.npy", np.array([[7.0, 8], [9, 10], [11, 12]]))
    write(Path("y2.csv"), ["label"], [1], [2], [""])
    write(Path("sets2.csv"), ["split"], ["train"], ["none"], ["none"])
    graph = import_graph("old", "a", add="new.csv", features="x2.npy", labels="y2.csv", split_file="sets2.csv").graph
    assert graph.features[3:].tolist() == [[7, 8], [9, 10], [11, 12]]  # the last has no edge
    assert graph.labels.tolist() == [0, 1, 0, 1, 2, -1]
    assert (graph.num_classes, graph.train_idx.tolist()) == (3, [0, 3])
    np.save("train.npy", np.array([4, 1]))
    np.save("test.npy", np.arange(6) == 3)
    sets = {"train": "train.npy", "test": "test.npy"}
    graph = import_graph("old", "b", add="new.csv", features="x2.npy", labels="y2.csv", **sets).graph
    assert [graph.vertex_set(name).tolist() for name in ("train", "valid", "test")] == [[0, 4, 1], [], [2, 3]]


def test_rows_of_old_vertices_are_updates_and_counted(place, caplog):
    write(Path("x2.csv"), ["id", "a", "b"], [1, -1, -1], [4, 9, 10], [3, 7, 8], [0, -2, -2])
    write(Path("y2.csv"), ["id", "label"], [2, ""], [1, 3])
    write(Path("sets2.csv"), ["id", "split"], [1, "train"], [2, "none"])
    with caplog.at_level(logging.INFO):
        files = {"features": "x2.csv", "labels": "y2.csv", "split_file": "sets2.csv"}
        graph = import_graph("named", "grown", add="new.csv", **files).graph
    assert graph.features.tolist() == [[-2, -2], [-1, -1], [5, 6], [7, 8], [9, 10]]
    assert graph.labels.tolist() == [0, 3, -1, -1, -1]
    assert (graph.num_classes, graph.train_idx.tolist(), len(graph.valid_idx)) == (4, [0, 1], 0)
    assert "x2.csv: 2 rows of features of vertices that were there replaced" in caplog.text
    assert "y2.csv: 2 labels of vertices that were there replaced" in caplog.text
    assert "sets2.csv: 2 vertices that were there change their set" in caplog.text
    says(caplog.text, "named, 1, --duplicates first")


def test_names_of_new_classes_come_after_those_there_were(place):
    write(Path("y.csv"), ["id", "label"], [0, "pear"], [1, "fig"], [2, ""])
    import_graph("old.csv", "fruit", labels="y.csv", id_column="id")
    write(Path("y2.csv"), ["id", "label"], [3, "pear"], [4, "apple"], [2, "fig"])
    store = import_graph("fruit", "grown", add="new.csv", labels="y2.csv")
    assert store.classes == ("fig", "pear", "apple")
    assert store.graph.labels.tolist() == [1, 0, 0, 1, 2]
    assert import_graph("fruit", "same", add="new.csv").classes == ("fig", "pear")


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_several_labels_and_numbers(place, task):
    write(Path("y.csv"), ["id", "p", "q"], [0, 0, 1], [1, 1, 1], [2, 1, 0])
    import_graph("old.csv", "several", labels="y.csv", task=task)
    write(Path("y2.csv"), ["id", "p", "q"], [4, 1, 0], [1, 0, 0])
    store = import_graph("several", "grown", add="new.csv", labels="y2.csv")
    np.testing.assert_array_equal(store.graph.labels, [[0, 1], [0, 0], [1, 0], [np.nan, np.nan], [1, 0]])
    assert (store.graph.regression, store.graph.num_classes) == (task == "regression", 2)


def test_half_precision_parquet_and_ids_of_two_columns(place):
    edges = {"bank": ["A", "A"], "no": [1, 2], "to_bank": ["B", "A"], "to_no": [1, 1]}
    pq.write_table(pa.table(edges), "edges.parquet")
    ends = {"source_column": "bank,no", "destination_column": "to_bank,to_no"}
    write(Path("x.csv"), ["bank", "no", "a"], ["A", 2, 2.5], ["A", 1, 1.5], ["B", 1, 0.5])
    import_graph("edges.parquet", "pairs", ids="any", features="x.csv", feature_dtype="float16", **ends)
    write(Path("more.csv"), ["bank", "no", "to_bank", "to_no"], ["B", 1, "C", 1])
    write(Path("x2.csv"), ["bank", "no", "a"], ["C", 1, 3.5], ["B", 1, 4.5])
    store = import_graph("pairs", "grown", add="more.csv", features="x2.csv", **ends)
    assert store.graph.features.dtype == np.float16
    assert store.graph.features.tolist() == [[1.5], [4.5], [2.5], [3.5]]
    assert [list(column) for _, column in store.ids().columns()] == [["A", "B", "A", "C"], [1, 1, 2, 1]]


def test_a_store_alone_is_copied(place):
    for name in ("old", "named"):
        copy = import_graph(name, f"copy-{name}", name="another")
        assert copy.checksum == open_store(name).checksum
        assert (copy.name, "grown_from" in copy.description) == ("another", False)
    assert (place / "copy-named" / "ids.arrow").read_bytes() == (place / "named" / "ids.arrow").read_bytes()
    write(Path("x2.csv"), ["id", "a"], [2, 7], [0, 8], [1, 9])
    assert import_graph("named", "other", features="x2.csv", undirected=True).graph.features.tolist() == [
        [8],
        [9],
        [7],
    ]
    assert import_graph("store:old", "both", undirected=True).graph.indices.tolist() == [1, 0, 2, 1]


def test_reverse_edges_of_steps_stand_after_the_edges_of_all(place):
    write(Path("all.csv"), *OLD, *NEW[1:])
    once = import_graph("all.csv", "once", undirected=True).graph
    import_graph("old.csv", "bare", undirected=True)
    steps = import_graph("bare", "steps", add="new.csv", undirected=True).graph
    assert once.indices.tolist() == [1, 4, 0, 3, 2, 1, 1, 0]
    assert steps.indices.tolist() == once.indices.tolist()
    assert steps.indptr.tolist() == once.indptr.tolist()


def test_repeated_edges_that_are_kept_get_the_reverses_of_all_steps(place):
    write(Path("a.csv"), ["src", "dst"], [0, 1], [0, 1], [2, 1])
    write(Path("b.csv"), ["src", "dst"], [0, 1], [1, 2], [3, 0])
    import_graph("a.csv", "first", undirected=True, duplicates="keep")
    graph = import_graph("first", "second", add="b.csv", undirected=True, duplicates="keep").graph
    rows = np.split(graph.indices, graph.indptr[1:-1])
    # The second step has a third 0 -> 1, a 1 -> 2 in place of the reverse that the first has added, and 3 -> 0.
    assert [row.tolist() for row in rows] == [[3, 1, 1, 1], [0, 0, 2, 0], [1], [0]]


GIVEN = {"features": "x2.csv"}
MISTAKES = [
    ("old.csv", {}, "--add adds to a graph store, and old.csv is none"),
    ("old", {}, "vertex 3 is new and has no features, which old has; give a row for each of the 2 new vertices"),
    ("named", {}, "vertex '3' is new and has no features, which named has"),
    ("old", {"features": [["id", "a", "b"], [4, 1, 1]]}, "bad.csv has no row for 3, nor for 0 other of the 2"),
    ("old", {"features": [["id", "a"], [3, 1], [4, 1]]}, "bad.csv has no column called b, the column that features"),
    ("old", {"features": [["a", "b"], [3, 1]]}, "bad.csv has 1 rows and no column of ids.*, and 4 has none"),
    ("old", {"features": [[3, 1], [4, 2]], "id_column": "1"}, "bad.csv has no header, and --add finds --id-column"),
    ("old", {"features": [["id", "a", "b"], [3, 1, 1], [4, "nan", 1]]}, "bad.csv, line 3: column a has no value"),
    ("named", {"features": [["id", "a", "b"], [3, 1, 1], [9, 1, 1]]}, "bad.csv, line 3: the id is in no edge"),
    ("old", {"features": [["id", "a", "b"], [3, 1, 1], [3, 1, 1]]}, "bad.csv, line 3: id 3 was in line 2 already"),
    ("old", {**GIVEN, "labels": [["id", "p", "q"], [3, 1, 0]]}, "labels of 2 columns a vertex, and old of one class"),
    (
        "old",
        {**GIVEN, "labels": [["id", "l"], [3, "fig"]]},
        "names of classes, such as 'fig', and the classes of old",
    ),
    ("old", {**GIVEN, "labels": [["id", "l"], [7, 1]]}, "bad.csv, line 2: the id is in no edge"),
    ("old", {**GIVEN, "split_file": [["id", "s"], [3, "train"]]}, "the train set has vertex 3, which has no label"),
    ("old", {**GIVEN, "train": [[3], [7]]}, "bad.csv: 7 is outside the vertices 0 .. 4"),
    ("old", {**GIVEN, "add": [["src", "dst", "weight"], [3, 4, 1]]}, "bad.csv has edge weights and old has none"),
    ("old", {**GIVEN, "add": [["src", "dst"], [3, 4], [-1, 2]]}, "bad.csv, line 3: -1 -> 2 names a vertex below 0"),
    ("old", {**GIVEN, "add": "x2.npy"}, "x2.npy: no such file or folder"),
    ("old", {**GIVEN, "add": "old"}, "--add takes an edge list in text or Parquet, or an edge index in a .npy; old"),
    ("old", {**GIVEN, "ids": "any"}, "the vertices of old are called 0, 1, 2, ...; drop --ids any"),
    ("named", {**GIVEN, "id_order": "sorted"}, "--id-order is for a new graph"),
    ("named", {**GIVEN, "num_vertices": 9}, "--num-vertices is for ids that are whole numbers"),
    ("old", {**GIVEN, "num_vertices": 4}, "old has 5 vertices; --num-vertices 4 is fewer"),
    ("old", {**GIVEN, "task": "regression"}, "the labels of old are classes; drop --task regression"),
    ("old", {**GIVEN, "split": (0.5, 0.2, 0.2)}, "old has vertex sets already"),
    ("old", {"id_column": "id"}, "--id-column id is for a table of --features, --labels or --split-file"),
    ("bare", GIVEN, "bare has no features, and x2.csv would leave its vertices without"),
]


@pytest.mark.parametrize(("source", "options", "message"), MISTAKES)
def test_mistakes_are_one_line_and_leave_nothing(place, source, options, message):
    import_graph("old.csv", "bare")
    asked = {"add": "new.csv", **options}
    for name, value in options.items():
        if isinstance(value, list):
            asked[name] = write(Path("bad.csv"), *value)
    there = sorted(path.name for path in place.iterdir())
    with pytest.raises(InputError, match=message) as caught:
        import_graph(source, "out", **asked)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in place.iterdir()) == there


def test_info_says_what_a_store_was_grown_from(place, capsys):
    store = import_graph("old", "grown", add="new.csv", features="x2.csv")
    command(["info", "grown", "--verify"])
    assert f"\n  grown from {open_store('old').checksum[:16]}, in 1 step\n" in capsys.readouterr().out
    assert store.name == "old"


def test_a_store_that_is_damaged_where_it_says_what_it_grew_from(place):
    path = place / "old" / "graph.json"
    path.write_text(path.read_text().replace('"name"', '"grown_from": 3, "name"'))
    with pytest.raises(InputError, match=r"graph\.json is damaged where it says what the store was grown from"):
        import_graph("old", "out", add="new.csv", features="x2.csv")
