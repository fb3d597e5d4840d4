"""Links in stores and layouts: files, their order, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.messages import says

import gsplit
from gsplit.data import open_layout, open_store, write_store
from gsplit.data.__main__ import command
from gsplit.data.description import read_description
from gsplit.data.inspect.link_counts import link_counts
from gsplit.data.links.edge_sets import Links
from gsplit.errors import InputError
from gsplit.partition.estimate import estimate_of

#  0 -> 1 -> 2 -> 3 -> 0, and a vertex 4 without edges
CYCLE = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])


def made(**given):
    return gsplit.from_arrays(CYCLE, num_vertices=5, **given)


def test_pairs_come_back_in_order_with_their_rows():
    store = made(
        train_edges=[[3, 0, 0], [1, 2, 1]],
        valid_edges=[[4, 1], [2, 0]],
        test_edges=[[2], [0]],
        valid_candidates=[[1, 3], [4, 4]],
        test_negatives=[[0, 1, 2], [4, 3, 4]],
        hard_negatives=[[0, -1], [3, 4], [4, -1]],
        train_weights=[3, 0.5, 0],
        leaks="keep",
    )
    links = store.graph.links
    assert links.train.tolist() == [[0, 1], [3, 1], [0, 2]]
    assert links.hard_negatives.tolist() == [[4, -1], [0, -1], [3, 4]]
    assert (links.train_weights.tolist(), links.train_weights.dtype) == ([0, 3, 0.5], np.float32)
    assert links.valid.tolist() == [[1, 0], [4, 2]]
    assert links.valid_candidates.tolist() == [[4, 4], [1, 3]]
    assert links.test.tolist() == [[2, 0]]
    assert links.test_negatives.tolist() == [[0, 4], [1, 3], [2, 4]]
    assert links.test_candidates is None
    assert links.valid_negatives is None
    assert store.description["links"] == {"train": 3, "valid": 2, "test": 1}
    assert (store.graph.labels == -1).all()
    assert store.graph.num_classes == 0


def test_without_training_pairs_all_edges_are_some():
    store = made(test_edges=[[0], [2]], hard_negatives=[[4], [4], [4], [0]])
    assert store.graph.links.train is None
    assert store.description["links"] == {"train": 4, "valid": 0, "test": 1}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"valid_edges": [[0], [5]]}, ("valid_edges[0]", "5", "0 .. 4")),
        ({"test_edges": [[-1], [2]]}, ("test_edges[0]", "-1")),
        ({"valid_edges": [[0], [2]], "test_edges": [[4, 0], [1, 2]]}, ("valid", "test", "0 -> 2")),
        ({"train_edges": [[1, 4], [3, 2]], "valid_edges": [[1], [3]]}, ("valid", "train", "1 -> 3", "--leaks")),
        ({"valid_edges": [[0, 3], [1, 2]]}, ("2 message edges", "--leaks drop")),
        ({"valid_edges": [[0], [2]], "valid_candidates": [[1], [3]]}, ("valid_candidates", "2 rows", "1 valid")),
        ({"test_edges": [[0], [2]], "test_candidates": [[1, 9]]}, ("test_candidates[0]", "9")),
        ({"test_edges": [[0], [2]], "hard_negatives": [[1], [-1]]}, ("hard_negatives", "2 rows", "4 edges")),
        ({"test_edges": [[0], [2]], "hard_negatives": [[1], [-2], [0], [0]]}, ("hard_negatives[1]", "-2")),
        ({"train_edges": [[1, 4], [3, 2]], "train_weights": [1, -2]}, ("train_weights[1]", "-2")),
        ({"train_edges": [[1, 4], [3, 2]], "train_weights": [float("nan"), 1]}, ("train_weights[0]", "nan")),
        ({"train_edges": [[1, 4], [3, 2]], "train_weights": [1, 1e-39]}, ("train_weights[1]", "1e-39", "1.2e-38")),
        ({"train_edges": [[1, 4], [3, 2]], "train_weights": [1, 2, 3]}, ("train_weights", "3 numbers", "2 train")),
        ({"train_edges": [[1, 4], [3, 2]], "train_weights": [[1, 2]]}, ("train_weights", "(M,)", "(1, 2)")),
        ({"train_weights": [1, 2, 3, 4]}, ("train_weights", "train_edges")),
        ({"test_edges": [[0, 1, 2], [1, 2, 3], [3, 3, 3]]}, ("test_edges", "(2, E)")),
        ({"test_edges": [[0], [2]], "test_candidates": [1, 2]}, ("test_candidates", "integers of shape (M, K)")),
    ],
)
def test_what_is_refused(given, words):
    with pytest.raises(InputError) as caught:
        made(**given)
    says(caught.value, *words)


def test_leaks_are_dropped_in_both_directions_or_kept():
    held_out = [[1, 0], [0, 3]]  # the reverses of 0 -> 1 and 3 -> 0
    assert made(valid_edges=held_out, leaks="drop").graph.indices.tolist() == [1, 2]
    assert made(valid_edges=held_out, leaks="keep").graph.num_edges == 4
    assert made(valid_edges=held_out, leaks="drop", undirected=True).graph.num_edges == 4


def with_links(graph):
    random = np.random.default_rng(5)
    pairs = np.unique(random.integers(0, graph.num_vertices, (60, 2)), axis=0)
    one, other = random.permutation(pairs)[:40].reshape(2, 20, 2)
    links = Links(valid=one, test=other, valid_candidates=random.integers(0, graph.num_vertices, (20, 3)))
    return replace(graph, links=links.sorted())


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_layouts_keep_links_and_lead_back_to_the_store(tmp_path, index_dtype):
    graph = with_links(random_graph(index_dtype=index_dtype))
    layout = lay_out(graph, tmp_path, parts=3)
    assert layout.description["version"] == 2
    size = sum(path.stat().st_size - 128 for path in layout.path.glob("*.npy"))  # without the headers of the files
    assert estimate_of(graph).layout == size
    for name, array in graph.links.arrays():
        assert (np.load(layout.path / f"{name}.npy") == array).all(), name
        assert (dict(layout.graph.links.arrays())[name] == array).all(), name
    assert (layout.positions[layout.permutation] == np.arange(graph.num_vertices)).all()
    assert (layout.store_indptr == graph.indptr).all()
    for vertex in range(graph.num_vertices):  # the in-edges of a vertex stand in the order of the store
        begin, end = layout.graph.indptr[layout.positions[vertex] :][:2]
        own = layout.permutation[layout.graph.indices[begin:end]]
        assert own.tolist() == graph.indices[graph.indptr[vertex] : graph.indptr[vertex + 1]].tolist()
    without = replace(layout, stored_positions=None, stored_indptr=None)
    assert (without.positions == layout.stored_positions).all()
    assert (without.store_indptr == graph.indptr).all()


def test_folders_without_links_are_of_version_1_and_later_ones_are_refused(tmp_path):
    plain = lay_out(random_graph(), tmp_path, parts=2)
    store = json.loads((tmp_path / "store" / "graph.json").read_text())
    for description in (store, plain.description):
        assert description["version"] == 1
        assert "links" not in description
    assert not {"positions", "store_indptr", "train_edges"} & set(plain.description["arrays"])
    write_store(tmp_path / "linked", with_links(random_graph()), name="g", source="test")
    with pytest.raises(InputError, match=r"version 2; this release reads 'gsplit-graph' version 1$"):
        read_description(tmp_path / "linked", "graph.json", "gsplit-graph", 1)  # what an older release does


@pytest.mark.parametrize("name", ["positions", "store_indptr", "valid_edges", "valid_candidates"])
def test_a_damaged_file_is_named(tmp_path, name):
    layout = lay_out(with_links(random_graph()), tmp_path, parts=2)
    path = layout.path / f"{name}.npy"
    np.save(path, np.roll(np.load(path)[::-1], 1) if name != "valid_candidates" else np.load(path) + 200)
    with pytest.raises(InputError, match=name):
        open_layout(layout.path)


def test_pairs_out_of_order_are_refused_on_opening(tmp_path):
    graph = with_links(random_graph())
    with pytest.raises(InputError, match="valid_edges is not sorted"):
        write_store(
            tmp_path / "s",
            replace(graph, links=replace(graph.links, valid=graph.links.valid[::-1])),
            name="g",
            source="",
        )
    write_store(tmp_path / "s", graph, name="g", source="")
    assert open_store(tmp_path / "s").graph.links.valid_candidates.shape == (20, 3)


@pytest.mark.parametrize("parts", [0, 3])
def test_info_counts_leaks_and_positives(tmp_path, capsys, parts):
    graph = with_links(random_graph(n := 14, 6))
    folder = lay_out(graph, tmp_path, parts=parts).path if parts else tmp_path / "store"
    if not parts:
        write_store(folder, graph, name="g", source="test")
    edges = {(int(u), v) for v in range(n) for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]}
    valid, test = (list(map(tuple, pairs.tolist())) for pairs in (graph.links.valid, graph.links.test))
    known = edges | set(valid) | set(test)
    candidates = [(u, w) for (u, _), row in zip(valid, graph.links.valid_candidates, strict=True) for w in row]
    counts = link_counts(gsplit.data.open_layout(folder) if parts else open_store(folder))
    assert counts.leaks == {
        name: sum((u, v) in edges or (v, u) in edges for u, v in pairs)
        for name, pairs in (("valid", valid), ("test", test))
    }
    assert counts.candidates == {"valid": 60, "test": 0}
    assert counts.positives == {"valid": sum(pair in known for pair in candidates), "test": 0}
    assert counts.reversed == {("valid", "test"): sum((v, u) in test for u, v in valid)}
    assert min(counts.leaks["valid"], counts.positives["valid"], counts.reversed["valid", "test"]) > 0
    command(["info", str(folder), "--verify"])
    printed = capsys.readouterr().out
    says(printed, f"{graph.num_edges} training pairs, (all edges), 20 validation, 20 test, 60 candidates")
    says(printed, f"{counts.leaks['valid']} validation pairs, --leaks drop")
    says(printed, f"{counts.positives['valid']} of the 60 candidates")
    says(printed, f"{counts.reversed['valid', 'test']} validation, reverse, test set")
