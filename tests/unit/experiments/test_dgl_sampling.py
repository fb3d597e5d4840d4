"""The check of DGL's blocks: it lets samples pass, and names what is wrong with anything else."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from support.blocks import unsplit
from support.graphs import random_graph
from support.libraries import needs_dgl

from experiments.baselines.dgl_sampling import FORMS, DrawnBlock, fault_of
from experiments.paper.sampling_ways import Theirs, iterations
from experiments.shared.datasets import open_dataset

FAN_OUTS = (4, 3)
GRAPH = random_graph(60, 8, seed=1)
TARGETS = GRAPH.train_idx[:6]


def good_blocks(fan_outs=FAN_OUTS):
    """Our own sample in the form of DGL's blocks."""
    segment = unsplit(GRAPH, TARGETS, fan_outs, edge_ids=True)
    return [
        DrawnBlock(
            sources=segment.vertices[: segment.level_sizes[layer - 1]],
            destinations=segment.vertices[: segment.level_sizes[layer]],
            edge_sources=segment.indices(layer),
            edge_destinations=np.repeat(np.arange(segment.level_sizes[layer]), np.diff(segment.indptr(layer))),
            edge_ids=segment.edge_ids(layer),
        )
        for layer in (1, 2)
    ]


def fault(blocks, fan_outs=FAN_OUTS):
    return fault_of(blocks, TARGETS, GRAPH.indptr, GRAPH.indices, fan_outs)


def changed(array, at, value):
    array = array.copy()
    array[at] = value
    return array


def of_another_vertex(block):
    row = block.edge_destinations[0]
    other = np.flatnonzero(block.edge_destinations != row)[0]
    return changed(block.edge_ids, 0, block.edge_ids[other])


def drawn_twice(block):
    return {name: changed(getattr(block, name), 1, getattr(block, name)[0]) for name in ("edge_ids", "edge_sources")}


def lost(block):
    return {name: getattr(block, name)[1:] for name in ("edge_ids", "edge_sources", "edge_destinations")}


def twice_a_source(block):
    assert len(block.sources) > len(block.destinations)
    return changed(block.sources, -1, block.sources[0])


@pytest.mark.parametrize("fan_outs", [FAN_OUTS, (-1, 2)])
def test_a_sample_passes(fan_outs):
    assert fault(good_blocks(fan_outs), fan_outs) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda b: {"edge_sources": changed(b.edge_sources, 3, len(b.sources))},
            "1 of .* source rows are out of range",
        ),
        (lambda b: {"edge_sources": changed(b.edge_sources, 3, -1)}, "1 of .* source rows are out of range"),
        (lambda b: {"sources": changed(b.sources, -1, 60)}, "1 of .* source ids are out of range"),
        (lambda b: {"edge_ids": changed(b.edge_ids, 0, GRAPH.num_edges)}, "1 of .* edge ids are out of range"),
        (lambda b: {"edge_destinations": b.edge_destinations + 1}, "destination rows are out of range"),
        (lambda b: {"sources": b.sources[::-1]}, "the destinations are not the first sources"),
        (lambda b: {"sources": twice_a_source(b)}, "a vertex is twice among the sources"),
        (lambda b: {"edge_ids": of_another_vertex(b)}, "1 of .* sources are no in-neighbours of their destination"),
        (lambda b: {"edge_sources": np.roll(b.edge_sources, 1)}, "sources are no in-neighbours of their destination"),
        (drawn_twice, "a neighbour was drawn twice"),
        (lost, r"a destination has other than min\(degree, fan-out\) neighbours"),
    ],
)
def test_what_is_no_sample_is_named(change, message):
    blocks = good_blocks()
    for hop, at in ((1, 1), (2, 0)):
        broken = blocks.copy()
        broken[at] = replace(blocks[at], **change(blocks[at]))
        found = fault(broken)
        assert found
        assert found.startswith(f"hop {hop}: ")
        assert re.search(message, found)


def test_hops_belong_together():
    inputs, outputs = good_blocks()
    assert "hop 1: the destinations are not" in fault([inputs, replace(outputs, destinations=TARGETS[::-1])])
    fewer = replace(outputs, sources=outputs.sources[:-1], destinations=TARGETS)
    assert fault([inputs, fewer]).startswith("hop 1: ")
    assert "hop 2: the destinations are not" in fault([outputs, outputs])


def test_fan_outs_count_from_the_targets():
    assert "min(degree, fan-out)" in fault(good_blocks(), FAN_OUTS[::-1])


@needs_dgl
def test_the_corrupt_form_of_dgl_is_found_and_no_other(tmp_path):
    dataset = open_dataset("synthetic:tiny", seed=0, work=tmp_path)
    theirs = Theirs(dataset, (10, 10))
    iteration = next(iterations(dataset, 200, seed=0))
    excluded = theirs.exclude_faulty(iteration)
    assert [(e["form"], e["order"]) for e in excluded] == [("int32 fused", "store"), ("int32 fused", "layout")]
    assert all("out of range" in e["fault"] or "in-neighbours" in e["fault"] for e in excluded)
    assert theirs.exclude_faulty(iteration) == []
    assert {c.form for c in theirs.ways()} == {form.name for form in FORMS} - {"int32 fused"}
