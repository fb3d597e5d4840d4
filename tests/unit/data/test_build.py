"""From edges to a store: the clean-up against lists of Python, in buckets of a few edges."""

from __future__ import annotations

import errno
import logging
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import random_graph
from support.stores import build_store

import gsplit._core as _core
from gsplit.data import adjacency, open_store, write_store
from gsplit.data.adjacency import Tally
from gsplit.data.build_options import BuildOptions
from gsplit.data.columns.assembled import Assembled, FeatureBlock, FeatureColumn
from gsplit.data.importers import source as source_module
from gsplit.data.importers.source import (
    EdgeChunk,
    EdgeChunks,
    GraphSource,
    Rows,
    array_edges,
    csc_edges,
    graph_source,
)
from gsplit.data.inspect.structure import structure_of
from gsplit.data.labels.vertex_sets import random_sets
from gsplit.errors import InputError


@pytest.fixture
def small_pieces(monkeypatch):
    """Several pieces, several buckets, and rows that are larger than a bucket."""
    monkeypatch.setattr(adjacency, "BUCKET_EDGES", 13)
    monkeypatch.setattr(adjacency, "EDGES_AT_ONCE", 17)
    monkeypatch.setattr(source_module, "EDGES_AT_ONCE", 50)


def source_of(edges, n=None, weights=None, **more):
    pairs = np.array(edges).reshape(-1, 2)
    weight = None if weights is None else np.array(weights, np.float32)
    edges = array_edges(*pairs.T, weight)  # type: ignore[call-arg]
    return GraphSource(name="test", edges=edges, num_vertices=n, where="the source", **more)


@pytest.fixture
def build(tmp_path):
    """build(source, **options): the graph of the store, every checksum verified."""

    def run(source, **options):
        out = tmp_path / f"store-{len(list(tmp_path.iterdir()))}"
        build_store(source, out, BuildOptions(**options), name="test", described_as="test")
        assert sorted(tmp_path.iterdir())[-1] == out  # no temporary folder beside it
        assert not [path for path in out.iterdir() if path.suffix not in (".npy", ".json")]
        return open_store(out, verify=True).graph

    return run


def rows_of(graph):
    weights = graph.edge_weight if graph.edge_weight is not None else [None] * graph.num_edges
    both = list(zip(graph.indices.tolist(), [None if w is None else float(w) for w in weights], strict=True))
    return [both[a:b] for a, b in zip(graph.indptr[:-1], graph.indptr[1:], strict=True)]


def edges_of(graph):
    return [(u, v) for v, row in enumerate(rows_of(graph)) for u, _ in row]


def expected_rows(edges, weights, n, undirected, self_loops, duplicates):
    own = [(s, d, w) for (s, d), w in zip(edges, weights, strict=True) if not (self_loops == "drop" and s == d)]
    tally = Tally(self_loops=len(edges) - len(own))
    rows = [[] for _ in range(n)]
    for s, d, w in own:
        if duplicates == "drop" and any(u == s for u, _ in rows[d]):
            tally.repeated += 1
        else:
            rows[d].append((s, w))
    there = Counter((u, v) for v, row in enumerate(rows) for u, _ in row)
    met = Counter()
    for d, s, w in own if undirected else []:
        met[s, d] += 1  # the k-th edge d -> s asks for a k-th s -> d, of distinct edges for one
        if s != d and met[s, d] > there[s, d] and (duplicates == "keep" or met[s, d] == 1):
            tally.reverses += 1
            rows[d].append((s, w))
    for v in range(n if self_loops == "add" else 0):
        if not any(u == v for u, _ in rows[v]):
            tally.loops += 1
            rows[v].append((v, None if weights[0] is None else 1.0))
    return rows, tally


@pytest.mark.parametrize("duplicates", ["drop", "keep"])
@pytest.mark.parametrize("self_loops", ["keep", "drop", "add"])
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize(("weighted", "dtype"), [(True, np.int64), (False, np.uint16)])
def test_clean_up_equals_lists(build, small_pieces, caplog, undirected, self_loops, duplicates, weighted, dtype):
    random = np.random.default_rng(7)
    # Vertices 10 and 11 have no edges, and 0 many.
    edges = (random.random((200, 2)) ** 2 * 10).astype(dtype)
    weights = random.random(200).astype(np.float32).tolist() if weighted else [None] * 200
    rows, tally = expected_rows(edges.tolist(), weights, 12, undirected, self_loops, duplicates)
    source = source_of(edges, 12, weights if weighted else None)
    with caplog.at_level(logging.INFO):
        graph = build(source, undirected=undirected, self_loops=self_loops, duplicates=duplicates)
    assert rows_of(graph) == rows
    assert graph.indices.dtype == np.int32
    for count, words in (
        (tally.repeated, "edges repeat others"),
        (tally.self_loops, "self-loops (--self-loops drop)"),
        (tally.reverses, "reverse edges"),
        (tally.loops, "self-loops (--self-loops add)"),
    ):
        assert (f"{count:,} {words}" in caplog.text) == (count > 0)


