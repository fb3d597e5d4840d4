"""Vertices without edges: of rows that are in no edge (--unknown add), and of a list of ids (--vertices)."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.messages import says

from gsplit import import_graph
from gsplit.errors import InputError

EDGES = pd.DataFrame({"src": [3, 0, 1], "dst": [1, 3, 4]})
# Vertex 2 is in no edge, and 5 to 9 are in tables alone.
X = pd.DataFrame({"id": [8, 1, 0, 6, 3, 4, 2, 5, 9, 7], "x": np.arange(10) / 4})
Y = pd.DataFrame({"id": [9, 3, 7, 0], "label": [2, 0, 1, 1]})
SPLIT = pd.DataFrame({"id": [3, 7, 0, 5], "split": ["train", "test", "valid", "none"]})
NAMED = {"ids": "any"}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(frame: pd.DataFrame, names: bool) -> pd.DataFrame:
    """The table with ids that are names, or whole numbers."""
    ids = [column for column in ("src", "dst", "id") if names and column in frame]
    return frame.assign(**{column: "n" + frame[column].astype(str) for column in ids})


def written(suffix: str, names: bool, **frames: pd.DataFrame) -> dict[str, str]:
    for name, frame in frames.items():
        path, frame = f"{name}.{suffix}", called(frame, names)
        frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
    return {name: f"{name}.{suffix}" for name in frames}


def ids_of(store) -> list:
    return list(range(store.graph.num_vertices)) if store.ids() is None else list(store.ids().columns()[0][1])


def expected_ids(names: bool, edges, *tables) -> list:
    """Ids in the order of the edges, then of the tables; or 0 .. N-1."""
    columns = [called(edges, names)[["src", "dst"]].to_numpy().ravel(), *(called(t, names).id for t in tables)]
    found = pd.unique(np.concatenate(columns)).tolist()
    return found if names else list(range(max(found) + 1))


def assert_is(store, names: bool, ids: list, x, y, split) -> None:
    graph = store.graph
    assert ids_of(store) == ids
    x, y, split = (called(frame, names).set_index("id") for frame in (x, y, split))
    np.testing.assert_array_equal(graph.features, x.reindex(ids).fillna(0).to_numpy(np.float32))
    assert graph.labels.tolist() == y.label.reindex(ids).fillna(-1).tolist()
    for name in ("train", "valid", "test"):
        assert sorted(ids[vertex] for vertex in graph.vertex_set(name)) == sorted(split.index[split.split == name])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("names", [False, True])
def test_rows_that_are_in_no_edge_become_vertices(names, suffix, caplog):
    files = written(suffix, names, edges=EDGES, x=X, y=Y, split=SPLIT)
    options = {"features": files["x"], "labels": files["y"], "split_file": files["split"], "unknown": "add"}
    with caplog.at_level(logging.INFO):
        store = import_graph(files["edges"], "out", **options, **(NAMED if names else {}))
    assert_is(store, names, expected_ids(names, EDGES, X, Y, SPLIT), X, Y, SPLIT)
    says(caplog.text, f"x.{suffix}, {6 if names else 5}, without edges")
    if names:
        ordered = import_graph(files["edges"], "sorted", **options, **NAMED, id_order="sorted")
        assert_is(ordered, names, sorted(expected_ids(names, EDGES, X, Y, SPLIT)), X, Y, SPLIT)


@pytest.mark.parametrize("names", [False, True])
def test_tables_in_their_order(names):
    """Features, labels, then sets, each with ids of its own; features of the others are filled in."""
    x, y, split = X[:7], Y[:2], pd.DataFrame({"id": [3, 12, 11], "split": ["train", "none", "none"]})
    files = written("csv", names, edges=EDGES, x=x, y=y, split=split)
    options = {"features": files["x"], "labels": files["y"], "split_file": files["split"], "missing": "zero"}
    store = import_graph(files["edges"], "out", **options, unknown="add", **(NAMED if names else {}))
    assert_is(store, names, expected_ids(names, EDGES, x, y, split), x, y, split)
    with pytest.raises(InputError) as caught:
        import_graph(
            files["edges"], "no", **{**options, "missing": "refuse"}, unknown="add", **(NAMED if names else {})
        )
    says(caught.value, "x.csv, --missing zero")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("names", [False, True])
def test_steps_are_the_same_as_all_at_once(names, suffix, caplog):
    """Whole ids of the first step end with 4, so that those of the second come after."""
    first, second = X[X.id < 5], X[X.id >= 5]
    more = pd.DataFrame({"src": [6], "dst": [0]})
    parts = {"edges": EDGES, "more": more, "all": pd.concat([EDGES, more])}
    files = written(
        suffix, names, **parts, x=first, x2=second, y=Y[1:2], y2=Y[[True, False, True, True]], allx=X, ally=Y
    )
    how = {"unknown": "add", **(NAMED if names else {})}
    one = import_graph(files["edges"], "one", features=files["x"], labels=files["y"], **how)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        two = import_graph(one, "two", add=files["more"], features=files["x2"], labels=files["y2"], unknown="add")
    says(caplog.text, f"x2.{suffix}, {4 if names else 3}, without edges")
    ids = expected_ids(names, EDGES, first, more.assign(id=more.src), second)
    assert_is(two, names, ids, X, Y, SPLIT[:0])
    if not names:
        once = import_graph(files["all"], "once", features=files["allx"], labels=files["ally"], unknown="add")
        assert two.checksum == once.checksum


@pytest.mark.parametrize("suffix", ["csv", "parquet", "txt"])
@pytest.mark.parametrize("names", [False, True])
def test_a_list_of_ids(names, suffix, caplog):
    listed = pd.DataFrame({"id": [9, 3, 6, 9]})
    files = written("csv", names, edges=EDGES)
    if suffix == "txt":
        called(listed, names).to_csv("v.txt", index=False, header=False)
        files["v"] = "v.txt"
    else:
        files |= written(suffix, names, v=listed)
    with caplog.at_level(logging.INFO):
        store = import_graph(files["edges"], "out", vertices=files["v"], **(NAMED if names else {}))
    assert ids_of(store) == expected_ids(names, EDGES, listed)
    assert np.diff(store.graph.indptr).sum() == 3
    says(caplog.text, f"v.{suffix}, {2 if names else 5}, without edges")
    small = import_graph(files["edges"], "small", **(NAMED if names else {}))
    assert import_graph(small, "grown", add=files["edges"], vertices=files["v"]).checksum == store.checksum


def test_a_list_may_be_called_as_a_column_of_the_edges():
    Path("e.csv").write_text("customer,product\nann,pen\n")
    Path("v.csv").write_text("Customer\nbob\n")
    ends = {"source_column": "customer", "destination_column": "product"}
    store = import_graph("e.csv", "out", vertices="v.csv", **NAMED, **ends)
    assert ids_of(store) == ["ann", "pen", "bob"]
    apart = import_graph("e.csv", "apart", vertices="v.csv", **NAMED, **ends, bipartite=True)
    assert ids_of(apart) == ["customer:ann", "product:pen", "customer:bob"]


def test_an_array_of_whole_ids_and_no_edges_at_all():
    np.save("v.npy", np.array([4, 2]))
    Path("e.csv").write_text("src,dst\n")
    assert import_graph("e.csv", "out", vertices="v.npy").graph.num_vertices == 5
    np.save("pairs.npy", np.array([[0], [1]]))
    assert import_graph("pairs.npy", "pairs", vertices="v.npy").graph.num_vertices == 5
    assert import_graph("e.csv", "more", vertices="v.npy", num_vertices=9).graph.num_vertices == 9


WRONG = {
    "no tables": ({"unknown": "add", "vertices": "v.txt"}, "--unknown add"),
    "an empty id": ({"unknown": "add", "labels": "gap.csv", "ids": "any"}, "gap.csv, line 3"),
    "twice": ({"unknown": "add", "labels": "twice.csv", "ids": "any"}, "twice.csv, line 4, line 2"),
    "twice, whole": ({"unknown": "add", "labels": "twice.csv"}, "twice.csv, line 4, line 2, 7"),
    "no whole number": ({"unknown": "add", "labels": "half.csv"}, "half.csv, line 3, 1.5"),
    "below 0": ({"vertices": "below.txt"}, "below.txt, line 2, -1"),
    "too many": ({"vertices": "far.txt"}, "far.txt, fit in memory"),
    "far beyond": ({"unknown": "add", "labels": "beyond.csv"}, "beyond.csv, fit in memory"),
    "an array of names": ({"vertices": "v.npy", "ids": "any"}, "v.npy"),
    "no such file": ({"vertices": "nowhere.txt"}, "nowhere.txt"),
    "a train list": ({"unknown": "add", "labels": "y.csv", "train": "far.txt", "ids": "any"}, "far.txt, --vertices"),
    "more than said": ({"vertices": "v.txt", "num_vertices": 5}, "e.csv, 8, --num-vertices 5"),
}


@pytest.mark.parametrize(("options", "parts"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line(options, parts):
    for name, text in {
        "e.csv": "src,dst\n0,1\n",
        "v.txt": "7\n3\n",
        "gap.csv": "id,label\n0,1\n,2\n",
        "twice.csv": "id,label\n7,1\n0,1\n7,1\n",
        "half.csv": "id,label\n0,1\n1.5,2\n",
        "below.txt": "3\n-1\n",
        "beyond.csv": "id,label\n0,1\n1e300,2\n",
        "far.txt": "3\n999999999999999\n",
        "y.csv": "id,label\n0,1\n",
    }.items():
        Path(name).write_text(text)
    np.save("v.npy", np.array([4, 2]))
    with pytest.raises(InputError) as caught:
        import_graph("e.csv", "out", **options)
    says(caught.value, parts)
    assert not Path("out").exists()


def test_a_store_is_copied_as_it_is():
    Path("e.csv").write_text("src,dst\n0,1\n")
    Path("v.txt").write_text("7\n")
    import_graph("e.csv", "store")
    for options in ({"vertices": "v.txt"}, {"unknown": "add", "labels": "v.txt"}):
        with pytest.raises(InputError) as caught:
            import_graph("store", "out", **options)
        says(caught.value, "store, --add")
