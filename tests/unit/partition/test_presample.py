"""What presampling counts, beside the slow reference sampler; and that it does not count the training itself."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.graphs import lay_out, random_graph
from support.links import linked_graph
from support.messages import line_with
from support.reference import sample_and_split
from support.typed_graphs import random_typed_graph
from support.typed_reference import TypedGraph, sample_typed

from gsplit.errors import InputError
from gsplit.partition.presample import PRESAMPLE, Counts, Training, presample, rule_to_come
from gsplit.partition.weights import DRAW, MAX_WEIGHT, edge_weights, vertex_weights
from gsplit.sampling.plan import EpochPlan, fold_key
from gsplit.sampling.sampler import MiniBatchSampler

TRAINING = Training(fan_out=(3, -1), batch_size=40)


def count_by_hand(graph, seed, epochs, global_ids=None):
    """(mini-batches, loaded, computed) in dictionaries."""
    seed = fold_key(seed, PRESAMPLE)
    ids = np.arange(graph.num_vertices) if global_ids is None else global_ids
    plan = EpochPlan(graph.train_idx, ids, TRAINING.batch_size, seed)
    loaded, computed, number = Counter(), Counter(), 0
    for epoch in range(epochs):
        for batch, targets in plan.batches(epoch):
            (split,) = sample_and_split(
                graph,
                [0, graph.num_vertices],
                targets.tolist(),
                TRAINING.fan_out,
                seed=seed,
                epoch=epoch,
                batch=batch,
                global_ids=global_ids,
            )
            number += 1
            loaded.update(split.vertices)
            for rows in split.edges.values():
                for vertex, row in zip(split.vertices, rows, strict=False):
                    computed[vertex] += len(row)
    return number, loaded, computed


def dense(counts, n):
    return [counts[i] for i in range(n)]


@pytest.mark.parametrize(("seed", "epochs", "index_dtype"), [(0, 1, np.int32), (3, 2, np.int64)])
def test_counts_equal_the_reference(seed, epochs, index_dtype):
    graph = random_graph(200, 6, seed=seed, index_dtype=index_dtype)
    counts = presample(graph, TRAINING, epochs=epochs, seed=seed, threads=2)
    number, loaded, computed = count_by_hand(graph, seed, epochs)
    assert counts.mini_batches == number == 3 * epochs
    assert counts.loaded.tolist() == dense(loaded, 200)
    assert counts.computed.tolist() == dense(computed, 200)


def test_a_layout_counts_what_its_store_counts(tmp_path):
    graph = random_graph(200, 6)
    layout = lay_out(graph, tmp_path, parts=3)
    ids = layout.permutation
    own = presample(layout.graph, TRAINING, epochs=2, seed=0, global_ids=[ids])
    store = presample(graph, TRAINING, epochs=2, seed=0)
    assert own.loaded.tolist() == store.loaded[ids].tolist()
    assert own.computed.tolist() == store.computed[ids].tolist()


def test_pairs_are_counted_whatever_the_order_of_the_vertices(tmp_path):
    """Of a graph for links: what runs on links sample, without the edges that they ask for."""
    graph, training = linked_graph(150, 6), replace(TRAINING, task="links")
    layout = lay_out(graph, tmp_path, parts=3)
    ids = layout.permutation
    own = presample(layout.graph, training, epochs=2, seed=0, global_ids=[ids])
    store = presample(graph, training, epochs=2, seed=0)
    assert own.loaded.tolist() == store.loaded[ids].tolist()
    assert own.computed.tolist() == store.computed[ids].tolist()
    assert own.mini_batches == 2 * -(-graph.num_edges // training.batch_size)
    assert own.loaded.sum() > store.mini_batches * 40
    with pytest.raises(InputError, match=line_with("--sampling ladies, --task links")):
        replace(training, sampling="ladies", layer_sizes=(9, 9), fan_out=TRAINING.fan_out)


def test_the_draws_are_not_those_of_the_training():
    assert fold_key(0, PRESAMPLE) != 0
    assert fold_key(7, PRESAMPLE) not in (7, fold_key(0, PRESAMPLE))


def test_nothing_to_sample_for():
    graph = random_graph(20, 3)
    graph.train_idx.resize(0, refcheck=False)
    with pytest.raises(InputError, match=line_with("training vertices")):
        presample(graph, TRAINING, epochs=1, seed=0)


def test_edges_weigh_what_they_are_expected_to_be_drawn():
    #  1, 2, 3, 4 --> 0    0 --> 1    3, 4 --> 2, and 2 is never computed
    graph = random_graph(5, 1)
    graph = replace(graph, indptr=np.array([0, 4, 5, 7, 7, 7]), indices=np.array([1, 2, 3, 4, 0, 3, 4], np.int32))
    counts = Counts(
        mini_batches=9,
        loaded=np.ones(5, np.int64),
        computed=np.array([6, 2, 0, 0, 0]),
        by_relation=(np.array([6, 2, 0, 0, 0]),),
    )
    weight = edge_weights(graph, "presample", counts)
    assert weight.tolist() == [1.5 * DRAW] * 4 + [2 * DRAW] + [0, 0]
    assert vertex_weights(graph, "presample", counts).tolist() == [7, 3, 1, 1, 1]
    huge = replace(counts, by_relation=(np.full(5, 2**50),))
    assert edge_weights(graph, "presample", huge).max() == MAX_WEIGHT
    rare = edge_weights(graph, "presample", replace(counts, by_relation=(np.ones(5, np.int64),)))
    assert rare.min() >= 1
    assert edge_weights(graph, "degree", None) is None


def test_expected_draws_are_what_draws_come_to():
    graph = random_graph(300, 8, seed=2)
    graph = replace(graph, train_idx=np.arange(300))
    training = Training(fan_out=(3,), batch_size=300)
    computed = presample(graph, training, epochs=1, seed=0).computed
    weight = edge_weights(
        graph, "presample", Counts(mini_batches=1, loaded=computed, computed=computed, by_relation=(computed,))
    )
    drawn, epochs = np.zeros(graph.num_edges), 400
    sampler = MiniBatchSampler(graph.indptr, graph.indices, [0, 300], fan_outs=(3,), seed=0, edge_ids=True)
    for epoch in range(epochs):
        sampler.sample(graph.train_idx, epoch=epoch, batch=0)
        drawn[sampler.segment(0).edge_ids(1)] += 1
    # The standard deviation of a mean of 400 draws is at most 0.025.
    assert np.abs(drawn / epochs - weight / DRAW).max() < 0.12


@pytest.mark.parametrize(
    "training",
    [
        Training(fan_out=(3,), batch_size=40, sampling="ladies", layer_sizes=(20, 30)),
        Training(fan_out=(3,), batch_size=40, sampling="fastgcn", layer_sizes=(50,)),
        Training(fan_out=(3,), batch_size=40, sampling="uniform", subgraph="25%", num_layers=2),
    ],
    ids=lambda training: training.sampling,
)
def test_other_rules_are_counted_whatever_the_order_of_the_vertices(training):
    graph = random_graph(300, 8, seed=2)
    counts = presample(graph, training, epochs=2, seed=3)
    layout = SimpleNamespace(graph=graph, permutation=np.arange(300), offsets=np.array([0, 300]), parts=1)
    rule, seed = rule_to_come(training, graph), fold_key(3, PRESAMPLE)
    plan, number = rule.plan(layout, batch_size=40, seed=seed), rule.num_batches(layout, batch_size=40)
    sampler = rule.sampler(layout, layout.offsets, seed=seed)
    loaded, computed = np.zeros(300, np.int64), np.zeros(300, np.int64)
    for epoch, batch in itertools.product(range(2), range(number)):
        others = plan.others(epoch, batch)
        (targets,) = plan.micro_batches(epoch, batch)
        sampler.sample(targets, epoch=epoch, batch=batch, others=None if others is None else others[0])
        segment = sampler.segment(0)
        loaded[segment.vertices] += 1
        for layer in segment.layers:
            for row, edges in enumerate(np.diff(segment.indptr(layer)).tolist()):
                computed[segment.vertices[row]] += edges
    assert counts.mini_batches == 2 * number
    assert counts.loaded.tolist() == loaded.tolist()
    assert counts.computed.tolist() == computed.tolist()
    if training.sampling == "uniform":
        assert set(loaded.tolist()) == {2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampling": "ladies"}, "--sampling ladies, --layer-sizes, 512,512,512"),
        ({"sampling": "uniform"}, "--sampling uniform, --subgraph, 10%"),
        ({"layer_sizes": (5,)}, "--layer-sizes, 5, neighbours, ladies, fastgcn"),
        (
            {"sampling": "ladies", "layer_sizes": (5,), "subgraph": "5"},
            "--subgraph, 5, --sampling ladies, uniform, saint",
        ),
    ],
)
def test_trainings_that_lack_something_are_refused(changes, message):
    with pytest.raises(InputError, match=line_with(message)):
        Training(**{"fan_out": (3,), "batch_size": 40, **changes})


def by_hand_of_types(graph, typed, fan_out_of, epochs):
    """(loaded by type, drawn by relation) with the slow typed sampler; some relations have other fan-outs."""
    seed = fold_key(0, PRESAMPLE)
    sizes = typed.sizes
    offsets = [[0, size] for size in sizes]
    plan = EpochPlan(graph.train_idx, np.arange(sizes[0]), TRAINING.batch_size, seed)
    loaded = [[0] * size for size in sizes]
    drawn = [[0] * sizes[to] for _, to in typed.ends]
    numbers = [fan_out_of.get(relation, TRAINING.fan_out) for relation in range(len(typed.ends))]
    fan_outs = list(zip(*numbers, strict=True))
    for epoch in range(epochs):
        for batch, targets in plan.batches(epoch):
            (split,) = sample_typed(
                typed, offsets, targets.tolist(), fan_outs, target_type=0, seed=seed, epoch=epoch, batch=batch
            )
            for each, vertices in split.vertices.items():
                for vertex in vertices:
                    loaded[each][vertex] += 1
            for (_, relation), rows in split.edges.items():
                for vertex, row in zip(split.vertices[typed.ends[relation][1]], rows, strict=False):
                    drawn[relation][vertex] += len(row)
    return loaded, drawn


@pytest.mark.parametrize(("seed", "fan_out_of"), [(0, {}), (4, {}), (0, {1: (0, -1), 2: (2, 0)})])
def test_counts_of_several_types_equal_the_reference(seed, fan_out_of):
    graph = random_typed_graph(3, 4, seed=seed, empty_type=seed == 4)
    ends = [graph.schema.ends(number) for number in range(4)]
    rows = [
        [row.tolist() for row in np.split(each.indices, each.indptr[1:-1])] if len(each.indptr) > 1 else []
        for each in graph.adjacencies
    ]
    typed = TypedGraph([each.num_vertices for each in graph.schema.types], ends, rows)
    named = {f"r{relation}": numbers for relation, numbers in fan_out_of.items()}
    counts = presample(graph, replace(TRAINING, fan_out_of=named or None), epochs=2, seed=0, threads=2)
    loaded, drawn = by_hand_of_types(graph, typed, fan_out_of, 2)
    assert counts.loaded.tolist() == list(itertools.chain(*loaded))
    assert [each.tolist() for each in counts.by_relation] == drawn
    found = edge_weights(graph, "presample", counts)
    computed = np.zeros(sum(typed.sizes), np.int64)
    begins = np.cumsum([0, *typed.sizes])
    for (_, to), of_relation in zip(ends, drawn, strict=True):
        computed[begins[to] : begins[to + 1]] += np.array(of_relation, np.int64)
    assert counts.computed.tolist() == computed.tolist()
    for number, each in enumerate(graph.adjacencies):  # an edge weighs what is expected of it, relation by relation
        degrees = np.diff(each.indptr)
        wanted = np.rint(DRAW * np.array(drawn[number], np.int64) / np.maximum(degrees, 1))
        wanted = np.where(np.array(drawn[number], np.int64) > 0, np.maximum(wanted, 1), 0)
        marked = [np.full(len(of.indices), r == number) for r, of in enumerate(graph.adjacencies)]
        assert found[graph.joint_edges(marked, np.bool_)].tolist() == np.repeat(wanted, degrees).tolist()
