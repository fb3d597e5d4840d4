"""Partial sums in the place of rows: which are sent, and that every drawn edge is still there, once."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching
from support.graphs import random_graph
from support.reference import sample_and_split

from gsplit.features import EdgeLoader
from gsplit.sampling import MiniBatchSampler, Segment


def segments_of(
    graph, offsets, targets, fan_outs, *, partial_sums=True, seed=0, by_id=False, excluded=frozenset(), **options
) -> list[Segment]:
    sampler = MiniBatchSampler(
        graph.indptr, graph.indices, offsets, fan_outs=fan_outs, seed=seed, partial_sums=partial_sums, **options
    )
    if by_id:
        sampler.number_by_id()
    sampler.exclude([v for _, v in excluded], [u for u, _ in excluded])
    assert sampler.sample(np.asarray(targets), epoch=0, batch=0)
    segments = [sampler.segment(rank) for rank in range(sampler.parts)]
    for segment in segments:
        segment.validate()
    return segments


def graph_of(n, edges):
    """Edges as pairs (source, destination)."""
    sources, destinations = np.array(sorted(edges, key=lambda edge: edge[1])).T
    indptr = np.concatenate([[0], np.cumsum(np.bincount(destinations, minlength=n))])
    return SimpleNamespace(indptr=indptr, indices=sources.astype(np.int32))


def sent_to(segments, layer, owner, receiver):
    """What the owner sends the receiver: for each row the own vertices that it sums, and their edge ids."""
    segment = segments[owner]
    header = segment.layers[layer]
    first = sum(header.send_counts[:receiver])
    begins = segment.send_indptr(layer)[first : first + header.send_counts[receiver] + 1]
    rows, ids = np.concatenate(segment.send_rows(layer)), segment.send_ids(layer)
    ids = np.full(len(rows), -1) if ids is None else ids
    return [
        (segment.vertices[rows[begin:end]].tolist(), ids[begin:end].tolist())
        for begin, end in itertools.pairwise(begins)
    ]


def drawn_edges(segments, layer):
    """All edges of a layer as a multiset of (source, destination, edge id), with those that are summed elsewhere."""
    edges = Counter()
    for receiver, segment in enumerate(segments):
        header = segment.layers[layer]
        owners = [owner for owner in range(len(segments)) if owner != receiver]
        received = [row for owner in owners for row in sent_to(segments, layer, owner, receiver)]
        destinations = np.repeat(segment.vertices[: header.num_destinations], np.diff(segment.indptr(layer)))
        for source, destination, edge_id in zip(
            segment.indices(layer), destinations.tolist(), segment.edge_ids(layer).tolist(), strict=True
        ):
            if source < header.num_own_sources:
                edges[int(segment.vertices[source]), destination, edge_id] += 1
                continue
            vertices, ids = received[source - header.num_own_sources]
            assert (edge_id < 0) == (len(vertices) > 1)
            for vertex, own_id in zip(vertices, ids if edge_id < 0 else [edge_id], strict=True):
                assert own_id >= 0
                edges[vertex, destination, own_id] += 1
    return edges


def rows_sent(segments, layer):
    """[owner, receiver] numbers of rows."""
    return np.array([segment.layers[layer].send_counts for segment in segments])


def bounds(segments, layer, owner, receiver):
    """Numbers of a pair, by segments of rows: the maximum matching of the cut edges, their sources, destinations."""
    segment = segments[receiver]
    header = segment.layers[layer]
    first = header.num_own_sources + sum(header.receive_counts[:owner])
    sources = segment.indices(layer).astype(int) - first
    destinations = np.repeat(np.arange(header.num_destinations), np.diff(segment.indptr(layer)))
    here = (sources >= 0) & (sources < header.receive_counts[owner])
    if not here.any():
        return 0, 0, 0
    sources, destinations = sources[here], np.unique(destinations[here], return_inverse=True)[1]
    cut = csr_matrix((np.ones(len(sources)), (sources, destinations)))
    return int((maximum_bipartite_matching(cut) >= 0).sum()), *cut.shape


@pytest.mark.parametrize(("memory", "threads", "by_id"), [(None, 1, False), (0, 3, True)])
@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    parts=st.integers(1, 5),
    fan_outs=st.lists(st.sampled_from([-1, 1, 2, 5, 20]), min_size=1, max_size=3),
    num_targets=st.integers(0, 60),
    excludes=st.booleans(),
    data=st.data(),
)
def test_every_drawn_edge_is_there_once_and_no_pair_sends_more(
    memory, threads, by_id, seed, parts, fan_outs, num_targets, excludes, data
):
    graph = random_graph(120, 12, seed=seed % 7)
    cuts = sorted(data.draw(st.lists(st.integers(0, 120), min_size=parts - 1, max_size=parts - 1)))
    offsets, targets = [0, *cuts, 120], np.random.default_rng(seed).permutation(120)[:num_targets]
    destinations = np.repeat(np.arange(120), np.diff(graph.indptr)).tolist()
    excluded = set(zip(graph.indices.tolist()[::3], destinations[::3], strict=True)) if excludes else set()
    how = {"seed": seed, "by_id": by_id, "excluded": excluded}
    rows = segments_of(graph, offsets, targets, fan_outs, partial_sums=False, edge_ids=True, **how)
    sums = segments_of(graph, offsets, targets, fan_outs, memory=memory, threads=threads, edge_ids=True, **how)
    reference = sample_and_split(graph, offsets, targets, fan_outs, epoch=0, batch=0, **how)
    for segment, of_rows in zip(sums, rows, strict=True):
        assert segment.vertices.tolist() == of_rows.vertices.tolist()
        assert segment.level_sizes == of_rows.level_sizes
        assert segment.num_edges == of_rows.num_edges == of_rows.num_computed_edges
    for layer in sums[0].layers:
        wanted = Counter(
            (source, destination, edge_id)
            for split in reference
            for (source, destination), edge_id in zip(
                ((source, split.vertices[row]) for row, drawn in enumerate(split.edges[layer]) for source in drawn),
                split.edge_ids[layer],
                strict=True,
            )
        )
        assert drawn_edges(sums, layer) == wanted
        for segment, of_rows in zip(sums, rows, strict=True):
            assert segment.in_degrees(layer).tolist() == np.diff(of_rows.indptr(layer)).tolist()
        fewer, all_rows = rows_sent(sums, layer), rows_sent(rows, layer)
        assert ([segment.layers[layer].receive_counts for segment in sums] == fewer.T).all()
        for owner, receiver in itertools.product(range(parts), repeat=2):
            least, sources, destinations = bounds(rows, layer, owner, receiver)
            assert all_rows[owner, receiver] == sources
            assert least <= fewer[owner, receiver] <= min(sources, destinations)


def test_the_cover_is_near_the_least():
    graph = random_graph(3000, 20, seed=2)
    given = {"graph": graph, "offsets": [0, 1000, 2000, 3000], "targets": np.arange(0, 3000, 3), "fan_outs": [8, 8]}
    rows, sums = (segments_of(**given, partial_sums=partial_sums) for partial_sums in (False, True))
    for layer in (1, 2):
        least = sum(bounds(rows, layer, *pair)[0] for pair in itertools.permutations(range(3), 2))
        assert least <= rows_sent(sums, layer).sum() <= 1.02 * least
        assert rows_sent(sums, layer).sum() < 0.95 * rows_sent(rows, layer).sum()


# Vertices 0 .. 4 belong to part 0, 5 .. 9 to part 1, whose destinations are computed.
TINY = {
    "four into one: a sum": ([(0, 5), (1, 5), (2, 5), (3, 5)], [[0, 1, 2, 3]]),
    "one into four: a row": ([(0, 5), (0, 6), (0, 7), (0, 8)], [[0]]),
    "one into one: a row": ([(0, 5)], [[0]]),
    "three into each of two: two sums": ([*itertools.product([0, 1, 2], [5, 6])], [[0, 1, 2], [0, 1, 2]]),
    "two into each of three: two rows": ([*itertools.product([0, 1], [5, 6, 7])], [[0], [1]]),
    "both kinds of star: a row and a sum": (
        [(0, 5), (1, 5), (2, 5), (3, 5), (3, 6), (3, 7), (3, 8)],
        [[3], [0, 1, 2]],
    ),
    "pairs: rows": ([(0, 5), (1, 6), (2, 7)], [[0], [1], [2]]),
    "a path 5 - 0 - 6 - 1 - 7: rows": ([(0, 5), (0, 6), (1, 6), (1, 7)], [[0], [1]]),
    "a path 0 - 5 - 1 - 6 - 2: sums": ([(0, 5), (1, 5), (1, 6), (2, 6)], [[0, 1], [1, 2]]),
    "a double edge, and others: a sum": ([(0, 5), (0, 5), (1, 5), (2, 5)], [[0, 0, 1, 2]]),
}


@pytest.mark.parametrize("name", TINY)
def test_tiny_graphs(name):
    edges, wanted = TINY[name]
    segments = segments_of(graph_of(10, edges), [0, 5, 10], [5, 6, 7, 8, 9], [-1], edge_ids=True)
    sent = [sorted(vertices) for vertices, _ in sent_to(segments, 1, 0, 1)]
    assert sorted(sent) == sorted(wanted)
    assert sent_to(segments, 1, 1, 0) == []
    assert sum(drawn_edges(segments, 1).values()) == segments[1].num_edges == len(edges)
    sums = [run for run in wanted if len(run) > 1]
    assert segments[0].num_computed_edges == sum(map(len, sums))
    assert segments[1].num_computed_edges == len(edges) - sum(map(len, sums)) + len(sums)


def test_law_1_neither_threads_nor_maps_change_a_bit():
    graph = random_graph(3000, 30, seed=1)
    given = {"graph": graph, "offsets": [0, 700, 1500, 3000], "targets": np.arange(0, 3000, 5), "fan_outs": [20, 20]}
    wanted = segments_of(**given)
    assert sum(header.num_summed_edges for segment in wanted for header in segment.layers.values()) > 1000
    for threads, memory in ((2, None), (3, 0), (4, None)):
        for segment, other in zip(wanted, segments_of(**given, threads=threads, memory=memory), strict=True):
            assert segment.data.tobytes() == other.data.tobytes()


def test_a_sampler_goes_on_after_one_that_stopped_early():
    graph, offsets, targets = random_graph(300, 12, seed=4), [0, 150, 300], np.arange(0, 300, 3)
    sampler = MiniBatchSampler(graph.indptr, graph.indices, offsets, fan_outs=[5, 5], seed=0, partial_sums=True)
    wanted = segments_of(graph, offsets, targets, [5, 5])
    drawn = sum(segment.num_edges for segment in wanted)
    assert not sampler.sample(targets, epoch=0, batch=0, max_edges=drawn - 1)
    assert sampler.sample(targets, epoch=0, batch=0, max_edges=drawn)
    for rank, segment in enumerate(wanted):
        assert sampler.segment(rank).data.tobytes() == segment.data.tobytes()


def test_weights_follow_their_edges():
    graph = random_graph(200, 12, seed=5, weighted=True)
    given = (graph, [0, 100, 200], np.arange(0, 200, 2), [6])
    loader = EdgeLoader(graph, device=torch.device("cpu"), dtype=torch.float64, weights=True, degrees=False)
    rows, sums = (segments_of(*given, partial_sums=partial_sums, edge_ids=True) for partial_sums in (False, True))
    moved = 0
    for segment, of_rows in zip(sums, rows, strict=True):
        data, wanted = loader.load(segment), loader.load(of_rows)
        assert not wanted["send_weights"]
        assert not wanted["drawn_weights"]
        ids, send_ids = segment.edge_ids(1), segment.send_ids(1)
        for found, at in ((data["edge_weights"][1], ids), (data["send_weights"][1], send_ids)):
            assert found.tolist() == [1.0 if edge < 0 else graph.edge_weight[edge] for edge in at]
        destinations = np.repeat(np.arange(segment.layers[1].num_destinations), np.diff(of_rows.indptr(1)))
        totals = np.bincount(
            destinations, wanted["edge_weights"][1].numpy(), minlength=segment.layers[1].num_destinations
        )
        np.testing.assert_allclose(data["drawn_weights"][1].numpy(), totals, rtol=1e-12)
        moved += int((send_ids >= 0).sum())
    assert moved > 0
