"""Relational GAT on full neighbourhoods against PyG's HeteroConv and DGL's HeteroGraphConv on the whole graph."""

from __future__ import annotations

import pytest
import torch
from support.libraries import needs_dgl
from support.typed_whole import (
    CLASSES,
    ENDS,
    HIDDEN,
    REACH,
    WIDTHS,
    by_hetero_conv,
    by_hetero_graph_conv,
    check_against_whole,
)

from gsplit.nn import RGAT, RGATConv, TypedBlock


def model_of(**options) -> RGAT:
    torch.manual_seed(0)
    given = {"heads": 2, "out_heads": 3, "negative_slope": 0.3}
    return RGAT(WIDTHS, HIDDEN, CLASSES, REACH, **given, **options).double()


def relations_of(model, layer):
    """Relation -> width or pair of widths in, heads, features of a head, and matrix of the sources, of the
    destinations and vectors of attention."""
    conv = model.convs[layer - 1]
    for r in REACH.relations[layer]:
        name, matrix = str(r), conv.lin_relation[str(r)].weight
        alone = conv.lin_destination[name].weight if name in conv.lin_destination else None
        wide = matrix.shape[1] if alone is None else (matrix.shape[1], alone.shape[1])
        assert (alone is None) == (conv.lin_self[str(ENDS[r][1])].in_features == matrix.shape[1])
        attention = conv.att_source[name].unsqueeze(0), conv.att_destination[name].unsqueeze(0)
        yield r, (wide, *attention[0].shape[1:]), (matrix, alone), attention


def put(module, names, values):
    """Make others' tensors of ours, by the chain rule of which gradients are ours."""
    for name, value in zip(names, values, strict=True):
        if value is not None:
            *path, last = name.split(".")
            owner = module.get_submodule(".".join(path))
            del owner._parameters[last]
            setattr(owner, last, value)


@pytest.mark.parametrize("projected", [True, False])
def test_equals_pyg_s_hetero_conv_of_gat_conv(projected):
    from torch_geometric.nn import GATConv

    model = model_of(input_projection=projected)

    def convolve(layer, h):
        convs, last = {}, layer == model.num_layers
        for r, (wide, heads, features), (matrix, alone), attention in relations_of(model, layer):
            options = {"heads": heads, "concat": not last, "negative_slope": 0.3}
            convs[r] = GATConv(wide, features, add_self_loops=False, bias=False, **options)
            names = ["lin.weight", ""] if alone is None else ["lin_src.weight", "lin_dst.weight"]
            put(convs[r], [*names, "att_src", "att_dst"], [matrix, alone, *attention])
        return by_hetero_conv(convs, h)

    check_against_whole(model, convolve)


@needs_dgl
@pytest.mark.parametrize("projected", [True, False])
def test_equals_dgl_s_hetero_graph_conv_of_gat_conv(projected):
    from dgl.nn import GATConv

    model = model_of(input_projection=projected)

    def convolve(layer, h):
        convs, last = {}, layer == model.num_layers
        for r, (wide, heads, features), (matrix, alone), attention in relations_of(model, layer):
            convs[r] = GATConv(wide, features, heads, negative_slope=0.3, allow_zero_in_degree=True, bias=False)
            names = ["fc.weight", ""] if alone is None else ["fc_src.weight", "fc_dst.weight"]
            put(convs[r], [*names, "attn_l", "attn_r"], [matrix, alone, *attention])
        return {
            t: rows.mean(dim=1) if last else rows.flatten(1) for t, rows in by_hetero_graph_conv(convs, h).items()
        }

    check_against_whole(model, convolve)


def test_attention_dropout_drops_edges_by_head_in_training_alone():
    from support.blocks import sampled_block
    from support.graphs import random_graph

    block = sampled_block(random_graph(150, 9, seed=8))
    sizes = {"num_own_sources": (block.num_own_sources,), "num_destinations": (block.num_destinations,)}
    typed = TypedBlock(ends=((0, 0),), **sizes, blocks=(block,), routes=None, comm=None)
    conv = RGATConv({0: 5}, 8, [0], {0: (0, 0)}, heads=2, attention_dropout=0.5)
    x = torch.randn(block.num_own_sources, 5)
    first, second = conv(typed, [x])[0], conv(typed, [x])[0]
    changed = (first != second).unflatten(1, (2, 4)).any(dim=2)
    assert changed.any()
    assert (changed[:, 0] != changed[:, 1]).any()
    conv.eval()
    assert torch.equal(conv(typed, [x])[0], conv(typed, [x])[0])


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="4 heads do not divide the hidden width 6"):
        RGAT(WIDTHS, HIDDEN, CLASSES, REACH)
    with pytest.raises(ValueError, match="4 heads do not divide the width 6"):
        RGATConv({0: 3}, 6, [0], {0: (0, 0)}, heads=4)
