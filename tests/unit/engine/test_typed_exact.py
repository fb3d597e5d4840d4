"""Exact vectors of several types against dense matrices of the whole graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import pool as pool_module
from support.steps import ALONE, CPU
from support.typed_graphs import random_typed_graph
from support.typed_models import ACTIVATIONS, CONVOLUTIONS, MODELS

from gsplit.data import open_layout, write_store
from gsplit.device.precision import Precision
from gsplit.engine.evaluation.typed_exact import TypedExactLevels
from gsplit.engine.typed_inputs import TypedSplitLoader
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


def dense_levels(layout, model, name="rgcn") -> dict[int, list[torch.Tensor]]:
    """Level -> vectors of all vertices by type, over all edges of the relations that each layer has weights for."""
    graph, state, reach = layout.graph, model.state_dict(), model.reach
    counts, activation = [each.num_vertices for each in graph.schema.types], ACTIVATIONS[name.split()[0]]
    rows = [
        np.empty((n, 0)) if x is None else np.asarray(x) for n, x in zip(counts, graph.features_by_type, strict=True)
    ]
    h = [torch.tensor(each).double() for each in rows]
    for t in reach.types[0]:
        h[t] = activation(h[t] @ state[f"projection.{t}.weight"].T + state[f"projection.{t}.bias"])
    levels = {}
    for layer in range(1, reach.num_layers + 1):
        matrices = {r: both_matrices(graph, r, counts) for r in reach.relations[layer]}
        out = CONVOLUTIONS[name.split()[0]](reach, layer, matrices, h, state, OPTIONS[name])
        if layer < reach.num_layers:
            out = {t: activation(rows) for t, rows in out.items()}
        h = levels[layer] = [out.get(t, torch.zeros(n, 0).double()) for t, n in enumerate(counts)]
    return levels


def both_matrices(graph, relation, counts) -> tuple[torch.Tensor, torch.Tensor]:
    """[destinations, sources] numbers of edges, and their weights."""
    source, to = graph.schema.ends(relation)
    edges, matrices = graph.adjacencies[relation], torch.zeros(2, counts[to], counts[source]).double()
    for v in range(counts[to]):
        for e in range(edges.indptr[v], edges.indptr[v + 1]):
            matrices[0, v, edges.indices[e]] += 1
            matrices[1, v, edges.indices[e]] += float(edges.edge_weight[e])
    return matrices[0], matrices[1]


def exact(member, layout, buffers=None, *, max_edges=10, weights=False):
    loader = TypedSplitLoader(layout.graph, device=CPU, dtype=torch.float64, weights=weights)
    buffers = buffers or (SharedBuffer("even"), SharedBuffer("odd"))
    how = {"precision": Precision(dtype=torch.float64), "threads": 1, "max_edges": max_edges}
    return TypedExactLevels(layout, member, loader, buffers, **how)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_vectors_of_every_type_and_level_equal_the_dense_ones(layout, level, name):
    model = model_of(layout, name)
    levels, dense = exact(ALONE, layout, weights=model.uses_edge_weight), dense_levels(layout, model, name)
    for type_ in model.reach.types[level]:
        ids = np.arange(layout.graph.schema.types[type_].num_vertices)[::2]
        found = [*levels.vectors(model, levels.own(ids, type_), type_, level)]
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
        next(levels.vectors(model, np.arange(1), 1))
