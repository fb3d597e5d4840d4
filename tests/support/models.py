"""Models by name, so that every trainer of the pool can build the same one.

A model is a function (features, classes, layers) -> module with 8 hidden features.
"""

from __future__ import annotations

import functools
import itertools

import torch
from torch import nn

from gsplit.nn import GAT, GCN, SAGE

HIDDEN = 8


def ours(cls, hidden=HIDDEN, **options):
    return lambda features, classes, layers: cls(features, hidden, classes, num_layers=layers, **options)


class PyGNet(nn.Module):
    """As PyG's tutorials write it for the whole graph or for NeighborLoader."""

    def __init__(self, convs, norm=nn.Identity, weights=False):
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.norms = nn.ModuleList(norm(HIDDEN) for _ in convs[1:])
        if weights:
            self.forward = self.forward_weighted

    def forward(self, x, edge_index):
        for i, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            if i < len(self.norms):
                x = torch.relu(self.norms[i](x))
        return x

    def forward_weighted(self, x, edge_index, edge_weight=None):
        for i, conv in enumerate(self.convs):
            x = conv(x, edge_index, edge_weight)
            if i < len(self.norms):
                x = torch.relu(self.norms[i](x))
        return x


class PyGAdjsNet(nn.Module):
    """As PyG's examples write it for NeighborSampler: one graph a layer."""

    def __init__(self, convs):
        super().__init__()
        self.convs = nn.ModuleList(convs)

    def forward(self, x, adjs):
        for i, (edge_index, _, size) in enumerate(adjs):
            x = self.convs[i]((x, x[: size[1]]), edge_index)
            if i < len(self.convs) - 1:
                x = torch.relu(x)
        return x


class PyGSparseNet(PyGAdjsNet):
    """With a sparse adjacency."""

    def forward(self, x, adj_t):
        for i, conv in enumerate(self.convs):
            x = conv(x, adj_t)
            if i < len(self.convs) - 1:
                x = torch.relu(x)
        return x


class PyGDataNet(PyGAdjsNet):
    """With everything in ``data``."""

    def forward(self, data):
        x, edge_index = data.x, data.edge_index
        for i, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            if i < len(self.convs) - 1:
                x = torch.relu(x)
        return x


class DGLNet(nn.Module):
    """As DGL's examples write it for blocks."""

    def __init__(self, convs, weights=False):
        super().__init__()
        self.layers = nn.ModuleList(convs)
        self.weights = weights

    def forward(self, blocks, x):
        h = x
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            named = {"edge_weight": block.edata["weight"]} if self.weights else {}
            h = layer(block, h, **named).flatten(1)
            if i < len(self.layers) - 1:
                h = torch.relu(h)
        return h


class DGLPairNet(DGLNet):
    """With the destinations handed over, as DGL's older examples do."""

    def forward(self, blocks, x):
        h = x
        for i, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, (h, h[: block.num_dst_nodes()])).flatten(1)
            h = torch.relu(h) if i < len(self.layers) - 1 else h
        return h


class DGLWholeNet(DGLNet):
    """Written for the whole graph."""

    def forward(self, g, in_feat):
        h = in_feat
        for i, layer in enumerate(self.layers):
            h = layer(g, h).flatten(1)
            h = torch.relu(h) if i < len(self.layers) - 1 else h
        return h


class OwnNet(nn.Module):
    """On blocks, without any library; exchanges twice a layer: its rows, and a gate for each of them."""

    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(w_in, w_out) for w_in, w_out in itertools.pairwise(widths))
        self.gates = nn.ModuleList(nn.Linear(width, 1) for width in widths[:-1])

    def forward(self, blocks, x):
        for layer, linear, gate in zip(blocks, self.layers, self.gates, strict=True):
            block = blocks[layer]
            gated = block.exchange(x) * block.exchange(torch.sigmoid(gate(x)))
            source, destination = block.edge_index()
            total = x.new_zeros(block.num_destinations, x.shape[1]).index_add(0, destination, gated[source])
            x = linear(x[: block.num_destinations] + total)
            x = torch.relu(x) if layer < len(blocks) else x
        return x


def stacked(net, conv, **options):
    """A net of convolutions; ``conv`` makes one of (in, out)."""

    def make(features, classes, layers):
        widths = [features, *[HIDDEN] * (layers - 1), classes]
        return net([conv(w_in, w_out) for w_in, w_out in itertools.pairwise(widths)], **options)

    return make


def pyg(name, **options):
    import torch_geometric.nn as g

    return lambda w_in, w_out: getattr(g, name)(w_in, w_out, **options)


def pyg_model(name, **options):
    """A model of PyG's own, as ``--model torch_geometric.nn:GCN`` makes it."""
    import torch_geometric.nn as g

    return lambda features, classes, layers: getattr(g, name)(features, HIDDEN, layers, classes, **options)


def pyg_batch_norm(width):
    import torch_geometric.nn as g

    return g.BatchNorm(width, allow_single_element=True)


def pyg_gin(w_in, w_out):
    import torch_geometric.nn as g

    return g.GINConv(nn.Sequential(nn.Linear(w_in, 6), nn.ReLU(), nn.Linear(6, w_out)), train_eps=True)


def pyg_heads(name, **options):
    import torch_geometric.nn as g

    return lambda w_in, w_out: getattr(g, name)(w_in, w_out, heads=3, concat=False, **options)


def dgl(name, *between, **options):
    import dgl.nn as d

    return lambda w_in, w_out: getattr(d, name)(w_in, w_out, *between, **options)


