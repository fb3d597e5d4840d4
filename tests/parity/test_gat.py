"""Our GATConv against PyG's and DGL's on the same unsplit sampled block."""

from __future__ import annotations

import sys

import pytest
import torch
from support.blocks import (
    close,
    complete_block,
    coo,
    dgl_block,
    gradients,
    largest_allocation,
    sampled_block,
    without_loops,
)
from support.graphs import random_graph

from gsplit.nn import GATConv, softmax_over_neighbours

OPTIONS = [(1, False), (3, False), (3, True)]


@pytest.fixture
def block():
    return sampled_block(without_loops(random_graph(150, 9, seed=8)))


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize(("heads", "average"), OPTIONS)
def test_equals_pyg(block, heads, average, loops):
    from torch_geometric.nn import GATConv as PyGGATConv

    ours = GATConv(5, 4, heads=heads, average=average, negative_slope=0.3, loops=loops)
    theirs = PyGGATConv(5, 4, heads=heads, concat=not average, negative_slope=0.3, add_self_loops=loops)
    theirs.lin.weight.data.copy_(ours.lin.weight)
    theirs.att_src.data.copy_(ours.att_source.unsqueeze(0))
    theirs.att_dst.data.copy_(ours.att_destination.unsqueeze(0))
    x = torch.randn(block.num_sources, 5, requires_grad=True)
    out = ours(block, x)
    out_pyg = theirs((x, x[: block.num_destinations]), coo(block))
    close(out, out_pyg)
    mine, pyg = gradients(ours, out, x), gradients(theirs, out_pyg, x)
    for name, other in [("x", "x"), ("lin.weight", "lin.weight"), ("bias", "bias")]:
        close(mine[name], pyg[other])
    close(mine["att_source"], pyg["att_src"].squeeze(0))
    close(mine["att_destination"], pyg["att_dst"].squeeze(0))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="DGL 1.1.3 has no wheel for Python 3.12 and later")
def test_equals_dgl(block):
    from dgl.nn.pytorch import GATConv as DGLGATConv

    ours = GATConv(5, 4, heads=3, loops=False)
    theirs = DGLGATConv(5, 4, 3, allow_zero_in_degree=True)
    theirs.fc.weight.data.copy_(ours.lin.weight)
    theirs.attn_l.data.copy_(ours.att_source.unsqueeze(0))
    theirs.attn_r.data.copy_(ours.att_destination.unsqueeze(0))
    x = torch.randn(block.num_sources, 5, requires_grad=True)
    out, out_dgl = ours(block, x), theirs(dgl_block(block), x).flatten(1)
    close(out, out_dgl)
    mine, other = gradients(ours, out, x), gradients(theirs, out_dgl, x)
    close(mine["x"], other["x"])
    close(mine["lin.weight"], other["fc.weight"])
    close(mine["att_source"], other["attn_l"].squeeze(0))


def test_the_softmax_holds_for_large_scores(block):
    score = torch.full((block.num_edges, 2), 1e4)
    own = torch.full((block.num_destinations, 2), -1e4)
    share, own_share = softmax_over_neighbours(block, score, own)
    total = own_share.clone().index_add_(0, block.destinations(), share)
    close(total, torch.ones_like(total))
    assert (own_share[block.in_degrees() == 0] == 1).all()
    assert (own_share[block.in_degrees() > 0] == 0).all()


def test_the_softmax_is_that_of_every_destination_by_itself(block):
    score, own = torch.randn(block.num_edges, 2), torch.randn(block.num_destinations, 2)
    share, own_share = softmax_over_neighbours(block, score, own)
    alone, _ = softmax_over_neighbours(block, score, None)
    for row in range(block.num_destinations):
        edges = slice(int(block.indptr[row]), int(block.indptr[row + 1]))
        close(
            torch.cat([share[edges], own_share[row : row + 1]]),
            torch.cat([score[edges], own[row : row + 1]]).softmax(0),
        )
        close(alone[edges], score[edges].softmax(0))


def test_attention_dropout_is_off_in_evaluation_and_drops_heads_apart(block):
    conv = GATConv(5, 4, heads=2, attention_dropout=0.5)
    x = torch.randn(block.num_sources, 5)
    conv.eval()
    assert torch.equal(conv(block, x), conv(block, x))
    conv.train()
    first, second = conv(block, x), conv(block, x)
    changed = (first != second).unflatten(1, (2, 4)).any(dim=2)
    assert changed.any()
    assert (changed[:, 0] != changed[:, 1]).any()


def test_attention_dropout_drops_edges_and_loops(block):
    conv = GATConv(5, 4, heads=2, attention_dropout=1.0)
    assert torch.equal(conv(block, torch.randn(block.num_sources, 5)), conv.bias.expand(block.num_destinations, -1))


def test_dropout_has_the_gradient_of_its_forward(block):
    """The draws being the same, the slope of forward by differences is that of backward."""
    conv = GATConv(5, 4, heads=2, attention_dropout=0.5).double()
    x = torch.randn(block.num_sources, 5, dtype=torch.float64, requires_grad=True)
    y = torch.randn(block.num_destinations, 8, dtype=torch.float64)

    def loss(moved):
        torch.manual_seed(3)
        return (conv(block, moved) * y).sum()

    v = torch.randn_like(x)
    (gradient,) = torch.autograd.grad(loss(x), x)
    h = 1e-6
    slope = (loss(x.detach() + h * v) - loss(x.detach() - h * v)) / (2 * h)
    assert (gradient * v).sum().item() == pytest.approx(slope.item(), rel=1e-6)


def test_nothing_of_the_size_of_the_edges_is_wider_than_the_heads():
    n, heads, wide = 200, 2, 64
    block = complete_block(n)
    conv = GATConv(wide, wide, heads=heads)
    x = torch.randn(n, wide, requires_grad=True)
    largest = largest_allocation(lambda: conv(block, x).sum().backward())
    assert n * n * heads * 4 <= largest  # the scores were seen
    assert largest <= n * n * heads * 8  # 64-bit row numbers of as many
