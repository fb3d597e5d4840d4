"""Exact vectors of several types against dense matrices of the whole graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.steps import ALONE
from support.typed_graphs import random_typed_graph
from support.typed_models import MODELS, dense_levels

from gsplit.data import open_layout, write_store
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.typed_exact import TypedExactLevels
from gsplit.engine.typed.loader import TypedSplitLoader
from gsplit.host import SharedBuffer
from gsplit.partition import PartitionConfig, partition
from gsplit.sampling import reach_of

FAN_OUTS = [[2, 2, 0, 2, 2], [2, 0, 2, 2, 2], [2, 2, 2, 2, 0]]
HIDDEN = 6
OPTIONS = {
    "rgcn": {},
    "rgcn with weights": {"edge_weights": True},
    "rgat": {"heads": 3, "out_heads": 2, "attention_dropout": 0.5},
    "untyped": {},
}


@pytest.fixture(scope="module", params=[3, 5])
def layout(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exact")
    graph = random_typed_graph(3, 5, seed=request.param, empty_type=request.param == 5, weighted=True)
    write_store(folder / "store", graph, name="g", source="test")
    partition(PartitionConfig(store=folder / "store", out=folder / "layout", parts=2, method="random"))
    return open_layout(folder / "layout", typed=True)


def model_of(layout, name="rgcn"):
    schema = layout.graph.schema
    widths = [0 if rows is None else rows.shape[1] for rows in layout.graph.features_by_type]
    reach = reach_of([schema.ends(r) for r in range(len(schema.relations))], FAN_OUTS, layout.graph.target)
    torch.manual_seed(1)
    model = MODELS[name.split()[0]]
    return model(widths, HIDDEN, layout.graph.num_classes, reach, dropout=0.5, **OPTIONS[name]).double()


def exact(member, layout, buffers=None, *, max_edges=10, weights=False):
    loader = TypedSplitLoader(layout, dtype=torch.float64, weights=weights)
    buffers = buffers or (SharedBuffer("even"), SharedBuffer("odd"))
    how = {"precision": Precision(dtype=torch.float64), "threads": 1, "max_edges": max_edges}
    return TypedExactLevels(layout, member, loader, buffers, **how)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_vectors_of_every_type_and_level_equal_the_dense_ones(layout, level, name):
    model = model_of(layout, name)
    levels, dense = (
        exact(ALONE, layout, weights=model.uses_edge_weight),
        dense_levels(layout, model, name, OPTIONS[name]),
    )
    for type_ in model.reach.types[level]:
        ids = np.arange(layout.graph.schema.types[type_].num_vertices)[::2]
        found = [*levels.vectors(model, levels.own(ids, type_), level, type_)]
        assert np.concatenate([np.empty(0, int), *(chunk for chunk, _ in found)]).tolist() == ids.tolist()
        for chunk, vectors in found:
            torch.testing.assert_close(vectors, dense[level][type_][chunk], rtol=0, atol=1e-10)
    assert model.training


def logits_in_pool(member, path, ids):
    """This trainer's logits of some targets."""
    layout = open_layout(path, typed=True)
    levels = exact(member, layout, pool_module.SHARED.levels)
    own = levels.own(ids, layout.graph.target)
    return [(chunk, vectors) for chunk, vectors in levels.vectors(model_of(layout), own)]


@pytest.mark.parametrize("world", [2, 3])
def test_trainers_compute_the_same_together(layout, pool, world):
    model = model_of(layout)
    ids = np.arange(layout.graph.schema.types[0].num_vertices)[3:20]
    dense = dense_levels(layout, model)[3][0]
    found = [each for of_trainer in pool.run(world, logits_in_pool, layout.path, ids) for each in of_trainer]
    assert sorted(np.concatenate([chunk for chunk, _ in found]).tolist()) == ids.tolist()
    for chunk, logits in found:
        torch.testing.assert_close(logits, dense[chunk], rtol=0, atol=1e-10)


def test_a_type_that_a_level_has_not_is_refused(layout):
    model, levels = model_of(layout), exact(ALONE, layout)
    with pytest.raises(ValueError, match="level 3 has no vertices of type t1"):
        next(levels.vectors(model, np.arange(1), type_=1))
