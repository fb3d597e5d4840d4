"""LADIES, FastGCN and subgraphs: segments equal a slow reference, row by row and scale by scale."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import rule_reference
from support.graphs import random_graph
from support.rule_cases import N, assert_equal, drawn_case, segments_of

import gsplit._core as _core
from gsplit.sampling import Clusters, FastGCN, Ladies, MiniBatchSampler, Uniform
from gsplit.sampling.plan import fold_key
from gsplit.sampling.subgraphs import SETS

HOWS = [(None, 1), (0, 1), (None, 2), (0, 3)]


def assert_as_by(reference, rule, flags, sizes, layout, targets, key, how):
    """A rule of layers draws what its slow reference draws."""
    segments = segments_of(rule(sizes=tuple(sizes), **flags).sampler(layout, layout.offsets, **how), targets, **key)
    same = {"weighted": how["edge_ids"], "global_ids": layout.permutation, "seed": how["seed"], **flags, **key}
    wanted = reference(layout.graph, layout.offsets, targets, sizes, **same)
    assert_equal(segments, wanted, edge_ids=how["edge_ids"])


@pytest.mark.parametrize(("memory", "threads"), HOWS)
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**63 - 1),
    parts=st.integers(1, 5),
    sizes=st.lists(st.sampled_from([1, 3, 10, 40, 200]), min_size=1, max_size=3),
    importance=st.sampled_from(["squares", "counts", "norms"]),
    draw=st.sampled_from(["priority", "race"]),
    wide=st.booleans(),
    weighted=st.booleans(),
    data=st.data(),
)
def test_ladies(memory, threads, seed, parts, sizes, importance, draw, wide, weighted, data):
    layout, targets, key = drawn_case(seed, parts, wide, data, weighted=weighted)
    how = {"seed": seed, "edge_ids": weighted, "memory": memory, "threads": threads}
    flags = {"importance": importance, "draw": draw}
    assert_as_by(rule_reference.ladies, Ladies, flags, sizes, layout, targets, key, how)


@pytest.mark.parametrize(("memory", "threads"), HOWS[:2])
@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**63 - 1),
    parts=st.integers(1, 5),
    sizes=st.lists(st.sampled_from([1, 5, 60]), min_size=1, max_size=3),
    importance=st.sampled_from(["squares", "counts", "norms"]),
    wide=st.booleans(),
    weighted=st.booleans(),
    data=st.data(),
)
def test_fastgcn(memory, threads, seed, parts, sizes, importance, wide, weighted, data):
    layout, targets, key = drawn_case(seed, parts, wide, data, weighted=weighted)
    how = {"seed": seed, "edge_ids": weighted, "memory": memory, "threads": threads}
    assert_as_by(rule_reference.fastgcn, FastGCN, {"importance": importance}, sizes, layout, targets, key, how)


@pytest.mark.parametrize("unbiased", [False, True])
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**63 - 1),
    parts=st.integers(1, 5),
    layers=st.integers(1, 4),
    size=st.integers(0, N),
    wide=st.booleans(),
    data=st.data(),
)
def test_subgraphs(unbiased, seed, parts, layers, size, wide, data):
    layout, _, key = drawn_case(seed, parts, wide, data, weighted=True)
    chosen = np.random.default_rng(seed).permutation(N)[:size]
    targets, others = np.split(chosen, [data.draw(st.integers(0, size))])
    rule = Uniform(subgraph=str(max(1, size)), layers=layers, scaled=unbiased)
    sampler = rule.sampler(layout, layout.offsets, seed=seed, edge_ids=True)
    segments = segments_of(sampler, targets, others=others, **key)
    scale = (N - 1) / max(1, size - 1)
    reference = rule_reference.subgraph(layout.graph, layout.offsets, targets, others, layers, scale)
    assert_equal(segments, reference, edge_ids=True, scales=unbiased)
    for segment in segments:  # the layers below the last are one block in memory
        header = [segment.layers[layer] for layer in range(1, layers)]
        assert len({(layer.indptr_at, layer.indices_at, layer.edge_ids_at, layer.scales_at) for layer in header}) <= 1


@settings(max_examples=60)
@given(n=st.integers(0, 3000), pieces=st.integers(1, 40), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 5))
def test_sets_are_runs_of_the_shuffle(n, pieces, seed, epoch):
    ids = np.random.default_rng(seed).permutation(n)
    bounds = np.array([n * i // pieces for i in range(pieces + 1)])
    order = np.empty(n, np.int64)
    _core.shuffle_into_runs(ids, fold_key(seed, epoch, SETS), bounds, order)
    wanted = rule_reference.shuffled_sets(ids, pieces, seed=seed, epoch=epoch)
    assert [run.tolist() for run in np.split(order, bounds[1:-1])] == wanted


@pytest.mark.parametrize("bounds", [[], [0], [1, 5], [0, 4], [0, 3, 2, 5]])
def test_runs_that_are_none_are_refused(bounds):
    with pytest.raises(ValueError, match="bounds must ascend"):
        _core.shuffle_into_runs(np.arange(5), 1, np.array(bounds, np.int64), np.empty(5, np.int64))


def test_sets_of_an_epoch_have_every_vertex_once_whatever_the_layout(layouts):
    sets = {}
    for parts in (1, 3):
        layout = layouts(parts)
        rule = Uniform(subgraph="17%", layers=2)
        plan = rule.plan(layout, batch_size=1, seed=4, micro_batches=2)
        number = rule.num_batches(layout, batch_size=1, micro_batches=2)
        assert number == 3
        sets[parts] = [
            sorted(layout.permutation[some].tolist())
            for epoch in (0, 1)
            for batch in range(number)
            for some in plan.sets(epoch, batch)
        ]
        train = set(layout.graph.train_idx.tolist())
        for batch in range(number):
            for targets, others in zip(plan.micro_batches(0, batch), plan.others(0, batch), strict=True):
                assert train.issuperset(targets.tolist())
                assert train.isdisjoint(others.tolist())
    assert sets[1] == sets[3]
    first, second = sets[1][:6], sets[1][6:]
    assert sorted(v for some in first for v in some) == list(range(300))
    assert sorted(v for some in second for v in some) == list(range(300))
    assert first != second


def test_clusters_are_whole_parts(layouts):
    layout = layouts(5)
    rule = Clusters(clusters=2, layers=2)
    plan, number = rule.plan(layout, batch_size=1, seed=0), rule.num_batches(layout, batch_size=1)
    assert number == 3
    met = []
    for batch in range(number):
        (some,) = plan.sets(0, batch)
        parts = np.unique(np.searchsorted(layout.offsets, some, side="right") - 1)
        assert some.tolist() == [v for p in parts for v in range(layout.offsets[p], layout.offsets[p + 1])]
        met += parts.tolist()
    assert sorted(met) == list(range(5))


@pytest.mark.parametrize("draw", ["priority", "race"])
def test_sizes_above_every_pool_keep_all_edges(layouts, draw):
    layout = layouts(3)
    targets = layout.graph.train_idx[::9]
    rule = Ladies(sizes=(300, 300), draw=draw)
    every = rule.sampler(layout, layout.offsets, seed=1, edge_ids=True)
    whole = MiniBatchSampler(
        layout.graph.indptr, layout.graph.indices, layout.offsets, fan_outs=[-1, -1], seed=1, edge_ids=True
    )
    for ours, theirs in zip(*(segments_of(each, targets, epoch=0, batch=0) for each in (every, whole)), strict=True):
        assert ours.vertices.tobytes() == theirs.vertices.tobytes()
        for layer in (1, 2):
            for name in ("indptr", "indices", "edge_ids"):
                assert getattr(ours, name)(layer).tobytes() == getattr(theirs, name)(layer).tobytes()
            assert [rows.tolist() for rows in ours.send_rows(layer)] == [r.tolist() for r in theirs.send_rows(layer)]
            assert set(ours.scales(layer).tolist()) <= {0.0, 1.0}
            assert (ours.scales(layer)[ours.indices(layer)] == 1).all()


@pytest.mark.parametrize(
    ("rule", "message"),
    [(Ladies(sizes=(0,)), "at least 1 source, not 0"), (Uniform(subgraph="5", layers=0), "at least one layer")],
)
def test_what_cannot_be_sampled_is_refused(layouts, rule, message):
    sampler = rule.sampler(layouts(2), layouts(2).offsets, seed=0)
    with pytest.raises(ValueError, match=message):
        sampler.sample(np.arange(4), epoch=0, batch=0)
    with pytest.raises(ValueError, match="sample one first"):
        sampler.segment_bytes(0)


def test_what_the_core_cannot_do_is_refused(layouts):
    with pytest.raises(ValueError, match="global ids are not distinct"):
        _core.shuffle_into_runs(np.zeros(64, np.int64), 1, np.array([0, 32, 64]), np.empty(64, np.int64))
    with pytest.raises(ValueError, match="an element for each vertex"):
        _core.shuffle_into_runs(np.arange(64), 1, np.array([0, 32, 64]), np.empty(65, np.int64))
    layout = layouts(3)
    sampler = Ladies(sizes=(40, 40)).sampler(layout, layout.offsets, seed=0, partial_sums=True)
    with pytest.raises(ValueError, match="sums of rows have no scale"):
        sampler.sample(layout.graph.train_idx, epoch=0, batch=0)
    subgraph = Uniform(subgraph="5", layers=2).sampler(layout, layout.offsets, seed=0)
    subgraph._layers = -1
    with pytest.raises(ValueError, match="at least one layer"):
        subgraph.sample(np.arange(4), epoch=0, batch=0)


def test_a_set_of_vertices_given_twice_or_not_there_is_refused_and_the_sampler_goes_on(layouts):
    layout = layouts(2)
    sampler = Uniform(subgraph="5", layers=2).sampler(layout, layout.offsets, seed=0)
    for targets, others, message in (([1, 2], [2], "vertex 2 is given twice"), ([1], [300], "is not a vertex")):
        with pytest.raises(ValueError, match=message):
            sampler.sample(np.array(targets), others=np.array(others), epoch=0, batch=0)
    sampler.sample(np.array([1]), others=np.array([2, 3]), epoch=0, batch=0)
    again = Uniform(subgraph="5", layers=2).sampler(layout, layout.offsets, seed=0)
    again.sample(np.array([1]), others=np.array([2, 3]), epoch=0, batch=0)
    for rank in range(2):
        assert sampler.segment(rank).data.tobytes() == again.segment(rank).data.tobytes()


def test_hops_of_several_runs_of_destinations():
    n = 1_400
    graph = random_graph(n, 130, seed=3)
    assert graph.num_edges > 4 * 32_768  # edges that a run looks at
    layout = SimpleNamespace(graph=graph, permutation=np.random.default_rng(0).permutation(n), parts=2)
    layout.offsets = np.array([0, 900, n])
    about = {"seed": 7, "epoch": 0, "batch": 1, "micro": 0}
    targets = np.arange(0, n, 2)
    sampler = Ladies(sizes=(400, 700)).sampler(layout, layout.offsets, seed=7)
    segments = segments_of(sampler, targets, epoch=0, batch=1)
    reference = rule_reference.ladies(
        graph,
        layout.offsets,
        targets,
        (400, 700),
        importance="squares",
        draw="priority",
        weighted=False,
        global_ids=layout.permutation,
        **about,
    )
    assert_equal(segments, reference, edge_ids=False)
    subgraphs = Uniform(subgraph=str(n), layers=2).sampler(layout, layout.offsets, seed=7)
    segments = segments_of(subgraphs, targets, others=targets + 1, epoch=0, batch=1)
    reference = rule_reference.subgraph(graph, layout.offsets, targets, targets + 1, 2, 1.0)
    assert_equal(segments, reference, edge_ids=False, scales=False)
