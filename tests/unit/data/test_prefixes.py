"""Ids of sources and of destinations that are numbered alike: prefixes keep them apart, and tables find theirs."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.messages import says

from gsplit import import_graph
from gsplit.data import open_store
from gsplit.errors import InputError

RATINGS = pd.DataFrame({"userId": [1, 1, 2, 3, 7], "movieId": [1, 31, 1, 2, 31], "rating": [4.0, 2.5, 3.0, 5.0, 4.5]})
MOVIES = pd.DataFrame({"movieId": [31, 2, 1], "title": ["Heat, (1995)", "Łódź", "Up"], "year": [1995, 2001, 2009]})
USERS = pd.DataFrame({"age": [20, 30, 40, 50], "userId": [7, 3, 2, 1]})
BIPARTITE = {"ids": "any", "source_column": "userId", "destination_column": "movieId", "bipartite": True}
TABLES = {"features": ["movies", "users"], "columns": ["title:skip"], "missing": "zero"}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(suffix: str, **frames: pd.DataFrame) -> dict[str, str]:
    """The file of each table."""
    for name, frame in frames.items():
        path = f"{name}.{suffix}"
        frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
    return {name: f"{name}.{suffix}" for name in frames}


def ids_of(store) -> list[str]:
    ((_, ids),) = store.ids().columns()
    return list(ids)


def edges_by_id(store) -> list[tuple[str, str]]:
    ids = np.array(ids_of(store))
    destinations = np.repeat(ids, np.diff(store.graph.indptr))
    return sorted(zip(ids[store.graph.indices].tolist(), destinations.tolist(), strict=True))


def expected(ratings: pd.DataFrame, user: str, movie: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Ids in the order of their first appearance, and edges, by pandas."""
    ends = pd.DataFrame({"u": user + ratings.userId.astype(str), "m": movie + ratings.movieId.astype(str)})
    return pd.unique(ends.to_numpy().ravel()).tolist(), sorted(ends.itertuples(index=False, name=None))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ratings_of_films_by_users_just_work(suffix, caplog):
    files = written(suffix, ratings=RATINGS, movies=MOVIES, users=USERS)
    with caplog.at_level(logging.INFO):
        store = import_graph(
            files["ratings"], "out", **BIPARTITE, **{**TABLES, "features": [files["movies"], files["users"]]}
        )
    ids, edges = expected(RATINGS, "userId:", "movieId:")
    assert ids_of(store) == ids
    assert edges_by_id(store) == edges
    tables = [
        MOVIES.set_index("movieId:" + MOVIES.movieId.astype(str))[["year"]],
        USERS.set_index("userId:" + USERS.userId.astype(str))[["age"]],
    ]
    wanted = pd.concat([table.reindex(ids) for table in tables], axis=1).fillna(0).to_numpy(np.float32)
    np.testing.assert_array_equal(store.graph.features, wanted)
    says(caplog.text, f"ratings.{suffix}, userId, userId:, movieId, movieId:")
    says(caplog.text, f"movies.{suffix}, movieId, movieId:")
    says(caplog.text, f"users.{suffix}, userId, userId:")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_prefixes_are_as_they_are_given(suffix):
    files = written(suffix, ratings=RATINGS)
    named = {key: value for key, value in BIPARTITE.items() if key != "bipartite"}
    for number, (user, movie) in enumerate((("u", "film "), ("user/", ""), ("", "ä:"))):
        options = {"source_prefix": user or None, "destination_prefix": movie or None}
        store = import_graph(files["ratings"], str(number), **named, **options)
        assert (ids_of(store), edges_by_id(store)) == expected(RATINGS, user, movie)
    store = import_graph(files["ratings"], "both", **BIPARTITE, source_prefix="u")
    assert ids_of(store) == expected(RATINGS, "u", "movieId:")[0]
    without = import_graph(files["ratings"], "without", **named)
    assert without.graph.num_vertices == len({*RATINGS.userId, *RATINGS.movieId})


