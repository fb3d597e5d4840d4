"""The draws of rules have the laws that they should: chi-square against brute force, and means within their errors.

Seeds are fixed, so these tests always give the same verdict; 1e-4 is the chance that a correct sampler would have
been given an unlucky seed. Beside each law stands a sampler that is nearly right, and does not pass.
"""

from __future__ import annotations

from itertools import combinations, pairwise, permutations
from math import comb
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse import csr_matrix
from scipy.stats import chisquare, norm
from support.graphs import random_graph
from support.reference import key_of
from support.rule_cases import layout_of
from support.rule_reference import pool_masses, raced, uniform

from gsplit.features.estimates import edge_factors
from gsplit.sampling import FastGCN, Ladies, Uniform
from gsplit.sampling.masses import source_masses, uniform_below

UNLUCKY = 1e-4
CANDIDATES, DRAWN = 6, 3


def pool_of_six():
    """One hop of a few destinations whose in-neighbours are six candidates of different masses."""
    rows = [[6, 7], [6, 7, 8], [6, 8, 9, 10], [11, 6], [7, 6, 8, 9, 10, 11], [9]]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows]), [sum(map(len, rows))] * 6])
    return layout_of(indptr, [u for row in rows for u in row], 12)


def winners(rule, repeats):
    """[repeats, DRAWN] the sources drawn, ascending."""
    layout = pool_of_six()
    sampler = rule.sampler(layout, layout.offsets, seed=8)
    drawn = []
    for batch in range(repeats):
        sampler.sample(np.arange(6), epoch=0, batch=batch)
        segment = sampler.segment(0)
        drawn.append(np.sort(segment.vertices[segment.scales(1) > 0]))
    return np.array(drawn)


def masses_of_six():
    masses = pool_masses(pool_of_six().graph, range(6), "squares", weighted=False)
    return np.array([masses[u] for u in range(6, 12)], float) / 2**40


def one_after_the_other(masses):
    """Chances of each set of s draws without replacement, each in proportion to what is left."""
    chances = dict.fromkeys(combinations(range(len(masses)), DRAWN), 0.0)
    for order in permutations(range(len(masses)), DRAWN):
        chance, left = 1.0, masses.sum()
        for i in order:
            chance, left = chance * masses[i] / left, left - masses[i]
        chances[tuple(sorted(order))] += chance
    return np.array(list(chances.values()))


def by_priority(masses):
    """Chances of each set to have the s smallest u / w: an integral over the time of the first that loses."""
    chances = []
    for chosen in combinations(range(len(masses)), DRAWN):
        others = [j for j in range(len(masses)) if j not in chosen]

        def density(t, chosen=chosen, others=others):
            won = np.prod([min(1.0, masses[i] * t) for i in chosen])
            lost = [max(0.0, 1 - masses[j] * t) for j in others]
            return won * sum(
                masses[j] * (masses[j] * t < 1) * np.prod([x for k, x in zip(others, lost, strict=True) if k != j])
                for j in others
            )

        ends = np.unique(np.concatenate([[0], 1 / masses]))
        chances.append(sum(quad(density, a, b)[0] for a, b in pairwise(ends)))
    return np.array(chances)


@pytest.mark.parametrize(("draw", "law", "other"), [("race", 0, 1), ("priority", 1, 0)])
def test_sets_of_a_race_have_their_law_and_not_the_other_s(draw, law, other):
    laws = one_after_the_other(masses_of_six()), by_priority(masses_of_six())
    assert [chances.sum() for chances in laws] == pytest.approx([1, 1])
    drawn = winners(Ladies(sizes=(DRAWN,), draw=draw), 40_000) - 6
    sets = list(combinations(range(CANDIDATES), DRAWN))
    number = {chosen: i for i, chosen in enumerate(sets)}
    counts = np.bincount([number[tuple(row)] for row in drawn.tolist()], minlength=len(sets))
    pvalues = [chisquare(counts, chances * len(drawn)).pvalue for chances in laws]
    assert UNLUCKY < pvalues[law] < 1 - UNLUCKY
    assert pvalues[other] < UNLUCKY


