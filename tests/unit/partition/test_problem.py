"""The undirected graph that partitioners see, what they are estimated to take, and how one is chosen."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import kaminpar
import numpy as np
import pymetis
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.graphs import random_graph
from support.messages import line_with

from gsplit import _core
from gsplit.errors import InputError
from gsplit.limits import HostMemory
from gsplit.partition import methods
from gsplit.partition.problem import LEFT_OUT, Problem, Size, Undirected, problem_size
from gsplit.partition.weights import MAX_WEIGHT

WEIGHTED_EDGES = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(0, 3)), max_size=60)
    )
)


def csc(n, edges, dtype):
    """indptr, indices and weights of directed edges (source, destination, weight); sources are not sorted."""
    by_destination = sorted(edges, key=lambda edge: edge[1])
    indptr = np.concatenate([[0], np.cumsum(np.bincount([v for _, v, _ in edges], minlength=n))]).astype(np.int64)
    sources = np.array([u for u, _, _ in by_destination], dtype)
    return indptr, sources, np.array([w for _, _, w in by_destination], np.uint32)


def rows(indptr, values):
    return [values[begin:end].tolist() for begin, end in itertools.pairwise(indptr)]


@given(WEIGHTED_EDGES, st.sampled_from([(np.int32, False), (np.int32, True), (np.int64, True)]), st.booleans())
@example((3, [(0, 1, 2), (1, 0, 5), (0, 1, 4), (2, 1, 0)]), (np.int32, False), True)  # both directions, one twice
def test_symmetrize_equals_sets(n_and_edges, dtypes, weighted):
    (n, edges), (dtype, wide) = n_and_edges, dtypes
    indptr, indices, weights = csc(n, edges, dtype)
    symmetrize = _core.symmetrize_wide if wide else _core.symmetrize
    indptr, indices, weights = symmetrize(indptr, indices, weights if weighted else None)
    wanted = Counter()
    for u, v, w in edges:
        if u != v and (w or not weighted):
            wanted[u, v] += w
            wanted[v, u] += w
    assert (indptr.dtype, indices.dtype) == (np.int64, np.int64 if wide else np.int32)
    assert rows(indptr, indices) == [sorted(u for u, w in wanted if w == v) for v in range(n)]
    if weighted:
        assert weights.dtype == indices.dtype
        assert rows(indptr, weights) == [[wanted[u, v] for u in row] for v, row in enumerate(rows(indptr, indices))]
    else:
        assert weights is None


def test_weights_that_are_too_many_or_too_large():
    indptr, indices = np.array([0, 1, 2]), np.array([1, 0], np.int32)
    with pytest.raises(ValueError, match=line_with("3 weights, 2 edges")):
        _core.symmetrize(indptr, indices, np.ones(3, np.uint32))
    with pytest.raises(ValueError, match=line_with("1 and 0")):
        _core.symmetrize(indptr, indices, np.full(2, 2**31 - 1, np.uint32))
    assert _core.symmetrize_wide(indptr, indices, np.full(2, 2**31 - 1, np.uint32))[2].tolist() == [2**32 - 2] * 2


def test_the_largest_weights_of_both_directions_fit():
    weight = np.full(2, MAX_WEIGHT, np.uint32)
    narrow = _core.symmetrize(np.array([0, 1, 2]), np.array([1, 0], np.int32), weight)[2]
    assert narrow.dtype == np.int32
    assert narrow.tolist() == [2 * MAX_WEIGHT] * 2


def path_graph(n):
    """0 -- 1 -- 2 -- ... in both directions."""
    indptr, indices = _core.csc_from_edges(np.arange(n - 1), np.arange(1, n), n, True)
    return replace(random_graph(n, 1), indptr=indptr, indices=indices.astype(np.int32))


def test_vertices_without_weighty_edges_are_left_out():
    #  0 -- 1 -- 2 -- 3 -- 4 -- 5, where only 1 -- 2 and 3 -- 4 count
    graph = path_graph(6)
    to = np.repeat(np.arange(6), np.diff(graph.indptr))
    weigh = {(1, 2), (3, 4)}
    weight = [3 * (tuple(sorted(edge)) in weigh) for edge in zip(graph.indices.tolist(), to.tolist(), strict=True)]
    problem = Problem(graph=graph, parts=2, vertex_weight=np.arange(1, 7), edge_weight=np.array(weight, np.uint32))
    undirected = Undirected.of(problem, wide=True)
    assert undirected.vertices.tolist() == [1, 2, 3, 4]
    assert undirected.vertex_weight.tolist() == [2, 3, 4, 5]
    assert rows(undirected.indptr, undirected.indices) == [[1], [0], [3], [2]]
    assert undirected.edge_weight.tolist() == [6] * 4
    whole = undirected.assignment(np.array([0, 0, 1, 1], np.int32), 6)
    assert whole.tolist() == [LEFT_OUT, 0, 0, 1, 1, LEFT_OUT]


@pytest.mark.parametrize("method", ["metis", "kaminpar"])
def test_weighty_edges_are_not_cut(method):
    # A cycle of 40 in which every other edge weighs 100: cutting two light ones costs 2, as the weights of the
    # vertices want: 20 of them in each part.
    pairs = np.arange(40), (np.arange(40) + 1) % 40
    indptr, indices = _core.csc_from_edges(*pairs, 40, True)
    graph = replace(random_graph(40, 1), indptr=indptr, indices=indices.astype(np.int32))
    to = np.repeat(np.arange(40), np.diff(indptr))
    heavy = np.minimum(graph.indices, to) % 2 == 0
    heavy &= np.abs(graph.indices - to) == 1
    part = methods.assign(
        method, Problem(graph=graph, parts=2, edge_weight=np.where(heavy, 100, 1).astype(np.uint32))
    )
    assert (part[graph.indices] == part[to])[heavy].all()
    assert np.bincount(part).tolist() == [20, 20]


@pytest.mark.cases(1)
@pytest.mark.parametrize("method", ["metis", "kaminpar", "streaming"])
def test_the_best_of_several_cuts_is_kept(method):
    # Half of the vertices weigh nine times the others; a random graph has no best cut that is found every time.
    graph, random = random_graph(3000, 8, seed=1), np.random.default_rng(0)
    vertex_weight = np.where(random.random(3000) < 0.5, 9, 1)
    edge_weight = random.integers(1, 9, graph.num_edges).astype(np.uint32)
    to = np.repeat(np.arange(3000), np.diff(graph.indptr))

    def cut(seed, cuts=1):
        problem = Problem(
            graph=graph, parts=3, vertex_weight=vertex_weight, edge_weight=edge_weight, seed=seed, cuts=cuts
        )
        part = methods.assign(method, problem)
        assert np.bincount(part, weights=vertex_weight).max() <= 1.04 * vertex_weight.sum() / 3
        return int(edge_weight[part[graph.indices] != part[to]].sum())

    single = [cut(seed) for seed in range(4)]
    assert len(set(single)) > 1
    gained = 0
    for seed in range(3):
        kept = [cut(seed, cuts) for cuts in (1, 2, 4, 8)]
        assert kept == sorted(kept, reverse=True)
        assert kept[0] == single[seed]
        gained += kept[0] - kept[-1]
    assert gained > 0


def test_cuts_are_each_by_a_seed_of_their_own(monkeypatch):
    seeds = []
    monkeypatch.setattr(kaminpar, "reseed", seeds.append)
    for seed in (0, 1, 2):
        methods.assign("kaminpar", Problem(graph=random_graph(50, 3), parts=2, cuts=3, seed=seed))
    assert seeds[::3] == [0, 1, 2]
    assert len(set(seeds)) == 9


@pytest.mark.parametrize(("imbalance", "made", "best"), [(0.0, 4, 2), (0.2, 4, 3), (0.3, 3, 1), (0.3, 4, 3)])
def test_the_lightest_cut_in_balance_is_kept(monkeypatch, imbalance, made, best):
    # Two cliques of 8 that one edge joins, and four ways to cut them: all on one side, into 10 and 6 and into
    # 8 and 8, across the cliques, and into 9 and 7.
    ways = [[0] * 16, [0] * 10 + [1] * 6, [0, 1] * 8, [0] * 9 + [1] * 7]
    cuts = iter(ways)
    monkeypatch.setattr(kaminpar.KaMinPar, "compute_partition", lambda *_: next(cuts))
    pairs = np.array([(u, v) for u in range(16) for v in range(u) if u // 8 == v // 8] + [(8, 7)]).T.copy()
    indptr, indices = _core.csc_from_edges(*pairs, 16, True)  # type: ignore[call-arg]
    graph = replace(random_graph(16, 1), indptr=indptr, indices=indices.astype(np.int32))
    kept = methods.assign("kaminpar", Problem(graph=graph, parts=2, cuts=made, imbalance=imbalance))
    assert kept.tolist() == ways[best]


@pytest.mark.parametrize("method", ["metis", "kaminpar", "streaming"])
def test_no_edge_counts(method):
    problem = Problem(graph=path_graph(8), parts=4, edge_weight=np.zeros(14, np.uint32))
    assert np.bincount(methods.assign(method, problem)).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("method", ["metis", "kaminpar", "streaming"])
def test_no_room_at_all(method):
    part = methods.assign(method, Problem(graph=random_graph(301, 6), parts=3, imbalance=0))
    assert np.bincount(part).max() <= (101 if method != "metis" else 102)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_size_is_estimated_from_some_edges(share):
    graph, random = path_graph(5000), np.random.default_rng(0)
    size = problem_size(graph, None)
    assert (size.adjacencies, size.edge_weights) == (graph.num_edges, False)
    one_way = random_graph(2000, 8)
    exact = len(_core.symmetrize(one_way.indptr, one_way.indices)[1])
    assert problem_size(one_way, None).adjacencies == pytest.approx(exact, rel=0.1)  # and double edges
    weight = (random.random(graph.num_edges) < share).astype(np.uint32)
    exact = len(_core.symmetrize(graph.indptr, graph.indices, weight)[1])
    assert problem_size(graph, weight).adjacencies == pytest.approx(exact, rel=0.1)


@pytest.fixture
def available(monkeypatch):
    """available(bytes) sets the memory that the host seems to have; available.kaminpar whether it is installed."""

    def give(num_bytes, *, kaminpar=True):
        memory = HostMemory(total_bytes=num_bytes, available_bytes=num_bytes)
        monkeypatch.setattr(methods, "host_memory", lambda: memory)
        there = methods.PARTITIONERS["kaminpar"]
        install = None if kaminpar else "pip install kaminpar"
        monkeypatch.setitem(methods.PARTITIONERS, "kaminpar", replace(there, missing=lambda: install))

    return give


SIZE = Size(vertices=10**8, adjacencies=3 * 10**9, edge_weights=False)


@pytest.mark.parametrize(
    ("gigabytes", "kaminpar", "chosen"),
    [(1000, True, "metis"), (200, True, "kaminpar"), (200, False, "streaming"), (20, True, "streaming")],
)
def test_auto_takes_what_is_installed_and_fits(available, gigabytes, kaminpar, chosen):
    available(gigabytes * 10**9, kaminpar=kaminpar)
    assert methods.choose_method("auto", SIZE) == chosen
    if gigabytes == 1000:  # both fit
        assert methods.choose_method("auto", replace(SIZE, edge_weights=True)) == "kaminpar"


def test_streaming_takes_memory_for_a_bounded_number_of_edges():
    def needed(adjacencies, *, edge_weights=False):
        size = Size(vertices=10**6, adjacencies=adjacencies, edge_weights=edge_weights)
        return methods.PARTITIONERS["streaming"].memory.of(size)

    assert needed(0) < needed(10**6) < needed(10**8) == needed(10**10) < 10**9
    assert needed(10**10, edge_weights=True) - needed(10**10) == 4 * 10**10  # the weights themselves


@pytest.mark.parametrize(
    ("gigabytes", "kaminpar", "message"),
    [
        (200, True, "--method metis, 302.7 GiB, 186.3 GiB, --method kaminpar"),
        (200, False, "--method kaminpar, pip install kaminpar"),
        (20, False, "--method streaming"),
    ],
)
def test_what_cannot_fit_is_refused(available, gigabytes, kaminpar, message):
    available(gigabytes * 10**9, kaminpar=kaminpar)
    with pytest.raises(InputError, match=line_with(message)):
        methods.choose_method("metis", SIZE)


def test_a_partitioner_that_is_not_there(available):
    available(10**12, kaminpar=False)
    with pytest.raises(InputError, match=line_with("--method kaminpar, pip install kaminpar")):
        methods.check_partitioner("kaminpar")


@pytest.mark.parametrize("answer", [[0, 1], [0, 1, 2, 0, 1, 0], [0, 1, 5, 0, 1], [0, 1, -2, 0, 1]])
def test_answers_are_checked(monkeypatch, answer):
    monkeypatch.setattr(pymetis, "part_graph", lambda *_, **__: SimpleNamespace(vertex_part=answer))
    with pytest.raises(AssertionError):
        methods.assign("metis", Problem(graph=path_graph(5), parts=3))


def test_weights_of_another_length_never_reach_a_partitioner():
    with pytest.raises(AssertionError):
        Problem(graph=path_graph(5), parts=2, vertex_weight=np.ones(4, np.int64))
    with pytest.raises(AssertionError):
        Problem(graph=path_graph(5), parts=2, edge_weight=np.ones(9, np.uint32))
