"""Every aggregation that is on the list of own neighbours gives, split, what PyG gives on the whole graph."""

from __future__ import annotations

import pytest
import torch
from support import pool as pool_module
from torch import nn

from experiments.differential.aggregations import OWN
from experiments.differential.draw import CLASSES, FEATURES, HIDDEN, Drawn, draw
from experiments.differential.judge import compare, judge
from experiments.differential.nets import HandMade, OnEdges
from experiments.differential.trainers import train

PER_MODEL = 3
GROUPS = [list(OWN)[at : at + PER_MODEL] for at in range(0, len(OWN), PER_MODEL)]
"""Each name in a layer of one model, whose gradients say which of them is wrong."""


def step_in_pool(member, order):
    return train(member, order, pool_module.SHARED)


class InPool:
    def __init__(self, pool):
        self.pool = pool

    def step(self, world, order):
        return self.pool.run(world, step_in_pool, order)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("differential")


@pytest.mark.cases(6)
@pytest.mark.parametrize("names", GROUPS, ids="; ".join)
def test_every_aggregation_of_own_neighbours_is_that_of_one_process(pool, folder, names):
    batch_norm = any("batch norm" in name for name in names)
    drawn = Drawn(
        **{"number": 0, "seed": 0, "convolution": "PyG by hand", "options": {}, "form": "x, edge_index"},
        **{"norm": "none", "residual": False, "jumping": None, "activation": "tanh", "by_hand": None},
        **{"dtype": "float64", "weighted": False, "loops": True, "isolated": True, "layers": len(names)},
        targets="all" if batch_norm else "few",  # trainers have no targets, or no edges
    )
    torch.manual_seed(0)
    widths = [FEATURES, *[HIDDEN] * (len(names) - 1), CLASSES]
    chosen = [OWN[name] for name in names]
    model = OnEdges(
        [HandMade(w, widths[i + 1], chosen[i].make(w), chosen[i].factor) for i, w in enumerate(widths[:-1])],
        [nn.Identity() for _ in names[1:]],
        [],
        **{"activation": "tanh", "jumping": None, "widths": widths, "by_hand": None},
    )
    outcome = compare(model, drawn, InPool(pool), folder)
    assert outcome.end == "equal", outcome


@pytest.mark.parametrize("number", [0, 1, 2])
def test_some_models_of_the_campaign(pool, folder, number):
    outcome = judge(draw(number, seed=2), InPool(pool), folder)
    assert outcome.end in ("equal", "refused"), outcome