def test_inverse_transform_sampling_is_one_law_with_the_race():
    """Darts at prefix sums, thrown again where they hit twice, as the bulk sampling paper draws."""
    masses, random = masses_of_six(), np.random.default_rng(0)
    ends = np.cumsum(masses)
    counts = dict.fromkeys(combinations(range(CANDIDATES), DRAWN), 0)
    for _ in range(40_000):
        hit: set[int] = set()
        while len(hit) < DRAWN:
            hit.add(int(np.searchsorted(ends, random.uniform(0, ends[-1]), side="right")))
        counts[tuple(sorted(hit))] += 1
    pvalue = chisquare(list(counts.values()), one_after_the_other(masses) * 40_000).pvalue
    assert UNLUCKY < pvalue < 1 - UNLUCKY


def test_darts_hit_in_proportion_to_the_masses():
    layout = pool_of_six()
    masses = source_masses(layout.graph, "squares").astype(float)
    sampler = FastGCN(sizes=(50,)).sampler(layout, layout.offsets, seed=3)
    hits = np.zeros(12)
    for batch in range(2_000):
        vertices, scales = sampler._thrown(key_of([3, batch]), 50)
        hits[vertices] += scales * 50 * masses[vertices] / masses.sum()
    assert hits.sum() == pytest.approx(2_000 * 50, rel=1e-6)
    some = masses > 0
    assert UNLUCKY < chisquare(np.rint(hits[some]), masses[some] / masses.sum() * 100_000).pvalue < 1 - UNLUCKY


def test_numbers_below_a_bound_are_uniform_and_remainders_would_not_be():
    bound = 3 * 2**40  # of the 2^42 numbers with its bits, a fourth is above it
    numbers = uniform_below(key_of([1]), bound, 60_000)
    assert len(numbers) == 60_000
    counts = np.bincount((numbers >> np.uint64(40)).astype(int), minlength=3)
    assert UNLUCKY < chisquare(counts).pvalue < 1 - UNLUCKY
    remainders = uniform_below(key_of([1]), 2**42, 60_000) % np.uint64(bound)
    biased = np.bincount((remainders >> np.uint64(40)).astype(int), minlength=3)
    assert chisquare(biased).pvalue < UNLUCKY


def test_every_subset_is_as_likely_to_be_a_set_and_pairs_of_sets_too():
    layout = layout_of([0] * 9, [], 8)
    layout.graph.train_idx = np.arange(8)
    plan = Uniform(subgraph="3", layers=1).plan(layout, batch_size=1, seed=6)
    firsts, seconds = [], []
    for epoch in range(20_000):
        firsts.append(tuple(plan.sets(epoch, 1)[0].tolist()))
        seconds.append(tuple(plan.sets(epoch, 2)[0].tolist()))
    sets = list(combinations(range(8), 3))
    sizes = {len(each) for each in firsts}, {len(each) for each in seconds}
    assert sizes == ({3}, {3})
    _, counts = np.unique(np.array(firsts), axis=0, return_counts=True)
    assert len(counts) == len(sets) == comb(8, 3)
    assert UNLUCKY < chisquare(counts).pvalue < 1 - UNLUCKY
    _, counts = np.unique(np.array([a + b for a, b in zip(firsts, seconds, strict=True)]), axis=0, return_counts=True)
    assert len(counts) == comb(8, 3) * comb(5, 3)
    assert UNLUCKY < chisquare(counts).pvalue < 1 - UNLUCKY


REPEATS = 4_000
N = 40


def whole_graph():
    graph = random_graph(N, 8, seed=2)
    return SimpleNamespace(graph=graph, permutation=np.arange(N), offsets=np.array([0, N]))