def test_an_edge_of_the_source_wins_over_a_reverse_edge(build):
    # 0 --1--> 1 --2--> 0, and 2 --3--> 0: only 0 -> 2 is lacking.
    graph = build(source_of([(0, 1), (1, 0), (2, 0)], weights=[1, 2, 3]), undirected=True)
    assert rows_of(graph) == [[(1, 2), (2, 3)], [(0, 1)], [(0, 3)]]


# Edges of 0 and 1 with weights 1, 2, ..., and the rows that they become: the rarer direction catches up, with the
# weights of those whose reverse is lacking.
REPEATED = {
    "0 -> 1 twice": ([(0, 1), (0, 1)], [[(1, 1), (1, 2)], [(0, 1), (0, 2)]]),
    "and one of the reverses": ([(0, 1), (0, 1), (1, 0)], [[(1, 3), (1, 2)], [(0, 1), (0, 2)]]),
    "a reverse first": ([(1, 0), (0, 1), (0, 1), (0, 1)], [[(1, 1), (1, 3), (1, 4)], [(0, 2), (0, 3), (0, 4)]]),
    "twice each": ([(0, 1), (1, 0), (1, 0), (0, 1)], [[(1, 2), (1, 3)], [(0, 1), (0, 4)]]),
    "loops": ([(0, 0), (0, 0), (0, 1), (0, 1), (1, 1)], [[(0, 1), (0, 2), (1, 3), (1, 4)], [(0, 3), (0, 4), (1, 5)]]),
}


@pytest.mark.parametrize("case", REPEATED)
def test_repeated_edges_get_as_many_reverses(build, case):
    edges, rows = REPEATED[case]
    weights = range(1, len(edges) + 1)
    assert rows_of(build(source_of(edges, weights=weights), undirected=True, duplicates="keep")) == rows
    bare = build(source_of(edges), undirected=True, duplicates="keep")
    assert rows_of(bare) == [[(u, None) for u, _ in row] for row in rows]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30), st.sampled_from(["drop", "keep"]))
def test_with_undirected_each_direction_comes_as_often_as_the_more_frequent_one(tmp_path_factory, edges, duplicates):
    source, options = source_of(edges, 4), BuildOptions(undirected=True, duplicates=duplicates)
    graph = build_store(source, tmp_path_factory.mktemp("x") / "s", options, name="x", described_as="x")
    before = Counter(edges) if duplicates == "keep" else Counter(set(edges))
    assert structure_of(graph).both_ways
    back = Counter({(v, u): count for (u, v), count in before.items()})
    assert Counter(edges_of(graph)) == before | back  # a union of multisets: the larger count of each


@pytest.mark.parametrize("duplicates", ["drop", "keep"])
def test_a_symmetric_graph_stays_as_it_is(build, small_pieces, caplog, duplicates):
    edges = [(3, 1), (0, 1), (2, 3), (1, 1), (0, 3), (0, 3)]
    once = build(source_of(edges), undirected=True, duplicates=duplicates)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        source = GraphSource(name="x", edges=csc_edges(once.indptr, once.indices), num_vertices=4)
        twice = build(source, undirected=True, duplicates=duplicates)
    assert "nothing to drop or add" in caplog.text
    assert (twice.indices.tolist(), twice.indptr.tolist()) == (once.indices.tolist(), once.indptr.tolist())


def test_a_finished_graph_becomes_the_store_that_write_store_makes(tmp_path, small_pieces):
    graph = random_graph(60, 5, seed=2)
    write_store(tmp_path / "one", graph, name="test", source="test")
    build_store(
        graph_source("test", graph, "test"), tmp_path / "two", BuildOptions(), name="test", described_as="test"
    )
    one, two = (open_store(tmp_path / name, verify=True) for name in ("one", "two"))
    assert two.description.pop("edges")["repeated"] == graph.num_edges - len(set(edges_of(graph)))
    assert one.description == two.description


def test_the_number_of_vertices(build):
    edges = [(0, 1), (4, 2)]
    assert build(source_of(edges)).num_vertices == 5
    assert build(source_of(edges), num_vertices=9).num_vertices == 9
    assert build(source_of(edges, 7), num_vertices=8).num_vertices == 8
    assert build(source_of(edges, features=np.ones((6, 2)))).num_vertices == 6
    assert build(source_of(edges, labels=np.zeros(8))).num_vertices == 8
    empty = build(source_of([], 3), self_loops="add")
    assert rows_of(empty) == [[(0, None)], [(1, None)], [(2, None)]]


