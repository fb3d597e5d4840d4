"""Tables that are added in steps: scaled, parted by time and named as at once, from text and from Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import gsplit
from gsplit.data.graph import VERTEX_SETS
from gsplit.errors import InputError

PEOPLE = pd.DataFrame(
    {
        "id": [f"p{at}" for at in range(9)],
        "age": [30.5, 20, 60, 41, 17, 25, 33, 52, 8],
        "joined": [f"2024-0{at % 9 + 1}-15" for at in (0, 7, 3, 1, 8, 4, 2, 5, 6)],
        "kind": ["fig", "pear", "fig", "3", "pear", "apple", "3", "12", "fig"],
    }
)
BOUNDS = {"split_by": "joined", "split": ("2024-04-01", "2024-07-01")}
PARTS = ((0, 3), (3, 5), (5, 9))
"""Rows of the three steps."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(frame: pd.DataFrame, name: str, form: str) -> Path:
    path = Path(f"{name}.{form}")
    if form == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    return path


def edges(frame: pd.DataFrame, name: str) -> Path:
    """A loop at each vertex, so that vertices are in the order of the rows."""
    return written(pd.DataFrame({"src": frame.id, "dst": frame.id}), f"{name}-edges", "csv")


def imported(frame: pd.DataFrame, name: str, form: str, old=None, **options):
    table, loops = written(frame, name, form), edges(frame, name)
    if old is None:
        return gsplit.import_graph(loops, name, ids="any", features=table, **options)
    return gsplit.import_graph(old, name, add=loops, features=table, **options)


def in_steps(form: str, *, first=None, **options):
    """The store that is imported in three steps; ``first`` are options of the first alone."""
    store = None
    for number, (begin, end) in enumerate(PARTS):
        extra = (first or {}) if store is None else {}
        store = imported(PEOPLE[begin:end], f"step{number}", form, store, **options, **extra)
    return store


def sets_of(graph) -> dict[str, list[int]]:
    return {name: graph.vertex_set(name).tolist() for name in VERTEX_SETS}


def sets_by_pandas(frame: pd.DataFrame) -> dict[str, list[int]]:
    when = pd.to_datetime(frame.joined)
    labelled = frame.kind.notna()
    first, second = map(pd.Timestamp, BOUNDS["split"])
    masks = (when < first, (when >= first) & (when < second), when >= second)
    return {name: np.flatnonzero(labelled & mask).tolist() for name, mask in zip(VERTEX_SETS, masks, strict=True)}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_steps_by_time_are_the_sets_of_all_at_once(place, form):
    options = {"label_column": "kind", **BOUNDS}
    steps = in_steps(form, **options)
    once = imported(PEOPLE, "once", form, **options)
    assert sets_of(steps.graph) == sets_of(once.graph) == sets_by_pandas(PEOPLE)
    assert [steps.classes[label] for label in steps.graph.labels] == PEOPLE.kind.tolist()
    np.testing.assert_array_equal(steps.graph.features, once.graph.features)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_old_vertices_follow_the_time_of_a_new_row_and_others_stay(place, form):
    options = {"label_column": "kind", **BOUNDS}
    old = imported(PEOPLE[:5], "old", form, **options)
    later = pd.concat([PEOPLE[1:2], PEOPLE[3:4], PEOPLE[5:7]], ignore_index=True)
    later.loc[0, "joined"], later.loc[1, "joined"], later.loc[2, "kind"] = "2024-05-01", None, None
    grown = imported(later, "grown", form, old, **options)
    merged = pd.concat([PEOPLE[:5], later]).drop_duplicates("id", keep="last").set_index("id")
    merged = merged.loc[PEOPLE.id[:7]].reset_index()
    assert sets_of(grown.graph) == sets_by_pandas(merged)
    assert sets_of(old.graph)["test"] == [1, 4]
    assert sets_of(grown.graph)["test"] == [4]


