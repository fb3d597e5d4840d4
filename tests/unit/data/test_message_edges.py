"""Which edges of a source are message edges beside the training pairs: --message-edges, --supervision, --leaks."""

from __future__ import annotations

import json
import logging

import numpy as np
import pandas as pd
import pytest
from support.graphs import lay_out
from support.messages import line_with, says

import gsplit
from gsplit.data.__main__ import command
from gsplit.data.exporters import export
from gsplit.errors import InputError

CYCLE = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])


def edges_of(graph) -> list[tuple[int, int]]:
    """Message edges in the order of the store, copies and all."""
    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return list(zip(graph.indices.tolist(), destination.tolist(), strict=True))


def unordered(pairs) -> set[frozenset[int]]:
    return {frozenset(map(int, pair)) for pair in pairs}


def named(store, pairs) -> list[tuple]:
    ids = store.ids()
    names = (
        np.arange(store.graph.num_vertices)
        if ids is None
        else np.array(ids.of(np.arange(store.graph.num_vertices))[0])
    )
    return sorted(map(tuple, names[np.asarray(pairs)].tolist()))


@pytest.fixture(scope="module")
def edges():
    """Edges [E, 2], some both ways, some repeated, some loops."""
    random = np.random.default_rng(5)
    one_way = random.integers(0, 200, (2000, 2))
    return np.concatenate([one_way, one_way[:900, ::-1], one_way[:150]])


def test_edges_that_are_no_training_pairs_are_taken_out():
    store = gsplit.from_arrays(
        CYCLE, train_edges=[[1, 3, 0], [0, 0, 2]], test_edges=[[1], [2]], message_edges="train", num_vertices=5
    )
    assert edges_of(store.graph) == [(3, 0), (0, 1)]  # 1 -> 0 by its reverse; 0 -> 2 is no edge
    assert store.graph.links.train.tolist() == [[1, 0], [3, 0], [0, 2]]
    assert store.description["links"] == {"train": 3, "valid": 0, "test": 1, "message": "train", "removed": 2}
    everything = gsplit.from_arrays(CYCLE, train_edges=[[1], [0]], message_edges="all", num_vertices=5)
    assert everything.graph.num_edges == 4


@pytest.mark.parametrize("undirected", [False, True])
def test_a_share_of_the_edges_is_trained_on_and_no_message_edge(edges, undirected):
    whole = gsplit.from_arrays(edges.T, num_vertices=200, undirected=undirected)
    store = gsplit.from_arrays(edges.T, num_vertices=200, undirected=undirected, supervision=0.3)
    given, messages = set(edges_of(whole.graph)), edges_of(store.graph)
    drawn = unordered(store.graph.links.train)
    assert list(map(tuple, store.graph.links.train.tolist())) == sorted(
        (pair for pair in given if frozenset(pair) in drawn), key=lambda pair: pair[::-1]
    )
    assert set(messages) == {pair for pair in given if frozenset(pair) not in drawn}
    assert {pair for pair in given if pair[0] == pair[1]} <= set(messages)
    pairs = len({pair for pair in unordered(given) if len(pair) == 2})
    assert abs(len(drawn) - 0.3 * pairs) < 4 * np.sqrt(pairs * 0.3 * 0.7)
    out = sum(frozenset(pair) in drawn for pair in edges.tolist())
    facts = {"supervision": {"share": 0.3, "seed": 0, "of": "edges"}, "removed": out}
    assert store.description["links"] == {"train": len(store.graph.links.train), "valid": 0, "test": 0, **facts}


def test_the_share_is_apart_from_what_is_held_out(edges):
    split = {"num_vertices": 200, "edge_split": (0.6, 0.2, 0.2), "seed": 3}
    plain = gsplit.from_arrays(edges.T, **split)
    apart = gsplit.from_arrays(edges.T, **split, supervision=0.5)
    for name in ("valid", "test"):
        assert apart.graph.links.edge_set(name).tolist() == plain.graph.links.edge_set(name).tolist()
    drawn = unordered(apart.graph.links.train)
    assert unordered(edges_of(apart.graph)) | drawn == unordered(edges_of(plain.graph))
    assert not unordered(edges_of(apart.graph)) & drawn
    facts = apart.description["links"]
    assert facts["split"]["by"] == "random"
    held_out = plain.description["links"]["removed"]
    assert facts["removed"] == held_out + sum(frozenset(pair) in drawn for pair in edges.tolist())


