"""The draws are uniform: chi-square on neighbours and on pairs, at low and high ratios of fan-out to degree.

A popular sampler draws ``% j`` where ``% (j + 1)`` is right and never picks the last neighbour; another has
modulo bias. Seeds are fixed, so these tests always give the same verdict; 1e-4 is the chance that a correct
sampler would have been given an unlucky seed.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency, chisquare

from gsplit.sampling import MiniBatchSampler

UNLUCKY = 1e-4


def draws(degree, fan_out, repeats, *, seed=1):
    """[repeats, fan_out] positions drawn for vertices with ``degree`` neighbours each (all of them 0 .. degree-1)."""
    n = max(degree, repeats)
    indptr = np.arange(0, degree * n + 1, degree)
    indices = np.tile(np.arange(degree, dtype=np.int32), n)
    sampler = MiniBatchSampler(indptr, indices, [0, n], fan_outs=[fan_out], seed=seed, edge_ids=True)
    sampler.sample(np.arange(repeats), epoch=0, batch=0)
    return (sampler.segment(0).edge_ids(1) % degree).reshape(repeats, fan_out)


@pytest.mark.parametrize(
    ("degree", "fan_out"), [(2, 1), (5, 4), (7, 3), (21, 20), (40, 20), (200, 20), (1000, 2), (100, 60), (80, 79)]
)
def test_every_neighbour_is_as_likely(degree, fan_out):
    repeats = 40_000 if degree < 100 else 8_000
    drawn = draws(degree, fan_out, repeats)
    assert all(len(set(row)) == fan_out for row in drawn[:500].tolist())  # without replacement
    counts = np.bincount(drawn.ravel(), minlength=degree)
    assert counts[-1] > 0
    # Draws of one vertex exclude each other, which shrinks the variance by (degree - fan_out) / (degree - 1).
    expected = repeats * fan_out / degree
    statistic = ((counts - expected) ** 2).sum() / expected
    corrected = statistic * (degree - 1) / (degree - fan_out)
    assert UNLUCKY < chi2.sf(corrected, degree - 1) < 1 - UNLUCKY


@pytest.mark.parametrize(("degree", "fan_out"), [(6, 2), (6, 4), (8, 3)])
def test_every_subset_is_as_likely(degree, fan_out):
    drawn = np.sort(draws(degree, fan_out, 60_000, seed=5), axis=1)
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == len(list(combinations(range(degree), fan_out)))
    assert chisquare(counts).pvalue > UNLUCKY


def test_neighbouring_vertices_draw_independently():
    first = draws(8, 1, 40_000)[:, 0]
    table = np.zeros((8, 8))
    np.add.at(table, (first[:-1], first[1:]), 1)
    assert chi2_contingency(table).pvalue > UNLUCKY


def test_hops_draw_independently():
    # One vertex type, all with the same 8 neighbours: compare the draw at hop 1 with that at hop 2.
    n, degree = 20_000, 8
    indptr, indices = np.arange(0, degree * n + 1, degree), np.tile(np.arange(degree, dtype=np.int32), n)
    sampler = MiniBatchSampler(indptr, indices, [0, n], fan_outs=[1, 1], seed=3, edge_ids=True)
    sampler.sample(np.arange(n), epoch=0, batch=0)
    segment = sampler.segment(0)
    table = np.zeros((degree, degree))
    np.add.at(table, (segment.edge_ids(2) % degree, segment.edge_ids(1)[:n] % degree), 1)
    assert chi2_contingency(table).pvalue > UNLUCKY