def test_ids_beyond_32_bits(tmp_path):
    def rows(pairs, n):
        seen = np.full(n, -1, np.int64)
        return _core.rows_from_edges(
            np.array(pairs, np.int64),
            None,
            len(pairs),
            len(pairs),
            big,
            np.array([2]),
            seen,
            _core.Repeats.first,
            False,
        )

    big = 2**33
    with pytest.raises(ValueError, match="edge 1 does not belong"):
        rows([0, big, 0, big + 1], 1)
    degrees, indices, *_ = rows([0, big, 1, big], 2)
    assert (degrees.tolist(), indices.tolist(), indices.dtype) == ([2], [0, 1], np.int64)


def block_of_three(dtype, chunks, vertices):
    """Features [n, 3] as they come out of a table."""
    columns = tuple(FeatureColumn(table="x.csv", name=name) for name in "abc")
    block = FeatureBlock(path="x.csv", columns=columns, chunks=lambda: iter(chunks), vertices=vertices)
    return Assembled(num_vertices=sum(map(len, chunks)), blocks=(block,), dtype=dtype)


@pytest.mark.parametrize("kind", ["array", "mapped", "rows", "block", "block with ids"])
@pytest.mark.parametrize(
    ("given", "asked", "stored"), [("f8", None, "f4"), ("f2", None, "f2"), ("i4", "float16", "f2"), ("?", None, "f4")]
)
def test_features(build, tmp_path, monkeypatch, kind, given, asked, stored):
    monkeypatch.setattr("gsplit.data.columns.written.PIECE_BYTES", 100)
    monkeypatch.setattr("gsplit.data.columns.assembled.ROWS_AT_ONCE", 7)
    features = np.random.default_rng(0).integers(0, 2, (50, 3)).astype(given)
    if kind == "mapped":
        np.save(tmp_path / "0.npy", features)
        array = np.load(tmp_path / "0.npy", mmap_mode="r")
    elif kind == "rows":
        array = Rows(shape=(50, 3), dtype=features.dtype, chunks=lambda: iter((features[:20], features[20:])))
    elif kind.startswith("block"):
        vertices = np.random.default_rng(1).permutation(50) if "ids" in kind else None
        rows = features if vertices is None else features[vertices]
        array = block_of_three(features.dtype, (rows[:20], rows[20:]), vertices)
    else:
        array = features
    graph = build(source_of([(0, 1)], features=array), feature_dtype=asked)
    assert graph.features.dtype == stored
    np.testing.assert_array_equal(graph.features, features)


def test_labels_and_splits(build):
    more = {"labels": np.array([[1.0], [np.nan], [0.0]]), "vertex_sets": {"train": np.array([2, 0], np.int32)}}
    graph = build(source_of([(0, 1)], **more))
    assert (graph.labels.tolist(), graph.num_classes, graph.train_idx.tolist()) == ([1, -1, 0], 2, [2, 0])
    assert build(source_of([(0, 1)], num_classes=9, **more)).num_classes == 9
    assert build(source_of([(0, 1)], labels=np.eye(4))).multi_label


@pytest.mark.parametrize(
    "labels", [np.arange(1000) % 10 - 1, np.where(np.arange(1000) % 10, 1.0, np.nan)[:, None].repeat(2, axis=1)]
)
def test_random_splits(labels):
    sets = random_sets(labels, (0.5, 0.3, 0.1), 5, "here")
    again, other = (random_sets(labels, (0.5, 0.3, 0.1), seed, "here") for seed in (5, 6))
    assert [len(ids) for ids in sets.values()] == [450, 270, 90]
    together = np.concatenate(list(sets.values()))
    assert len(np.unique(together)) == len(together)
    assert (together % 10 != 0).all()  # these are not labelled
    assert all((sets[name] == again[name]).all() and (np.diff(sets[name]) > 0).all() for name in sets)
    assert (sets["train"] != other["train"]).any()
    # Drawn at random, not cut: of the first half of the vertices about half, six standard deviations around it.
    assert 225 - 45 < (sets["train"] < 500).sum() < 225 + 45


def test_the_shares_may_cover_all_or_leave_some_out(build):
    graph = build(source_of([(0, 1)], labels=np.zeros(10)), split=(0.7, 0.2, 0.1), seed=3)
    together = np.concatenate([graph.vertex_set(name) for name in ("train", "valid", "test")])
    assert sorted(together.tolist()) == list(range(10))
    graph = build(source_of([(0, 1)], labels=np.zeros(10)), split=(0.1, 0.0, 0.0))
    assert [len(graph.vertex_set(name)) for name in ("train", "valid", "test")] == [1, 0, 0]


def interrupted():
    yield EdgeChunk(source=np.array([0]), destination=np.array([1]))
    raise KeyboardInterrupt


