"""Rows and weights of several types, loaded for splits: each row once, by its owner, each weight its relation's."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from support.typed_graphs import random_typed_graph

from gsplit.data import open_layout, write_store
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.nn import BatchComm, ExchangeCounters
from gsplit.partition import PartitionConfig, partition
from gsplit.sampling import RelationEdges, TypedSampler, TypeInParts

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("typed")
    graph = random_typed_graph(4, 6, seed=3, weighted=True)
    write_store(folder / "store", graph, name="g", source="test")
    partition(PartitionConfig(store=folder / "store", out=folder / "layout", parts=3, method="random"))
    return open_layout(folder / "layout", typed=True)


def segments_of(layout, *, split: bool, edge_ids: bool = True):
    graph = layout.graph
    sampler = TypedSampler(
        [
            RelationEdges(indptr=each.indptr, indices=each.indices, source=ends[0], destination=ends[1])
            for each, ends in zip(graph.adjacencies, map(graph.schema.ends, range(6)), strict=True)
        ],
        [
            TypeInParts(offsets=offsets if split else [0, len(ids)], global_ids=ids)
            for offsets, ids in zip(layout.offsets_by_type, layout.permutations, strict=True)
        ],
        fan_outs=[[3, 2, 0, 3, -1, 2], [2] * 6],
        target_type=graph.target,
        seed=1,
        edge_ids=edge_ids,
    )
    sampler.sample(graph.train_idx, epoch=0, batch=0)
    return [sampler.segment(rank) for rank in range(sampler.parts)]


def test_each_row_is_loaded_once_by_its_owner_and_counted_by_type(layout):
    graph = layout.graph
    (whole,) = segments_of(layout, split=False)
    seen = [Counter() for _ in graph.schema.types]
    for segment in segments_of(layout, split=True):
        loader = TypedSplitLoader(layout, dtype=torch.float64)
        comm = BatchComm(None, ExchangeCounters(), CPU)
        blocks, xs = loader.inputs(segment, comm)
        assert sorted(blocks) == [1, 2]
        counters = loader.take_counters_by_type()
        for number, (each, rows) in enumerate(zip(graph.schema.types, graph.features_by_type, strict=True)):
            vertices = segment.vertices_of(number)
            seen[number].update(vertices.tolist())
            if rows is None:
                assert xs[number].shape == (len(vertices), 0)
                assert each.name not in counters
                continue
            assert xs[number].dtype == torch.float64
            np.testing.assert_array_equal(xs[number], rows[vertices].astype(np.float64))
            assert counters[each.name].rows == counters[each.name].host_rows == len(vertices)
            assert counters[each.name].host_to_device_bytes == len(vertices) * rows.shape[1] * 4
        assert all(of_type.rows == 0 for of_type in loader.take_counters_by_type().values())
    for number, of_type in enumerate(seen):
        assert of_type == Counter(whole.vertices_of(number).tolist())


def test_edges_have_the_weights_of_their_relation(layout):
    graph = layout.graph
    (segment,) = segments_of(layout, split=False)
    loader = TypedSplitLoader(layout, dtype=torch.float32, weights=True)
    for layer, block in loader.inputs(segment).blocks.items():
        for relation, of_relation in enumerate(block.blocks):
            edges, to = graph.adjacencies[relation], graph.schema.ends(relation)[1]
            source = segment.vertices_of(graph.schema.ends(relation)[0])
            rows = np.repeat(np.arange(of_relation.num_destinations), np.diff(segment.indptr(layer, relation)))
            ends = segment.vertices_of(to)[rows], source[segment.indices(layer, relation)]
            drawn = zip(*ends, of_relation.edge_weight, strict=True)
            for v, u, weight in drawn:
                here = slice(*edges.indptr[v : v + 2])
                assert weight.item() in edges.edge_weight[here][edges.indices[here] == u]
    assert loader.inputs(segment).blocks[1].relation(0) is not None
    (without,) = segments_of(layout, split=False, edge_ids=False)
    with pytest.raises(ValueError, match="carries no edge ids"):
        loader.inputs(without)


def test_weights_that_nobody_takes_are_not_loaded(layout):
    (segment,) = segments_of(layout, split=False, edge_ids=False)
    blocks, _ = TypedSplitLoader(layout, dtype=torch.float32).inputs(segment)
    assert all(each.edge_weight is None for block in blocks.values() for each in block.blocks)
