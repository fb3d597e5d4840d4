"""Laws 2 and 3 by the sampling rules beside neighbours, with 2, 3 and 4 trainers, and with two groups of two."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import torch
from support.gradients import assert_near_step, assert_same_step
from support.models import WEIGHTED, names
from support.steps import ALONE, CPU, Step, targets_of_first

from gsplit.data import open_layout
from gsplit.parallel import Member, trainer_grid
from gsplit.sampling import Clusters, FastGCN, Fresh, Ladies, Saint, Uniform

LAYERS = [0, 0, 0]
"""As many as there are layers; how many neighbours is for another rule."""
RULES = {
    "ladies": Ladies(sizes=(40, 60, 50)),
    "race": Ladies(sizes=(40, 60, 50), draw="race", importance="counts"),
    "fastgcn": FastGCN(sizes=(60, 80, 80)),
    "uniform": Uniform(subgraph="120", layers=3),
    "unbiased uniform": Uniform(subgraph="120", layers=3, scaled=True),
    "fresh": Fresh(subgraph="120", layers=3, scaled=True),
    "saint": Saint(subgraph="120", layers=3),
    "clusters": Clusters(clusters=1, layers=3),
}
SUBGRAPHS = ("uniform", "unbiased uniform", "saint", "clusters")
EACH = ["sage", "gcn", "weighted-gcn", "gat"]
OPTIONS = [
    "gcn-mean",
    "gcn-no-loops",
    "weighted-gcn-mean",
    "pyg-SAGEConv",
    "weighted-pyg-GraphConv",
    "pyg-GCN-max",
    "weighted-pyg-GCN",
    "sage-batch-norm",
]
CASES = [
    *itertools.product((2, 3, 4), ("ladies", "unbiased uniform"), EACH[:3], ("ratio", "unbiased")),
    *itertools.product((2, 3, 4), ("fresh",), EACH[:3], ("ratio", "unbiased")),
    *itertools.product((3,), ("race", "fastgcn"), EACH[:3], ("ratio", "unbiased")),
    *itertools.product((3,), ("saint",), EACH[:3], ("unbiased",)),
    *itertools.product((2, 4), ("ladies", "fastgcn", "uniform", "saint", "clusters"), ("gat", "sage"), ("ratio",)),
    *itertools.product((3,), ("ladies", "uniform"), OPTIONS, ("ratio",)),
    *itertools.product((3,), ("ladies",), ("weighted-pyg-GraphConv", "gcn-mean", "weighted-gcn-mean"), ("unbiased",)),
]


def started(layout, rule):
    """Global ids of the targets, and of what else is in the set of a subgraph."""
    train = np.sort(layout.permutation[layout.graph.train_idx])
    if rule not in SUBGRAPHS:
        return train[:61], None
    some = np.random.default_rng(3).permutation(layout.graph.num_vertices)[:120]
    return some[np.isin(some, train)], some[~np.isin(some, train)]


def step_by(member, layout, rule, name, estimate, dtype, grid=None, begin=None):
    targets, others = started(layout, rule) if begin is None else begin
    given = {"rule": RULES[rule], "global_others": others, "estimate": estimate}
    return Step(member, layout, targets, LAYERS, dtype, name, grid, **given)


def step_in_pool(member, path, rule, name, estimate, dtype, group=None, begin=None):
    grid = None if group is None else trainer_grid(member.world, group)
    step = step_by(member, open_layout(path), rule, name, estimate, dtype, grid, begin)
    return {
        "step": step.gradients(),
        "rows": step.loader.counters.rows,
        "vertices": step.segment.vertices.copy(),
        "edges": step.segment.num_edges,
        "exchanged": step.counters,
        "sent": np.array([layer.send_counts for layer in step.segment.layers.values()]),
        "received": np.array([layer.receive_counts for layer in step.segment.layers.values()]),
    }


@functools.cache
def alone(path, rule, name, estimate):
    """Loss and gradients of one process that has everything: the same, however many trainers are held against it."""
    return step_by(ALONE, open_layout(path), rule, name, estimate, torch.float64).gradients()


@pytest.mark.cases(24)
@pytest.mark.parametrize(
    ("world", "rule", "name", "estimate"),
    [
        pytest.param(world, rule, *named.values, estimate, marks=named.marks)
        for world, rule, name, estimate in dict.fromkeys(CASES)
        for named in names([name])
    ],
)
def test_law_2_same_loss_and_gradient_as_one_process(pool, layouts, weighted_layouts, world, rule, name, estimate):
    of = weighted_layouts if name in WEIGHTED else layouts
    whole, split = of(1), of(world, "metis" if world != 3 else "random")
    loss, gradients = alone(whole.path, rule, name, estimate)
    assert any(gradient.norm() > 0 for gradient in gradients.values())
    results = pool.run(world, step_in_pool, split.path, rule, name, estimate, torch.float64)
    assert_same_step([result["step"] for result in results], loss, gradients)


@pytest.mark.parametrize("rule", ["ladies", "fastgcn", "uniform", "fresh", "saint"])
def test_law_2_with_two_groups_of_two(pool, layouts, rule):
    whole, split = layouts(1), layouts(4)
    shares, gradients = [], None
    for micro in range(2):
        member = Member(rank=micro, world=1, device=CPU)
        loss, of_group = step_by(member, whole, rule, "sage", "ratio", torch.float64, trainer_grid(2, 1)).gradients()
        shares.append(loss)
        gradients = of_group if gradients is None else {k: gradients[k] + g for k, g in of_group.items()}
    results = pool.run(4, step_in_pool, split.path, rule, "sage", "ratio", torch.float64, 2)
    assert_same_step([result["step"] for result in results], sum(shares), gradients)


@pytest.mark.parametrize("rule", ["ladies", "uniform", "fresh"])
@pytest.mark.parametrize("world", [2, 4])
def test_law_2_when_trainers_have_no_targets_or_nobody_has_any(pool, layouts, world, rule):
    whole, split = layouts(1), layouts(world)
    first = targets_of_first(split)
    others = np.setdiff1d(np.arange(100), first) if rule == "uniform" else None
    for targets in (first[:1], first[:0]):
        begin = (targets, others)
        loss, gradients = step_by(ALONE, whole, rule, "gcn", "ratio", torch.float64, begin=begin).gradients()
        assert (loss == 0) == (len(targets) == 0)
        results = pool.run(world, step_in_pool, split.path, rule, "gcn", "ratio", torch.float64, None, begin)
        assert_near_step([result["step"] for result in results], loss, gradients)


@pytest.mark.parametrize("rule", [*RULES])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_law_3_nothing_loaded_computed_or_sent_twice(pool, layouts, world, rule):
    whole, split = layouts(1), layouts(world)
    unsplit = step_by(ALONE, whole, rule, "sage", "ratio", torch.float32).segment
    results = pool.run(world, step_in_pool, split.path, rule, "sage", "ratio", torch.float32)
    vertices = np.concatenate([result["vertices"] for result in results])
    wanted = np.sort(whole.permutation[unsplit.vertices])
    assert np.sort(split.permutation[vertices]).tolist() == wanted.tolist()
    assert sum(result["rows"] for result in results) == len(wanted)
    assert sum(result["edges"] for result in results) == unsplit.num_edges
    for result in results:
        assert result["exchanged"].forward_messages == (result["sent"] > 0).sum()
        assert result["exchanged"].backward_messages == (result["received"][1:] > 0).sum()