def test_labels_sets_and_lists_find_their_vertices():
    seen = pd.DataFrame({"movieId": [1, 31, 2], "label": ["a", "b", "a"]})
    files = written("csv", ratings=RATINGS, seen=seen)
    Path("train.csv").write_text("movieId\n31\n1\n")
    Path("valid.csv").write_text("movieId:2\n")
    options = {"labels": files["seen"], "train": "train.csv", "valid": "valid.csv"}
    graph = (store := import_graph(files["ratings"], "out", **BIPARTITE, **options)).graph
    ids = ids_of(store)
    assert [ids[vertex] for vertex in graph.train_idx] == ["movieId:31", "movieId:1"]
    assert [ids[vertex] for vertex in graph.valid_idx] == ["movieId:2"]
    wanted = pd.Series([0, 1, 0], index="movieId:" + seen.movieId.astype(str)).reindex(ids).fillna(-1)
    assert graph.labels.tolist() == wanted.tolist()
    # Ids that have their prefix already, under a usual name.
    pd.DataFrame({"id": ["movieId:1", "userId:1"], "label": ["x", "y"]}).to_csv("both.csv", index=False)
    labels = import_graph(files["ratings"], "again", **BIPARTITE, labels="both.csv").graph.labels
    assert [ids[at] for at in np.argsort(-labels, kind="stable")[:2]] == ["userId:1", "movieId:1"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_steps_are_the_same_as_all_at_once(suffix):
    more = pd.DataFrame({"userId": [9, 1], "movieId": [1, 50], "rating": [1.0, 2.0]})
    films = pd.DataFrame({"movieId": [50, 1], "title": ["Ran", "Up"], "year": [1985, 2010]})
    all_films = pd.concat([MOVIES[MOVIES.movieId != 1], films])
    files = written(
        suffix,
        ratings=RATINGS,
        movies=MOVIES,
        more=more,
        films=films,
        all=pd.concat([RATINGS, more]),
        films2=all_films,
    )
    tables = {"columns": ["title:skip"], "missing": "zero"}
    once = import_graph(files["all"], "once", **BIPARTITE, features=files["films2"], **tables)
    first = import_graph(files["ratings"], "first", **BIPARTITE, features=files["movies"], **tables)
    ends = {"source_column": "userId", "destination_column": "movieId"}
    second = import_graph(first, "second", add=files["more"], features=files["films"], missing="zero", **ends)
    assert second.checksum == once.checksum
    assert Path("second/ids.arrow").read_bytes() == Path("once/ids.arrow").read_bytes()
    assert second.description["ids"] == once.description["ids"]
    # Films of users: columns are known by their names, whichever end they are.
    turned = {"source_column": "movieId", "destination_column": "userId"}
    back = import_graph(second, "back", add=files["more"], **turned)
    _, edges = expected(pd.concat([RATINGS, more]), "userId:", "movieId:")
    assert edges_by_id(back) == sorted([*edges, ("movieId:1", "userId:9"), ("movieId:50", "userId:1")])
    assert import_graph(back, "copy").description["ids"] == back.description["ids"]


WRONG = {
    "whole ids": ({"ids": "whole", "bipartite": True}, "--bipartite, --ids any"),
    "a prefix of whole ids": (
        {"ids": "whole", "bipartite": False, "destination_prefix": "f:"},
        "--destination-prefix, --ids any",
    ),
    "an empty prefix": ({"source_prefix": ""}, "--source-prefix"),
    "a line end": ({"source_prefix": "a\n"}, "--source-prefix"),
    "one in the other": (
        {"source_prefix": "u", "destination_prefix": "us"},
        "--source-prefix u, --destination-prefix us",
    ),
    "the same": ({"source_prefix": "u", "destination_prefix": "u"}, "--source-prefix u, --destination-prefix u"),
    "no header": (
        {"header": False, "source_column": None, "destination_column": None},
        "ratings.csv, --source-prefix",
    ),
    "two columns": (
        {"source_column": "userId,rating", "destination_column": "movieId,rating"},
        "--bipartite, --source-column userId,rating",
    ),
    "ids of both": ({"labels": "ratings.csv", "label_column": "rating"}, "ratings.csv, userId, movieId, --id-column"),
    "an id of nobody": ({"labels": "odd.csv"}, "odd.csv, line 3, --unknown drop"),
}


@pytest.mark.parametrize(("changes", "parts"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line(changes, parts):
    written("csv", ratings=RATINGS, odd=pd.DataFrame({"movieId": [1, 7], "label": [0, 1]}))
    with pytest.raises(InputError) as caught:
        import_graph("ratings.csv", "out", **{**BIPARTITE, **changes})
    says(caught.value, parts)
    assert not Path("out").exists()


def test_mistakes_with_a_store():
    written("csv", ratings=RATINGS)
    ends = {key: BIPARTITE[key] for key in ("source_column", "destination_column")}
    import_graph("ratings.csv", "apart", **BIPARTITE)
    import_graph("ratings.csv", "plain", ids="any", **ends)
    for store, changes, parts in (
        ("apart", {**ends, "source_prefix": "x:"}, "ratings.csv, userId:, movieId:, x:"),
        ("plain", {**ends, "bipartite": True}, "--bipartite, plain"),
    ):
        with pytest.raises(InputError) as caught:
            import_graph(store, "out", add="ratings.csv", **changes)
        says(caught.value, parts)
    with pytest.raises(InputError) as caught:
        import_graph("apart", "out", bipartite=True)
    says(caught.value, "--bipartite, apart")
    described = json.loads(Path("apart/graph.json").read_text())
    described["ids"]["prefixes"] = [["userid", 1], ["movieid", "x"]]
    Path("apart/graph.json").write_text(json.dumps(described))
    with pytest.raises(InputError) as caught:
        import_graph("apart", "out", add="ratings.csv", **ends)
    says(caught.value, "apart, prefixes")


def test_an_import_names_the_flags_where_ids_overlap(caplog):
    written("csv", ratings=RATINGS)
    ends = {key: BIPARTITE[key] for key in ("source_column", "destination_column")}
    with caplog.at_level(logging.INFO):
        import_graph("ratings.csv", "whole", **ends)
    says(caplog.text, "ratings.csv, 2, userId, movieId, --bipartite, --source-prefix, --destination-prefix")
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert open_store(import_graph("ratings.csv", "apart", **BIPARTITE).path).graph.num_vertices == 7
    assert "two kinds" not in caplog.text
