"""Synthetic graphs: what they promise to training, and the C++ edge sorting they are built with."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsplit import _core
from gsplit.data.graph import check_graph
from gsplit.data.synthetic import PRESETS, Preset, choose, generate
from gsplit.errors import InputError


@pytest.fixture(scope="module", params=[("tiny", 0), ("small", 0), ("small", 1)], ids=str)
def graph(request):
    name, seed = request.param
    return choose(name).generate(seed=seed)


def arrays(graph):
    return [
        graph.indptr,
        graph.indices,
        graph.features,
        graph.labels,
        graph.train_idx,
        graph.valid_idx,
        graph.test_idx,
    ]


def destinations(graph):
    return np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))


def test_the_seed_decides():
    first, again, other = (choose("tiny").generate(seed=seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(arrays(first), arrays(again), strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(arrays(first), arrays(other), strict=True))


def test_counts_are_those_of_the_preset(graph):
    check_graph(graph, "synthetic")
    preset = next(p for p in PRESETS.values() if p.num_vertices == graph.num_vertices)
    assert graph.features.shape == (preset.num_vertices, preset.num_features)
    assert graph.features.dtype == np.float32
    assert graph.indices.dtype == np.int32
    assert np.unique(graph.labels).tolist() == list(range(preset.num_classes))
    assert len(graph.train_idx) == preset.train_share * preset.num_vertices
    vertex_sets = np.concatenate([graph.train_idx, graph.valid_idx, graph.test_idx])
    assert sorted(vertex_sets.tolist()) == list(range(preset.num_vertices))
    drawn = 2 * preset.edges_per_vertex * preset.num_vertices
    assert 0.9 * drawn < graph.num_edges < drawn


def test_symmetric_without_loops_or_duplicates(graph):
    n, to = graph.num_vertices, destinations(graph)
    assert (to != graph.indices).all()
    edges = np.sort(to * n + graph.indices)
    assert (np.diff(edges) > 0).all()
    assert (np.sort(graph.indices.astype(np.int64) * n + to) == edges).all()


def test_degrees_have_a_heavy_tail(graph):
    # Measured over seeds 0-3: the largest is 10 to 12 medians on tiny, 25 to 28 on small; a Poisson graph has 2.
    degrees = np.diff(graph.indptr)
    assert degrees.max() > (20 if graph.num_vertices == 20_000 else 8) * np.median(degrees)
    # The hottest tenth has 0.23 to 0.24 of the edge ends; in a Poisson graph of mean 20 it has 0.14.
    hottest = np.sort(degrees)[-graph.num_vertices // 10 :]
    assert hottest.sum() > 0.2 * graph.num_edges


def nearest_mean_accuracy(features_ND, graph):
    train, test = graph.train_idx, graph.test_idx
    own = [features_ND[train][graph.labels[train] == c].mean(axis=0) for c in range(graph.num_classes)]
    means_CD = np.stack(own)
    # argmin |x - m|^2 = argmin |m|^2 - 2 x.m
    guess = ((means_CD**2).sum(axis=1) - 2 * features_ND[test] @ means_CD.T).argmin(axis=1)
    return (guess == graph.labels[test]).mean()


def test_labels_need_the_graph(graph):
    average_ND = np.zeros_like(graph.features)
    np.add.at(average_ND, destinations(graph), graph.features[graph.indices])
    average_ND /= np.maximum(np.diff(graph.indptr), 1)[:, None]
    alone, averaged = (nearest_mean_accuracy(x, graph) for x in (graph.features, average_ND))
    # Measured over seeds 0-3: alone 0.40 to 0.48, averaged 0.69 to 0.84, apart by 0.21 (one tiny graph) to 0.36.
    assert 1.4 / graph.num_classes < alone < 0.55
    assert averaged > alone + 0.15
    assert averaged > 0.65


def test_ids_tell_nothing(graph):
    # Along the line neighbours stand close; after the shuffle the mean distance is that of random pairs, N / 3.
    distance = np.abs(destinations(graph) - graph.indices).mean() / graph.num_vertices
    assert 0.3 < distance < 0.37


def test_a_graph_of_few_vertices():
    preset = Preset(
        num_vertices=3, edges_per_vertex=1, num_features=2, num_classes=2, train_share=0.4, valid_share=0.3
    )
    check_graph(generate(preset), "synthetic")


def test_unknown_preset():
    with pytest.raises(InputError, match="unknown preset 'vast'; choose one of tiny, small"):
        choose("vast")


# Edge lists to CSC: sets of (source, destination) pairs are the reference.

EDGE_LISTS = st.integers(1, 12).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60))
)


def rows(indptr, indices):
    return [indices[begin:end].tolist() for begin, end in pairwise(indptr)]


def wanted_rows(n, edges, *, symmetric):
    pairs = {(u, v) for u, v in edges if u != v}
    pairs |= {(v, u) for u, v in pairs} if symmetric else set()
    return [sorted(u for u, w in pairs if w == v) for v in range(n)]


@given(EDGE_LISTS, st.booleans(), st.sampled_from([np.int32, np.int64]))
def test_csc_from_edges_equals_sets(n_and_edges, symmetric, dtype):
    n, edges = n_and_edges
    sources, destinations = np.array(edges, dtype).reshape(-1, 2).T.copy()
    indptr, indices = _core.csc_from_edges(sources, destinations, n, symmetric)
    assert (indptr.dtype, indices.dtype, len(indptr)) == (np.int64, dtype, n + 1)
    assert rows(indptr, indices) == wanted_rows(n, edges, symmetric=symmetric)


@pytest.mark.parametrize(
    ("sources", "destinations", "message"),
    [
        ([0, 3], [1, 1], r"edge 1 \(3 -> 1\) names a vertex outside 0 \.\. 2"),
        ([0, 1], [-1, 1], r"edge 0 \(0 -> -1\) names a vertex outside"),
        ([0, 1], [1], "2 sources but 1 destinations"),
    ],
)
def test_bad_edges_are_named(sources, destinations, message):
    with pytest.raises(ValueError, match=message):
        _core.csc_from_edges(np.array(sources), np.array(destinations), 3, True)