OURS = {
    "sage": ours(SAGE),
    "sage-wide": ours(SAGE, hidden=16),
    "sage-in-slices": ours(SAGE, hidden=48),
    "sage-residual-layer-norm": ours(SAGE, norm="layer", residual=True),
    "sage-batch-norm": ours(SAGE, norm="batch"),
    "sage-projected": ours(SAGE, input_projection=True, residual=True),
    "gat": ours(GAT, heads=4, out_heads=2),
    "gat-no-loops": ours(GAT, heads=2, out_heads=2, loops=False, negative_slope=0.1),
    "gat-all": ours(GAT, heads=2, out_heads=2, norm="batch", residual=True, input_projection=True),
    "gcn": ours(GCN),
    "gcn-narrow": ours(GCN, hidden=3),
    "gcn-mean": ours(GCN, normalization="mean"),
    "gcn-no-loops": ours(GCN, loops=False),
    "gcn-scalegnn": ours(
        GCN, norm="rms", residual=True, residual_after=True, input_projection=True, output_projection=True
    ),
    "gcn-rms": ours(GCN, norm="rms"),
    "gcn-residual": ours(GCN, residual=True),
    "gcn-residual-after": ours(GCN, residual=True, residual_after=True),
    "gcn-projected-in": ours(GCN, input_projection=True),
    "gcn-projected-out": ours(GCN, output_projection=True),
    "gcn-batch-norm": ours(GCN, norm="batch", residual=True),
}

PYG = {
    "pyg-SAGEConv": lambda: stacked(PyGNet, pyg("SAGEConv")),
    "pyg-SAGEConv-max-project": lambda: stacked(PyGNet, pyg("SAGEConv", aggr="max", project=True)),
    "pyg-GATConv": lambda: stacked(PyGNet, pyg_heads("GATConv")),
    "pyg-GATConv-no-loops": lambda: stacked(PyGNet, pyg_heads("GATConv", add_self_loops=False)),
    "pyg-GATv2Conv": lambda: stacked(PyGNet, pyg_heads("GATv2Conv")),
    "pyg-GINConv": lambda: stacked(PyGNet, pyg_gin),
    "pyg-TransformerConv": lambda: stacked(PyGNet, pyg_heads("TransformerConv", beta=True)),
    "pyg-GCNConv": lambda: stacked(PyGNet, pyg("GCNConv")),
    "pyg-GCNConv-adj_t": lambda: stacked(PyGSparseNet, pyg("GCNConv", improved=True)),
    "pyg-GCN-cat": lambda: pyg_model("GCN", jk="cat", norm="batch_norm"),
    "pyg-GCN-max": lambda: pyg_model("GCN", jk="max", add_self_loops=False, bias=False),
    "pyg-GCN-lstm": lambda: pyg_model("GCN", jk="lstm"),
    "pyg-adjs": lambda: stacked(PyGAdjsNet, pyg("SAGEConv")),
    "pyg-adj_t": lambda: stacked(PyGSparseNet, pyg("SAGEConv")),
    "pyg-data": lambda: stacked(PyGDataNet, pyg("SAGEConv")),
    "pyg-batch-norm": lambda: stacked(PyGNet, pyg("SAGEConv"), norm=nn.BatchNorm1d),
    "pyg-own-batch-norm": lambda: stacked(PyGNet, pyg("SAGEConv"), norm=pyg_batch_norm),
}

DGL = {
    "dgl-SAGEConv": lambda: stacked(DGLNet, dgl("SAGEConv", "mean")),
    "dgl-SAGEConv-pool": lambda: stacked(DGLNet, dgl("SAGEConv", "pool")),
    "dgl-GATConv": lambda: stacked(DGLNet, dgl("GATConv", 1, allow_zero_in_degree=True)),
    "dgl-GraphConv-right": lambda: stacked(DGLNet, dgl("GraphConv", norm="right", allow_zero_in_degree=True)),
    "dgl-GraphConv-both": lambda: stacked(DGLNet, dgl("GraphConv", norm="both", allow_zero_in_degree=True)),
    "dgl-pairs": lambda: stacked(DGLPairNet, dgl("SAGEConv", "mean")),
    "dgl-whole": lambda: stacked(DGLWholeNet, dgl("GraphConv", norm="both", allow_zero_in_degree=True)),
}

WEIGHTED = {
    "weighted-gcn": lambda: ours(GCN),
    "weighted-gcn-mean": lambda: ours(GCN, normalization="mean"),
    "weighted-pyg-GraphConv": lambda: stacked(PyGNet, pyg("GraphConv"), weights=True),
    "weighted-pyg-GCN": lambda: pyg_model("GCN", jk="last"),
    "weighted-pyg-GCNConv-plain": lambda: stacked(PyGNet, pyg("GCNConv", normalize=False), weights=True),
    "weighted-dgl-GraphConv": lambda: stacked(
        DGLNet, dgl("GraphConv", norm="both", allow_zero_in_degree=True), weights=True
    ),
}
"""On a graph with edge weights."""

OWN = {"own-twice": lambda: lambda features, classes, layers: OwnNet([features, *[HIDDEN] * (layers - 1), classes])}
"""Written for our blocks by a user."""


WHOLE = {"pyg-GraphSAGE": lambda: pyg_model("GraphSAGE")}
"""Models of libraries that tests name one by one."""


@functools.cache
def _factory(name):
    if name in OURS:
        return OURS[name]
    return {**PYG, **DGL, **WEIGHTED, **OWN, **WHOLE}[name]()


def make_model(name, features, classes, layers):
    """The model of a name, the same weights at each call."""
    torch.manual_seed(0)
    model = _factory(name)(features, classes, layers)
    with torch.no_grad():
        for parameter in model.parameters():  # some start at zero, and would hide a wrong gradient
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def names(*tables):
    """For parametrize; DGL's only where there is a DGL."""
    import pytest

    from support.libraries import needs_dgl

    return [pytest.param(name, marks=needs_dgl if "dgl" in name else ()) for table in tables for name in table]