def z_scores(sums, wanted):
    """Of the mean of each column against what it should be, in standard errors."""
    error = sums.std(axis=0, ddof=1) / np.sqrt(len(sums))
    return np.abs(sums.mean(axis=0) - wanted)[error > 0] / error[error > 0]


def bound():
    """Four standard errors at one destination, as sure at all of them (Bonferroni)."""
    return norm.isf(norm.sf(4) / N)


def full_sums(graph, h):
    return np.array([h[graph.indices[a:b]].sum() for a, b in zip(graph.indptr[:-1], graph.indptr[1:], strict=True)])


@pytest.mark.parametrize(
    "rule",
    [
        Ladies(sizes=(12,)),
        Ladies(sizes=(12,), draw="race"),
        Ladies(sizes=(12,), importance="counts"),
        FastGCN(sizes=(12,)),
        Uniform(subgraph="14", layers=1, scaled=True),
    ],
    ids=str,
)
def test_unbiased_sums_are_unbiased_at_every_destination(rule):
    layout = whole_graph()
    h = np.random.default_rng(0).uniform(1, 2, N)
    sampler = rule.sampler(layout, layout.offsets, seed=5)
    random = np.random.default_rng(1)
    sums, targets = np.zeros((REPEATS, N)), np.arange(N)
    met = np.zeros((REPEATS, N), bool)
    for batch in range(REPEATS):
        others = None
        if isinstance(rule, Uniform):
            targets, others = np.sort(random.permutation(N)[:14]), np.empty(0, np.int64)
        sampler.sample(targets, epoch=0, batch=batch, others=others)
        segment = sampler.segment(0)
        rows = np.repeat(np.arange(len(targets)), np.diff(segment.indptr(1)))
        scales = segment.scales(1)[segment.indices(1)]
        if segment.sure_loops:
            scales[segment.indices(1) == rows] = 1
        factors = edge_factors(scales, rows, np.ones(len(targets)), None, "unbiased")
        own = segment.vertices[: len(targets)]
        sums[batch, own] = np.bincount(rows, factors * h[segment.vertices[segment.indices(1)]], len(targets))
        met[batch, own] = True
    wanted = full_sums(layout.graph, h)
    if not isinstance(rule, Uniform):
        assert z_scores(sums, wanted).max() < bound()
        return
    assert any(v in layout.graph.indices[a:b] for v, (a, b) in enumerate(pairwise(layout.graph.indptr.tolist())))
    worst = [z_scores(sums[met[:, v], v : v + 1], wanted[v]) for v in range(N)]
    assert np.concatenate(worst).max() < bound()


def test_neither_another_tau_nor_the_share_of_the_mass_is_unbiased():
    graph = whole_graph().graph
    h = np.random.default_rng(0).uniform(1, 2, N)
    masses = pool_masses(graph, range(N), "squares", weighted=False)
    names = {u: u for u in masses}
    total, size = sum(masses.values()), 12
    sums = {"tau": [], "last": [], "share": []}
    for batch in range(REPEATS):
        hop_key = key_of([5, 0, batch, 0, 1])
        won, tau = raced(masses, names, size, hop_key, "priority")
        last = max(uniform(hop_key, u) / masses[u] for u in won)
        for name, scales in (
            ("tau", {u: 1 / min(1.0, masses[u] * tau) for u in won}),
            ("last", {u: 1 / min(1.0, masses[u] * last) for u in won}),
            ("share", {u: total / (size * masses[u]) for u in won}),
        ):
            weight = np.zeros(N)
            weight[list(scales)] = list(scales.values())
            sums[name].append(full_sums(graph, h * weight))
    wanted = full_sums(graph, h)
    assert z_scores(np.array(sums["tau"]), wanted).max() < bound()
    assert z_scores(np.array(sums["last"]), wanted).max() > bound()
    assert z_scores(np.array(sums["share"]), wanted).max() > bound()


