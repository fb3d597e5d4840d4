"""Accuracy of links beside PyG's: the splits, what PyG's steps see, and what is made of both."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.documents import undocumented
from support.links import linked_graph

from experiments.baselines import pyg_links
from experiments.links import accuracy
from gsplit.data import open_store


def both_ways(pairs):
    return {(int(u), int(v)) for pair in pairs for u, v in (pair, pair[::-1])}


@pytest.fixture(scope="module")
def store(real_data, tmp_path_factory):
    return accuracy.split_store("cora", 3, real_data, tmp_path_factory.mktemp("split"))


def test_pairs_are_compared_with_as_many_that_are_no_edges(store):
    graph = open_store(store).graph
    links, edges = graph.links, both_ways(pyg_links.edges_of(graph).numpy().T)
    held_out = np.concatenate([links.valid, links.test])
    others = np.concatenate([links.valid_negatives, links.test_negatives])
    assert len(edges) + len(both_ways(held_out)) == graph.num_edges + 2 * len(held_out) == 10_556
    assert len(links.test_negatives) == len(links.test) > 400
    assert not both_ways(others) & (edges | both_ways(held_out))
    assert (others[:, 0] != others[:, 1]).all()


def test_pyg_sees_no_edge_that_a_step_asks_for(monkeypatch):
    graph, calls = linked_graph(60, 5, given=True), []

    def vectors(layers, x, edge_index):
        calls.append(edge_index)
        return layers[0].lin(x)

    monkeypatch.setattr(pyg_links, "vectors", vectors)
    monkeypatch.setattr(pyg_links, "compared", lambda *_: (torch.tensor([[0, 1]]), torch.tensor([[2, 3]])))
    monkeypatch.setattr(torch, "randperm", lambda n: torch.arange(n).flip(0))
    pyg_links.train_links(graph, replace(accuracy.COMMON, model="gcn", epochs=1, batch_size=20), 0)
    *steps, whole = calls
    edges = pyg_links.edges_of(graph)
    assert torch.equal(whole, edges)
    for seen, batch in zip(steps, edges.T.flip(0).split(20), strict=True):
        asked = both_ways(batch.tolist())
        assert seen.T.tolist() == [edge for edge in edges.T.tolist() if tuple(edge) not in asked]


def test_both_are_trained_and_ours_is_scikit_learns(real_data, tmp_path):
    file = tmp_path / "out.json"
    accuracy.command(["--datasets", "cora", "--quick", "--seeds", "1", "--data", str(real_data), "--json", str(file)])
    rows = json.loads(file.read_text())["cells"]
    assert [row["model"] for row in rows] == ["gcn", "sage"]
    assert undocumented("Accuracy of links", rows[0]) == []
    for row in rows:
        assert row["steps"] == 2 * 12
        assert row["sklearn_difference"] < 1e-5  # a pair may change places with one whose score is as good as equal
        for name in ("auroc", "ap"):
            own, theirs = row[f"ours_{name}_scores"], row[f"pyg_{name}_scores"]
            assert 0.5 < min(own + theirs) < max(own + theirs) < 0.95
            assert row[f"{name}_points"] == pytest.approx(100 * (own[0] - theirs[0]))
