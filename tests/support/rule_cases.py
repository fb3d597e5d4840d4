"""Small graphs as rules see them, and segments held against the slow references."""

from __future__ import annotations

from itertools import chain
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st

from support.graphs import random_graph

N = 90


def layout_of(indptr, indices, n):
    """A graph of these in-edges, as rules see it."""
    graph = SimpleNamespace(indptr=np.array(indptr), indices=np.array(indices, np.int32), edge_weight=None)
    graph.num_vertices = n
    return SimpleNamespace(graph=graph, permutation=np.arange(n), offsets=np.array([0, n]))


def drawn_case(seed, parts, wide, data, *, weighted):
    """A graph with vertices in any order and parts that may be empty, as rules see it; targets, and a key."""
    dtype = np.int64 if wide else np.int32
    graph = random_graph(N, 9, seed=seed % 7, index_dtype=dtype, weighted=weighted)
    if weighted:  # some edges weigh nothing
        graph.edge_weight[::7] = 0
    random = np.random.default_rng(seed)
    cuts = sorted(data.draw(st.lists(st.integers(0, N), min_size=parts - 1, max_size=parts - 1)))
    layout = SimpleNamespace(graph=graph, permutation=random.permutation(N), parts=parts)
    layout.offsets = np.array([0, *cuts, N])
    key = {"epoch": seed % 5, "batch": seed % 11, "micro": seed % 3}
    return layout, random.permutation(N)[: data.draw(st.integers(0, 30))], key


def segments_of(sampler, targets, **key):
    assert sampler.sample(targets, **key)
    segments = [sampler.segment(rank) for rank in range(sampler.parts)]
    for segment in segments:
        segment.validate()
    return segments


def assert_equal(segments, reference, *, edge_ids, scales=True):
    for rank, (segment, wanted) in enumerate(zip(segments, reference, strict=True)):
        assert segment.vertices.tolist() == wanted.vertices
        assert list(segment.level_sizes) == wanted.level_sizes
        assert segment.has_scales == scales
        for layer in segment.layers:
            assert np.diff(segment.indptr(layer)).tolist() == [len(row) for row in wanted.edges[layer]]
            assert segment.indices(layer).tolist() == wanted.source_rows(layer)
            if edge_ids:
                assert segment.edge_ids(layer).tolist() == wanted.edge_ids[layer]
            for q, rows in enumerate(segment.send_rows(layer)):
                assert segment.vertices[rows].tolist() == reference[q].received[layer][rank]
                assert segments[q].layers[layer].receive_counts[rank] == len(rows)
            if scales:
                sources = [*wanted.vertices[: wanted.level_sizes[layer - 1]], *chain(*wanted.received[layer])]
                assert segment.scales(layer).tolist() == [wanted.scales[layer].get(u, 0.0) for u in sources]
            else:
                assert segment.scales(layer) is None
