"""The streaming partitioner: its kernel against a slow reference, its limits, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import random_graph

from gsplit import _core
from gsplit.data.synthetic import Preset, generate
from gsplit.partition import methods, quality
from gsplit.partition.methods import clusters, restream
from gsplit.partition.methods.streaming import stream
from gsplit.partition.problem import Problem

MASK = (1 << 64) - 1


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fold(*words):
    key = 0
    for word in words:
        key = mix(((key ^ word) + 0x9E3779B97F4A7C15) & MASK)
    return key


def slow_pass(indptr, indices, edge_weight, weight, target, movable, group, groups, limits, everywhere, strain, seed):
    """What csrc/stream.hpp says, from sums over all vertices at each step: the groups after it, the moves."""
    group, n, moved = list(group), len(group), 0
    for v in range(n):
        if not movable[v]:
            continue
        load = [sum(weight[u] for u in range(n) if u != v and group[u] == q) for q in range(groups)]
        targets = [sum(target[u] for u in range(n) if u != v and group[u] == q) for q in range(groups)]
        gain = [0] * groups
        for e in range(indptr[v], indptr[v + 1]):
            if indices[e] != v and group[indices[e]] >= 0:
                gain[group[indices[e]]] += int(edge_weight[e])
        light = [load[q] + weight[v] <= limits[0] for q in range(groups)]
        few = [target[v] == 0 or targets[q] + target[v] <= limits[1] for q in range(groups)]

        def fullness(q, load=load, targets=targets, light=light, few=few):
            kind = 2 if not light[q] else 0 if few[q] else 1
            return kind, targets[q] if kind == 1 else load[q]

        own = group[v]
        overfull = own >= 0 and fullness(own)[0] > 0
        wanted = [q for q in range(groups) if fullness(q)[0] == 0 and (gain[q] > 0 or q == own)]
        if wanted:
            chosen = max(wanted, key=lambda q: (gain[q], q == own, fold(seed, v, q)))
        elif everywhere:
            chosen = min(range(groups), key=lambda q: (fullness(q), q))
            if overfull and fullness(own) <= fullness(chosen):
                chosen = own
        else:
            chosen = own
        if overfull and gain[own] // strain > gain[chosen]:
            chosen = own
        moved += chosen != own
        group[v] = chosen
    return group, moved


@st.composite
def passes(draw):
    n, groups = draw(st.integers(1, 14)), draw(st.integers(1, 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    indptr = np.concatenate([[0], np.cumsum(random.integers(0, 6, n))])
    edges, choose = int(indptr[-1]), st.booleans()
    index = draw(st.sampled_from([np.int32, np.int64]))
    arrays = {
        "edge_weight": random.integers(0, draw(st.sampled_from([2, 4, 2**32])), edges, np.uint32),
        "vertex_weight": random.integers(0, draw(st.sampled_from([2, 5, 2**40])), n),
        "target_weight": random.integers(0, 3, n).astype(np.int32),
        "movable": (random.random(n) < 0.7).astype(np.uint8),
    }
    arrays = {name: array if draw(choose) else None for name, array in arrays.items()}
    group = random.integers(-1 if draw(choose) else 0, groups, n).astype(np.int32)
    slack = draw(st.sampled_from([0.5, 1.0, 1.3, 3.0]))
    rule = draw(choose), draw(st.sampled_from([1, 2, 2**63 - 1])), draw(st.integers(0, 2**64 - 1))
    return indptr, random.integers(0, n, edges).astype(index), arrays, group, groups, slack, rule


@settings(max_examples=400)
@given(passes(), st.integers(0, 14))
def test_a_pass_equals_the_reference(drawn, middle):
    indptr, indices, arrays, group, groups, slack, (everywhere, strain, seed) = drawn
    graph = restream.Stream(indptr=indptr, indices=indices, **arrays)
    load, target_load = graph.loads(group, groups)
    limits = [int(slack * total / groups) for total in graph.totals]
    ones, n = np.ones(len(indices) + len(group), np.int64), len(group)
    lists = [array if array is not None else ones for array in arrays.values()]
    lists[2] = arrays["target_weight"] if arrays["target_weight"] is not None else 0 * ones
    expected, moves = slow_pass(  # type: ignore[call-arg]
        indptr.tolist(),
        indices.tolist(),
        *(a.tolist() for a in lists),
        group.tolist(),
        groups,
        limits,
        everywhere,
        strain,
        seed,
    )
    gain, moved = np.zeros(groups, np.int64), 0
    for begin, end in [(0, min(middle, n)), (min(middle, n), n)]:  # a pass may come in pieces
        moved += _core.stream_range(  # type: ignore[call-arg]
            indptr,
            indices,
            *arrays.values(),
            group,
            load,
            target_load,
            gain,
            *limits,
            everywhere,
            strain,
            seed,
            begin,
            end,
        )
    assert group.tolist() == expected
    assert moved == moves
    assert not gain.any()
    np.testing.assert_array_equal([load, target_load], graph.loads(group, groups))


@settings(max_examples=150)
@given(st.integers(1, 4), st.integers(4, 80), st.integers(0, 1000), st.booleans(), st.booleans(), st.booleans())
def test_every_vertex_gets_a_part_within_the_limit(parts, n, seed, weighted, with_targets, started):
    graph = random_graph(n, 5, seed=seed, index_dtype=np.int64 if seed % 2 else np.int32)
    random = np.random.default_rng(seed)
    weight = random.integers(0, 9, n) if weighted else None
    edge_weight = random.integers(0, 9, graph.num_edges, np.uint32) if weighted else None
    start = random.integers(-1, parts, n).astype(np.int32) if started else None
    targets = graph.train_idx if with_targets else None
    options = {"vertex_weight": weight, "edge_weight": edge_weight, "targets": targets, "assignment": start}
    assignment = stream(graph.indptr, graph.indices, parts, seed=seed, **options)
    assert assignment.dtype == np.int32
    assert ((assignment >= 0) & (assignment < parts)).all()
    weight = np.ones(n, np.int64) if weight is None else weight
    load = np.bincount(assignment, weights=weight, minlength=parts)
    mean = weight.sum() / parts
    assert load.max() <= max(1.03 * mean, mean + weight.max())
    np.testing.assert_array_equal(assignment, stream(graph.indptr, graph.indices, parts, seed=seed, **options))


@given(st.integers(0, 1000), st.booleans())
@settings(max_examples=50)
def test_what_is_not_movable_stays(seed, as_ids):
    graph = random_graph(60, 5, seed=seed)
    random = np.random.default_rng(seed)
    start = random.integers(0, 3, 60).astype(np.int32)
    movable = random.random(60) < 0.5
    start[movable & (random.random(60) < 0.5)] = -1
    before = start.copy()
    chosen = np.flatnonzero(movable) if as_ids else movable
    result = stream(graph.indptr, graph.indices, 3, seed=seed, assignment=start, movable=chosen)
    np.testing.assert_array_equal(start, before)
    np.testing.assert_array_equal(result[~movable], start[~movable])
    assert (result >= 0).all()
    fixed = np.bincount(start[~movable], minlength=3)
    assert np.bincount(result, minlength=3).max() <= max(fixed.max(), 1.03 * 20 + 1)


def cliques(count, size):
    """Cliques of 0, count, 2 * count, ..., of 1, count + 1, ..., and so on; 0 -- 1 -- 2 ... joins them."""
    n = count * size
    pairs = [(u, v) for u in range(n) for v in range(u) if u % count == v % count]
    sources, to = np.array(pairs + [(c, c + 1) for c in range(count - 1)]).T.copy()
    return _core.csc_from_edges(sources, to, n, True)


def cut(indptr, indices, assignment):
    return int((assignment[indices] != np.repeat(assignment, np.diff(indptr))).sum())


@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize("size", [12, 100])
def test_it_finds_the_bridges(parts, size):
    indptr, indices = cliques(parts, size)
    assignment = stream(indptr, indices, parts, seed=0)
    assert cut(indptr, indices, assignment) == 2 * (parts - 1)


def test_left_out_vertices_go_to_their_neighbours():
    # Of each clique one vertex in ten has a part; the others are to follow.
    indptr, indices = cliques(3, 100)
    clique = np.arange(300, dtype=np.int32) % 3
    start = np.where(np.arange(300) < 30, clique, -1).astype(np.int32)
    result = stream(indptr, indices, 3, seed=0, assignment=start, movable=start < 0)
    np.testing.assert_array_equal(result, clique)


@pytest.fixture(scope="module")
def synthetic():
    preset = Preset(
        num_vertices=20_000, edges_per_vertex=10, num_features=1, num_classes=4, train_share=0.3, valid_share=0.1
    )
    return generate(preset, seed=1)


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_it_is_nearly_as_good_as_metis(synthetic, parts):
    local = {}
    for method in ("metis", "streaming", "random"):
        assignment = methods.assign(method, Problem(graph=synthetic, parts=parts, seed=0))
        local[method] = quality.quality_of(synthetic, [assignment], parts)["local_edges"]
    assert local["streaming"] > local["metis"] - 0.02
    assert local["streaming"] > local["random"] + 0.3


def test_concentrated_targets_are_balanced_as_well(synthetic):
    # The targets are a part of METIS's own, and so all in one place.
    crowded = methods.assign("metis", Problem(graph=synthetic, parts=5, seed=0)) == 0
    targets = np.flatnonzero(crowded)
    local = {}
    for name, balanced in {"without": None, "with": targets}.items():
        assignment = stream(synthetic.indptr, synthetic.indices, 4, seed=0, targets=balanced)
        local[name] = 1 - cut(synthetic.indptr, synthetic.indices, assignment) / synthetic.num_edges
        if balanced is not None:
            assert np.bincount(assignment[targets], minlength=4).max() <= 1.15 * len(targets) / 4
        assert np.bincount(assignment, minlength=4).max() <= 1.03 * 20_000 / 4
    assert local["with"] > 0.5  # 0.25 at random


def test_many_clusters_and_pairs(synthetic, monkeypatch):
    whole = stream(synthetic.indptr, synthetic.indices, 4, seed=0)
    monkeypatch.setattr(clusters, "MAX_CLUSTERS", 1)  # so N / 16, and N / 4
    monkeypatch.setattr(clusters, "MAX_PAIRS", 1)
    monkeypatch.setattr(restream, "EDGES_AT_ONCE", 1 << 14)
    some = stream(synthetic.indptr, synthetic.indices, 4, seed=0)
    assert (some != whole).any()
    cuts = [cut(synthetic.indptr, synthetic.indices, assignment) for assignment in (whole, some)]
    assert cuts[1] < cuts[0] * 1.2


def test_the_seed_decides(synthetic):
    first, again, other = (stream(synthetic.indptr, synthetic.indices, 3, seed=s) for s in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("weight", [0, 1, 2**40])
def test_without_edges(weight):
    assignment = stream(
        np.zeros(9, np.int64),
        np.zeros(0, np.int32),
        4,
        seed=0,
        vertex_weight=np.full(8, weight),
        targets=np.arange(4),
    )
    if weight:
        assert np.bincount(assignment).tolist() == [2, 2, 2, 2]
        assert np.bincount(assignment[:4]).tolist() == [1, 1, 1, 1]


def test_one_vertex_heavier_than_all_others():
    indptr, indices = cliques(2, 10)
    weight = np.ones(20, np.int64)
    weight[3] = 1000
    assignment = stream(indptr, indices, 2, seed=0, vertex_weight=weight)
    assert (np.delete(assignment, 3) != assignment[3]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": 0}, "parts must be 1 to 24"),
        ({"parts": 25}, "parts must be 1 to 24"),
        ({"passes": 0}, "passes 0"),
        ({"imbalance": -0.1}, "imbalance -0.1"),
        ({"vertex_weight": np.ones(23, np.int64)}, "vertex_weight must be int64 .24., not int64 .23."),
        ({"cuts": 0}, "cuts must be at least 1, not 0"),
        ({"vertex_weight": np.full(24, -1)}, "negative"),
        ({"edge_weight": np.ones(266, np.float32)}, "edge_weight must be uint32 .266., not float32"),
        ({"targets": np.array([24])}, "targets has an id outside 0 .. 23"),
        ({"movable": np.ones(24, bool)}, "movable needs an assignment"),
        ({"assignment": np.full(24, 2, np.int32)}, "a part not in -1 .. 1"),
        ({"assignment": np.full(24, -1, np.int32), "movable": np.arange(3)}, "not movable has no part"),
    ],
)
def test_what_it_refuses(options, message):
    indptr, indices = cliques(2, 12)
    with pytest.raises(ValueError, match=message):
        stream(indptr, indices, options.get("parts", 2), seed=0, **{k: o for k, o in options.items() if k != "parts"})


def test_weights_between_clusters_keep_their_proportions():
    # Three clusters of two: eight edges of the largest weight between the first two, one to the third, a light one.
    most = 2**32 - 1
    edges = [(u, v, most) for u in (0, 1) for v in (2, 3)] + [(v, u, most) for u in (0, 1) for v in (2, 3)]
    edges += [(4, 2, most), (5, 0, 1)]
    edges.sort(key=lambda edge: edge[1])
    sources, to, weight = (np.array(column) for column in zip(*edges, strict=True))
    graph = restream.Stream(
        indptr=np.searchsorted(to, np.arange(7)).astype(np.int64),
        indices=sources,
        edge_weight=weight.astype(np.uint32),
    )
    packed = clusters.graph_of_clusters(graph, np.array([0, 0, 1, 1, 2, 2], np.int32), 3, seed=0)
    assert packed.indices.tolist() == [1, 2, 0, 2, 0, 1]
    heavy, light, _, middle = packed.edge_weight[:4].tolist()
    assert heavy == pytest.approx(8 * middle, rel=1e-6)
    assert light == 1


def test_ids_out_of_range_are_refused():
    with pytest.raises(ValueError, match="out of range: 7"):
        stream(np.array([0, 1, 2]), np.array([1, 7], np.int32), 2, seed=0)


@pytest.mark.parametrize("weighted", [False, True])
def test_outcomes_are_judged_by_targets_then_weight_then_cut(weighted, monkeypatch):
    monkeypatch.setattr(restream, "EDGES_AT_ONCE", 50)
    graph, random = random_graph(60, 5), np.random.default_rng(0)
    group = random.integers(0, 3, 60).astype(np.int32)
    weight = random.integers(1, 50, 60) if weighted else np.ones(60, np.int64)
    edge_weight = random.integers(0, 2**32, graph.num_edges).astype(np.uint32) if weighted else None
    target = (random.random(60) < 0.3).astype(np.int32)
    target[group == 1] = 1
    asked = restream.Stream(
        indptr=graph.indptr,
        indices=graph.indices,
        edge_weight=edge_weight,
        vertex_weight=weight if weighted else None,
        target_weight=target,
    )
    edges = [(graph.indices[e], v, e) for v in range(60) for e in range(graph.indptr[v], graph.indptr[v + 1])]
    cut = sum(int(edge_weight[e]) if weighted else 1 for u, v, e in edges if group[u] != group[v])
    limits = restream.limits_of(asked, 3, 0.01)
    most = [max(int(of[group == part].sum()) for part in range(3)) for of in (weight, target)]
    judged = restream.judge(asked, group, 3, 0.01)
    assert judged == (most[1] - limits[1], max(0, most[0] - limits[0]), cut)
    assert judged[0] > 0
