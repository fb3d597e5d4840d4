"""Rotating layers give the loss and every gradient of one dense process, and send what the paper says."""

from __future__ import annotations

import math

import pytest
from support.graphs import lay_out, random_graph
from support.threads import in_threads
from support.whole import WholeStep, assert_same, buffers

from gsplit.full import Plan

GRIDS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (2, 2, 2)]
FLAGS = [{"permutation": "double", "row_blocks": 1}, {"permutation": "single", "row_blocks": 3}]
LAYERS = 3


def rotating(sizes):
    return Plan(algorithm="rotate", sizes=sizes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rotation")


def steps(member, layout, shared, plan, name, layers):
    """Loss and gradients of two epochs, of which the second keeps the first sum, for all flags."""
    results = []
    for flags in FLAGS:
        step = WholeStep(member, layout, shared, plan, layers, name, **flags)
        results.append([step.gradients()[:2] for _ in range(2)])
    return results


@pytest.mark.parametrize("sizes", GRIDS, ids=str)
@pytest.mark.parametrize("name", ["gcn", "weighted-gcn"])
def test_every_grid_gives_the_gradient_of_one_process(folder, sizes, name):
    trainers, weighted = math.prod(sizes), name.startswith("weighted")
    layout = lay_out(
        random_graph(90, 6, seed=4, weighted=weighted), folder / str(weighted), parts=trainers, method="random"
    )
    results = in_threads(trainers, steps, layout, buffers(), rotating(sizes), name, LAYERS)
    assert_same(layout.graph, results, name, LAYERS)
