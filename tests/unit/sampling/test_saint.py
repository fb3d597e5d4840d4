"""GraphSAINT's subgraphs: sets and segments equal a slow reference, draws have their law, estimates are unbiased."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, norm
from support import rule_reference
from support.graphs import random_graph
from support.rule_cases import N, assert_equal, drawn_case, layout_of, segments_of

from gsplit.features.estimates import edge_factors
from gsplit.sampling import Saint
from gsplit.sampling.masses import source_masses, uniform_below

UNLUCKY = 1e-4


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**63 - 1),
    parts=st.integers(1, 5),
    layers=st.integers(1, 4),
    size=st.integers(1, 2 * N),
    importance=st.sampled_from(["squares", "counts", "norms"]),
    wide=st.booleans(),
    data=st.data(),
)
def test_sets_and_segments_are_those_of_the_reference(seed, parts, layers, size, importance, wide, data):
    layout, _, key = drawn_case(seed, parts, wide, data, weighted=True)
    rule = Saint(subgraph=str(min(size, N)), layers=layers, importance=importance)
    plan = rule.plan(layout, batch_size=1, seed=seed, micro_batches=3)
    sets, scales = rule_reference.saint_sets(
        layout.graph,
        layout.permutation,
        min(size, N),
        importance,
        3,
        seed=seed,
        epoch=key["epoch"],
        batch=key["batch"],
    )
    assert [some.tolist() for some in plan.sets(key["epoch"], key["batch"])] == sets
    micro = key["micro"]
    targets, others = (of(key["epoch"], key["batch"])[micro] for of in (plan.micro_batches, plan.others))
    assert sorted([*targets, *others]) == sets[micro]
    assert set(targets.tolist()) == set(sets[micro]) & set(layout.graph.train_idx.tolist())
    sampler = rule.sampler(layout, layout.offsets, seed=seed, edge_ids=True)
    segments = segments_of(sampler, targets, others=others, **key)
    reference = rule_reference.subgraph(layout.graph, layout.offsets, targets, others, layers, scales)
    assert_equal(segments, reference, edge_ids=True)
    for segment in segments:
        assert segment.sure_loops
        assert segment.target_scales().tolist() == [scales[v] for v in segment.targets.tolist()]


def test_an_epoch_throws_as_many_darts_as_there_are_vertices(layouts):
    layout = layouts(1)
    for micro_batches, number in ((1, 6), (2, 3), (4, 2), (9, 1)):
        rule = Saint(subgraph="17%", layers=2)
        assert rule.num_batches(layout, batch_size=1, micro_batches=micro_batches) == number


def chances_of(layout, darts):
    masses = source_masses(layout.graph, "squares", own=True).astype(float)
    return -np.expm1(-darts * masses / masses.sum())


def test_every_vertex_is_in_a_set_independently_of_the_others():
    layout = layout_of([0, 3, 3, 5, 6, 6, 6], [1, 2, 3, 0, 4, 0], 6)
    layout.graph.train_idx = np.arange(6)
    darts, repeats = 3, 12_000
    plan = Saint(subgraph=str(darts), layers=1).plan(layout, batch_size=1, seed=7)
    q = chances_of(layout, darts)
    assert (q > 0).all()
    sets = [some for number in range(7) for some in combinations(range(6), number)]
    law = np.array([np.prod([q[v] if v in some else 1 - q[v] for v in range(6)]) for some in sets])
    drawn = [tuple(plan.sets(0, batch)[0].tolist()) for batch in range(repeats)]
    place = {some: i for i, some in enumerate(sets)}
    counts = np.bincount([place[some] for some in drawn], minlength=len(sets))
    assert UNLUCKY < chisquare(counts, law * repeats).pvalue < 1 - UNLUCKY
    # As many darts each time, and vertices are in one another's way.
    ends = np.cumsum(source_masses(layout.graph, "squares", own=True))
    fixed = [
        tuple(np.unique(np.searchsorted(ends, uniform_below(key, int(ends[-1]), darts), side="right")).tolist())
        for key in range(repeats)
    ]
    counts = np.bincount([place[some] for some in fixed], minlength=len(sets))
    assert chisquare(counts, law * repeats).pvalue < UNLUCKY


def test_sums_and_losses_are_unbiased_at_every_vertex():
    graph = random_graph(40, 8, seed=2)
    graph.indices[graph.indptr[graph.train_idx[0]]] = graph.train_idx[0]  # a loop
    layout = layout_of(graph.indptr, graph.indices, 40)
    layout.graph.train_idx = graph.train_idx
    rule = Saint(subgraph="14", layers=1, importance="norms")
    plan, sampler = rule.plan(layout, batch_size=1, seed=3), rule.sampler(layout, layout.offsets, seed=3)
    h = np.random.default_rng(0).uniform(1, 2, 40)
    losses, sums, loops = [], {v: [] for v in graph.train_idx.tolist()}, 0
    for batch in range(4_000):
        (targets,), (others,) = plan.micro_batches(0, batch), plan.others(0, batch)
        sampler.sample(targets, others=others, epoch=0, batch=batch)
        segment = sampler.segment(0)
        losses.append((segment.target_scales() * h[segment.targets]).sum())
        rows = np.repeat(np.arange(len(targets)), np.diff(segment.indptr(1)))
        scales = segment.scales(1)[segment.indices(1)]
        loops += (segment.indices(1) == rows).sum()
        scales[segment.indices(1) == rows] = 1
        factors = edge_factors(scales, rows, np.ones(len(targets)), None, "unbiased")
        found = np.bincount(rows, factors * h[segment.vertices[segment.indices(1)]], len(targets))
        for v, each in zip(targets.tolist(), found.tolist(), strict=True):
            sums[v].append(each)

    def z_score(values, wanted):
        return abs(np.mean(values) - wanted) / (np.std(values, ddof=1) / np.sqrt(len(values)))

    bound = norm.isf(norm.sf(4) / len(sums))
    assert loops > 0
    assert z_score(losses, h[graph.train_idx].sum()) < 4
    often = {v: values for v, values in sums.items() if len(values) > 100}
    assert len(often) > len(sums) / 2
    for v, values in often.items():
        wanted = h[graph.indices[graph.indptr[v] : graph.indptr[v + 1]]].sum()
        if max(values) > min(values):
            assert z_score(values, wanted) < bound
        else:  # it has no in-edges
            assert values[0] == pytest.approx(wanted)
