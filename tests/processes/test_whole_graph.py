"""Laws of the whole graph: every plan on every grid gives the gradient of one dense process."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching
from support.gradients import assert_near_step, assert_same_step
from support.graphs import lay_out, random_graph
from support.models import make_model, names
from support.steps import ALONE, Step
from support.threads import in_threads
from support.whole import (
    LAYERS,
    DenseBlock,
    WholeStep,
    assert_same,
    buffers,
    dense_gradients,
    needed_rows,
    plans_of,
    uneven,
)

from gsplit.engine.objective import mini_batch_loss, objective_of
from gsplit.engine.whole.plan_table import moved_widths
from gsplit.full import GridPlan, levels_of
from gsplit.full.covers import covers_of
from gsplit.full.plans import grids_of
from gsplit.full.volumes import volumes
from gsplit.train.progress import mini_batch_counts


def steps(member, layout, shared, plans, name, partial_sums=False):
    """Loss and gradients of the first and the second epoch, which keeps the first sum, for each plan."""
    results = []
    for plan in plans:
        step = WholeStep(member, layout, shared, plan, LAYERS, name, partial_sums=partial_sums)
        results.append([step.gradients()[:2] for _ in range(2)])
    return results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


CASES = [*(("sage", trainers) for trainers in (1, 2, 3, 4, 6, 8)), *(("gcn-batch-norm", n) for n in (1, 2, 3, 8))]
"""Batch normalisation with 4 trainers is below; grids of 6 have no axis that grids of 8 lack."""


@pytest.mark.cases(4)
@pytest.mark.parametrize(("name", "trainers"), CASES)
def test_every_grid_gives_the_gradient_of_one_process(folder, trainers, name):
    layout = lay_out(random_graph(90, 6, seed=4), folder, parts=trainers, method="random")
    results = in_threads(trainers, steps, layout, buffers(), plans_of(trainers, name), name)
    assert_same(layout.graph, results, name, LAYERS)


OTHERS = ["sage-wide", "sage-residual-layer-norm", "sage-batch-norm", "sage-projected", "gcn", "gcn-narrow"]
OTHERS += ["gcn-mean", "gcn-no-loops", "gat", "gat-all", "gat-no-loops", "weighted-gcn", "weighted-gcn-mean"]


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", OTHERS)
def test_every_model_gives_the_gradient_of_one_process(folder, name):
    """On four trainers, one without a vertex and one without training vertices; with loops and isolated vertices."""
    layout = uneven(folder, weighted=name.startswith("weighted"))
    results = in_threads(4, steps, layout, buffers(), plans_of(4, name), name)
    assert_same(layout.graph, results, name, LAYERS)


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "name", ["sage", "gcn", "gat", "weighted-gcn", "pyg-SAGEConv", "pyg-GATConv", "pyg-GCN-lstm", "own-twice"]
)
def test_a_step_is_one_of_split_with_all_neighbours(folder, name):
    weighted = name.startswith("weighted")
    layout = lay_out(random_graph(90, 6, seed=4, weighted=weighted), folder / f"split-{weighted}", parts=3)
    targets = layout.permutation[layout.graph.train_idx]
    loss, wanted = Step(ALONE, layout, targets, [-1] * LAYERS, torch.float64, name).gradients()
    for of_rank in in_threads(3, steps, layout, buffers(), plans_of(3, name), name):
        assert_near_step(itertools.chain.from_iterable(of_rank), loss, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", names({"dgl-GraphConv-both": None}))
def test_out_degrees_are_those_of_the_whole_graph(folder, name):
    """Not those of the edges that are left of a layer, where no training vertex depends on the others."""
    layout = uneven(folder, weighted=False)
    graph = layout.graph
    model = make_model(name, graph.num_features, graph.num_classes, LAYERS).double()
    A_NN = DenseBlock(graph, weighted=False).A_NN
    into, out = (A_NN.sum(axis, keepdim=True).clamp(min=1) for axis in (1, 0))
    x = torch.from_numpy(np.array(graph.features)).double()
    for layer, conv in enumerate(model.layers, start=1):
        x = into.rsqrt() * (A_NN @ (out.t().rsqrt() * x)) @ conv.weight + conv.bias
        x = torch.relu(x) if layer < LAYERS else x
    train = torch.from_numpy(np.array(graph.train_idx))
    labels = torch.from_numpy(np.array(graph.labels))[train]
    loss = mini_batch_loss(objective_of(graph.task), x[train], labels, len(train))
    loss.backward()
    wanted = {key: parameter.grad for key, parameter in model.named_parameters()}
    for of_rank in in_threads(4, steps, layout, buffers(), plans_of(4, name), name):
        assert_near_step(itertools.chain.from_iterable(of_rank), loss.item(), wanted, rtol=1e-9, atol=1e-11)


def sent(member, layout, shared, plans, name, partial_sums=False):
    """What the first epochs sent, for each plan, and the widths of what moved in them."""
    results = []
    for plan in plans:
        step = WholeStep(member, layout, shared, plan, LAYERS, name, torch.float32, partial_sums=partial_sums)
        widths = [moved_widths(step.model, epoch) for epoch in range(2)]
        results.append([(mini_batch_counts(step.gradients()[2], 0), epoch) for epoch in widths])
    return results


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ["sage", "sage-wide", "sage-projected", "gcn-batch-norm", "gcn-narrow", "gat"])
def test_what_is_sent_is_what_the_formula_says(folder, name):
    """As integers, on every trainer, by move and in all; on uneven and empty ranges."""
    layout = uneven(folder, weighted=False)
    plans = plans_of(4, name)
    levels = levels_of(layout.graph, layout.offsets, LAYERS, whole="batch" in name)
    needed = {layer: needed_rows(layout.graph, levels, layer) for layer in range(1, LAYERS + 1)}
    for rank, of_rank in enumerate(in_threads(4, sent, layout, buffers(), plans, name)):
        for plan, epochs in zip(plans, of_rank, strict=True):
            for counts, widths in epochs:
                wanted = volumes(plan, levels.sizes, widths, 4, rank, needed)
                assert {key: counts[key] for key in wanted} == wanted, (plan, rank)
    assert plans[0].algorithm == "shared"
    assert any(wanted.values())


ATTENDING = ("gat", "gat-no-loops", "gat-all")


@pytest.mark.cases(3)
@pytest.mark.parametrize("trainers", [2, 4, 8])
@pytest.mark.parametrize("name", ATTENDING)
def test_attention_on_every_small_grid_is_that_of_one_process(folder, name, trainers):
    """And sends what the formula says, as integers; with four trainers one has no vertex."""
    layout = uneven(folder, weighted=False)
    if trainers != 4:
        layout = lay_out(random_graph(90, 6, seed=4), folder, parts=trainers, method="random")
    plans = [GridPlan(algorithm="3d", sizes=sizes) for sizes in grids_of(trainers) if max(sizes) <= 2]
    levels = levels_of(layout.graph, layout.offsets, LAYERS, whole=name == "gat-all")
    wanted = dense_gradients(layout.graph, LAYERS, name)
    for rank, of_rank in enumerate(in_threads(trainers, attended, layout, buffers(), plans, name)):
        for plan, (step, counts, widths) in zip(plans, of_rank, strict=True):
            assert_same_step([step], *wanted)
            of_formula = volumes(plan, levels.sizes, widths, 8, rank)
            assert {key: counts[key] for key in of_formula} == of_formula, (plan, rank)


def attended(member, layout, shared, plans, name):
    """Loss and gradients, what was sent, and the widths of what moved, for each plan."""
    results = []
    for plan in plans:
        step = WholeStep(member, layout, shared, plan, LAYERS, name)
        loss, gradients, batch = step.gradients()
        results.append(((loss, gradients), mini_batch_counts(batch, 0), moved_widths(step.model, 0)))
    return results


SPARSE = [GridPlan(algorithm="1d-sparse", sizes=(4, 1, 1))]


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "name", ["sage", "sage-wide", "sage-projected", "gcn-batch-norm", "gcn-narrow", "weighted-gcn-mean"]
)
def test_sums_in_the_place_of_rows_give_the_gradient_of_one_process(folder, name):
    layout = uneven(folder, weighted=name.startswith("weighted"))
    results = in_threads(4, steps, layout, buffers(), SPARSE, name, True)
    assert_same(layout.graph, results, name, LAYERS)


@pytest.mark.parametrize("name", ["sage-wide", "gcn-batch-norm"])
def test_what_is_sent_is_the_fewest_rows_and_sums(folder, name):
    """As many as SciPy's maximum matching has edges, for every pair of trainers, and fewer than rows alone."""
    layout = uneven(folder, weighted=False)
    levels = levels_of(layout.graph, layout.offsets, LAYERS, whole="batch" in name)
    least = {layer: least_rows(layout.graph, levels, layer) for layer in range(1, LAYERS + 1)}
    for layer, wanted in least.items():
        assert (covers_of(layout.graph, levels, layer).sent_PP == wanted).all()
        needed = needed_rows(layout.graph, levels, layer)
        assert (wanted <= needed).all()
        assert wanted.sum() < needed.sum()
    for rank, [epochs] in enumerate(in_threads(4, sent, layout, buffers(), SPARSE, name, True)):
        for counts, widths in epochs:
            wanted = volumes(SPARSE[0], levels.sizes, widths, 4, rank, least)
            assert {key: counts[key] for key in wanted} == wanted, rank


