"""The graph is in memory once, however many processes map it; a mini-batch no longer than it is computed."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import psutil
import pytest
import torch
from support.graphs import lay_out, random_graph
from support.models import names
from support.samplers import attend, pool_of
from support.steps import Step

from gsplit.data import open_layout

ARRAYS = ("indptr.npy", "indices.npy", "permutation.npy")


def test_the_mapped_graph_is_counted_once(tmp_path):
    layout = lay_out(random_graph(200_000, 20, features=1, seed=2), tmp_path, parts=2, method="random")
    arrived = []
    with pool_of(layout, arrived.append, samplers=3, slots=6, batch_size=20_000, fan_out=(20, 20)) as pool:
        attend(pool, lambda: len(arrived) == 6)
        pss, mapped = 0, []
        for sampler in pool._samplers.values():
            graph = [
                entry for entry in psutil.Process(sampler.process.pid).memory_maps()
                if entry.path in {str(layout.path.resolve() / name) for name in ARRAYS}
            ]  # fmt: skip
            mapped.append(len(graph))
            pss += sum(entry.pss for entry in graph)
            assert sum(entry.private_dirty + entry.swap for entry in graph) == 0
    size = sum((layout.path / name).stat().st_size for name in ARRAYS)
    assert size > 10e6
    assert mapped == [3, 3, 3]
    assert 0 < pss <= 1.05 * size


def what_outlives_a_mini_batch(worker, path, targets, name):
    """Of its parts, while the model lives, without the garbage collector, which comes when it likes."""
    step = Step(worker, open_layout(path), targets, [4, 3], torch.float32, name)
    gc.collect()  # what PyG leaves of making a model
    gc.disable()
    try:
        step.gradients()
        parts = {"lane": step.lane, "segment": step.segment.data, "x": step.x, "route": step.blocks[1].route}
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
