"""The presets that are calibrated to the paper's graphs, at small scales, and ``?scale=``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.paper.presets import counts_of
from experiments.shared.ownership import relabelled
from gsplit.data.graph import check_graph
from gsplit.data.importers import load_source
from gsplit.data.synthetic import PRESETS, Calibrated, choose
from gsplit.errors import InputError
from gsplit.partition.methods import assign
from gsplit.partition.problem import Problem

SMALL = {"products": 0.02, "papers": 0.002, "amazon": 0.05}
"""Scales of some seconds in all: 49k, 222k and 78k vertices."""


@pytest.fixture(scope="module", params=["products", "papers", pytest.param("amazon", marks=pytest.mark.slow)])
def choice(request):
    return choose(f"{request.param}?scale={SMALL[request.param]}")


@pytest.fixture(scope="module")
def graph(choice):
    return choice.generate(seed=0, features=False)


def test_counts_are_those_of_table_3():
    counts = {
        name: (f"{preset.num_vertices / 1e6:.3g}M", f"{preset.num_edges / 1e6:.3g}M", preset.num_features)
        for name, preset in PRESETS.items()
        if isinstance(preset, Calibrated)
    }
    assert counts == {
        "products": ("2.45M", "61.9M", 100),
        "papers": ("111M", "1.62e+03M", 128),
        "amazon": ("1.57M", "168M", 200),
    }


def test_counts_shrink_with_the_scale(choice, graph):
    whole = PRESETS[choice.name]
    check_graph(graph, choice.label)
    assert graph.indices.dtype == np.int32
    assert graph.num_vertices == round(whole.num_vertices * choice.scale)
    assert len(graph.train_idx) == pytest.approx(graph.num_vertices * whole.train_share, abs=1)
    assert choice.preset.batch_size == round(whole.batch_size * choice.scale)
    # Measured: products 0.97, papers 0.95, amazon 0.86: where communities are few, more edges are duplicates.
    assert 0.8 < graph.num_edges / (2 * whole.num_edges * choice.scale) < 1.05
    # As many mini-batches in an epoch as at scale 1.
    targets = whole.num_vertices * whole.train_share
    assert len(graph.train_idx) / choice.preset.batch_size == pytest.approx(targets / whole.batch_size, rel=0.05)


def test_symmetric_without_loops_or_duplicates(choice, graph):
    n, to = graph.num_vertices, np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    assert (to != graph.indices).all()
    edges = to * n + graph.indices  # sorted: a row's neighbours are
    assert (np.diff(edges) > 0).all()
    assert np.array_equal(np.sort(graph.indices.astype(np.int64) * n + to), edges)


def test_the_seed_decides_and_features_are_drawn_apart():
    text = "products?scale=0.005"
    first, bare, other = (choose(text).generate(seed=s, features=f) for s, f in ((3, True), (3, False), (4, False)))
    assert first.features.shape == (first.num_vertices, 100)
    assert bare.features is None
    for name in ("indptr", "indices", "labels", "train_idx", "valid_idx", "test_idx"):
        assert np.array_equal(getattr(first, name), getattr(bare, name))
        assert not np.array_equal(getattr(first, name), getattr(other, name))
    assert np.array_equal(first.features, choose(text).generate(seed=3).features)


def test_splits_and_labels():
    graph = choose("products?scale=0.005").generate(features=False)
    vertex_sets = np.concatenate([graph.train_idx, graph.valid_idx, graph.test_idx])
    assert np.sort(vertex_sets).tolist() == list(range(graph.num_vertices))
    assert graph.labels.min() == 0
    # As in ogbn-papers100M, few vertices have a label at all.
    graph = choose("papers?scale=0.0008").generate(features=False)
    vertex_sets = np.concatenate([graph.train_idx, graph.valid_idx, graph.test_idx])
    assert np.flatnonzero(graph.labels >= 0).tolist() == np.sort(vertex_sets).tolist()
    assert len(vertex_sets) == int(0.01393 * graph.num_vertices)


def test_labels_need_the_graph():
    graph = choose("products?scale=0.01").generate(seed=0)
    to = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    average_ND = (
        np.stack([np.bincount(to, column[graph.indices], graph.num_vertices) for column in graph.features.T], axis=1)
        / np.maximum(1, np.diff(graph.indptr))[:, None]
    )
    alone, averaged = (nearest_mean_accuracy(x, graph) for x in (graph.features, average_ND))
    # Measured over seeds 0-2: alone 0.16 to 0.17, averaged 0.50 to 0.52.
    assert averaged > alone + 0.25


def nearest_mean_accuracy(features_ND, graph):
    train, test = graph.train_idx, graph.test_idx
    means_CD = np.stack([features_ND[train][graph.labels[train] == c].mean(axis=0) for c in range(graph.num_classes)])
    guess = ((means_CD**2).sum(axis=1) - 2 * features_ND[test] @ means_CD.T).argmin(axis=1)
    return (guess == graph.labels[test]).mean()


def test_products_is_calibrated():
    # Measured over seeds 0-3, 5 mini-batches: redundancy 22.7 to 23.6 %, local edges 0.933 to 0.935, edge skew 0.91
    # to 1.07, reached 0.472 to 0.477, hits 0.181 to 0.183 by degree and 0.209 to 0.212 at best.
    choice = choose("products?scale=0.02")
    graph = choice.generate(features=False)
    owners = relabelled(graph, assign("metis", Problem(graph=graph, parts=4, seed=0)), 4)
    found = counts_of(owners, choice.preset.fan_out, choice.preset.batch_size, iterations=5, seed=0)
    assert 17.0 < found["redundancy_percent"] < 34.0  # a third around the paper's 25.5
    assert abs(found["local_share"] - 0.93) < 0.05  # of the paper's
    assert 0.75 < found["edge_skew"] < 1.25
    assert found["reached_share"] < 0.6
    hits = found["hit_rates"]
    assert 0.15 < hits["degree"] < hits["optimal"] < 0.25


def test_redundancy_of_the_others(choice, graph):
    # Measured over seeds 0-3: amazon 75 to 79 %; papers 31 to 71 %, for at this scale chance decides which of its few
    # communities have the targets (115 % from a scale of 0.02 on: docs/results/presets.md).
    found = counts_of(
        relabelled(graph, np.zeros(graph.num_vertices, np.int32), 1),
        choice.preset.fan_out,
        choice.preset.batch_size,
        iterations=5,
        seed=0,
    )
    low, high = {"products": (17, 34), "papers": (15, 100), "amazon": (65, 90)}[choice.name]
    assert low < found["redundancy_percent"] < high
    if choice.name == "papers":
        # Few vertices are ever reached, and degree does not tell which.
        assert found["hit_rates"]["optimal"] == 1
        assert found["hit_rates"]["degree"] < 0.6


# ?scale=


def test_scales_are_part_of_the_name():
    assert choose("papers?scale=0.05").label == "papers-scale0.05"
    assert choose("papers?scale=1").label == choose("papers").label == "papers"
    assert choose("papers?scale=5e-2").preset == choose("papers?scale=0.05").preset
    assert choose("papers").preset == PRESETS["papers"]
    assert load_source("synthetic:tiny?scale=0.5").name == "synthetic-tiny-scale0.5"


def test_plain_presets_shrink():
    assert choose("tiny?scale=0.5").preset == replace(PRESETS["tiny"], num_vertices=500)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("paper", "unknown preset 'paper'; choose one of tiny, small, medium, large, huge, products, papers, amazon"),
        ("papers?scale=0", "the scale of synthetic:papers.scale=0 must be a number above 0, at most 1, not '0'"),
        ("papers?scale=-0.5", "must be a number above 0, at most 1, not '-0.5'"),
        ("papers?scale=1.5", "must be a number above 0, at most 1, not '1.5'"),
        ("papers?scale=nan", "must be a number above 0, at most 1, not 'nan'"),
        ("papers?scale=half", "must be a number above 0, at most 1, not 'half'"),
        ("papers?scale=", "must be a number above 0, at most 1, not ''"),
        ("papers?scale=0.1&seed=1", "must be a number above 0, at most 1, not '0.1&seed=1'"),
        ("papers?size=0.1", "unknown option 'size' of synthetic:papers.size=0.1; the only one is .scale="),
        ("papers?", "unknown option ''"),
        ("amazon?scale=0.001", "would have 1570 vertices; the least scale is 0.042"),
    ],
)
def test_bad_presets(text, message):
    with pytest.raises(InputError, match=message):
        load_source(f"synthetic:{text}")