def test_any_order_of_a_source_gives_the_same_share(tmp_path, edges):
    table = pd.DataFrame({"src": [f"v{u}" for u in edges[:, 0]], "dst": [f"v{v}" for v in edges[:, 1]]})
    found = []
    for order in (np.arange(len(edges)), np.random.default_rng(1).permutation(len(edges))):
        store = gsplit.from_arrays(table.iloc[order], ids="any", supervision=0.4, seed=2)
        found.append((named(store, edges_of(store.graph)), named(store, store.graph.links.train)))
    assert found[0] == found[1]


def test_of_training_pairs_of_their_own_the_others_are_left_out(edges):
    pairs = np.unique(edges, axis=0)[::2]
    rows = np.arange(len(pairs))[:, None] % 200
    given = {"num_vertices": 200, "train_edges": pairs.T, "hard_negatives": rows}
    store = gsplit.from_arrays(edges.T, **given, supervision=0.3)
    links, drawn = store.graph.links, unordered(store.graph.links.train)
    assert sorted(map(tuple, links.train.tolist())) == [
        pair for pair in map(tuple, pairs.tolist()) if frozenset(pair) in drawn
    ]
    row_of = dict(zip(map(tuple, pairs.tolist()), rows[:, 0].tolist(), strict=True))
    assert links.hard_negatives[:, 0].tolist() == [row_of[tuple(pair)] for pair in links.train.tolist()]
    assert set(edges_of(store.graph)) == {pair for pair in map(tuple, edges.tolist()) if frozenset(pair) not in drawn}
    alone = gsplit.from_arrays(edges.T, **given, supervision=0.3, message_edges="train")
    assert alone.graph.links.train.tolist() == links.train.tolist()
    assert unordered(edges_of(alone.graph)) == {pair for pair in unordered(pairs) if pair not in drawn}


@pytest.mark.parametrize("of", ["edges", "pairs"])
def test_a_store_keeps_what_was_taken_apart(tmp_path, capsys, edges, of):
    (tmp_path / "new.csv").write_text("src,dst\n" + "".join(f"{u},{u + 200}\n" for u in range(200)))
    pairs = {} if of == "edges" else {"train_edges": np.unique(edges, axis=0)[::2].T}
    one = gsplit.from_arrays(edges.T, num_vertices=200, supervision=0.3, seed=4, out=tmp_path / "one", **pairs)
    again = gsplit.import_graph(one, tmp_path / "again")
    assert again.description["links"] == one.description["links"]
    assert edges_of(again.graph) == edges_of(one.graph)
    assert again.graph.links.train.tolist() == one.graph.links.train.tolist()
    assert (
        lay_out(again.graph, tmp_path / "laid-out", parts=2).graph.links.train.tolist()
        == one.graph.links.train.tolist()
    )
    export(tmp_path / "one", "npz", tmp_path / "one.npz")
    back = gsplit.import_graph(tmp_path / "one.npz", tmp_path / "back")
    assert back.graph.links.train.tolist() == one.graph.links.train.tolist()
    assert edges_of(back.graph) == edges_of(one.graph)
    grown = gsplit.import_graph(one, tmp_path / "grown", add=tmp_path / "new.csv")
    more = np.concatenate([edges, np.arange(200)[:, None] + [0, 200]])
    at_once = gsplit.from_arrays(more.T, num_vertices=400, supervision=0.3, seed=4, **pairs)
    assert grown.graph.links.train.tolist() == at_once.graph.links.train.tolist()
    assert edges_of(grown.graph) == edges_of(at_once.graph)
    assert grown.description["links"] == at_once.description["links"]
    assert (grown.description["links"]["removed"] > one.description["links"]["removed"]) == (of == "edges")
    with pytest.raises(InputError, match="--supervision"):
        gsplit.import_graph(one, tmp_path / "twice", supervision=0.1)
    with pytest.raises(InputError, match="--message-edges"):
        gsplit.import_graph(one, tmp_path / "none", message_edges="train")
    command(["info", str(tmp_path / "grown")])
    says(capsys.readouterr().out, "a share of 0.3 of the training pairs, with seed 4, edges taken out")