def least_rows(graph, levels, layer):
    """[P, P] edges of a maximum matching between the sources and destinations of each two trainers."""
    bounds = np.asarray(levels.bounds)
    destinations = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    sources = np.asarray(graph.indices)
    owner, from_owner = (np.searchsorted(bounds, ids, side="right") - 1 for ids in (destinations, sources))
    row = levels.row_N[destinations]
    there = (row >= 0) & (row < levels.sizes[owner, layer]) & (owner != from_owner)
    least = np.zeros((len(levels.sizes),) * 2, np.int64)
    for rank, peer in itertools.product(range(len(least)), repeat=2):
        these = there & (owner == rank) & (from_owner == peer)
        pairs = csr_matrix(
            (np.ones(these.sum()), (sources[these], destinations[these])), shape=(graph.num_vertices,) * 2
        )
        least[rank, peer] = (maximum_bipartite_matching(pairs) >= 0).sum()
    return least


def test_levels_are_what_training_vertices_depend_on(folder):
    layout = uneven(folder, weighted=False)
    graph = layout.graph
    levels = levels_of(graph, layout.offsets, LAYERS, whole=False)
    there = {int(v) for v in graph.train_idx}
    for level in range(LAYERS, -1, -1):
        own = [levels.vertices(p)[: levels.sizes[p, level]] for p in range(4)]
        assert {int(v) for v in np.concatenate(own)} == there
        there |= {int(u) for v in there for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]}
