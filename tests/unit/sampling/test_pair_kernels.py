"""What pairs need of the core beside exclusions: tests of edges, and a random order of rows."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare
from support.graphs import random_graph
from support.messages import line_with

from gsplit._core import are_edges, edges_from, permuted_rows
from gsplit.sampling.plan import fold_key

UNLUCKY = 1e-4
SORTED = 2**16
"""Rows up to which the core sorts them."""


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("n", "mean_degree"), [(40, 6), (300, 90), (2_500, 1_500)])
def test_edges_are_found_as_by_brute_force(dtype, n, mean_degree):
    graph = random_graph(n, mean_degree, seed=n, index_dtype=dtype)
    assert n < 2_500 or np.diff(graph.indptr).max() > 1_024  # neighbours that are looked through at a time
    is_edge = np.zeros((n, n), bool)
    is_edge[graph.indices, np.repeat(np.arange(n), np.diff(graph.indptr))] = True
    random = np.random.default_rng(0)
    for number in (0, 1, 2, 3, 16, 17, 300):
        sources, candidates = random.integers(0, n, number), random.integers(0, n, 70)  # some of them repeat
        found = edges_from(graph.indptr, graph.indices, candidates, sources)
        assert found.dtype == bool
        assert np.array_equal(found, is_edge[sources[:, None], candidates])
    sources, destinations = random.integers(0, n, (2, 5_000))
    edges = random.integers(0, graph.num_edges, 500)
    sources[:500], destinations[:500] = graph.indices[edges], np.searchsorted(graph.indptr, edges, "right") - 1
    found = are_edges(graph.indptr, graph.indices, sources, destinations)
    assert found[:500].all()
    assert np.array_equal(found, is_edge[sources, destinations])
    assert edges_from(graph.indptr, graph.indices, candidates[:0], sources).shape == (5_000, 0)


def test_vertices_that_are_not_there_are_refused():
    graph = random_graph(40, 6)
    good, bad = np.array([0, 39]), np.array([0, 40])
    for sources, destinations in ((good, bad), (bad, good), (good, good - 1)):
        for test in (are_edges, edges_from):
            with pytest.raises(ValueError, match=line_with("vertex, 40")):
                test(graph.indptr, graph.indices, sources, destinations)
    with pytest.raises(ValueError, match=line_with("one source, each destination")):
        are_edges(graph.indptr, graph.indices, good, good[:1])


def test_the_order_of_rows_has_each_once_and_any_run_of_it_can_be_had():
    numbers = [*range(1, 5_001), SORTED - 1, SORTED, SORTED + 1, 2**17 - 1, 2**17, 2**17 + 1, 10**6]
    for number in numbers:
        rows = permuted_rows(number * 3, number, 0, number)
        assert np.array_equal(np.bincount(rows, minlength=number), np.ones(number))
        begin, end = sorted((number * 7919 % (number + 1), number * 104_729 % (number + 1)))
        assert np.array_equal(permuted_rows(number * 3, number, begin, end), rows[begin:end])
    with pytest.raises(ValueError, match=line_with("6 rows, begin, end")):
        permuted_rows(0, 6, 0, 7)


def test_every_order_of_five_rows_is_as_likely():
    orders = Counter(tuple(permuted_rows(fold_key(key), 5, 0, 5).tolist()) for key in range(60_000))
    assert chisquare([orders[order] for order in permutations(range(5))]).pvalue > UNLUCKY


@pytest.mark.parametrize("number", [1_000, SORTED + 1, 10**6])
def test_places_and_steps_are_uniform(number):
    keys, places, bins = 6_000, 40, 50
    rows = np.stack([permuted_rows(key, number, 300, 300 + places) for key in range(keys)])
    width = np.diff(-(-np.arange(bins + 1) * number // bins))
    of_place = [np.bincount(rows[:, place] * bins // number, minlength=bins) for place in range(places)]
    assert min(chisquare(counts, width * keys / number).pvalue for counts in of_place) > UNLUCKY / places
    # A step is never 0: row 0 of `width` is not among them.
    steps = ((rows[:, 1::2] - rows[:, ::2]) % number).ravel()
    width[0] -= 1
    assert chisquare(np.bincount(steps * bins // number), width * steps.size / (number - 1)).pvalue > UNLUCKY
    # Orders of keys that follow each other tell nothing about each other, nor do rows far apart.
    for one, other in ((rows[:-1], rows[1:]), (rows[:, :1], rows[:, -1:])):
        table, _, _ = np.histogram2d(one.ravel(), other.ravel(), 10, [[0, number]] * 2)
        assert chi2_contingency(table).pvalue > UNLUCKY
