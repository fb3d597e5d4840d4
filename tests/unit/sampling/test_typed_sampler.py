"""The typed sampler-and-splitter against a slow one: laws 1 and 3 of several types and relations."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from support.typed_reference import (
    TypedGraph,
    drawn_edges,
    random_fan_outs,
    random_typed_graph,
    sample_typed,
    typed_sampler,
)

from gsplit.sampling import MiniBatchSampler, Segment

SCHEMAS = 60


def case(seed: int):
    """A schema, its graph with layout ids, and how it is split: all at random."""
    random = np.random.default_rng(seed)
    graph = random_typed_graph(random)
    parts, layers = int(random.integers(1, 6)), int(random.integers(1, 4))
    fan_outs = random_fan_outs(random, layers, len(graph.ends))
    new_ids = [random.permutation(size) for size in graph.sizes]
    offsets = [[0, *sorted(random.integers(0, size + 1, parts - 1).tolist()), size] for size in graph.sizes]
    target_type = int(random.integers(len(graph.sizes)))
    size = graph.sizes[target_type]
    targets = random.permutation(size)[: int(random.integers(0, size + 1))]
    return graph, new_ids, offsets, fan_outs, target_type, targets


def segments_of(sampler, targets, **key) -> list[Segment]:
    assert sampler.sample(targets, **key)
    segments = [sampler.segment(rank) for rank in range(sampler.parts)]
    for segment in segments:
        segment.validate()
    return segments


@pytest.mark.parametrize("seed", range(SCHEMAS))
def test_law_1_splits_equal_the_slow_sampler_under_any_partition(seed):
    graph, new_ids, offsets, fan_outs, target_type, targets = case(seed)
    key = {"epoch": seed % 3, "batch": seed % 5, "micro": seed % 2}
    layout, global_ids = graph.relabelled(new_ids), [np.argsort(ids) for ids in new_ids]
    layout_targets = new_ids[target_type][targets] if len(targets) else targets
    reference = sample_typed(
        layout, offsets, layout_targets, fan_outs, target_type=target_type, seed=seed, global_ids=global_ids, **key
    )
    how = {"threads": 1 + seed % 3, "memory": 0 if seed % 4 == 0 else None, "edge_ids": True, "seed": seed}
    sampler = typed_sampler(
        layout,
        offsets,
        fan_outs,
        global_ids=global_ids,
        target_type=target_type,
        dtype=np.int64 if seed % 5 == 0 else np.int32,
        **how,
    )
    segments = segments_of(sampler, layout_targets, **key)
    assert_equal(layout, segments, reference, target_type)

    whole = [[0, size] for size in graph.sizes]
    unsplit = sample_typed(graph, whole, targets, fan_outs, target_type=target_type, seed=seed, **key)
    for layer in range(1, len(fan_outs) + 1):
        for relation in range(len(graph.ends)):
            union = drawn_edges(layout, reference, layer, relation, global_ids)
            assert union == drawn_edges(graph, unsplit, layer, relation)
    if len(graph.sizes) > 1 or len(graph.ends) > 1:
        sampler.number_by_id()
        assert_equal_by_id(segments, segments_of(sampler, layout_targets, **key))


def assert_equal(graph: TypedGraph, segments, reference, target_type) -> None:
    for rank, (segment, wanted) in enumerate(zip(segments, reference, strict=True)):
        layers = segment.num_layers
        assert segment.relations == tuple(graph.ends) or not segment.is_typed
        assert segment.target_type == target_type
        for type_, sizes in enumerate(segment.levels):
            assert segment.vertices_of(type_).tolist() == wanted.vertices[type_]
            assert list(sizes) == [wanted.sizes[type_, level] for level in range(layers + 1)]
        for layer in range(1, layers + 1):
            for relation, (source, destination) in enumerate(graph.ends):
                rows = wanted.edges[layer, relation]
                assert np.diff(segment.indptr(layer, relation)).tolist() == [len(row) for row in rows]
                place = {v: row for row, v in enumerate(wanted.vertices[source][: wanted.sizes[source, layer - 1]])}
                for q in range(len(segments)):
                    place |= {v: len(place) + i for i, v in enumerate(wanted.received[layer, source, q])}
                drawn = [each for row in rows for each in row]
                assert segment.indices(layer, relation).tolist() == [place[v] for _, v in drawn]
                starts = graph.edges(relation).indptr
                vertices = wanted.vertices[destination]
                ids = [starts[v] + at for v, row in zip(vertices, rows, strict=False) for at, _ in row]
                assert segment.edge_ids(layer, relation).tolist() == ids
            for type_ in range(len(graph.sizes)):
                assert segment.sends[layer][type_].receive_counts[rank] == 0
                for q, rows in enumerate(segment.send_rows_of(layer, type_)):
                    assert segment.vertices_of(type_)[rows].tolist() == reference[q].received[layer, type_, rank]
                    assert segments[q].sends[layer][type_].receive_counts[rank] == len(rows)


def assert_equal_by_id(segments, by_id) -> None:
    """The same splits, with what a hop meets in the order of ids, and rows that are sent too."""
    for rank, (one, other) in enumerate(zip(segments, by_id, strict=True)):
        assert one.levels == other.levels
        for type_, sizes in enumerate(one.levels):
            for end, begin in pairwise(sizes):
                met = other.vertices_of(type_)[begin:end]
                assert met.tolist() == sorted(one.vertices_of(type_)[begin:end])
        for layer in one.blocks:
            for relation in range(len(one.relations)):
                assert named_edges(segments, rank, layer, relation) == named_edges(by_id, rank, layer, relation)
            for type_ in range(len(one.levels)):
                for rows in other.send_rows_of(layer, type_):
                    assert (np.diff(rows) > 0).all()


def named_edges(segments, rank: int, layer: int, relation: int) -> list[tuple[int, int]]:
    """Sorted (position, source) of a block, received rows looked up at their senders."""
    segment = segments[rank]
    source = segment.relations[relation][0]
    rows = [segment.vertices_of(source)[: segment.levels[source][layer - 1]]]
    rows += [peer.vertices_of(source)[peer.send_rows_of(layer, source)[rank]] for peer in segments]
    sources = np.concatenate(rows)[segment.indices(layer, relation)]
    return sorted(zip(segment.edge_ids(layer, relation).tolist(), sources.tolist(), strict=True))


def test_law_3_a_row_that_several_relations_need_is_sent_once():
    """Two relations between the same types, with the same edges: twice the edges, the same rows."""
    once = TypedGraph([50, 40], [(1, 0)], [[[(3 * v + i) % 40 for i in range(5)] for v in range(50)]])
    twice = TypedGraph(once.sizes, once.ends * 2, once.neighbours * 2)
    offsets = [[0, 20, 50], [0, 13, 40]]
    one, two = (
        segments_of(typed_sampler(graph, offsets, [[-1] * len(graph.ends)], seed=1), np.arange(50), epoch=0, batch=0)
        for graph in (once, twice)
    )
    for a, b in zip(one, two, strict=True):
        assert [s.send_counts for s in a.sends[1]] == [s.send_counts for s in b.sends[1]]
        assert sum(a.sends[1][1].send_counts) > 0
        assert 2 * a.num_edges == b.num_edges


def test_one_type_and_one_relation_is_the_sampler_without_types_byte_by_byte():
    graph = TypedGraph([90], [(0, 0)], [[[(v * v + i) % 90 for i in range(v % 12)] for v in range(90)]])
    offsets, edges = [0, 20, 20, 90], graph.edges(0)
    typed = typed_sampler(graph, [offsets], [[4], [3]], seed=5, edge_ids=True)
    plain = MiniBatchSampler(edges.indptr, edges.indices, offsets, fan_outs=[4, 3], seed=5, edge_ids=True)
    for sampler in (typed, plain):
        assert sampler.sample(np.arange(0, 90, 7), epoch=1, batch=2)
    for rank in range(3):
        assert typed.segment(rank).data.tobytes() == plain.segment(rank).data.tobytes()


def test_an_appended_relation_and_type_change_no_other_draw():
    random = np.random.default_rng(11)
    sizes, ends = [60, 50, 30], [(1, 0), (0, 1), (2, 0), (0, 0), (1, 2)]
    neighbours = [random.integers(0, sizes[source], (sizes[destination], 9)).tolist() for source, destination in ends]
    graph, more = TypedGraph(sizes[:2], ends[:2], neighbours[:2]), TypedGraph(sizes, ends, neighbours)
    drawn = []
    for each in (graph, more):
        fan_outs = [[3] * len(each.ends)] * 2
        sampler = typed_sampler(each, [[0, size] for size in each.sizes], fan_outs, seed=3, edge_ids=True)
        (segment,) = segments_of(sampler, np.arange(20), epoch=1, batch=1)
        drawn.append({(layer, r): set(segment.edge_ids(layer, r).tolist()) for layer in (1, 2) for r in (0, 1)})
    for layer, relation in drawn[0]:
        before, after = (each[layer, relation] for each in drawn)
        assert before <= after  # of new destinations there may be more
        degrees = Counter(position // 9 for position in after)
        assert all(degrees[position // 9] == 3 for position in before)


def test_draws_of_a_relation_are_uniform_and_those_of_two_relations_differ():
    """Of 12 in-neighbours 4 are drawn by each of two relations with the same edges; a chi-square test for each."""
    number, degree, fan_out = 4000, 12, 4
    graph = TypedGraph([number, degree], [(1, 0)] * 2, [[list(range(degree))] * number] * 2)
    sampler = typed_sampler(graph, [[0, number], [0, degree]], [[fan_out] * 2], seed=8, edge_ids=True)
    (segment,) = segments_of(sampler, np.arange(number), epoch=0, batch=0)
    share = fan_out / degree
    spread = degree * share * (1 - share) / (degree - 1)  # variance of a row below, in each of degree - 1 directions
    centred = []
    for relation in (0, 1):
        drawn = np.zeros((number, degree))
        np.put_along_axis(drawn, segment.edge_ids(1, relation).reshape(number, fan_out) % degree, 1.0, axis=1)
        centred.append(drawn - share)
        assert stats.chi2.sf((centred[-1].sum(axis=0) ** 2).sum() / number / spread, degree - 1) > 1e-4
    together = centred[0].T @ centred[1]
    assert stats.chi2.sf((together**2).sum() / number / spread**2, (degree - 1) ** 2) > 1e-4


def test_any_number_of_threads_gives_the_same_bytes():
    random = np.random.default_rng(5)
    graph = random_typed_graph(random, types=3, relations=5, most=3)
    sizes = [4000, 3000, 500]
    lists = [random.integers(0, sizes[s], (sizes[d], 9)).tolist() for s, d in graph.ends]
    graph = TypedGraph(sizes, graph.ends, lists)
    offsets = [[0, size // 3, size // 2, size] for size in sizes]
    written = set()
    for threads in (1, 2, 4):
        sampler = typed_sampler(graph, offsets, [[5] * 5, [-1, 3, 0, 7, 2]], seed=2, threads=threads)
        segments = segments_of(sampler, np.arange(0, sizes[0], 3), epoch=0, batch=0)
        written.add(b"".join(segment.data.tobytes() for segment in segments))
    assert len(written) == 1


GOOD = TypedGraph([3, 2], [(1, 0), (0, 1)], [[[0], [1], []], [[2], [0, 1]]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fan_outs": [[1, -2]]}, r"relation relation1, hop 1: a fan-out must be -1 \(all\), 0 \(none\) .*, not -2"),
        ({"fan_outs": [[1, 1], [0, 0]]}, "hop 2: all relations have the fan-out 0"),
        ({"fan_outs": [[1]]}, "hop 1 has 1 fan-outs, and there are 2 relations"),
        ({"target_type": 2}, "no type number 2; there are 2"),
        ({"targets": [3]}, "target 3 is not a vertex of type type0; there are 3"),
        ({"targets": [1, 1]}, "target 1 of type type0 is given twice"),
        ({"offsets": [[0, 3], [0, 1, 2]]}, "type type1: it has 2 parts, and the first type 1"),
        ({"offsets": [[0, 3], [0, 3]]}, "relation1: indptr has 2 destinations, and type type1 has 3 vertices"),
        ({"offsets": [[0, 2, 1], [0, 1, 2]]}, "type type0: offsets must ascend"),
        ({"global_ids": [np.arange(3), np.arange(3)]}, "type type1: global_ids must have one entry a vertex"),
        ({"partial_sums": True}, "sums in the place of rows: for graphs of one type and one relation alone"),
    ],
)
def test_bad_input_names_the_type_and_the_relation(changes, message):
    how = {"offsets": [[0, 3], [0, 2]], "fan_outs": [[1, 1]], "targets": [0], **changes}
    targets = how.pop("targets")
    with pytest.raises(ValueError, match=message):
        typed_sampler(GOOD, how.pop("offsets"), how.pop("fan_outs"), seed=0, **how).sample(
            np.array(targets), epoch=0, batch=0
        )


def test_a_relation_of_a_type_that_is_not_there_is_refused():
    graph = TypedGraph([3], [(0, 0), (1, 0)], [[[], [], []]] * 2)
    with pytest.raises(ValueError, match="relation relation1: there is no type number 1; there are 1"):
        typed_sampler(graph, [[0, 3]], [[1, 1]], seed=0)


def test_edges_cannot_be_excluded_and_what_names_no_type_is_refused():
    sampler = typed_sampler(GOOD, [[0, 3], [0, 2]], [[1, 1]], seed=0)
    with pytest.raises(ValueError, match="excluded edges: for graphs of one type and one relation alone"):
        sampler.exclude(np.array([0]), np.array([0]))
    (segment,) = segments_of(sampler, np.array([0]), epoch=0, batch=0)
    for ask in (lambda: segment.vertices, lambda: segment.level_sizes, lambda: segment.indices(1)):
        with pytest.raises(ValueError, match="2 types and 2 relations; say which"):
            ask()
    assert segment.targets.tolist() == [0]