def test_times_that_leave_nothing_to_train_on(place):
    old = imported(PEOPLE[["id", "age", "joined"]][:2], "old", "csv", columns=["joined:skip"])
    labels = {"label_column": "kind", "split_by": "joined", "split": ("2020-01-01", "2021-01-01")}
    with pytest.raises(InputError, match=r"added\.csv: joined: no labelled vertex lies before 2020-01-01"):
        imported(PEOPLE[2:4], "added", "csv", old, **labels)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_times_of_whole_ids_and_numbers(place, form):
    frame = pd.DataFrame({"id": range(6), "y": [0, 1, 0, 1, 0, 1], "year": [1999, 2005, 2010, 2000, 2006, 2003]})
    at = {"split_by": "year", "split": (2003, 2006), "id_column": "id"}
    first, later = written(frame[:3], "first", form), written(frame[3:], "later", form)
    loops = [edges(frame[a:b], f"e{a}") for a, b in ((0, 3), (3, 6))]
    old = gsplit.import_graph(loops[0], "old", labels=first, label_column="y", **at)
    grown = gsplit.import_graph(old, "grown", add=loops[1], labels=later, label_column="y", **at)
    in_order = written(frame[3:].drop(columns="id"), "in-order", form)
    at["id_column"] = "none"
    same = gsplit.import_graph(old, "same", add=loops[1], labels=in_order, label_column="y", **at)
    wanted = {
        "train": frame.id[frame.year < 2003].tolist(),
        "valid": frame.id[(frame.year >= 2003) & (frame.year < 2006)].tolist(),
        "test": frame.id[frame.year >= 2006].tolist(),
    }
    assert sets_of(grown.graph) == sets_of(same.graph) == wanted
    assert grown.checksum == same.checksum


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_standardize_may_be_said_again(place, form):
    numbers = PEOPLE[["id", "age"]]
    scaler = StandardScaler().fit(numbers[["age"]][:3])
    said = in_steps_of(numbers, form, "said", {"standardize": True})
    unsaid = in_steps_of(numbers, form, "unsaid", {})
    np.testing.assert_allclose(said.graph.features, scaler.transform(numbers[["age"]]), rtol=1e-6, atol=1e-6)
    assert said.checksum == unsaid.checksum


def in_steps_of(frame: pd.DataFrame, form: str, name: str, again: dict):
    store = imported(frame[:3], f"{name}0", form, standardize=True)
    for number, (begin, end) in enumerate(PARTS[1:], 1):
        store = imported(frame[begin:end], f"{name}{number}", form, store, **again)
    return store


def test_standardize_is_refused_where_the_store_is_not(place):
    old = imported(PEOPLE[["id", "age"]][:3], "old", "csv")
    with pytest.raises(InputError, match=r"--standardize with --add: the features of old are not standardised"):
        imported(PEOPLE[["id", "age"]][3:], "grown", "csv", old, standardize=True)
    assert not Path("grown").exists()


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("whole", [False, True])
def test_digits_are_names_where_there_are_names(place, form, whole, caplog):
    """Also where each class of the step is a number, as which an import of it alone would take them."""
    kinds = pd.Series([12, 3, 12] if whole else ["12", "3", "12"])
    later = pd.DataFrame({"id": ["p9", "p1", "p8"], "kind": kinds})
    first = written(PEOPLE[["id", "kind"]][:3], "y", form)
    old = gsplit.import_graph(edges(PEOPLE[:3], "old"), "old", ids="any", labels=first)
    with caplog.at_level("INFO"):
        grown = gsplit.import_graph(old, "grown", add=edges(later, "new"), labels=written(later, "y2", form))
    assert (old.classes, grown.classes) == (("fig", "pear"), ("fig", "pear", "12", "3"))
    assert [grown.classes[label] for label in grown.graph.labels] == ["fig", "3", "fig", "12", "12"]
    assert f"y2.{form}: 2 new classes by name, in the order of the names: 12, 3" in caplog.text


@pytest.mark.parametrize("lists", ["3;12", "[3, 12]", "['3', '12']"])
def test_digits_in_lists_are_names_where_there_are_names(place, lists):
    options = {"label_separator": ";"} if ";" in lists else {}
    words = "fig;3" if options else "['fig', '3']"
    first = written(pd.DataFrame({"id": ["a", "b"], "y": [words, words]}), "y", "csv")
    later = pd.DataFrame({"id": ["c"], "y": [lists]})
    old = gsplit.import_graph(
        edges(pd.DataFrame({"id": ["a", "b"]}), "old"), "old", ids="any", labels=first, **options
    )
    table = written(later, "y2", "csv")
    grown = gsplit.import_graph(old, "grown", add=edges(later, "new"), labels=table, **options)
    assert grown.classes == ("3", "fig", "12")
    assert grown.graph.labels.tolist() == [[1, 1, 0], [1, 1, 0], [1, 0, 1]]


def test_numbers_of_an_array_are_refused_where_there_are_names(place):
    numbered = PEOPLE.assign(id=range(9))
    first = written(numbered[["id", "kind"]][:3], "y", "csv")
    old = gsplit.import_graph(edges(numbered[:3], "old"), "old", labels=first)
    np.save("y2.npy", np.array([1, -1]))
    with pytest.raises(InputError, match=r"y2\.npy has numbers of classes, .* have names, such as 'fig'"):
        gsplit.import_graph(old, "grown", add=edges(numbered[3:5], "new"), labels="y2.npy")
    np.save("y2.npy", np.array([-1, -1]))
    grown = gsplit.import_graph(old, "grown", add=edges(numbered[3:5], "new"), labels="y2.npy")
    assert (grown.classes, grown.graph.labels.tolist()) == (("fig", "pear"), [0, 1, 0, -1, -1])