def test_a_store_of_training_pairs_alone_grows_by_others_that_are_named(tmp_path, capsys):
    for name, lines in (("more", "2,1\n0,2\n"), ("pairs", "0,1\n2,1\n")):
        (tmp_path / f"{name}.csv").write_text(lines)
    one = gsplit.from_arrays(CYCLE, train_edges=[[0], [1]], message_edges="train", out=tmp_path / "one")
    assert edges_of(one.graph) == [(0, 1)]
    assert gsplit.import_graph(one, tmp_path / "copy").description["links"] == one.description["links"]
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(one, tmp_path / "no", add=tmp_path / "more.csv")
    says(caught.value, "--message-edges", "--train-edges")
    more = {"add": tmp_path / "more.csv"}
    trained = gsplit.import_graph(
        one, tmp_path / "trained", **more, train_edges=tmp_path / "pairs.csv", message_edges="train"
    )
    assert edges_of(trained.graph) == [(0, 1), (2, 1)]
    assert trained.description["links"]["removed"] == 4
    anything = gsplit.import_graph(one, tmp_path / "all", **more, message_edges="all")
    assert edges_of(anything.graph) == [(0, 1), (2, 1), (0, 2)]
    assert "message" not in anything.description["links"]
    command(["info", str(tmp_path / "trained")])
    says(capsys.readouterr().out, "all edges are training pairs")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"message_edges": "train", "train_edges": [[0], [2]]}, ("none of its 4 edges", "--message-edges train")),
        ({"message_edges": "train"}, ("--message-edges train", "all edges", "--train-edges")),
        ({"message_edges": "train", "edge_split": (0.8, 0.1, 0.1)}, ("--message-edges train", "all edges")),
        ({"supervision": 0.01}, ("--supervision 0.01", "--seed")),
        ({"supervision": 1.0}, ("--supervision", "(0, 1)")),
        ({"supervision": 0}, ("--supervision", "(0, 1)")),
        ({"message_edges": "valid"}, ("--message-edges", "train", "all")),
    ],
)
def test_what_cannot_be_taken_apart_is_refused(options, words):
    with pytest.raises(InputError) as caught:
        gsplit.from_arrays(CYCLE, **options)
    says(caught.value, *words)


def test_rows_of_hard_negatives_stay_with_their_edges(tmp_path):
    order = [2, 0, 3, 1]  # not that of the store
    rows = np.array([[10], [11], [12], [13]])
    given = {"num_vertices": 20, "out": tmp_path / "store", "hard_negatives": rows[order]}
    store = gsplit.from_arrays(CYCLE[:, order], **given)

    def row_of(store):
        return dict(zip(edges_of(store.graph), store.graph.links.hard_negatives[:, 0].tolist(), strict=True))

    own = {(0, 1): 10, (1, 2): 11, (2, 3): 12, (3, 0): 13}
    assert row_of(store) == own
    (tmp_path / "more.csv").write_text("2,1\n3,1\n0,1\n")
    grown = gsplit.import_graph(store, tmp_path / "grown", add=tmp_path / "more.csv", undirected=True)
    reverses = {pair[::-1]: -1 for pair in own}
    assert row_of(grown) == {**reverses, **own, (3, 1): -1, (1, 3): -1}
    assert row_of(gsplit.import_graph(grown, tmp_path / "again")) == row_of(grown)
    (tmp_path / "held.csv").write_text("1,0\n")
    dropped = gsplit.import_graph(grown, tmp_path / "dropped", test_edges=tmp_path / "held.csv", leaks="drop")
    assert row_of(dropped) == {pair: row for pair, row in row_of(grown).items() if {*pair} != {0, 1}}
    apart = gsplit.import_graph(grown, tmp_path / "apart", supervision=0.5)
    links = apart.graph.links
    of_pair = dict(zip(map(tuple, links.train.tolist()), links.hard_negatives[:, 0].tolist(), strict=True))
    assert of_pair.items() <= row_of(grown).items()
    assert max(of_pair.values()) > 0
    (tmp_path / "hard.csv").write_text("0,9\n")
    replaced = gsplit.import_graph(store, tmp_path / "replaced", hard_negatives=tmp_path / "hard.csv")
    assert row_of(replaced) == {**dict.fromkeys(own, -1), (0, 1): 9}


