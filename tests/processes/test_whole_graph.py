"""Laws of the whole graph: every plan on every grid gives the gradient of one dense process."""

from __future__ import annotations

import itertools

import pytest
import torch
from support.graphs import lay_out, random_graph
from support.threads import in_threads
from support.whole import WholeStep, buffers, dense_gradients

from gsplit.full import Plan
from gsplit.full.plans import OF_ALL_SOURCES, grids_of

LAYERS = 3


def steps(member, layout, shared, plans, name):
    """Loss and gradients of the first and the second epoch, which keeps the first sum, for each plan."""
    results = []
    for plan in plans:
        step = WholeStep(member, layout, shared, plan, LAYERS, name)
        results.append([step.gradients()[:2] for _ in range(2)])
    return results


def plans_of(trainers, name="sage"):
    """All plans that a model can take."""
    grids = [] if name.startswith(("gat", "pyg", "dgl", "own")) else list(grids_of(trainers))
    named = [Plan(algorithm=algorithm, sizes=(trainers, 1, 1)) for algorithm in OF_ALL_SOURCES]
    return [*named, *(Plan(algorithm="3d", sizes=sizes) for sizes in grids)]


def assert_same(graph, results, name):
    wanted_loss, wanted = dense_gradients(graph, LAYERS, name)
    largest = max(gradient.norm().item() for gradient in wanted.values())
    for of_rank in results:
        for loss, gradients in itertools.chain.from_iterable(of_rank):
            assert loss == pytest.approx(wanted_loss, rel=1e-10)
            assert gradients.keys() == wanted.keys()
            for key, gradient in gradients.items():
                error = (gradient - wanted[key]).norm().item()
                assert error <= 1e-10 * max(wanted[key].norm().item(), 1e-3 * largest), key
    for of_rank in results[1:]:  # bit-equal everywhere
        for (_, first), (_, other) in zip(
            itertools.chain.from_iterable(results[0]), itertools.chain.from_iterable(of_rank), strict=True
        ):
            assert all(torch.equal(first[key], other[key]) for key in first)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.mark.parametrize("trainers", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("name", ["sage", "gcn-batch-norm"])
def test_every_grid_gives_the_gradient_of_one_process(folder, trainers, name):
    layout = lay_out(random_graph(90, 6, seed=4), folder, parts=trainers, method="random")
    results = in_threads(trainers, steps, layout, buffers(), plans_of(trainers, name), name)
    assert_same(layout.graph, results, name)
