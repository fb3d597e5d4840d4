"""R-GCN on full neighbourhoods against PyG's HeteroConv and DGL's HeteroGraphConv on the whole graph."""

from __future__ import annotations

import pytest
import torch
from support.libraries import needs_dgl
from support.typed_whole import (
    CLASSES,
    HIDDEN,
    REACH,
    WIDTHS,
    by_hetero_conv,
    by_hetero_graph_conv,
    check_against_whole,
    edge_weight,
)

from gsplit.nn import RGCN


def model_of(**options) -> RGCN:
    torch.manual_seed(0)
    return RGCN(WIDTHS, HIDDEN, CLASSES, REACH, **options).double()


def weights_of(model, layer):
    return {r: model.convs[layer - 1].lin_relation[str(r)].weight for r in REACH.relations[layer]}


def test_equals_pyg_s_hetero_conv_of_sage_conv():
    from torch_geometric.nn import SAGEConv

    model = model_of()

    def convolve(layer, h):
        convs = {}
        for r, weight in weights_of(model, layer).items():
            convs[r] = SAGEConv(weight.shape[1], weight.shape[0], root_weight=False, bias=False)
            convs[r].lin_l.weight = weight
        return by_hetero_conv(convs, h)

    check_against_whole(model, convolve)


def test_weights_of_edges_equal_pyg_s_hetero_conv_of_graph_conv():
    from torch_geometric.nn import GraphConv

    model = model_of(edge_weights=True)

    def convolve(layer, h):
        convs = {}
        for r, weight in weights_of(model, layer).items():
            convs[r] = GraphConv(weight.shape[1], weight.shape[0], aggr="mean", bias=False).double()
            convs[r].lin_rel.weight = weight
            torch.nn.init.zeros_(convs[r].lin_root.weight)
        return by_hetero_conv(convs, h, weighted=True)

    check_against_whole(model, convolve)


@needs_dgl
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_dgl_s_hetero_graph_conv_of_graph_conv(weighted):
    from dgl.nn import GraphConv

    model = model_of(edge_weights=weighted)

    def convolve(layer, h):
        convs, arguments = {}, {}
        for r, weight in weights_of(model, layer).items():
            loose = {"norm": "right", "weight": False, "bias": False, "allow_zero_in_degree": True}
            convs[r] = GraphConv(weight.shape[1], weight.shape[0], **loose)
            arguments[r] = {"weight": weight.T} | ({"edge_weight": edge_weight(r)} if weighted else {})
        return by_hetero_graph_conv(convs, h, arguments)

    check_against_whole(model, convolve)
