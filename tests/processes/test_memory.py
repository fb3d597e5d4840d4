"""The graph is in memory once, however many processes map it; a mini-batch no longer than it is computed."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import psutil
import pytest
import torch
from support.commands import FOR_EVER, Command
from support.graphs import lay_out, random_graph
from support.models import names
from support.samplers import attend, pool_of
from support.steps import Step

from gsplit.data import open_layout
from gsplit.sampling.rule import Neighbours

ARRAYS = ("indptr.npy", "indices.npy", "permutation.npy")


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    graph = random_graph(200_000, 20, features=1, seed=2)
    return lay_out(graph, tmp_path_factory.mktemp("memory"), parts=2, method="random")


def proportional_share(layout, processes):
    """The share of the graph's files that all processes together have in memory, and how many of them map it."""
    paths = {str(layout.path.resolve() / name) for name in ARRAYS}
    pss, mapping = 0, 0
    for process in processes:
        graph = [entry for entry in process.memory_maps() if entry.path in paths]
        mapping += bool(graph)
        pss += sum(entry.pss for entry in graph)
        assert sum(entry.private_dirty + entry.swap for entry in graph) == 0
    size = sum((layout.path / name).stat().st_size for name in ARRAYS)
    assert size > 10e6
    return pss / size, mapping


def test_a_training_run_has_the_graph_in_memory_once(layout, tmp_path):
    flags = "--device cpu --fan-out 10,10 --batch-size 5000 --hidden 4"
    flags += " --validate-every 0 --checkpoint-every-batches 1 --samplers 2"
    command = Command(tmp_path / "tmp", [layout.path, "--out", tmp_path / "run", *flags.split(), *FOR_EVER])
    try:
        command.wait_for_checkpoint(tmp_path / "run", 0, 3)
        processes = [psutil.Process(command.process.pid), *command.trainers, *command.samplers]
        share, mapping = proportional_share(layout, processes)
    finally:
        command.kill()
    assert mapping == 5
    assert 0.5 < share <= 1.05


def test_samplers_have_the_graph_in_memory_once(layout):
    arrived = []
    with pool_of(
        layout, arrived.extend, samplers=3, slots=6, batch_size=20_000, rule=Neighbours(fan_out=(20, 20))
    ) as pool:
        attend(pool, lambda: len(arrived) >= 6)
        share, mapping = proportional_share(layout, [psutil.Process(process.pid) for process in pool.processes])
    assert mapping == 3
    assert 0 < share <= 1.05


def what_outlives_a_mini_batch(member, path, targets, name, sums=False):
    """Of its parts, while the model lives, without the garbage collector, which comes when it likes."""
    step = Step(member, open_layout(path), targets, [4, 3], torch.float32, name, sums=sums)
    gc.collect()  # what PyG leaves of making a model
    gc.disable()
    try:
        step.gradients()
        parts = {"comm": step.comm, "segment": step.segment.data, "x": step.x, "route": step.blocks[1].route}
        watched = {part: weakref.ref(value) for part, value in parts.items()}
        model = step.model
        del step, parts
        assert model.training
        return [part for part, reference in watched.items() if reference() is not None]
    finally:
        gc.enable()


@pytest.mark.parametrize("name", names(["sage", "gat", "gcn", "pyg-SAGEConv", "dgl-GraphConv-both"]))
def test_a_mini_batch_goes_when_it_was_computed(pool, layouts, name):
    layout = layouts(2)
    targets = np.sort(layout.permutation[layout.graph.train_idx])[:40]
    assert pool.run(2, what_outlives_a_mini_batch, layout.path, targets, name) == [[], []]


@pytest.mark.parametrize("name", ["sage", "weighted-gcn"])
def test_a_mini_batch_with_sums_goes_too(pool, layouts, weighted_layouts, name):
    layout = (weighted_layouts if name == "weighted-gcn" else layouts)(2)
    targets = np.sort(layout.permutation[layout.graph.train_idx])[:40]
    assert pool.run(2, what_outlives_a_mini_batch, layout.path, targets, name, True) == [[], []]
