"""The paper's table 5 on small graphs, against slow counts over the unsplit mini-batch."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from statistics import mean

import numpy as np
import pytest
from support.documents import undocumented
from support.reference import splits_of

from experiments.paper import split_quality
from experiments.paper.split_quality import QualityConfig, rows_of
from experiments.shared.ownership import at_random, of_layout
from gsplit.partition.report import edge_skew
from gsplit.sampling import EpochPlan

TINY = ("--dataset", "synthetic:tiny", "--batch-sizes", "100,300", "--fan-out", "4,3", "--iterations", "2")
OFFSETS = [0, 20, 150, 151, 300]


def slow_counts(layout, owner_of_global, config, batch_size):
    """Per iteration, edges of each split and local ones: from the mini-batch unsplit, and who owns what."""
    graph, names = layout.graph, layout.permutation.tolist()
    plan = EpochPlan(graph.train_idx, layout.permutation, batch_size, config.seed)
    parts = max(owner_of_global) + 1
    counts = []
    for batch, targets in islice(plan.batches(0), config.iterations):
        unsplit = (0, graph.num_vertices)
        (whole,) = splits_of(layout, targets, config.fan_out, offsets=unsplit, seed=config.seed, batch=batch)
        edges, local = [0] * parts, 0
        for rows in whole.edges.values():
            for v, drawn in zip(whole.vertices, rows, strict=False):
                own = owner_of_global[names[v]]
                edges[own] += len(drawn)
                local += sum(owner_of_global[names[u]] == own for u in drawn)
        counts.append((edges, local))
    return counts


def owners(ownership):
    """By global id."""
    owner = np.searchsorted(ownership.offsets, np.arange(ownership.offsets[-1]), side="right") - 1
    by_global = np.empty_like(owner)
    by_global[ownership.permutation] = owner
    return by_global.tolist()


@pytest.mark.parametrize("partition", ["own", "random"])
def test_counts_are_those_of_slow_ones(layouts, partition):
    layout = replace(layouts(1), offsets=np.array(OFFSETS))
    ownership = of_layout(layout) if partition == "own" else at_random(layout, seed=1)
    config = QualityConfig(batch_sizes=(64, 1000), fan_out=(4, 3), iterations=3, seed=5)
    rows = rows_of(ownership, config, {64: (0.5, 0.9)})
    assert [(row["batch_size"], row["iterations"]) for row in rows] == [(64, 3), (1000, 1)]
    for row in rows:
        counts = slow_counts(layout, owners(ownership), config, row["batch_size"])
        assert row["edges_per_split"] == np.sum([edges for edges, _ in counts], axis=0).tolist()
        assert row["edges"] == sum(row["edges_per_split"])
        assert row["local_edges"] == sum(local for _, local in counts)
        assert row["local_share"] == row["local_edges"] / row["edges"]
        wanted = mean((max(edges) - min(edges)) / mean(edges) for edges, _ in counts)
        assert row["edge_skew"] == pytest.approx(wanted, rel=1e-12)
    assert [(row["paper_edge_skew"], row["paper_local_share"]) for row in rows] == [(0.5, 0.9), (None, None)]


def test_random_parts_are_equal_and_the_graph_the_same(layouts):
    layout = layouts(3)
    drawn = at_random(layout, seed=1)
    assert np.diff(drawn.offsets).tolist() == [100, 100, 100]
    assert sorted(drawn.permutation.tolist()) == list(range(300))
    place = np.argsort(drawn.permutation)[layout.permutation]  # of each layout id
    assert np.array_equal(np.sort(place[layout.graph.train_idx]), drawn.train_idx)
    for v in range(300):
        a, b = layout.graph.indptr[v : v + 2]
        c, d = drawn.indptr[place[v] : place[v] + 2]
        assert np.array_equal(place[layout.graph.indices[a:b]], drawn.indices[c:d])


@pytest.mark.parametrize(("edges", "skew"), [([3, 3], 0), ([0, 4], 2), ([1, 2, 3], 1), ([0, 0], 0), ([5], 0)])
def test_edge_skew(edges, skew):
    assert edge_skew(edges) == skew


def test_the_keys_are_those_documented(tmp_path, capsys):
    split_quality.command([*TINY, "--work", str(tmp_path), "--json", str(tmp_path / "out.json")])
    result = json.loads((tmp_path / "out.json").read_text())
    assert list(result) == ["dataset", "settings", "partitions", "paper"]
    metis, random = result["partitions"]
    assert (metis["method"], random["method"]) == ("metis", "random")
    keys = {*result, *result["dataset"], *result["dataset"]["generator"], *result["settings"], *metis, *random}
    keys |= {*metis["rows"][0], *result["paper"][0]}
    assert all(set(row) == set(metis["rows"][0]) for row in metis["rows"] + random["rows"])
    assert undocumented("Split quality", keys) == []
    # The samples are the same, whoever owns the vertices.
    assert [row["edges"] for row in metis["rows"]] == [row["edges"] for row in random["rows"]]
    assert all(m["local_share"] > r["local_share"] for m, r in zip(metis["rows"], random["rows"], strict=True))
    assert "method metis, weights uniform\n\n## rows\n\n| batch_size |" in capsys.readouterr().out