def test_the_matrix_formulation_gives_the_same_candidates_masses_and_edges(layouts):
    """Tripathy, Yelick, Buluc: P = Q A row by row, then the extracted block Q_R A Q_C, by SciPy."""
    layout = layouts(1)
    graph, n = layout.graph, layout.graph.num_vertices
    degrees = np.diff(graph.indptr)
    unit = [max(1, (2**40 + d * d // 2) // (d * d)) if d else 0 for d in degrees.tolist()]
    squares = csr_matrix((np.repeat(np.array(unit, np.int64), degrees), graph.indices, graph.indptr), (n, n))
    ones = csr_matrix((np.ones(graph.num_edges, np.int64), graph.indices, graph.indptr), (n, n))
    targets = graph.train_idx[::7]
    rule = Ladies(sizes=(50,))
    sampler = rule.sampler(layout, layout.offsets, seed=1)
    sampler.sample(targets, epoch=0, batch=3)
    segment = sampler.segment(0)

    q = csr_matrix((np.ones(len(targets), np.int64), ([0] * len(targets), targets)), (1, n))
    masses = (q @ squares).tocoo()
    wanted = pool_masses(graph, targets.tolist(), "squares", weighted=False)
    assert dict(zip(masses.col.tolist(), masses.data.tolist(), strict=True)) == wanted
    won, _ = raced(wanted, layout.permutation.tolist(), 50, key_of([1, 0, 3, 0, 1]), "priority")
    rows = csr_matrix((np.ones(len(targets), np.int64), (range(len(targets)), targets)), (len(targets), n))
    chosen = np.sort(list(won))
    columns = csr_matrix((np.ones(len(chosen), np.int64), (chosen, range(len(chosen)))), (n, len(chosen)))
    extracted = (rows @ ones @ columns).tocoo()  # with the number of edges where there are several
    found = zip(extracted.row.tolist(), chosen[extracted.col].tolist(), extracted.data.tolist(), strict=True)
    theirs = sorted((v, u) for v, u, number in found for _ in range(number))
    destination = np.repeat(np.arange(len(targets)), np.diff(segment.indptr(1)))
    ours = sorted(zip(destination.tolist(), segment.vertices[segment.indices(1)].tolist(), strict=True))
    assert ours == theirs

    static = (csr_matrix(np.ones((1, n), np.int64)) @ squares).toarray()[0]
    assert source_masses(graph, "squares").tolist() == static.tolist()


def test_subgraphs_are_the_rows_and_columns_of_the_set(layouts):
    layout = layouts(3)
    graph, n = layout.graph, layout.graph.num_vertices
    adjacency = csr_matrix((np.ones(graph.num_edges, np.int64), graph.indices, graph.indptr), (n, n))
    plan = Uniform(subgraph="20%", layers=3).plan(layout, batch_size=1, seed=0)
    sampler = Uniform(subgraph="20%", layers=3).sampler(layout, layout.offsets, seed=0)
    (targets,), (others,) = plan.micro_batches(0, 1), plan.others(0, 1)
    sampler.sample(targets, epoch=0, batch=1, others=others)
    segments = [sampler.segment(rank) for rank in range(3)]
    some = np.sort(np.concatenate([targets, others]))
    inside = adjacency[some][:, some].tocoo()
    inside.sum_duplicates()
    wanted = sorted(zip(some[inside.row].tolist(), some[inside.col].tolist(), inside.data.tolist(), strict=True))
    for layer in (1, 2):
        found = np.zeros((n, n), np.int64)
        for segment in segments:
            sources = [segment.vertices[: segment.level_sizes[layer - 1]]]
            sources += [peer.vertices[peer.send_rows(layer)[segment.rank]] for peer in segments]
            source = np.concatenate(sources)[segment.indices(layer)]
            rows = np.repeat(segment.vertices[: segment.level_sizes[layer]], np.diff(segment.indptr(layer)))
            np.add.at(found, (rows, source), 1)
        places = np.argwhere(found)
        assert [(*map(int, at), int(found[tuple(at)])) for at in places] == wanted
