"""The synthetic graph of several types: counts, both directions, communities that tell labels, the same by seed."""

from __future__ import annotations

import numpy as np
import pytest
from support.typed_graphs import assert_equal_typed_graphs, edges_by_relation

import gsplit
from gsplit.data import open_store
from gsplit.data.synthetic import TYPED, choose
from gsplit.errors import InputError


@pytest.fixture(scope="module")
def graph():
    return choose("mag?scale=0.002", TYPED).generate(seed=3)


def test_counts_are_those_of_mag(graph):
    assert [each.name for each in graph.schema.types] == ["paper", "author", "institution", "field_of_study"]
    assert [each.num_vertices for each in graph.schema.types] == [1473, 2269, 17, 120]
    assert [str(each) for each in graph.schema.relations] == [
        "author__affiliated_with__institution",
        "author__writes__paper",
        "paper__cites__paper",
        "paper__has_topic__field_of_study",
        "institution__rev_affiliated_with__author",
        "paper__rev_writes__author",
        "field_of_study__rev_has_topic__paper",
    ]
    assert graph.schema.hops_to(graph.target) == [0, 1, 2, 1]
    assert graph.num_classes == 349
    assert [len(graph.vertex_set(name)) for name in ("train", "valid", "test")] == [1259, 130, 84]


def test_all_edges_go_both_ways_once(graph):
    edges = edges_by_relation(graph)
    for name in ("author__affiliated_with__institution", "author__writes__paper", "paper__has_topic__field_of_study"):
        source, relation, destination = name.split("__")
        reverse = edges[f"{destination}__rev_{relation}__{source}"]
        assert {(v, u) for u, v in edges[name]} == set(reverse)
        assert len(set(reverse)) == len(reverse)
    cites = set(edges["paper__cites__paper"])
    assert {(v, u) for u, v in cites} == cites
    assert all(u != v for u, v in cites)


def test_neighbours_tell_classes_and_some_vertices_are_hubs(graph):
    source, destination = np.array(edges_by_relation(graph)["paper__cites__paper"]).T
    same = (graph.labels[source] == graph.labels[destination]).mean()
    assert same > 0.4  # by chance less than 0.02
    degrees = np.diff(graph.adjacencies[3].indptr)
    assert degrees.max() > 10 * np.median(degrees)


def test_the_same_seed_makes_the_same_store(graph, tmp_path):
    store = gsplit.import_graph("synthetic:mag?scale=0.002", tmp_path / "store", seed=3)
    assert store.name == "synthetic-mag-scale0.002"
    assert_equal_typed_graphs(open_store(tmp_path / "store", typed=True, verify=True).graph, graph)
    other = choose("mag?scale=0.002", TYPED).generate(seed=4, features=False)
    assert other.features_by_type == (None,) * 4
    assert not np.array_equal(other.labels, graph.labels)


def test_a_scale_keeps_two_papers_for_a_class():
    with pytest.raises(InputError, match=r"would have 589 vertices; the least scale is 0\.00095"):
        choose("mag?scale=0.0008", TYPED)
