"""What gsplit info says of a graph: numbers against slow references, and a concern where there is one, only there."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from support.graphs import lay_out, random_graph, regression_graph
from support.stores import edges_of

import gsplit
from gsplit.data import GraphArrays, open_layout, open_store, write_store
from gsplit.data.__main__ import command
from gsplit.data.inspect import feature_columns, label_counts, structure
from gsplit.data.inspect.concerns import NamesInLines, concerns
from gsplit.data.inspect.leaks import Leaks, leaks_of
from gsplit.data.inspect.overview import look
from gsplit.errors import InputError


@pytest.fixture(autouse=True)
def in_many_pieces(monkeypatch):
    """Pieces so small that every graph here has several."""
    monkeypatch.setattr(structure, "EDGES_AT_ONCE", 50)
    monkeypatch.setattr(feature_columns, "VALUES_AT_ONCE", 64)


def graph_of(edges, n, **changes) -> GraphArrays:
    """A graph of (source, destination) pairs: without features, labels and sets but those that are given."""
    edges = sorted(edges, key=lambda edge: edge[1])
    degrees = np.bincount([destination for _, destination in edges], minlength=n)
    none = np.zeros(0, np.int64)
    return GraphArrays(
        **{
            "indptr": np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64),
            "indices": np.array([source for source, _ in edges], np.int32),
            "features": None,
            "labels": np.full(n, -1),
            "edge_weight": None,
            "train_idx": none,
            "valid_idx": none,
            "test_idx": none,
            "num_classes": 0,
            **changes,
        }
    )


def features_of(graph):
    return feature_columns.columns_of(graph.features, "features")


def concerns_of(graph) -> dict[str, str]:
    """kind -> line."""
    seen, labels = structure.structure_of(graph), label_counts.label_counts(graph)
    features = None if graph.features is None else features_of(graph)
    leaks = Leaks() if features is None else leaks_of(graph, features, labels)
    names = NamesInLines(vertex=str, feature=lambda first, _: str(first))
    return {each.kind: each.text for each in concerns(graph, seen, labels, features, leaks, names)}


GRAPHS = [
    graph_of([], 1),
    graph_of([(0, 0)], 3),  # a self-loop alone connects nothing
    graph_of([(at, at + 1) for at in range(60)][::-1], 61),  # a path, to its start
    graph_of([(0, 1), (1, 0), (2, 3), (3, 2), (3, 2), (2, 3)], 5),  # all have reverses, two of them twice
    graph_of([(0, 1), (1, 0), (1, 0)], 2),  # a reverse too few
    *(random_graph(n, mean, seed=seed) for seed, (n, mean) in enumerate([(40, 1), (80, 2), (200, 1), (200, 8)])),
    random_graph(90, 2, seed=7, index_dtype=np.int64),
]


@pytest.mark.parametrize("graph", GRAPHS, ids=range(len(GRAPHS)))
def test_structure(graph):
    seen, edges, n = structure.structure_of(graph), edges_of(graph), graph.num_vertices
    degrees = Counter(destination for _, destination in edges)
    matrix = scipy.sparse.coo_matrix((np.ones(len(edges)), np.array(edges).reshape(-1, 2).T), (n, n))
    components, of = scipy.sparse.csgraph.connected_components(matrix, directed=True, connection="weak")
    between = [(a, b) for a, b in edges if a != b]
    touched = {vertex for edge in between for vertex in edge}
    assert (seen.components, seen.largest_component) == (components, np.bincount(of).max())
    assert seen.isolated.tolist() == [vertex for vertex in range(n) if vertex not in touched]
    assert seen.self_loops == len(edges) - len(between)
    assert seen.repeated == len(edges) - len(set(edges))
    assert seen.both_ways == (Counter(between) == Counter((b, a) for a, b in between))
    counted = [degrees[vertex] for vertex in range(n)]
    assert (seen.mean_degree, seen.median_degree) == (pytest.approx(np.mean(counted)), np.median(counted))
    assert (seen.largest_degree, seen.largest_at) == (max(counted), counted.index(max(counted)))
    assert seen.without_in_edges == counted.count(0)
    assert sum(each.vertices for each in seen.degrees) == n
    for each in seen.degrees:
        assert each.vertices == sum(each.least <= degree <= each.most for degree in counted), each
    assert all(a.most + 1 == b.least for a, b in zip(seen.degrees, seen.degrees[1:], strict=False))
    assert seen.train_without_in_edges.tolist() == [v for v in sorted(graph.train_idx.tolist()) if not degrees[v]]


def test_some_graphs_above_have_all_edges_both_ways():
    assert Counter(structure.structure_of(graph).both_ways for graph in GRAPHS) == {True: 3, False: 7}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_features(seed, dtype):
    random = np.random.default_rng(seed)
    x = random.standard_normal((150, 7)) * [1, 10, 0, 1, 5, 1, 1] + [0, 1000, 3, 0, 0, 0, 0]
    x[:, 3] = x[:, 3] > 0
    x[:, 4] = np.round(x[:, 4])
    x[:, 5] = x[:, 1]
    x[random.random(150) < 0.1, 6] = np.nan
    x[3, 6], x[:40, 6] = np.inf, np.nan  # whole pieces of nothing
    x = x.astype(dtype)
    seen = features_of(replace(random_graph(150, 1), features=x))
    wide = np.where(np.isfinite(x), x, np.nan).astype(np.float64)
    np.testing.assert_array_equal(seen.least, np.nanmin(wide, axis=0))
    np.testing.assert_array_equal(seen.most, np.nanmax(wide, axis=0))
    np.testing.assert_allclose(seen.mean, np.nanmean(wide, axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(seen.deviation, np.nanstd(wide, axis=0), rtol=1e-10, atol=1e-12)
    assert seen.zeros.tolist() == (x == 0).sum(axis=0).tolist()
    assert seen.missing.tolist() == (~np.isfinite(x)).sum(axis=0).tolist()
    assert np.flatnonzero(seen.of_0_and_1).tolist() == [3]
    assert seen.whole[[3, 4]].all()
    assert not seen.whole[[0, 6]].any()
    assert (seen.constant.tolist(), seen.repeats) == ([2], [(5, 1)])


def test_columns_repeat_where_all_values_are_the_same_and_minus_0_is_0():
    x = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(np.float32)
    x = np.concatenate([x, x[:, [1]]], axis=1)
    x[0, [1, 3]] = -0.0, 0.0
    graph = replace(random_graph(60, 1), features=x)
    assert features_of(graph).repeats == [(3, 1)]
    x[59, 3] = 1 - x[59, 3]
    assert features_of(graph).repeats == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("several", [False, True])
def test_labels(seed, several):
    graph = random_graph(120, 2, seed=seed, classes=6, multi_label=several)
    labels = graph.labels.copy()
    labels[graph.test_idx[:7]] = np.nan if several else -1
    graph = replace(graph, labels=labels, test_idx=graph.test_idx[7:], valid_idx=graph.train_idx[:5])
    seen = label_counts.label_counts(graph)
    has = labels == 1 if several else labels[:, None] == np.arange(6)
    assert seen.numbers.tolist() == list(range(6))
    assert seen.counts.tolist() == has.sum(axis=0).tolist()
    for at, ids in enumerate((graph.train_idx, graph.valid_idx, graph.test_idx)):
        assert seen.in_sets[:, at].tolist() == has[ids].sum(axis=0).tolist()
    assert seen.labelled == 113
    assert seen.in_no_set == 120 - 60 - len(graph.test_idx)
    assert seen.shared == {("train", "valid"): 5}
    assert seen.unknown == 0


def test_labels_that_are_as_large_as_they_like():
    labels = np.array([0, 5, 5, 2**40, -7, -1])
    graph = graph_of([], 6, labels=labels, num_classes=2**41, train_idx=np.array([0, 1]))
    seen = label_counts.label_counts(graph)
    assert (seen.numbers.tolist(), seen.counts.tolist()) == ([0, 5, 2**40], [1, 2, 1])
    assert seen.in_sets.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert (seen.labelled, seen.unknown) == (4, 1)


def test_outputs_of_a_regression():
    graph = regression_graph(150, 2, outputs=3, unknown=0.4)
    graph.labels[:, 1] += 1e4  # far from 0: deviations are those of the values all the same
    seen = label_counts.label_counts(graph)
    wide = graph.labels.astype(np.float64)
    of = seen.outputs
    assert (150 - of.missing).tolist() == np.isfinite(wide).sum(axis=0).tolist()
    assert of.least.tolist() == np.nanmin(wide, axis=0).tolist()
    assert of.most.tolist() == np.nanmax(wide, axis=0).tolist()
    assert of.mean == pytest.approx(np.nanmean(wide, axis=0), rel=1e-9)
    assert of.deviation == pytest.approx(np.nanstd(wide, axis=0), rel=1e-6)
    assert seen.labelled == np.isfinite(wide).any(axis=1).sum()


# 0 == 1 -> 2, and 3 alone; two classes, all of them trained
FINE = graph_of(
    [(0, 1), (1, 0), (1, 2), (2, 1)],
    3,
    features=np.array([[0.5, 2], [1.5, 1], [1, 7]], np.float32),
    labels=np.array([0, 1, 0]),
    num_classes=2,
    train_idx=np.array([0, 1]),
    valid_idx=np.array([2]),
)
ODD = {
    "isolated": graph_of([(0, 1), (1, 0)], 3),
    "training without in-edges": graph_of(
        [(0, 1)], 2, labels=np.array([0, 0]), num_classes=1, train_idx=np.arange(2)
    ),
    "shared vertices": replace(FINE, test_idx=np.array([0])),
    "unknown classes": replace(FINE, labels=np.array([0, 1, 9]), valid_idx=np.zeros(0, np.int64)),
    "no training": replace(FINE, train_idx=np.zeros(0, np.int64)),
    "one class": replace(FINE, labels=np.array([1, 1, 1])),
    "untrained classes": replace(FINE, train_idx=np.array([0])),
    "empty classes": replace(FINE, num_classes=3),
    "negative weights": replace(FINE, edge_weight=np.array([1, -2, 0.5, 1], np.float32)),
    "weightless": replace(FINE, edge_weight=np.array([1, 0, -0.0, 1], np.float32)),
    "missing values": replace(FINE, features=np.array([[1, np.nan], [2, 3], [3, np.inf]], np.float32)),
    "constant features": replace(FINE, features=np.array([[1, 2], [1, 3], [1, 1]], np.float32)),
    "repeated features": replace(FINE, features=np.array([[1, 1], [5, 5], [2, 2]], np.float32)),
}
PARTS = {
    "isolated": ("1 isolated vertex", ": 2"),
    "training without in-edges": ("1 of 2 training vertices", ": 0", "--undirected"),
    "untrained classes": ("1 class", ": 1"),
    "negative weights": ("1 edge", "into 1 vertex", "--fan-out -1", "0 or less: 1"),
    "weightless": ("1 vertex", ": 1"),
    "missing values": ("2 values", "feature 1"),
    "repeated features": ("1 feature", "1 of 0"),
}
"""What a line must have: how many, which, and the flag that mends it."""


def test_nothing_is_odd_where_all_is_well():
    assert concerns_of(FINE) == {}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_odd_is_printed(kind):
    found = concerns_of(ODD[kind])
    assert kind in found
    assert [part for part in PARTS.get(kind, ()) if part not in found[kind]] == []
    beside = {"one class": {"empty classes"}, "training without in-edges": {"one class"}}  # they come together
    assert set(found) - {kind} <= beside.get(kind, set())


def test_vertices_are_called_by_the_ids_of_the_user(tmp_path, capsys):
    (tmp_path / "edges.csv").write_text("src,dst\nann,bob\nbob,cid\ncid,cid\ndan,dan\nbob,bob\n")
    (tmp_path / "labels.csv").write_text("id,label\nann,no\nbob,yes\ncid,no\n")
    (tmp_path / "train.csv").write_text("id\nann\nbob\n")
    gsplit.import_graph(
        tmp_path / "edges.csv", tmp_path / "store", ids="any",
        labels=tmp_path / "labels.csv", train=tmp_path / "train.csv",
    )  # fmt: skip
    gsplit.partition(tmp_path / "store", tmp_path / "layout", parts=2)
    for folder in ("store", "layout"):
        capsys.readouterr()
        command(["info", str(tmp_path / folder)])
        printed = capsys.readouterr().out
        assert "vertices are called by their own ids (column id)\n" in printed
        assert re.search(r"1 of 2 training vertices .*: 'ann'", printed)
        assert re.search(r"1 isolated vertex, .*: 'dan'", printed)
        assert re.search(r"largest 2 \(vertex '(bob|cid)'\), without in-edges 1\n", printed)
        assert "\n  0  no " in printed


def test_a_layout_calls_vertices_as_its_store_does(tmp_path):
    graph = random_graph(60, 3, features=2)
    opened = lay_out(graph, tmp_path, parts=3)
    of_layout, of_store = look(open_layout(opened.path)), look(open_store(tmp_path / "store"))
    for seen in (of_layout, of_store):
        assert len(seen.structure.isolated) >= 1
    called = [
        sorted(seen.names.vertex(vertex) for vertex in seen.structure.isolated) for seen in (of_layout, of_store)
    ]
    assert called[0] == called[1]


def test_columns_that_features_were_made_of(tmp_path, capsys):
    write_store(tmp_path / "store", random_graph(30, 2, features=4), name="x", source="test")
    path = tmp_path / "store" / "graph.json"
    about = json.loads(path.read_text())
    about["columns"] = [
        {"table": "users.csv", "column": "age", "kind": "number", "features": [0, 1], "missing": 3,
         "filled_with": [12.5], "mean": [37.25], "deviation": [2]},
        {"table": "users.csv", "column": "city", "kind": "category", "features": [1, 4],
         "categories": ["Rome", "Bonn", "Oslo"]},
        {"table": "users.csv", "column": "odd", "features": [3, 9]}, {"features": "none"}, 7,
    ]  # fmt: skip
    path.write_text(json.dumps(about))
    command(["info", str(tmp_path / "store")])
    printed = capsys.readouterr().out
    assert (
        "  age     users.csv  number    feature 0       3 missing, filled with 12.5; standardised (mean 37.25, "
        in printed
    )
    assert "  city    users.csv  category  features 1 - 3  3 categories: Rome, Bonn, Oslo\n" in printed
    assert "  2 (city = Bonn)" in printed
    assert "odd  " not in printed


def test_files_of_ids_that_are_damaged_are_refused(tmp_path):
    (tmp_path / "edges.csv").write_text("src,dst\nann,bob\nbob,cid\n")
    gsplit.import_graph(tmp_path / "edges.csv", tmp_path / "store", ids="any")
    path = tmp_path / "store" / "ids.arrow"
    content = path.read_bytes()
    for damaged, message in (
        (content[:-1], "ids.arrow is truncated or changed"),
        (content[:100] + b"\xff" + content[101:], "ids.arrow is damaged: its SHA-256 is not"),  # Arrow would abort
    ):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=message):
            command(["info", str(tmp_path / "store")])
