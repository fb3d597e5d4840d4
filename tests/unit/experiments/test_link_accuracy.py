"""Accuracy of links beside PyG's: the splits, what PyG's steps see, and what is made of both."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from operator import eq, gt

import numpy as np
import pytest
import torch
from support.documents import undocumented
from support.links import linked_graph

from experiments.baselines import pyg_links
from experiments.links import accuracy
from experiments.shared.datasets import dealt_layout
from gsplit.data import open_layout, open_store
from gsplit.sampling import Neighbours
from gsplit.sampling.links import Links, Negatives


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
    monkeypatch.setattr(pyg_links, "areas", lambda *_: (0.5, 0.5))
    monkeypatch.setattr(pyg_links, "compared", lambda *_: (torch.tensor([[0, 1]]), torch.tensor([[2, 3]])))
    monkeypatch.setattr(torch, "randperm", lambda n: torch.arange(n).flip(0))
    pyg_links.train_links(graph, replace(accuracy.COMMON, model="gcn", epochs=1, batch_size=20), 0)
    *steps, whole = calls
    edges = pyg_links.edges_of(graph)
    assert torch.equal(whole, edges)
    for seen, batch in zip(steps, edges.T.flip(0).split(20), strict=True):
        asked = both_ways(batch.tolist())
        assert seen.T.tolist() == [edge for edge in edges.T.tolist() if tuple(edge) not in asked]


def test_ranks_are_those_that_a_loop_counts(store):
    graph = open_store(store).graph
    z = torch.from_numpy(np.random.default_rng(1).integers(-1, 2, (graph.num_vertices, 4))).float()  # many ties
    known = {tuple(edge) for edge in pyg_links.edges_of(graph).T.tolist()} | set(
        map(tuple, graph.links.valid.tolist())
    )
    found = pyg_links.ranks(z, graph).tolist()
    for place in range(0, len(found), 50):
        u, v = graph.links.test[place].tolist()
        scores = (z @ z[u]).tolist()
        others = [w for w in range(graph.num_vertices) if w not in (u, v) and (u, w) not in known]
        above, equal = (sum(which(scores[w], scores[v]) for w in others) for which in (gt, eq))
        assert found[place] == 1 + above + equal / 2


@pytest.mark.parametrize("model", accuracy.MODELS)
def test_on_the_same_pairs_pyg_learns_the_same(store, tmp_path, model):
    layout = open_layout(dealt_layout(store, tmp_path, 1, 0))
    config = replace(accuracy.COMMON, model=model, layout=layout.path, seed=0, epochs=1, epoch_pairs=720)
    rule = Links(neighbours=Neighbours(fan_out=config.fan_out), negatives=Negatives(uniform=1), epoch_pairs=720)
    plan = rule.plan(layout, batch_size=config.batch_size, seed=0)

    def steps(epoch):
        for batch in range(plan.num_batches):
            (pairs,) = plan.pairs(epoch, batch)
            ends = torch.from_numpy(layout.permutation[pairs.targets].astype(np.int64))
            yield ends[pairs.sources], ends[pairs.destinations], ends[pairs.own[:, 0]]

    graph = open_store(store).graph
    ours, theirs = accuracy.tested(config, graph)[0], pyg_links.train_links(graph, config, 0, steps)
    for metric in ("auroc", "ap", "mrr", "hits"):
        assert getattr(ours, metric) == pytest.approx(getattr(theirs, metric), abs=2e-3)


def test_both_are_trained_and_ours_is_scikit_learns(real_data, tmp_path):
    file = tmp_path / "out.json"
    accuracy.command(["--datasets", "cora", "--quick", "--seeds", "1", "--data", str(real_data), "--json", str(file)])
    rows = json.loads(file.read_text())["cells"]
    assert [(row["model"], row["metric"]) for row in rows] == list(product(accuracy.MODELS, accuracy.METRICS))
    assert undocumented("Accuracy of links", rows[0]) == []
    for row in rows:
        assert row["steps"] == 2 * 2
        assert row["again_difference"] < 1e-5  # a pair may change places with one whose score is as good as equal
        (own,), (theirs,) = row["ours_scores"], row["pyg_scores"]
        assert row["points"] == pytest.approx(100 * (own - theirs))
        least, most = (0.5, 0.95) if row["metric"] in ("auroc", "ap") else (0, 0.2)
        assert least <= min(own, theirs) <= max(own, theirs) < most
