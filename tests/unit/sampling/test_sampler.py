"""The C++ sampler-and-splitter against the slow reference, and law 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import random_graph
from support.messages import line_with
from support.reference import sample_and_split

from gsplit.sampling import MiniBatchSampler


def splits_of(graph, offsets, targets, fan_outs, *, global_ids=None, edge_ids=False, memory=None, threads=1, **key):
    by_id = key.pop("by_id", False)
    sampler = MiniBatchSampler(
        graph.indptr,
        graph.indices,
        offsets,
        fan_outs=fan_outs,
        seed=key.pop("seed"),
        global_ids=global_ids,
        edge_ids=edge_ids,
        memory=memory,
        threads=threads,
    )
    if by_id:
        sampler.number_by_id()
    assert sampler.sample(targets, **key)
    segments = [sampler.segment(rank) for rank in range(sampler.parts)]
    for segment in segments:
        segment.validate()
    return segments


@pytest.mark.parametrize(
    ("memory", "threads", "by_id"), [(None, 1, False), (0, 1, True), (None, 2, True), (0, 3, False)]
)
@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**64 - 1),
    parts=st.integers(1, 5),
    fan_outs=st.lists(st.sampled_from([-1, 1, 2, 5, 20, 70]), min_size=1, max_size=3),
    num_targets=st.integers(0, 40),
    wide=st.booleans(),
    data=st.data(),
)
def test_equals_the_reference_exactly(memory, threads, by_id, seed, parts, fan_outs, num_targets, wide, data):
    graph = random_graph(120, 12, seed=seed % 7, index_dtype=np.int64 if wide else np.int32)
    random = np.random.default_rng(seed)
    cuts = sorted(data.draw(st.lists(st.integers(0, 120), min_size=parts - 1, max_size=parts - 1)))
    offsets = [0, *cuts, 120]  # parts may be empty
    targets = random.permutation(120)[:num_targets]
    global_ids = random.permutation(120)
    key = {"seed": seed, "epoch": seed % 5, "batch": seed % 11, "micro": seed % 3}
    how = {"memory": memory, "threads": threads, "by_id": by_id}
    segments = splits_of(graph, offsets, targets, fan_outs, global_ids=global_ids, edge_ids=True, **how, **key)
    reference = sample_and_split(graph, offsets, targets, fan_outs, global_ids=global_ids, by_id=by_id, **key)
    assert_equal(segments, reference)
    for segment in segments:
        assert (segment.parts, segment.num_targets) == (parts, num_targets)
        assert (segment.epoch, segment.batch) == (key["epoch"], key["batch"])


def assert_equal(segments, reference):
    """Splits with edge ids, and those of the reference."""
    for rank, (segment, wanted) in enumerate(zip(segments, reference, strict=True)):
        assert segment.rank == rank
        assert segment.vertices.tolist() == wanted.vertices
        assert list(segment.level_sizes) == wanted.level_sizes
        for layer in segment.layers:
            assert np.diff(segment.indptr(layer)).tolist() == [len(row) for row in wanted.edges[layer]]
            assert segment.indices(layer).tolist() == wanted.source_rows(layer)
            assert segment.edge_ids(layer).tolist() == wanted.edge_ids[layer]
            for q, rows in enumerate(segment.send_rows(layer)):
                assert segment.vertices[rows].tolist() == reference[q].received[layer][rank]
                assert segments[q].layers[layer].receive_counts[rank] == len(rows)


def test_many_parts_equal_the_reference():
    """Above 16 parts the owner of a vertex is searched for; some parts are empty, the first and the last too."""
    graph = random_graph(120, 12, seed=3)
    offsets = [0, 0, *range(5, 60, 5), 60, 60, *range(65, 120, 5), 120, 120]
    key = {"seed": 7, "epoch": 1, "batch": 2}
    targets = np.random.default_rng(0).permutation(120)[:40]
    segments = splits_of(graph, offsets, targets, [4, 3], edge_ids=True, **key)
    assert len(segments) > 16
    assert_equal(segments, sample_and_split(graph, offsets, targets, [4, 3], **key))


def test_equal_splits_are_equal_byte_by_byte_whatever_was_in_their_memory():
    graph = random_graph(100, 8, seed=5)
    sampler = MiniBatchSampler(graph.indptr, graph.indices, [0, 40, 100], fan_outs=[3, 3], seed=0, edge_ids=True)
    sampler.sample(np.arange(21), epoch=0, batch=0)
    for rank in range(2):
        zeros, ones = (np.full(sampler.segment_bytes(rank), byte, np.uint8) for byte in (0, 255))
        for memory in (zeros, ones):
            sampler.write_segment(rank, memory)
        assert zeros.tobytes() == ones.tobytes()


def edges_in_global_ids(layout, segments, layer):
    """Sorted (destination, source) pairs of all splits; received rows are looked up at their sender."""
    edges = []
    for segment in segments:
        sources = [segment.vertices[: segment.level_sizes[layer - 1]]]
        sources += [peer.vertices[peer.send_rows(layer)[segment.rank]] for peer in segments]
        source = np.concatenate(sources)[segment.indices(layer)]
        destination = np.repeat(segment.vertices[: segment.level_sizes[layer]], np.diff(segment.indptr(layer)))
        edges += zip(layout.permutation[destination].tolist(), layout.permutation[source].tolist(), strict=True)
    return sorted(edges)


@pytest.mark.parametrize("method", ["metis", "random"])
@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_law_1_union_of_splits_is_the_unsplit_mini_batch(layouts, parts, method):
    whole, split = layouts(1), layouts(parts, method)
    global_targets = np.sort(whole.permutation[whole.graph.train_idx])[::3]

    def sampled(layout):
        targets = np.argsort(layout.permutation)[global_targets]
        key = {"seed": 9, "epoch": 2, "batch": 5, "global_ids": layout.permutation}
        return splits_of(layout.graph, layout.offsets, targets, [4, 3, -1], **key)

    unsplit, splits = sampled(whole), sampled(split)
    for level in range(4):
        wanted = whole.permutation[unsplit[0].vertices[: unsplit[0].level_sizes[level]]].tolist()
        owned = [split.permutation[s.vertices[: s.level_sizes[level]]].tolist() for s in splits]
        assert sorted(v for vertices in owned for v in vertices) == sorted(wanted)  # equal, and nothing twice
    for layer in (1, 2, 3):
        assert edges_in_global_ids(split, splits, layer) == edges_in_global_ids(whole, unsplit, layer)
    for rank, segment in enumerate(splits):
        begin, end = split.offsets[rank], split.offsets[rank + 1]
        assert ((segment.vertices >= begin) & (segment.vertices < end)).all()


def test_each_word_of_the_key_changes_the_sample():
    graph = random_graph(100, 30, seed=1)
    base = {"seed": 1, "epoch": 0, "batch": 0, "micro": 0}
    targets = np.arange(50)

    def drawn(**change):
        (segment,) = splits_of(graph, [0, 100], targets, [5], edge_ids=True, **{**base, **change})
        return segment.edge_ids(1).tolist()

    assert drawn() == drawn()
    for word in base:
        assert drawn(**{word: 7}) != drawn()


def test_a_vertex_is_drawn_again_at_each_hop():
    # Every vertex has the 30 neighbours 0 .. 29; vertex 0 is a target and so a destination at both hops.
    n = 30
    indptr, indices = np.arange(0, n * n + 1, n), np.tile(np.arange(n, dtype=np.int32), n)
    sampler = MiniBatchSampler(indptr, indices, [0, n], fan_outs=[5, 5], seed=0, edge_ids=True)
    sampler.sample(np.array([0]), epoch=0, batch=0)
    segment = sampler.segment(0)
    assert segment.edge_ids(2)[:5].tolist() != segment.edge_ids(1)[:5].tolist()


def test_edge_ids_name_the_edges_drawn():
    graph = random_graph(100, 8, seed=5)
    (segment,) = splits_of(graph, [0, 100], np.arange(20), [3, 3], edge_ids=True, seed=2, epoch=0, batch=0)
    for layer in (1, 2):
        assert (graph.indices[segment.edge_ids(layer)] == segment.vertices[segment.indices(layer)]).all()
    (without,) = splits_of(graph, [0, 100], np.arange(20), [3, 3], seed=2, epoch=0, batch=0)
    assert without.edge_ids(1) is None


def test_no_targets_and_no_neighbours():
    # 0   1   2: no edge at all
    graph = random_graph(3, 0)
    for targets in ([], [2, 0]):
        segments = splits_of(graph, [0, 1, 1, 3], np.array(targets, np.int64), [5, -1], seed=0, epoch=0, batch=0)
        assert sum(s.level_sizes[0] for s in segments) == len(targets)
        assert sum(s.num_edges for s in segments) == 0


@pytest.fixture(scope="module")
def big():
    """Large enough for every thread to draw many runs, and for hash maps to grow."""
    return random_graph(20_000, 40, seed=4)


@pytest.mark.parametrize("memory", [None, 0])
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("parts", [1, 4])
def test_law_1_neither_threads_nor_maps_change_a_bit(big, parts, threads, memory):
    offsets = np.linspace(0, 20_000, parts + 1).astype(int)
    ways = [{}, {"memory": memory, "threads": threads}]
    plain, other = (
        MiniBatchSampler(big.indptr, big.indices, offsets, fan_outs=[20, 10, 5], seed=1, edge_ids=True, **way)
        for way in ways
    )
    random = np.random.default_rng(0)
    # Mini-batches of many sizes from the same sampler: maps are cleared, grow, and are halved again.
    for batch, size in enumerate([300, 2000, 1, 0, 5, 20, 5, 1, 3000, 7]):
        targets = random.permutation(20_000)[:size]
        for sampler in (plain, other):
            assert sampler.sample(targets, epoch=0, batch=batch)
        for rank in range(parts):
            other.segment(rank).validate()
            assert other.segment(rank).data.tobytes() == plain.segment(rank).data.tobytes()


def test_memory_bounds_the_dense_maps_alone():
    graph = random_graph(100, 8)
    key = {"seed": 0, "epoch": 0, "batch": 0}
    for memory in (0, 8 * 100 - 1, 8 * 100, 2**40):
        splits = splits_of(graph, [0, 50, 100], np.arange(20), [3, 3], memory=memory, **key)
        assert sum(s.num_edges for s in splits) > 0


@pytest.mark.parametrize("memory", [None, 0])
@pytest.mark.parametrize("threads", [1, 3])
def test_an_exception_in_a_thread_reaches_the_caller_and_leaves_the_sampler_usable(threads, memory):
    # Vertices below 50,000 have no neighbours, the others claim more than a row can have: drawing them fails.
    n, good = 60_000, 50_000
    indptr = np.concatenate([np.zeros(good + 1, np.int64), 2**31 * np.arange(1, n - good + 1)])
    sampler = MiniBatchSampler(
        indptr, np.zeros(1, np.int32), [0, 9000, n], fan_outs=[1, 1], seed=0, memory=memory, threads=threads
    )
    for _ in range(5):
        with pytest.raises(ValueError, match=line_with("2^31")):
            sampler.sample(np.arange(n), epoch=0, batch=0)
        with pytest.raises(ValueError, match="there is no mini-batch"):
            sampler.segment(0)
        with pytest.raises(ValueError, match=line_with(f"target {n}")):
            sampler.sample(np.array([4, n]), epoch=0, batch=0)
        assert sampler.sample(np.arange(5, good), epoch=0, batch=0)
        for rank, size in ((0, 8995), (1, good - 9000)):
            sampler.segment(rank).validate()
            assert sampler.segment(rank).level_sizes == (size, size, size)


@pytest.mark.parametrize("bad", [{"memory": -1}, {"threads": 0}, {"threads": -2}])
def test_bad_memory_and_threads_are_named(bad):
    graph = random_graph(10, 2)
    ((name, value),) = bad.items()
    with pytest.raises(ValueError, match=line_with(f"{name}, {value}")):
        MiniBatchSampler(graph.indptr, graph.indices, [0, 10], fan_outs=[1], seed=0, **bad)


@pytest.mark.parametrize("threads", [1, 2])
def test_edge_budget_stops_early_and_leaves_the_sampler_usable(threads):
    graph = random_graph(200, 20, seed=2)
    sampler = MiniBatchSampler(graph.indptr, graph.indices, [0, 200], fan_outs=[-1, -1], seed=0, threads=threads)
    targets = np.arange(50)
    assert not sampler.sample(targets, epoch=0, batch=0, max_edges=10)
    with pytest.raises(ValueError, match="there is no mini-batch"):
        sampler.segment(0)
    assert sampler.sample(targets, epoch=0, batch=0)
    sampler.segment(0).validate()


@pytest.mark.parametrize(
    ("targets", "fan_outs", "message"),
    [
        ([0, 100], [2], "target 100"),
        ([-1], [2], "target -1"),
        ([3, 4, 3], [2], "target 3"),
        ([3], [0], "fan-out, -1"),
        ([3], [-2], "fan-out, -1"),
    ],
)
def test_bad_arguments_are_named(targets, fan_outs, message):
    graph = random_graph(100, 5)
    with pytest.raises(ValueError, match=line_with(message)):
        splits_of(graph, [0, 100], np.array(targets), fan_outs, seed=0, epoch=0, batch=0)
    with pytest.raises(ValueError, match="offsets must ascend"):
        splits_of(graph, [0, 60, 50, 100], np.array([1]), [2], seed=0, epoch=0, batch=0)