def test_equal_edges_have_each_their_row(tmp_path):
    store = gsplit.from_arrays(
        [[0, 2, 0], [1, 1, 1]],
        num_vertices=9,
        hard_negatives=[[5], [6], [7]],
        duplicates="keep",
        out=tmp_path / "one",
    )
    assert edges_of(store.graph) == [(0, 1), (2, 1), (0, 1)]
    assert store.graph.links.hard_negatives.tolist() == [[5], [6], [7]]
    assert gsplit.import_graph(store, tmp_path / "two").graph.links.hard_negatives.tolist() == [[5], [6], [7]]


def test_a_store_keeps_how_its_links_came_about(tmp_path, edges):
    one = gsplit.from_arrays(edges.T, num_vertices=200, edge_split=(0.8, 0.1, 0.1), out=tmp_path / "one")
    again = gsplit.import_graph(one, tmp_path / "two")
    assert again.description["links"] == one.description["links"]
    np.save(tmp_path / "valid.npy", one.graph.links.valid[:3])
    replaced = gsplit.import_graph(one, tmp_path / "three", valid_edges=tmp_path / "valid.npy")
    assert replaced.description["links"] == {
        "train": one.graph.num_edges,
        "valid": 3,
        "test": len(one.graph.links.test),
    }
    description = json.loads((tmp_path / "one" / "graph.json").read_text())
    description["links"]["supervision"] = {"share": 0.3}
    (tmp_path / "one" / "graph.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match=r"graph\.json"):
        gsplit.import_graph(tmp_path / "one", tmp_path / "four")


def test_pairs_in_two_sets_are_kept_or_dropped_and_told(tmp_path, capsys, caplog):
    caplog.set_level(logging.INFO)
    given = {
        "num_vertices": 6,
        "train_edges": CYCLE,
        "valid_edges": [[0, 2, 4], [1, 5, 5]],
        "test_edges": [[4, 1], [5, 2]],
        "valid_candidates": [[3], [4], [5]],
    }
    with pytest.raises(InputError, match="2 message edges"):
        gsplit.from_arrays(CYCLE, **given)
    kept = gsplit.from_arrays(CYCLE, **given, leaks="keep", out=tmp_path / "kept")
    says(caplog.text, "kept 2 message edges, 1 valid pairs, the train set, 1 test pairs, 1 valid pairs, the test set")
    assert (kept.graph.num_edges, kept.description["links"]) == (4, {"train": 4, "valid": 3, "test": 2})
    command(["info", str(tmp_path / "kept")])
    printed = capsys.readouterr().out
    for pair, second in (("validation", "training"), ("test", "training"), ("validation", "test")):
        says(printed, f"1 {pair} pair is in the {second} set, too")
    caplog.clear()
    dropped = gsplit.from_arrays(CYCLE, **given, leaks="drop")
    says(caplog.text, "dropped 2 message edges, 2 training pairs, 1 valid pairs, the test set")
    assert edges_of(dropped.graph) == [(3, 0), (2, 3)]
    assert dropped.graph.links.train.tolist() == [[3, 0], [2, 3]]
    assert dropped.graph.links.valid.tolist() == [[0, 1], [2, 5]]
    assert dropped.graph.links.valid_candidates.tolist() == [[3], [4]]
    assert dropped.graph.links.test.tolist() == [[1, 2], [4, 5]]


@pytest.mark.parametrize(
    ("beside", "what"),
    [
        ({"train_weights": np.ones(3)}, "train_weights, 3 numbers, 4 train pairs"),
        ({"hard_negatives": [[2]] * 3}, "hard_negatives, 3 rows, 4 train pairs"),
        ({"valid_edges": [[1, 0], [2, 3]], "valid_candidates": [[3]]}, "valid_candidates, 1 rows, 2 valid pairs"),
    ],
    ids=str,
)
def test_what_goes_with_pairs_is_counted_before_some_are_taken_out(beside, what):
    """The row or number that is missing could be that of a pair that is dropped."""
    given = {"train_edges": CYCLE, "test_edges": [[0], [1]], "num_vertices": 4, "leaks": "drop"}
    if "valid_edges" in beside:
        given["test_edges"] = [[1], [2]]
    with pytest.raises(InputError, match=line_with(what)):
        gsplit.from_arrays(CYCLE, **given | beside)
