"""Law 7: no mini-batch draws an edge that it is asked about; all else is drawn as the slow reference draws it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2
from support.messages import line_with
from support.reference import sample_and_split

from gsplit.sampling import Ladies, MiniBatchSampler

UNLUCKY = 1e-4
"""The chance that a correct sampler would have been given an unlucky seed."""
FEW = 16
"""Sources of 4 bytes up to which the core compares, and beyond which it looks them up."""
WAYS = [(None, 1, False), (0, 1, True), (None, 2, True), (0, 3, False)]
"""Bound on memory, threads, numbering by id."""


def graph_of(sources, destinations, n, dtype=np.int32):
    order = np.argsort(destinations, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(destinations, minlength=n))])
    return SimpleNamespace(indptr=indptr, indices=sources[order].astype(dtype))


def random_case(number):
    """A graph with loops and multi-edges, and pairs of it: of every third most are from or to one vertex."""
    random = np.random.default_rng(number)
    n, num_edges = int(random.integers(4, 60)), int(random.integers(1, 400))
    sources, destinations = random.integers(0, n, (2, num_edges))
    if number % 3 == 0:
        sources[: num_edges // 2] = destinations[num_edges // 4 :][: num_edges // 2] = random.integers(n)
    pairs = random.integers(0, num_edges, int(random.integers(1, 80)))
    graph = graph_of(sources, destinations, n, np.int32 if number % 2 else np.int64)
    return random, graph, sources[pairs], destinations[pairs]


def sampler_of(graph, offsets, fan_outs, **options):
    return MiniBatchSampler(graph.indptr, graph.indices, offsets, fan_outs=fan_outs, edge_ids=True, **options)


def drawn_edges(segment, layer):
    """Ids of the drawn edges, and their destinations."""
    header = segment.layers[layer]
    return segment.edge_ids(layer), np.repeat(
        segment.vertices[: header.num_destinations], np.diff(segment.indptr(layer))
    )


@pytest.mark.parametrize(("memory", "threads", "by_id"), WAYS)
def test_no_edge_between_two_targets_of_a_pair_is_drawn_and_all_else_equals_the_reference(memory, threads, by_id):
    many = 0
    for number in range(WAYS.index((memory, threads, by_id)), 300, len(WAYS)):
        random, graph, u, v = random_case(number)
        n, fan_outs = len(graph.indptr) - 1, random.choice([-1, 1, 2, 3, 5], 2).tolist()
        sources, destinations = np.concatenate([u, v]), np.concatenate([v, u])
        excluded = set(zip(sources.tolist(), destinations.tolist(), strict=True))
        many += np.bincount([pair[1] for pair in excluded]).max() > FEW
        targets, key = np.unique(sources), {"epoch": 1, "batch": number}
        of_splits = []
        for parts in (1, 1 + number // len(WAYS) % 5):
            offsets = [0, *np.sort(random.integers(0, n + 1, parts - 1)).tolist(), n]
            ids = {"seed": 7, "global_ids": np.random.default_rng(number).permutation(n)}
            sampler = sampler_of(graph, offsets, fan_outs, memory=memory, threads=threads, **ids)
            if by_id:
                sampler.number_by_id()
            sampler.exclude(*random.integers(0, n, (2, 50)))  # forgotten
            sampler.exclude(destinations, sources)
            assert sampler.sample(targets, **key)
            segments = [sampler.segment(rank) for rank in range(parts)]
            reference = sample_and_split(
                graph, offsets, targets, fan_outs, by_id=by_id, excluded=excluded, **ids, **key
            )
            found = set()
            for segment, wanted in zip(segments, reference, strict=True):
                segment.validate()
                assert segment.vertices.tolist() == wanted.vertices
                for layer, fan_out in zip(segment.layers, reversed(fan_outs), strict=True):
                    assert segment.indices(layer).tolist() == wanted.source_rows(layer)
                    edges, ends = drawn_edges(segment, layer)
                    assert edges.tolist() == wanted.edge_ids[layer]
                    assert not excluded & set(zip(graph.indices[edges].tolist(), ends.tolist(), strict=True))
                    for vertex, count in zip(segment.vertices, np.diff(segment.indptr(layer)), strict=False):
                        neighbours = graph.indices[graph.indptr[vertex] : graph.indptr[vertex + 1]].tolist()
                        left = sum((neighbour, vertex) not in excluded for neighbour in neighbours)
                        assert count == (left if fan_out < 0 else min(fan_out, left))
                    found |= {(layer, edge) for edge in edges.tolist()}
            of_splits.append(found)
            every = zip(graph.indices.tolist(), np.repeat(np.arange(n), np.diff(graph.indptr)).tolist(), strict=True)
            assert sampler.excluded_edges == sum(edge in excluded for edge in every)
        assert of_splits[0] == of_splits[1]
    assert many > 3, "lists are looked through in two ways"


def test_vertices_without_excluded_in_edges_draw_as_ever_and_the_next_mini_batch_all():
    changed = 0
    for number in range(60):
        random, graph, u, v = random_case(number)
        n = len(graph.indptr) - 1
        sampler = sampler_of(graph, [0, n], [int(random.choice([1, 2, 3]))], seed=3)

        def drawn(sampler=sampler, n=n):
            assert sampler.sample(np.arange(n), epoch=0, batch=0)
            edges, ends = drawn_edges(sampler.segment(0), 1)
            return [edges[ends == vertex].tolist() for vertex in range(n)]

        before = drawn()
        sampler.exclude(v, u)
        around = drawn()
        assert [around[vertex] for vertex in range(n) if vertex not in v] == [
            before[vertex] for vertex in range(n) if vertex not in v
        ]
        assert sampler.excluded_edges >= len(set(zip(u.tolist(), v.tolist(), strict=True)))
        changed += around != before
        assert drawn() == before
        assert sampler.excluded_edges == 0
    assert changed > 50


@pytest.mark.parametrize(("degree", "fan_out", "excluded"), [(19, 6, [3, 8, 18]), (600, 40, [*range(0, 300, 3)])])
def test_every_other_neighbour_is_as_likely(degree, fan_out, excluded):
    repeats = 240_000 // fan_out
    indptr = np.arange(0, degree * (repeats + 1), degree)
    sources = np.arange(degree, dtype=np.int32)
    n = max(degree, repeats)
    indptr = np.concatenate([indptr, np.full(n - repeats, indptr[-1])])
    sampler = MiniBatchSampler(indptr, np.tile(sources, repeats), [0, n], fan_outs=[fan_out], seed=2, edge_ids=True)
    sampler.exclude(np.repeat(np.arange(repeats), len(excluded)), np.tile(excluded, repeats))
    sampler.sample(np.arange(repeats), epoch=0, batch=0)
    assert sampler.excluded_edges == len(excluded) * repeats
    counts = np.bincount(sampler.segment(0).edge_ids(1) % degree, minlength=degree)
    assert not counts[excluded].any()
    counts = np.delete(counts, excluded)
    assert counts.sum() == repeats * fan_out
    # Draws of one vertex exclude each other, which shrinks the variance by (left - fan_out) / (left - 1).
    left = degree - len(excluded)
    expected = repeats * fan_out / left
    corrected = ((counts - expected) ** 2).sum() / expected * (left - 1) / (left - fan_out)
    assert UNLUCKY < chi2.sf(corrected, left - 1) < 1 - UNLUCKY


@pytest.mark.parametrize("many", [1, FEW, FEW + 1, 200])
def test_a_long_list_with_many_copies_is_drawn_around(many):
    """Longer than what is looked through at a time, by blocks and by chunks.

    Its last neighbour is excluded, too, and one that two blocks of 32 have in common: the last begins at 4,971.
    """
    random = np.random.default_rng(many)
    degree, n = 5_003, 1_000
    graph = graph_of(random.integers(0, n, degree), np.zeros(degree, np.int64), n)
    graph.indices[4_980] = graph.indices[-1]
    sources = np.unique(np.append(random.choice(n, many - 1, replace=False), graph.indices[-1]))
    for fan_out in (7, 300, -1):
        sampler = sampler_of(graph, [0, n], [fan_out], seed=5)
        sampler.exclude(np.zeros_like(sources), sources)
        assert sampler.sample(np.array([0]), epoch=0, batch=0)
        assert sampler.excluded_edges == np.isin(graph.indices, sources).sum()
        (wanted,) = sample_and_split(
            graph, [0, n], [0], [fan_out], seed=5, epoch=0, batch=0, excluded={(u, 0) for u in sources.tolist()}
        )
        assert sampler.segment(0).edge_ids(1).tolist() == wanted.edge_ids[1]


def test_exclusions_are_gone_after_a_mini_batch_that_came_to_nothing():
    graph = graph_of(np.arange(10), np.zeros(10, np.int64), 10)
    sampler = sampler_of(graph, [0, 10], [-1], seed=0)
    for fail in ("too many edges", "a target that is not there"):
        sampler.exclude([0, 0], [4, 6])
        if fail == "too many edges":
            assert not sampler.sample(np.array([0]), epoch=0, batch=0, max_edges=7)
        else:
            with pytest.raises(ValueError, match=line_with("10")):
                sampler.sample(np.array([10]), epoch=0, batch=0)
        assert sampler.sample(np.array([0]), epoch=0, batch=0)
        assert sampler.segment(0).num_edges == 10


def test_what_cannot_be_excluded_is_refused(layouts):
    graph = graph_of(np.arange(10), np.zeros(10, np.int64), 10)
    sampler = sampler_of(graph, [0, 10], [-1], seed=0)
    for destinations, sources, message in (
        ([0, 10], [1, 2], "vertex 10, 10"),
        ([0], [-1], "vertex -1, 10"),
        ([0], [1, 2], "one source, each destination"),
    ):
        with pytest.raises(ValueError, match=line_with(message)):
            sampler.exclude(destinations, sources)
        assert sampler.sample(np.array([0]), epoch=0, batch=0)
        assert sampler.segment(0).num_edges == 10
    layerwise = Ladies(sizes=(5,)).sampler(layouts(1), layouts(1).offsets, seed=0)
    with pytest.raises(ValueError, match=line_with("neighbour sampling alone")):
        layerwise.exclude([0], [1])
