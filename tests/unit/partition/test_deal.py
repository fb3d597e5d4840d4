"""Dealing makes parts of even size, and blocks as even as chance lets them; counts are those of a loop over edges."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import random_graph

from experiments.full_graph.graphs import lattice
from experiments.shared import real_graphs
from gsplit.data import GraphArrays
from gsplit.data.importers.formats.npz import load_npz
from gsplit.partition.methods import deal
from gsplit.partition.methods.deal import MOST_JUDGED, block_edges, degrees_without_loops, snake
from gsplit.partition.problem import Problem


def edges_of(graph):
    to = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return list(zip(graph.indices.tolist(), to.tolist(), strict=True))


def dealt(graph, parts, *, seed=0, cuts=deal.DEALS):
    return deal.assign(Problem(graph=graph, parts=parts, seed=seed, cuts=cuts))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 5))
def test_parts_are_equal_in_vertices_and_nearly_in_weight(weights, parts, seed):
    weight = np.array(weights, np.int64)
    part = snake(weight, parts, seed)
    assert part.dtype == np.int32
    sizes = np.bincount(part, minlength=parts)
    assert sizes.max() - sizes.min() <= 1
    # Two rounds bring every part a heavier and a lighter card: what is between two parts telescopes.
    loads = np.bincount(part, weights=weight, minlength=parts)
    assert loads.max() - loads.min() <= weight.max()


def test_the_order_of_the_snake():
    assert snake(np.array([1, 9, 5, 7, 3, 2]), 2, 0).tolist() == [1, 0, 1, 1, 0, 0]  # by weight 9 | 7 5 | 3 2 | 1


def test_equals_are_shuffled_by_the_seed():
    first, again, other = (snake(np.ones(100, np.int64), 4, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert (first != np.arange(100) % 4).any()


def test_degrees_leave_loops_out(monkeypatch):
    monkeypatch.setattr(deal, "EDGES_AT_ONCE", 7)
    graph = random_graph(80, 6, seed=2)
    wanted = [0] * 80
    for source, to in edges_of(graph):
        if source != to:
            wanted[source] += 1
            wanted[to] += 1
    assert degrees_without_loops(graph).tolist() == wanted
    assert any(source == to for source, to in edges_of(graph))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_blocks_are_those_of_a_loop_over_the_edges(monkeypatch, loops, weighted):
    monkeypatch.setattr(deal, "EDGES_AT_ONCE", 11)
    graph, random = random_graph(80, 6, seed=2), np.random.default_rng(0)
    rows, columns = random.integers(0, 3, (2, 80)).astype(np.int32)
    weight = random.integers(0, 9, graph.num_edges).astype(np.uint32) if weighted else None
    wanted = np.zeros((3, 3), np.int64)
    for number, (source, to) in enumerate(edges_of(graph)):
        if loops or source != to:
            wanted[rows[to], columns[source]] += 1 if weight is None else weight[number]
    assert (block_edges(graph, rows, columns, 3, weight=weight, loops=loops) == wanted).all()


def test_of_several_deals_the_best_is_kept(caplog):
    graph = random_graph(300, 10, seed=3)

    def heaviest(cuts):
        part = dealt(graph, 4, cuts=cuts)
        return block_edges(graph, part, part, 4).max()

    with caplog.at_level(logging.INFO):
        single, best = heaviest(1), heaviest(20)
    assert best < single
    assert "deal 20 of 20: edges of the heaviest block: " in caplog.text


def test_many_parts_are_dealt_once(caplog):
    graph = random_graph(MOST_JUDGED + 50, 2, seed=3)
    with caplog.at_level(logging.INFO):
        part = dealt(graph, MOST_JUDGED + 1)
    assert not caplog.text
    assert np.bincount(part).tolist().count(0) == 0


def test_weights_are_dealt_where_there_are_some():
    graph, random = random_graph(400, 6, seed=1), np.random.default_rng(0)
    weight = random.integers(1, 1000, 400)
    part = deal.assign(Problem(graph=graph, parts=4, vertex_weight=weight))
    loads = np.bincount(part, weights=weight)
    assert loads.max() - loads.min() <= 1000
    # The first deal is the one of the weights, not of the edges.
    assert (part == snake(weight, 4, 0)).all()


def balance(graph: GraphArrays, parts: int = 8, seed: int = 0) -> tuple[float, float]:
    """Heaviest over mean of the blocks, and of the rows of blocks."""
    part = dealt(graph, parts, seed=seed)
    edges = block_edges(graph, part, part, parts)
    rows = edges.sum(axis=1)
    return edges.max() / edges.mean(), rows.max() / rows.mean()


@pytest.mark.parametrize(("name", "limit"), [("amazon_computers", 1.05), ("coauthor_cs", 1.06)])
def test_blocks_of_real_graphs_are_even(real_data, name, limit):
    graph = load_npz(real_graphs.path(real_data, name))
    for seed in range(5):
        blocks, rows = balance(graph, seed=seed)
        assert blocks <= limit
        assert rows <= 1.02


@pytest.mark.slow
def test_blocks_of_large_graphs_are_even(real_data):
    for graph in (load_npz(real_graphs.path(real_data, "cnr2000")), lattice(1000)):
        blocks, rows = balance(graph)
        assert blocks <= 1.02
        assert rows <= 1.005


def test_blocks_of_a_lattice_are_even():
    # 40,000 vertices with one degree or another of five: 2,500 edges a block, of which chance moves some 50.
    blocks, rows = balance(lattice(200, kept=1.0))
    assert blocks <= 1.08
    assert rows <= 1.001
