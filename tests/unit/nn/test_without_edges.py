"""Convolutions on blocks without edges, which one trainer of several may have, or without a destination."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.blocks import unsplit
from support.graphs import random_graph
from support.libraries import needs_dgl
from support.models import DGLNet, PyGNet
from support.steps import CPU
from torch import nn

from gsplit.engine.inputs import blocks_of
from gsplit.features import EdgeLoader
from gsplit.nn.adapters import wrap

ZERO = {"allow_zero_in_degree": True}
MADE = {
    "SAGEConv gcn": lambda d: d.SAGEConv(5, 3, "gcn"),
    "SAGEConv pool": lambda d: d.SAGEConv(5, 3, "pool"),
    "GATConv residual": lambda d: d.GATConv(5, 3, 1, residual=True, **ZERO),
    "GATv2Conv residual": lambda d: d.GATv2Conv(5, 3, 1, residual=True, **ZERO),
    "DotGatConv": lambda d: d.DotGatConv(5, 3, 1, **ZERO),
    "GraphConv both": lambda d: d.GraphConv(5, 3, norm="both", **ZERO),
    "EdgeConv batch_norm": lambda d: d.EdgeConv(5, 3, batch_norm=True, **ZERO),
    "GINConv max": lambda d: d.GINConv(nn.Linear(5, 3), "max"),
}


@pytest.fixture(scope="module")
def graph():
    return random_graph(150, 6, seed=4, weighted=True)


def logits_of(model, graph, targets):
    edges = EdgeLoader(graph, device=CPU, dtype=torch.float64, weights=True, degrees=False)
    segment = unsplit(graph, targets, [-1], edge_ids=True)
    blocks = blocks_of(
        segment, CPU, None, **edges.load(segment), whole_out_degrees=lambda: edges.out_degrees(segment.vertices)
    )
    x = torch.from_numpy(graph.features[segment.vertices]).double().requires_grad_()
    return model(blocks, x), x, blocks[1]


@needs_dgl
@pytest.mark.parametrize("name", MADE)
def test_vertices_without_edges_are_what_they_are_in_company(graph, name):
    import dgl.nn as d

    torch.manual_seed(0)
    compare_in_company(graph, wrap(DGLNet([MADE[name](d)]).double()))


OF_PYG = {
    "FeaStConv": lambda g: g.FeaStConv(5, 3, heads=2),
    "GATConv": lambda g: g.GATConv(5, 3, heads=2, concat=False, residual=True),
    "TransformerConv": lambda g: g.TransformerConv(5, 3, heads=2, concat=False, beta=True),
    "SAGEConv max": lambda g: g.SAGEConv(5, 3, aggr="max"),
    "SAGEConv median": lambda g: g.SAGEConv(5, 3, aggr="median"),
    "GENConv batch norm": lambda g: g.GENConv(5, 3, norm="batch"),
}


@pytest.mark.parametrize("name", OF_PYG)
def test_so_it_is_with_those_of_pyg(graph, name):
    import torch_geometric.nn as g

    torch.manual_seed(0)
    compare_in_company(graph, wrap(PyGNet([OF_PYG[name](g)]).double()))


def compare_in_company(graph, model):
    model.eval()
    lonely = np.flatnonzero(np.diff(graph.indptr) == 0)[:4]
    alone, x, block = logits_of(model, graph, lonely)
    assert block.num_edges == 0
    together, _, _ = logits_of(model, graph, [*lonely, *np.flatnonzero(np.diff(graph.indptr))[:9]])
    torch.testing.assert_close(alone, together[: len(lonely)])
    model.train()
    (gradient,) = torch.autograd.grad(logits_of(model, graph, lonely)[0].sum(), x, allow_unused=True)
    nothing = model({1: block.without_rows()}, torch.zeros(0, 5, dtype=torch.float64))
    assert nothing.shape == (0, 3)
    nothing.sum().backward()  # every trainer goes backward
    assert gradient is None or gradient.shape == x.shape


@needs_dgl
@pytest.mark.parametrize("name", ["SAGEConv gcn", "GraphConv both"])
def test_weights_of_no_edge_are_handed_on(graph, name):
    import dgl.nn as d

    model = wrap(DGLNet([MADE[name](d)], weights=True).double()).eval()
    lonely = np.flatnonzero(np.diff(graph.indptr) == 0)[:4]
    alone = logits_of(model, graph, lonely)[0]
    together = logits_of(model, graph, [*lonely, *np.flatnonzero(np.diff(graph.indptr))[:9]])[0]
    torch.testing.assert_close(alone, together[: len(lonely)])
