"""The untyped baseline against SAGE on the graph without types: PyG's on the whole one, ours on a block."""

from __future__ import annotations

import pytest
import torch
from support.blocks import sampled_block
from support.graphs import random_graph
from support.typed_whole import CLASSES, ENDS, HIDDEN, REACH, SIZES, WIDTHS, check_against_whole, edge_index

from gsplit.nn import SAGEConv, TypedBlock, UntypedSAGE, UntypedSAGEConv


@pytest.mark.parametrize("options", [{}, {"input_projection": False}])
def test_equals_pyg_s_sage_conv_on_the_graph_without_types(options):
    from torch_geometric.data import HeteroData
    from torch_geometric.nn import SAGEConv as PyGSAGEConv

    torch.manual_seed(0)
    widths = WIDTHS if not options else [9, 9, 9]
    model = UntypedSAGE(widths, HIDDEN, CLASSES, REACH, **options).double()

    def convolve(layer, h):
        data = HeteroData()
        for t, rows in h.items():
            data[f"t{t}"].x = rows
        for r in REACH.relations[layer]:
            data[f"t{ENDS[r][0]}", f"r{r}", f"t{ENDS[r][1]}"].edge_index = edge_index(r)
        joint, ours = data.to_homogeneous(), model.convs[layer - 1]
        conv = PyGSAGEConv(ours.lin_neigh.in_features, ours.out_features)
        conv.lin_l.weight, conv.lin_l.bias = ours.lin_neigh.weight, ours.lin_self.bias
        conv.lin_r.weight = ours.lin_self.weight
        rows = conv(joint.x, joint.edge_index).split([SIZES[t] for t in h])
        return {t: of_type for t, of_type in zip(h, rows, strict=True) if t in REACH.types[layer]}

    check_against_whole(model, convolve, widths)


@pytest.mark.parametrize("out", [3, 9])
def test_one_relation_of_one_type_is_sage(out):
    block = sampled_block(random_graph(150, 9, seed=8))
    sizes = {"num_own_sources": (block.num_own_sources,), "num_destinations": (block.num_destinations,)}
    typed = TypedBlock(ends=((0, 0),), **sizes, blocks=(block,), routes=None, comm=None)
    untyped, sage = UntypedSAGEConv({0: 5}, out, [0], {0: (0, 0)}), SAGEConv(5, out)
    sage.load_state_dict(untyped.state_dict())
    x = torch.randn(block.num_own_sources, 5)
    torch.testing.assert_close(untyped(typed, [x])[0], sage(block, x))


def test_features_of_several_widths_are_refused():
    with pytest.raises(
        ValueError, match=r"features of one width, and they have \[4, 5, 7\]; use an input projection"
    ):
        UntypedSAGE(WIDTHS, HIDDEN, CLASSES, REACH, input_projection=False)
