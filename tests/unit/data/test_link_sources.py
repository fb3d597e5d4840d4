"""Where links come from: shares of edges, files, graphs of PyG, other stores; and where they go."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from support.graphs import random_graph
from support.libraries import needs_dgl
from support.messages import says
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit

import gsplit
from gsplit.data import open_store, write_store
from gsplit.data.exporters import export
from gsplit.data.links.edge_sets import Links
from gsplit.errors import InputError

SHARES = (0.85, 0.05, 0.1)


def pairs_of(graph) -> set[tuple[int, int]]:
    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return set(zip(graph.indices.tolist(), destination.tolist(), strict=True))


def named_pairs(store) -> dict[str, list]:
    """Message edges, validation and test pairs in the users' ids."""
    graph, ids = store.graph, store.ids()
    names = np.array(range(graph.num_vertices) if ids is None else ids.of(np.arange(graph.num_vertices))[0])
    links = graph.links
    messages = np.array(sorted(pairs_of(graph)))
    return {
        key: sorted(map(tuple, names[pairs].tolist()))
        for key, pairs in (("message", messages), ("valid", links.valid), ("test", links.test))
    }


@pytest.fixture(scope="module")
def edges():
    """Edges [E, 2], some both ways, some repeated, some loops."""
    random = np.random.default_rng(3)
    one_way = random.integers(0, 300, (3000, 2))
    return np.concatenate([one_way, one_way[:1500, ::-1], one_way[:200]])


def test_all_edges_of_two_vertices_fall_together_and_shares_hold(edges):
    graph = gsplit.from_arrays(edges.T, edge_split=SHARES, num_vertices=300).graph
    given, links, messages = set(map(tuple, edges.tolist())), graph.links, pairs_of(graph)
    held_out = {name: set(map(tuple, links.edge_set(name).tolist())) for name in ("valid", "test")}
    unordered = {name: {frozenset(pair) for pair in pairs} for name, pairs in held_out.items()}
    for name in held_out:
        assert len(links.edge_set(name)) == len(unordered[name])  # each pair once,
        assert held_out[name] <= given  # in a direction in which it was there
    assert links.train is None
    assert not unordered["valid"] & unordered["test"]
    assert messages == {pair for pair in given if frozenset(pair) not in unordered["valid"] | unordered["test"]}
    assert {pair for pair in given if pair[0] == pair[1]} <= messages
    all_pairs = len({frozenset(pair) for pair in given if pair[0] != pair[1]})
    for name, share in (("valid", 0.05), ("test", 0.1)):
        deviation = np.sqrt(all_pairs * share * (1 - share))
        assert abs(len(unordered[name]) - share * all_pairs) < 4 * deviation
    ways = [pair for pair in held_out["test"] if pair[::-1] in given]
    up = sum(source < destination for source, destination in ways)
    assert abs(up - len(ways) / 2) < 4 * np.sqrt(len(ways) / 4)  # both directions are chosen


def test_any_order_of_a_source_gives_the_same_split(tmp_path, edges):
    table = pd.DataFrame({"src": [f"v{u}" for u in edges[:, 0]], "dst": [f"v{v}" for v in edges[:, 1]]})
    orders = [np.arange(len(edges)), np.random.default_rng(1).permutation(len(edges))]
    for any_ids in (False, True):
        found = []
        for at, order in enumerate(orders):
            if any_ids:
                store = gsplit.from_arrays(table.iloc[order], ids="any", edge_split=SHARES, seed=2)
                copy = gsplit.from_arrays(table.iloc[order], ids="any", out=tmp_path / f"whole-{at}")
                other = gsplit.import_graph(copy, tmp_path / f"split-{at}", edge_split=SHARES, seed=2)
                assert named_pairs(other) == named_pairs(store)  # out of a store as well
            else:
                store = gsplit.from_arrays(edges[order].T, num_vertices=300, edge_split=SHARES, seed=2)
            found.append(named_pairs(store))
        assert found[0] == found[1]
        another = gsplit.from_arrays(edges.T, num_vertices=300, edge_split=SHARES, seed=3)
        assert named_pairs(another) != found[0]