TWICE = [
    ({"features": ["a.csv", "b.csv", "./a.csv"]}, "--features names a.csv twice"),
    ({"features": ["x.npy", "x.npy"]}, "--features names x.npy twice"),
    ({"features": "a.csv", "labels": "a.csv"}, "--labels a.csv is a file of --features, too.* --label-column"),
    ({"features": ["x.npy"], "labels": "x.npy"}, "--labels x.npy is a file of --features, too"),
    (
        {"features": "a.csv", "split_file": "./a.csv"},
        "--split-file a.csv is a file of --features, too.*--split-column",
    ),
]


@pytest.mark.parametrize(("options", "message"), TWICE)
def test_no_file_is_features_twice_or_labels_beside(place, options, message):
    frame = PEOPLE[["id", "age"]].assign(id=range(9))
    for name in ("a", "b"):
        written(frame, name, "csv")
    np.save("x.npy", np.arange(9.0))
    loops = edges(frame, "loops")
    gsplit.import_graph(loops, "old", features="b.csv")
    for call in (lambda: gsplit.import_graph(loops, "new", **options), lambda: grown_of("old", loops, options)):
        with pytest.raises(InputError, match=message):
            call()


def grown_of(old, loops, options):
    return gsplit.import_graph(old, "grown", add=loops, **options)


def test_a_file_may_hold_features_and_labels_that_are_named(place):
    frame = PEOPLE[["age"]].assign(y=[0, 1] * 4 + [1], part="train")
    table, loops = written(frame, "a", "csv"), edges(PEOPLE.assign(id=range(9)), "loops")
    files = {"features": table, "labels": table, "split_file": table}
    store = gsplit.import_graph(loops, "new", **files, label_column="y", split_column="part")
    np.testing.assert_array_equal(store.graph.features[:, 0], frame.age.to_numpy(np.float32))
    assert (store.graph.labels.tolist(), store.graph.num_features) == (frame.y.tolist(), 1)


@pytest.mark.parametrize("form", ["csv", "parquet", "npy"])
@pytest.mark.parametrize("wrong", ["a", "b"])
def test_a_number_that_float16_does_not_hold_is_said_in_its_file(place, form, wrong):
    """Of several files at an import; of old features or of one of several files where a store grows."""
    half = {"feature_dtype": "float16"}

    def tables(begin: int, end: int, large: str) -> list[Path]:
        paths = []
        for name in ("a", "b"):
            values = np.arange(begin, end, dtype=np.float64)
            values[-1] = 70_000.5 if name == large else 1
            frame = pd.DataFrame({"id": range(begin, end), f"{name}1": values, f"{name}2": 1.0})
            path = Path(f"{name}{begin}.{form}")
            if form == "npy":
                np.save(path, frame.drop(columns="id").to_numpy())
            else:
                written(frame, f"{name}{begin}", form)
            paths.append(path)
        return paths

    loops = [edges(pd.DataFrame({"id": range(*part)}), f"e{part[0]}") for part in ((0, 3), (3, 5))]
    column = 1 if form == "npy" else f"{wrong}1"
    at = {"csv": "line 4", "parquet": "row 2", "npy": "row 2"}[form]
    with pytest.raises(
        InputError, match=rf"^{wrong}0\.{form}, {at}: column {column} is 70000\.5, too large for float16"
    ):
        gsplit.import_graph(loops[0], "none", features=tables(0, 3, wrong), **half)
    wide = gsplit.import_graph(loops[0], "wide", features=tables(0, 3, wrong))
    with pytest.raises(InputError, match=r"^wide: the features of vertex 2 hold NaN or infinity as float16"):
        gsplit.import_graph(wide, "none", add=loops[1], features=tables(3, 5, ""), **half)
    fine = gsplit.import_graph(loops[0], "fine", features=tables(0, 3, ""), **half)
    at = {"csv": "line 3", "parquet": "row 1", "npy": "row 1"}[form]
    with pytest.raises(
        InputError, match=rf"^{wrong}3\.{form}, {at}: column .*1 is 70000\.5, too large for float16; rep"
    ):
        gsplit.import_graph(fine, "none", add=loops[1], features=tables(3, 5, wrong))
