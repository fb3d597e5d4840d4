"""Another uniform set for each layer: segments equal a slow reference, and several layers are unbiased."""

from __future__ import annotations

import tracemalloc
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, norm
from support import rule_reference
from support.graphs import random_graph
from support.rule_cases import N, assert_equal, drawn_case, segments_of

from gsplit.features.estimates import edge_factors
from gsplit.sampling import Fresh, Uniform
from gsplit.sampling.fresh import FreshSampler, bytes_of_sets, subset_below

UNLUCKY = 1e-4
SIZE, VERTICES = 14, 40
OWN = 0.5
"""What a layer counts a vertex's own row, beside its in-edges."""


@pytest.mark.parametrize("scaled", [False, True])
@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**63 - 1),
    parts=st.integers(1, 5),
    layers=st.integers(1, 4),
    size=st.sampled_from([1, 10, 44, 45, 46, 80, N]),
    how=st.sampled_from([(None, 1), (0, 3)]),
    wide=st.booleans(),
    data=st.data(),
)
def test_segments_are_those_of_the_reference(scaled, seed, parts, layers, size, how, wide, data):
    layout, targets, key = drawn_case(seed, parts, wide, data, weighted=True)
    options = {"seed": seed, "edge_ids": True, "memory": how[0], "threads": how[1]}
    sampler = Fresh(subgraph=str(size), layers=layers, scaled=scaled).sampler(layout, layout.offsets, **options)
    segments = segments_of(sampler, targets, **key)
    about = {"global_ids": layout.permutation, "seed": seed, **key}
    wanted = rule_reference.fresh(layout.graph, layout.offsets, targets, layers, size, N / size, **about)
    assert_equal(segments, wanted, edge_ids=True, scales=scaled)
    assert not any(segment.sure_loops for segment in segments)


@pytest.mark.parametrize("size", [3, 6])
def test_every_subset_is_as_likely(size):
    masks = [subset_below(key, 8, size) for key in range(6_000)]
    number = {some: i for i, some in enumerate(combinations(range(8), size))}
    counts = np.bincount([number[tuple(np.flatnonzero(mask).tolist())] for mask in masks], minlength=len(number))
    assert UNLUCKY < chisquare(counts).pvalue < 1 - UNLUCKY


def test_targets_are_those_of_one_set_and_nothing_else_starts(layouts):
    layout, how = layouts(3), {"batch_size": 1, "seed": 4, "micro_batches": 2}
    fresh, one = (rule(subgraph="17%", layers=2) for rule in (Fresh, Uniform))
    number = fresh.num_batches(layout, batch_size=1, micro_batches=2)
    assert number == one.num_batches(layout, batch_size=1, micro_batches=2)
    plan, wanted = fresh.plan(layout, **how), one.plan(layout, **how)
    for batch in range(number):
        same = zip(plan.micro_batches(1, batch), wanted.micro_batches(1, batch), strict=True)
        assert all(ours.tolist() == theirs.tolist() for ours, theirs in same)
        assert [others.tolist() for others in plan.others(1, batch)] == [[], []]
    assert global_sets(fresh, layout) == global_sets(fresh, layouts(1))


def global_sets(rule, layout):
    """Global ids of the sets of two micro-batches, which all differ."""
    sampler = rule.sampler(layout, layout.offsets, seed=3)
    sets = [sorted(layout.permutation[some].tolist()) for micro in (0, 1) for some in sampler.sets(0, 2, micro)]
    assert len({tuple(some) for some in sets}) == 4
    assert {len(some) for some in sets} == {51}
    return sets


def two_layers(segment, h):
    """Two linear layers, each OWN times the own row and the unbiased sum over in-edges: of the targets."""
    for layer in (1, 2):
        number = segment.level_sizes[layer]
        rows = np.repeat(np.arange(number), np.diff(segment.indptr(layer)))
        scales = segment.scales(layer)[segment.indices(layer)]
        if segment.sure_loops:
            scales[segment.indices(layer) == rows] = 1
        factors = edge_factors(scales, rows, np.ones(number), None, "unbiased")
        h = OWN * h[:number] + np.bincount(rows, factors * h[segment.indices(layer)], number)
    return h


def outputs(rule, repeats):
    """What two layers compute of every vertex that is in a set, by draw: [repeats, vertices], NaN of others."""
    graph = random_graph(VERTICES, 8, seed=2)
    layout = SimpleNamespace(graph=graph, permutation=np.arange(VERTICES), offsets=np.array([0, VERTICES]))
    sampler, random = rule.sampler(layout, layout.offsets, seed=5), np.random.default_rng(1)
    h, found = np.random.default_rng(0).uniform(1, 2, VERTICES), np.full((repeats, VERTICES), np.nan)
    for batch in range(repeats):
        start = np.arange(VERTICES) if isinstance(rule, Fresh) else random.permutation(VERTICES)[:SIZE]
        sampler.sample(start, epoch=0, batch=batch)
        segment = sampler.segment(0)
        found[batch, segment.targets] = two_layers(segment, h[segment.vertices])
    a = np.zeros((VERTICES, VERTICES))
    np.add.at(a, (np.repeat(np.arange(VERTICES), np.diff(graph.indptr)), graph.indices), 1)
    assert np.trace(a) > 0
    return found, a, h


def worst(found, wanted):
    """The standard errors by which the mean of the worst vertex is off."""
    number = (~np.isnan(found)).sum(axis=0)
    error = np.nanstd(found, axis=0, ddof=1) / np.sqrt(number)
    some = error > 1e-9
    assert np.allclose(np.nanmean(found, axis=0)[~some], wanted[~some])
    return (np.abs(np.nanmean(found, axis=0) - wanted)[some] / error[some]).max()


BOUND = norm.isf(norm.sf(4) / VERTICES)
"""Four standard errors at one vertex, as sure at all of them (Bonferroni)."""


def test_two_layers_are_the_whole_graph_s_on_average():
    found, a, h = outputs(Fresh(subgraph=str(SIZE), layers=2, scaled=True), 2_000)
    whole = a + OWN * np.eye(VERTICES)
    assert worst(found, whole @ whole @ h) < BOUND


def test_two_layers_on_one_set_are_off_by_the_way_back_as_the_closed_form_says():
    found, a, h = outputs(Uniform(subgraph=str(SIZE), layers=2, scaled=True), 8_000)
    own, off = np.diag(np.diag(a) + OWN), a - np.diag(np.diag(a))
    whole, back = own + off, np.diag(np.diag(off @ off))
    n, p = VERTICES, (SIZE - 1) / (VERTICES - 1)
    both = (SIZE - 2) * (n - 1) / ((n - 2) * (SIZE - 1))
    closed = own @ own + own @ off + off @ own + both * (off @ off - back) + back / p
    assert worst(found, closed @ h) < BOUND
    assert worst(found, whole @ whole @ h) > BOUND


@pytest.mark.parametrize(("share", "layers"), [(0.1, 4), (0.5, 2), (0.9, 2)])
def test_sets_take_what_is_said(share, layers):
    n, size = 500_000, int(500_000 * share)
    graph = SimpleNamespace(_global_ids=np.arange(n), _layers=layers, _size=size, _seed=0)
    tracemalloc.start()
    try:
        FreshSampler.sets(graph, epoch=0, batch=0, micro=0)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.8 * bytes_of_sets(n, size, layers) < taken < 1.05 * bytes_of_sets(n, size, layers)