def test_undirected_adds_reverses_of_message_edges_alone(edges):
    store = gsplit.from_arrays(edges.T, num_vertices=300, edge_split=SHARES, undirected=True)
    messages, links = pairs_of(store.graph), store.graph.links
    assert messages == {pair[::-1] for pair in messages}
    assert not messages & set(map(tuple, np.concatenate([links.valid, links.test]).tolist()))
    before = len(edges) - store.description["links"]["removed"]
    plain = gsplit.from_arrays(edges.T, num_vertices=300, edge_split=SHARES, duplicates="keep")
    assert plain.graph.num_edges == before
    assert plain.description["links"]["split"] == {"by": "random", "shares": list(SHARES), "seed": 0}


def test_a_split_that_leaves_a_set_empty_is_refused():
    with pytest.raises(InputError) as caught:
        gsplit.from_arrays([[0, 1], [1, 2]], edge_split=(0.9, 0.0, 0.1))
    says(caught.value, "--edge-split", "test", "0.1", "--seed")


@pytest.mark.parametrize("shares", [(0.8, 0.1, 0.2), (0.9, 0.1), (1.1, -0.2, 0.1), (1, 0, 0), ("0.8", 0.1, 0.1)])
def test_shares_that_do_not_add_up_are_refused(shares):
    with pytest.raises(InputError) as caught:
        gsplit.from_arrays([[0, 1], [1, 2]], edge_split=shares)
    says(caught.value, "--edge-split", "0.85,0.05,0.1")


NAMES = pd.DataFrame({"src": ["ann", "bob", "bob", "eve"], "dst": ["bag", "bag", "cap", "dog"]})
VALID, TEST = [("ann", "cap"), ("eve", "bag")], [("bob", "dog")]


def table(pairs, columns=("src", "dst")):
    return pd.DataFrame(pairs, columns=list(columns))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_of_pairs_and_candidates_in_any_ids(tmp_path, form):
    def file(name, frame):
        path = tmp_path / f"{name}.{form}"
        frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
        return path

    store = gsplit.import_graph(
        file("edges", NAMES),
        tmp_path / "store",
        ids="any",
        train_edges=file("train", table([("bob", "cap"), ("ann", "bag"), ("bob", "bag")]).assign(weight=[2, 0.5, 3])),
        valid_edges=file("valid", table(VALID)),
        test_edges=file("test", table(TEST)),
        valid_candidates=file("candidates", table([("bag", "dog"), ("cap", "ann")], ("a", "b"))),
        test_negatives=file("negatives", table([("eve", "cap")])),
        hard_negatives=file("hard", table([("ann", "eve"), ("bob", "eve"), ("ann", "dog")])),
    )
    names, links = np.array(store.ids().of(np.arange(6))[0]), store.graph.links
    assert names[links.train].tolist() == [["ann", "bag"], ["bob", "bag"], ["bob", "cap"]]
    assert links.train_weights.tolist() == [0.5, 3, 2]
    assert sorted(map(tuple, names[links.valid].tolist())) == sorted(VALID)
    rows = zip(links.valid, links.valid_candidates, strict=True)
    of_pair = {tuple(names[pair]): names[row].tolist() for pair, row in rows}
    assert of_pair == {("ann", "cap"): ["bag", "dog"], ("eve", "bag"): ["cap", "ann"]}
    assert names[links.test].tolist() == [["bob", "dog"]]
    assert names[links.test_negatives].tolist() == [["eve", "cap"]]
    eve, dog = names.tolist().index("eve"), names.tolist().index("dog")
    assert links.hard_negatives.tolist() == [[eve, dog], [eve, -1], [eve, -1]]
    assert open_store(tmp_path / "store", verify=True).description["version"] == 2


def test_hard_negatives_of_all_message_edges():
    store = gsplit.from_arrays(NAMES, ids="any", hard_negatives=table([("bob", "eve")]))
    names = np.array(store.ids().of(np.arange(6))[0])
    rows = {
        (str(names[u]), str(names[v])): [str(names[w]) if w >= 0 else "" for w in row]
        for (u, v), row in zip(edges_in_order(store.graph), store.graph.links.hard_negatives, strict=True)
    }
    assert rows == {("ann", "bag"): [""], ("bob", "bag"): ["eve"], ("bob", "cap"): ["eve"], ("eve", "dog"): [""]}


def edges_in_order(graph):
    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return np.stack([graph.indices, destination], axis=1)