def full_disk():
    yield EdgeChunk(source=np.array([0]), destination=np.array([1]))
    raise OSError(errno.ENOSPC, "No space left on device")


def nan_at(row):
    features = np.ones((300, 2))
    features[row, 1] = np.nan
    return features


def few_rows():
    return Rows(shape=(3, 1), dtype=np.dtype("f4"), chunks=lambda: iter([np.ones((2, 1))]))


def too_large_in_row_2_of_vertex_1():
    features = np.array([[0.0, 1, 1], [1.0, 1, 1], [1e300, 1, 1]])
    return block_of_three(np.dtype("f4"), (features,), np.array([2, 0, 1], np.int64))


WRONG = [
    (source_of([(0, 1)], features=too_large_in_row_2_of_vertex_1()), {}, r"row 2: column \w+ is 1e\+300, too large"),
    (source_of([(0, 1), (2, -1)]), {}, "the source: edge 1: 2 -> -1 names a vertex below 0"),
    (source_of([(0, 1), (2, 5), (5, 2)], 5), {}, r"edge 1: 2 -> 5 names a vertex outside the vertices 0 \.\. 4"),
    (source_of([(0, 1)], 5), {"num_vertices": 4}, "has 5 vertices; --num-vertices 4 is fewer"),
    (source_of([(0, 1)]), {"num_vertices": 0}, "--num-vertices must be at least 1"),
    (source_of([(0, 2**55)]), {}, "do not fit in memory; number the vertices"),
    (source_of([(0, 1)]), {"num_vertices": 2**55}, "do not fit in memory"),
    (source_of([]), {}, "no edges to tell the vertices from; give --num-vertices"),
    (source_of([], 0), {}, "the graph has no vertices"),
    (source_of([(0, 1), (1, 0)], weights=[1, np.inf]), {}, "edge 1: the weight is inf"),
    (source_of([(0, 1)], 3, features=np.ones((4, 2))), {}, r"features must be numbers of shape \(3, D\), not"),
    (source_of([(0, 1)], features=np.ones(4)), {}, "features must be numbers of shape"),
    (source_of([(0, 1)], features=np.full((3, 1), "a")), {}, "features must be numbers of shape"),
    (source_of([(0, 1)], features=nan_at(257)), {}, "the features of vertex 257 hold NaN or infinity as float32"),
    (source_of([(0, 1)], features=np.full((3, 1), 1e9)), {"feature_dtype": "float16"}, "vertex 0 hold .*float16"),
    (source_of([(0, 1)], features=few_rows()), {}, "there are 2 rows of features, but 3 were announced"),
    (source_of([(0, 1)], features=np.ones((4, 2)), labels=np.ones(3)), {}, r"labels must be numbers of shape \(4,\)"),
    (source_of([(0, 1)], labels=np.array([0.5, 1])), {}, r"labels\[0\] is 0.5, not a class"),
    (source_of([(0, 1)], vertex_sets={"train": np.array([0])}), {}, "the train set needs labels; give --labels"),
    (source_of([(0, 1)], labels=np.ones(2), vertex_sets={"test": np.array([2])}), {}, r"test_idx\[0\] is 2, outside"),
    (
        source_of([(0, 1)], labels=np.ones(2), vertex_sets={"test": np.array([1])}),
        {"split": (1, 0, 0)},
        "drop --split",
    ),
    (source_of([(0, 1)]), {"split": (0.5, 0.5, 0)}, "--split needs labels"),
    (source_of([(0, 1)], labels=np.ones(2)), {"split": (0.5, 0.5)}, "--split takes the shares .* not 0.5,0.5"),
    (source_of([(0, 1)], labels=np.ones(2)), {"split": (0.5, 0.5, 0.1)}, "--split takes the shares"),
    (source_of([(0, 1)], labels=np.ones(2)), {"split": (0.5, np.nan, 0.1)}, "--split takes the shares"),
    (
        GraphSource(name="x", edges=EdgeChunks(chunks=full_disk), num_vertices=2),
        {},
        "cannot write to .*: No space left",
    ),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("source", "options", "message"), WRONG, ids=[message for *_, message in WRONG])
def test_what_is_wrong_is_named_and_nothing_is_left(tmp_path, small_pieces, source, options, message):
    with pytest.raises(InputError, match=message):
        build_store(source, tmp_path / "new" / "store", BuildOptions(**options), name="x", described_as="x")
    assert not list(tmp_path.iterdir())


def test_an_interrupt_leaves_nothing(tmp_path):
    source = GraphSource(name="x", edges=EdgeChunks(chunks=interrupted), num_vertices=2, features=np.ones((2, 2)))
    with pytest.raises(KeyboardInterrupt):
        build_store(source, tmp_path / "store", BuildOptions(), name="x", described_as="x")
    assert not list(tmp_path.iterdir())
