"""Counts of graphs of several types, against a slow sampler that shares no code with what it checks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.documents import undocumented
from support.libraries import needs_dgl
from support.typed_graphs import random_typed_graph
from support.typed_reference import TypedGraph, sample_typed

from experiments.types import accuracy, parts, redundancy, speed
from experiments.types.redundancy import Counts, RedundancyConfig, counts_of, redundancy_rows, sent_row, whole_of
from gsplit.data import open_layout, write_store
from gsplit.partition import PartitionConfig, partition
from gsplit.sampling import EpochPlan, Neighbours

CONFIG = RedundancyConfig(fan_out=(3, 2), batch_size=9, iterations=2, seed=5)


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    write_store(folder / "store", random_typed_graph(3, 5, seed=3), name="g", source="test")
    partition(PartitionConfig(store=folder / "store", out=folder / "layout", parts=3, method="random"))
    return open_layout(folder / "layout", typed=True)


@pytest.mark.parametrize(("micro_batches", "splits"), [(1, 1), (2, 1), (1, 3)])
def test_counts_are_those_of_slow_ones(layout, micro_batches, splits):
    graph, sizes = layout.graph, [each.num_vertices for each in layout.graph.schema.types]
    neighbours = [[row.tolist() for row in np.split(each.indices, each.indptr[1:-1])] for each in graph.adjacencies]
    slow = TypedGraph(sizes, [graph.schema.ends(r) for r in range(5)], neighbours)
    offsets = layout.offsets_by_type if splits == 3 else [np.array([0, size]) for size in sizes]
    plan = EpochPlan(graph.train_idx, layout.permutations[0], 9, 5, micro_batches=micro_batches)
    edges, rows_T, sent_L = 0, np.zeros(3), np.zeros(2)
    for batch in range(2):
        for micro, targets in enumerate(plan.micro_batches(0, batch)):
            about = {"target_type": 0, "seed": 5, "epoch": 0, "batch": batch, "micro": micro}
            for split in sample_typed(
                slow, offsets, targets, [[3] * 5, [2] * 5], global_ids=layout.permutations, **about
            ):
                edges += sum(len(row) for rows in split.edges.values() for row in rows)
                rows_T += [split.sizes[t, 0] for t in range(3)]
                sent_L += [
                    sum(len(of) for (at, _, _), of in split.received.items() if at == layer) for layer in (1, 2)
                ]
    cut = layout
    if splits == 1:
        cut = whole_of(graph)
        cut.permutations = layout.permutations
    counts = counts_of(cut, Neighbours(fan_out=(3, 2)), CONFIG, micro_batches=micro_batches, splits=splits)
    assert 2 * counts.edges == edges > 0
    assert (2 * counts.rows_T).tolist() == rows_T.tolist()
    assert (2 * counts.sent_L).tolist() == sent_L.tolist()
    assert (sent_L.min() > 0) == (splits == 3)


def test_rows_are_compared_with_one_mini_batch():
    once = Counts(edges=40, rows_T=np.array([10.0, 5.0, 0.0]), sent_L=np.zeros(2))
    twice = Counts(edges=50, rows_T=np.array([16.0, 9.0, 0.0]), sent_L=np.zeros(2))
    split = Counts(edges=40, rows_T=once.rows_T, sent_L=np.array([4.0, 2.0]))
    assert [(row["what"], row["ratios"]) for row in redundancy_rows(["a", "b", "c"], once, [twice])] == [
        ("edges", [1.25]),
        ("rows", [1.67]),
        ("rows of a", [1.6]),
        ("rows of b", [1.8]),
    ]
    row = sent_row(once, twice, split)
    assert (row["saved_rows"], row["sent_rows"], row["sent_over_saved"]) == (10, [4, 2], 0.6)


def test_the_commands_write_what_is_documented(tmp_path):
    for name, module in (("Redundancy of types", redundancy), ("Parts of types", parts)):
        file = tmp_path / "out.json"
        words = ["--dataset", "synthetic:mag?scale=0.004", "--work", str(tmp_path), "--json", str(file)]
        module.command(["--quick", *words])
        found = json.loads(file.read_text())
        rows = [row for value in found.values() if isinstance(value, list) for row in value if isinstance(row, dict)]
        assert undocumented(name, {*found, *(key for row in rows for key in row)}) == []
        assert not [each for each in tmp_path.iterdir() if each != file]


def test_relations_tell_what_edges_without_types_do_not(in_pool, tmp_path):
    file = tmp_path / "out.json"
    with in_pool():
        accuracy.command(["--quick", "--models", "rgcn,sage", "--json", str(file)])
    found = json.loads(file.read_text())
    assert undocumented("Accuracy of types", {*found, *found["paths"][0]}) == []
    assert accuracy.missed(found) == []


@pytest.mark.slow
@needs_dgl
def test_speed_beside_dgl_writes_what_is_documented(tmp_path):
    file = tmp_path / "out.json"
    words = ["--quick", "--dataset", "synthetic:mag?scale=0.004", "--work", str(tmp_path), "--json", str(file)]
    speed.command(words)
    found = json.loads(file.read_text())
    assert undocumented("Speed of types", {*found, *(key for row in found["rows"] for key in row)}) == []
    assert np.mean(found["losses"]["gsplit"]) == pytest.approx(np.mean(found["losses"]["dgl"]), rel=0.1)


def test_a_bound_that_is_missed_is_found():
    row = {"partition": "METIS, even types", "worst_cell": 1.2, "sampled_edges": 1.1, "more_remote_points": 2.5}
    rows = [row, {**row, "partition": "METIS", "worst_cell": 3.0}]
    rows += [{**row, "worst_cell": 1.21}, {**row, "sampled_edges": 1.11}, {**row, "more_remote_points": 2.6}]
    assert parts.missed({"parts": rows}) == rows[2:]
    rows = [{"model": "rgcn", "scores": [0.94, 0.99]}, {"model": "sage", "scores": [0.4, 0.76]}]
    assert accuracy.missed({"paths": [*rows, {"model": "sage", "scores": [0.4]}]}) == rows