@pytest.mark.parametrize("shape", ["(M, 2)", "(2, M)"])
def test_arrays_of_pairs(tmp_path, shape):
    pairs, edges_at = np.array([[4, 2], [0, 2], [1, 0]]), tmp_path / "edges.csv"
    edges_at.write_text("0,1\n1,2\n2,3\n3,4\n")
    np.save(tmp_path / "valid.npy", pairs if shape == "(M, 2)" else pairs.T)
    np.save(tmp_path / "candidates.npy", [[0, 1], [2, 3], [4, 4]])
    store = gsplit.import_graph(
        edges_at,
        tmp_path / "store",
        valid_edges=tmp_path / "valid.npy",
        valid_candidates=tmp_path / "candidates.npy",
        leaks="drop",
    )
    assert store.graph.links.valid.tolist() == [[1, 0], [0, 2], [4, 2]]
    assert store.graph.links.valid_candidates.tolist() == [[4, 4], [2, 3], [0, 1]]
    assert pairs_of(store.graph) == {(1, 2), (2, 3), (3, 4)}
    assert store.description["links"]["removed"] == 1


@pytest.mark.parametrize(
    ("flag", "text", "words"),
    [
        ("valid_edges", "src,dst\n0,9\n", ("valid_edges.csv", "line 2", "9", "0 .. 4")),
        ("valid_edges", "src,dst\n0,x\n", ("valid_edges.csv", "line 2")),
        ("valid_edges", "0\n1\n", ("valid_edges.csv", "one column")),
        ("test_edges", "0,2\n0,1\n1,0\n", ("2", "message edges", "--leaks")),
        ("train_edges", "src,dst,w\n0,1,1\n1,2,-3.5\n", ("train_edges.csv", "line 3", "weight", "-3.5")),
        ("hard_negatives", "0,2\n0,9\n", ("hard_negatives.csv", "line 2", "9")),
        ("valid_candidates", "1,2\n", ("valid_candidates", "1 rows", "0 valid")),
    ],
)
def test_bad_files_are_named_and_nothing_is_written(tmp_path, flag, text, words):
    (tmp_path / "edges.csv").write_text("0,1\n1,0\n2,3\n3,4\n")
    (tmp_path / f"{flag}.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "store", **{flag: tmp_path / f"{flag}.csv"})
    says(caught.value, *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", f"{flag}.csv"]


def test_ids_that_there_are_not_and_arrays_beside_ids_are_refused(tmp_path):
    for pairs, word in ((table([("ann", "cup")]), "row 0"), (np.eye(2, 3, dtype=int), "ids")):
        with pytest.raises(InputError) as caught:
            gsplit.from_arrays(NAMES, ids="any", valid_edges=pairs)
        says(caught.value, "valid_edges", word)
    np.save(tmp_path / "both.npy", np.eye(2, dtype=int))
    with pytest.raises(InputError, match="both ways"):
        gsplit.import_graph("synthetic:tiny", tmp_path / "store", valid_edges=tmp_path / "both.npy")


@pytest.mark.parametrize("undirected", [False, True])
def test_the_three_graphs_of_pyg(tmp_path, undirected):
    graph = random_graph(60, 6, seed=4)
    index = torch.tensor(np.unique(edges_in_order(graph), axis=0).T)
    if undirected:
        index = torch.cat([index, index.flip(0)], 1).unique(dim=1)
    data = Data(x=torch.tensor(graph.features), edge_index=index)
    torch.manual_seed(0)
    split = RandomLinkSplit(num_val=0.1, num_test=0.2, is_undirected=undirected)(data)
    store = gsplit.from_pyg(split, leaks="drop")  # the reverse of a directed test edge may be there
    links = store.graph.links
    for name, part in zip(("train", "valid", "test"), split, strict=True):
        positive = part.edge_label_index[:, part.edge_label > 0].T.tolist()
        wanted = sorted(map(tuple, positive))
        if name == "train" and not undirected:
            held_out = {frozenset(pair) for pair in np.concatenate([links.valid, links.test]).tolist()}
            wanted = [pair for pair in wanted if frozenset(pair) not in held_out]
        assert sorted(map(tuple, links.edge_set(name).tolist())) == wanted
        if name != "train":
            negative = part.edge_label_index[:, part.edge_label == 0]
            assert getattr(links, f"{name}_negatives").T.tolist() == negative.tolist()
    torch.save([Data.from_dict(part.to_dict()) for part in split], tmp_path / "split.pt")  # without PyG's own caches
    if undirected:
        again = gsplit.import_graph(tmp_path / "split.pt", tmp_path / "store")
        assert again.checksum == store.checksum


@pytest.mark.parametrize(
    ("to", "ending"), [("npz", "npz"), ("pyg", "pt"), pytest.param("dgl", "bin", marks=needs_dgl)]
)
def test_exports_keep_links(tmp_path, monkeypatch, to, ending):
    monkeypatch.setattr("gsplit.data.importers.formats.dgl._probe", lambda path: None)  # takes seconds
    graph = random_graph(80)
    pairs = np.random.default_rng(2).integers(0, 80, (4, 30, 2))
    links = Links(
        train=None if to == "npz" else pairs[0],
        valid=pairs[1],
        test=pairs[2],
        valid_candidates=pairs[3],
        test_negatives=pairs[3],
        hard_negatives=np.arange(3 * (graph.num_edges if to == "npz" else 30)).reshape(-1, 3) % 80,
    )
    write_store(tmp_path / "one", replace(graph, links=links.sorted()), name="g", source="test")
    one = open_store(tmp_path / "one")
    export(tmp_path / "one", to, tmp_path / f"file.{ending}")
    back = gsplit.import_graph(tmp_path / f"file.{ending}", tmp_path / "back", duplicates="keep", leaks="keep")
    assert dict(back.graph.links.arrays()).keys() == dict(one.graph.links.arrays()).keys()
    for name, array in one.graph.links.arrays():
        assert (dict(back.graph.links.arrays())[name] == array).all(), name
    assert back.graph.indices.tolist() == one.graph.indices.tolist()
    assert json.loads((tmp_path / "back" / "graph.json").read_text())["version"] == 2


def test_a_share_that_pyg_took_apart_is_no_message_edge():
    graph = random_graph(60, 6, seed=4)
    index = torch.tensor(np.unique(edges_in_order(graph), axis=0).T)
    data = Data(x=torch.tensor(graph.features), edge_index=torch.cat([index, index.flip(0)], 1).unique(dim=1))
    torch.manual_seed(0)
    split = RandomLinkSplit(num_val=0.1, num_test=0.2, is_undirected=True, disjoint_train_ratio=0.4)(data)
    for given in (split, split[0]):  # or the graph of the training pairs alone
        graph = gsplit.from_pyg(given).graph
        assert pairs_of(graph) == set(map(tuple, split[0].edge_index.T.tolist()))
        wanted = split[0].edge_label_index[:, split[0].edge_label > 0].T.tolist()
        assert sorted(graph.links.train.tolist()) == sorted(wanted)
        assert not set(map(tuple, wanted)) & pairs_of(graph)
        assert (len(graph.links.valid) > 0) == (given is split)


def test_new_pairs_may_name_the_vertices_of_new_edges(tmp_path):
    old = gsplit.from_arrays(NAMES, ids="any", valid_edges=table(VALID), test_edges=table(TEST), out=tmp_path / "old")
    for name, pairs in {"more": [("new", "dog")], "valid": [("new", "cap")], "hard": [("new", "bag")]}.items():
        table(pairs).to_csv(tmp_path / f"{name}.csv", index=False)
    files = {"valid_edges": tmp_path / "valid.csv", "hard_negatives": tmp_path / "hard.csv"}
    grown = gsplit.import_graph(old, tmp_path / "grown", add=tmp_path / "more.csv", **files)
    found, names = named_pairs(grown), np.array(grown.ids().of(np.arange(7))[0])
    assert (found["valid"], found["test"]) == ([("new", "cap")], sorted(TEST))
    rows = zip(edges_in_order(grown.graph), grown.graph.links.hard_negatives[:, 0], strict=True)
    assert {str(names[u]): str(names[v]) for (u, _), v in rows if v >= 0} == {"new": "bag"}


def test_a_store_with_links_grows_but_not_by_its_held_out_pairs(tmp_path):
    old = gsplit.from_arrays(NAMES, ids="any", valid_edges=table(VALID), out=tmp_path / "old")
    table([("eve", "cap"), ("new", "dog")]).to_csv(tmp_path / "more.csv", index=False)
    grown = gsplit.import_graph(old, tmp_path / "grown", add=tmp_path / "more.csv")
    assert named_pairs(grown)["valid"] == sorted(VALID)
    assert ("new", "dog") in named_pairs(grown)["message"]
    table([("cap", "ann")]).to_csv(tmp_path / "leak.csv", index=False)
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(old, tmp_path / "leaking", add=tmp_path / "leak.csv")
    says(caught.value, "1", "message edges", "--leaks drop")
    with pytest.raises(InputError, match="--edge-split"):
        gsplit.import_graph(old, tmp_path / "again", edge_split=SHARES)


def test_new_pairs_replace_those_of_a_store_with_what_was_beside_them(tmp_path):
    store = gsplit.from_arrays(
        [[0, 1, 2, 3], [1, 2, 3, 0]], valid_edges=[[0], [2]], valid_candidates=[[3]], test_edges=[[1], [3]]
    )
    (tmp_path / "valid.csv").write_text("src,dst\n2,0\n3,1\n")
    with pytest.raises(InputError, match="both the valid and the test"):
        gsplit.import_graph(store, tmp_path / "no", valid_edges=_written(tmp_path, "1,3\n"))
    links = gsplit.import_graph(store, tmp_path / "new", valid_edges=_written(tmp_path, "2,0\n")).graph.links
    assert links.valid.tolist() == [[2, 0]]
    assert links.valid_candidates is None
    assert links.test.tolist() == [[1, 3]]


def _written(folder, text):
    (folder / "pairs.csv").write_text(text)
    return folder / "pairs.csv"


#  The pair 0 - 1 is known before 10; 1 - 2 is new at 12 and comes back at 25; 2 - 3 at 20; 4 never has a time
TIMED = [(0, 1, 5), (3, 4, 1), (1, 0, 11), (1, 2, 25), (2, 1, 12), (2, 3, 20), (2, 2, 13), (0, 1, 30), (4, 0, None)]


@pytest.mark.parametrize("form", ["numbers", "dates", "no header", "any ids"])
def test_pairs_that_are_new_after_a_bound_are_predicted(tmp_path, form):
    def when(time):
        return "" if time is None else f"2024-01-{time:02}" if form == "dates" else str(time)

    lines = [f"{u},{v},{when(time)}" for u, v, time in TIMED[: 8 if form == "no header" else 9]]
    head = [] if form == "no header" else ["src,dst,when"]
    (tmp_path / "edges.csv").write_text("\n".join([*head, *lines]) + "\n")
    flags = {
        "edge_time": "3" if form == "no header" else "when",
        "edge_split": ("2024-01-10", "2024-01-20") if form == "dates" else (10, 20),
        **({"ids": "any"} if form == "any ids" else {}),
    }
    store = gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "store", **flags)
    found = {name: [tuple(map(int, pair)) for pair in pairs] for name, pairs in named_pairs(store).items()}
    assert found["message"] == [(0, 1), (3, 4)] + ([] if form == "no header" else [(4, 0)])
    assert found["valid"] == [(2, 1)]
    assert found["test"] == [(2, 3)]
    assert store.graph.edge_weight is None
    assert store.description["links"]["removed"] == 6
    assert store.description["links"]["split"] == {"by": "time", "bounds": list(flags["edge_split"])}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"edge_time": "when"}, ("--edge-time", "--edge-split")),
        ({"edge_time": "when", "edge_split": SHARES}, ("--edge-time", "--edge-split")),
        ({"edge_split": (10, 20)}, ("--edge-split", "--edge-time")),
        ({"edge_time": "then", "edge_split": (10, 20)}, ("--edge-time", "then")),
        ({"edge_time": "when", "edge_split": (20, 10)}, ("--edge-split", "second")),
        ({"edge_time": "when", "edge_split": (40, 50)}, ("no pair is new", "40", "--edge-split")),
        ({"edge_time": "when", "edge_split": (0, 50)}, ("all edges", "--edge-split")),
        ({"edge_time": "when", "edge_split": ("2024-01-01", "2024-01-02")}, ("--edge-split", "numbers")),
    ],
)
def test_times_that_part_nothing_are_refused(tmp_path, flags, words):
    (tmp_path / "edges.csv").write_text("src,dst,when\n0,1,5\n1,2,20\n")
    with pytest.raises(InputError) as caught:
        gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "store", **flags)
    says(caught.value, *words)
    assert not (tmp_path / "store").exists()
