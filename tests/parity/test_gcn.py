"""Our GCNConv against PyG's on whole graphs, and against dense algebra where nobody else computes the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.blocks import close, coo, gradients, sampled_block, without_loops
from support.graphs import random_graph, with_signs
from support.messages import line_with

from gsplit.nn import GCNConv

WIDTHS = [(5, 3), (3, 5)]  # project before the sum, and after


def graph_of(weighted):
    graph = without_loops(random_graph(150, 9, seed=8, features=3, weighted=bool(weighted)))
    return with_signs(graph) if weighted == "signs" else graph


@pytest.mark.parametrize(
    ("weighted", "loops"), [(False, True), (False, False), (True, True), (True, False), ("signs", True)]
)
@pytest.mark.parametrize(("w_in", "w_out"), WIDTHS)
def test_both_over_full_neighbourhoods_equals_pyg(w_in, w_out, weighted, loops):
    from torch_geometric.nn import GCNConv as PyGGCNConv

    graph = graph_of(weighted)
    block = sampled_block(graph, targets=graph.num_vertices, fan_out=-1)
    ours, theirs = GCNConv(w_in, w_out, loops=loops), PyGGCNConv(w_in, w_out, add_self_loops=loops)
    theirs.lin.weight.data.copy_(ours.lin.weight)
    x = torch.randn(block.num_sources, w_in, requires_grad=True)
    out, out_pyg = ours(block, x), theirs(x, coo(block), block.edge_weight)
    assert (block.edge_weight is not None) == bool(weighted)
    close(out, out_pyg)
    mine, pyg = gradients(ours, out, x), gradients(theirs, out_pyg, x)
    for name, other in [("x", "x"), ("lin.weight", "lin.weight"), ("bias", "bias")]:
        close(mine[name], pyg[other])


@pytest.mark.parametrize("weighted", [False, True, "signs"])
@pytest.mark.parametrize(("w_in", "w_out"), WIDTHS)
def test_mean_equals_dense_algebra(w_in, w_out, weighted):
    all_of_them = {"fan_out": -1} if weighted == "signs" else {}
    block = sampled_block(graph_of(weighted), **all_of_them)
    conv = GCNConv(w_in, w_out, normalization="mean")
    source, destination = coo(block)
    weight = torch.ones(block.num_edges) if block.edge_weight is None else block.edge_weight
    matrix = torch.zeros(block.num_destinations, block.num_sources)
    matrix.index_put_((destination, source), weight, accumulate=True)
    matrix[:, : block.num_destinations] += torch.eye(block.num_destinations)
    matrix /= matrix.sum(dim=1, keepdim=True)
    x = torch.randn(block.num_sources, w_in)
    close(conv(block, x), matrix @ x @ conv.lin.weight.t() + conv.bias)


@pytest.mark.parametrize("fan_out", [3, -1])
def test_weights_drawn_stand_for_those_of_all_in_edges(fan_out):
    graph = graph_of(weighted=True)
    block = sampled_block(graph, targets=graph.num_vertices, fan_out=fan_out)
    conv, x = GCNConv(3, 3), torch.randn(block.num_sources, 3)
    n = graph.num_vertices
    matrix = torch.zeros(n, n).index_put_(tuple(coo(block).flip(0)), block.edge_weight, accumulate=True)
    whole = torch.tensor([row.sum() for row in np.split(graph.edge_weight, graph.indptr[1:-1])])
    drawn = matrix.sum(dim=1)
    assert ((drawn < 0.9 * whole).any(), fan_out) in ((True, 3), (False, -1))
    each = torch.where(drawn > 0, whole / drawn, 0)[:, None] * matrix + torch.eye(n)
    root = (1 + whole).rsqrt()
    close(conv(block, x), root[:, None] * each @ (root[:, None] * x) @ conv.lin.weight.t() + conv.bias)


def test_both_is_unbiased_under_sampling():
    """The mean over many samples comes near the full neighbourhood, which one sample does not."""
    graph = graph_of(weighted=False)
    torch.manual_seed(0)
    conv, x = GCNConv(3, 3), torch.randn(graph.num_vertices, 3)

    def output(fan_out, epoch):
        block = sampled_block(graph, targets=graph.num_vertices, fan_out=fan_out, epoch=epoch)
        return conv(block, x).detach()

    full = output(-1, 0)
    errors = torch.stack([output(2, epoch) - full for epoch in range(400)])
    spread = errors.std(dim=0) / np.sqrt(len(errors))
    varying = spread > 1e-7  # vertices with more than 2 neighbours
    assert varying.sum() > 100
    scores = errors.mean(dim=0)[varying] / spread[varying]
    assert scores.abs().mean() < 1.2  # 0.8 for standard normal values
    assert (errors[0].abs() > 10 * spread)[varying].any()


def test_degrees_are_asked_for_by_name():
    block = sampled_block(graph_of(weighted=False))
    object.__setattr__(block, "degrees", None)
    with pytest.raises(ValueError, match=line_with("uses_degrees = True")):
        GCNConv(3, 3)(block, torch.randn(block.num_sources, 3))
    with pytest.raises(ValueError, match=line_with("normalization, both, mean, left")):
        GCNConv(3, 3, normalization="left")
