"""Convolutions ask a block for what the seam says, and no more: another kind of block gives the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.blocks import gradients, sampled_block, unsplit, without_loops
from support.graphs import random_graph
from support.models import OURS, make_model
from support.steps import CPU
from torch import nn
from torch.nn import functional as F

from gsplit.engine.inputs import blocks_of
from gsplit.features import EdgeLoader
from gsplit.nn import BatchComm, ExchangeCounters, Factors, GATConv, GCNConv, Neighbourhood, SAGEConv
from gsplit.nn.exchange import Link
from gsplit.sampling import MiniBatchSampler

N, LAYERS = 90, 3


class DenseBlock(Neighbourhood):
    """The whole graph as one layer of one process, in dense float64 algebra. It projects last, whatever the widths.

    Legend: V destination, U source, H heads, D features.
    """

    comm = None

    def __init__(self, graph):
        self.num_own_sources = self.num_destinations = graph.num_vertices
        weight = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight
        where = (np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr)), graph.indices)
        weight_VU, count_VU = np.zeros((2, graph.num_vertices, graph.num_vertices))
        np.add.at(weight_VU, where, weight)
        np.add.at(count_VU, where, 1)
        self.weight_VU, self.count_VU = torch.from_numpy(weight_VU), torch.from_numpy(count_VU)

    def sum(self, x, *, weighted=False, project=None):
        return self.projected(x, project, (self.weight_VU if weighted else self.count_VU).matmul)

    def mean(self, x, *, project=None):
        return self.projected(x, project, (self.count_VU / self.count_VU.sum(1, keepdim=True).clamp(min=1)).matmul)

    def attend(self, z, att_source, att_destination, *, negative_slope, dropout, loops):
        count_VU = self.count_VU + loops * torch.eye(self.num_destinations)
        source_UH, destination_VH = (z * att_source).sum(2), (z * att_destination).sum(2)
        score_VUH = F.leaky_relu(source_UH.unsqueeze(0) + destination_VH.unsqueeze(1), negative_slope)
        power_VUH = count_VU.unsqueeze(2) * score_VUH.exp()
        total_VH = power_VUH.sum(1)
        share_VUH = power_VUH / torch.where(total_VH > 0, total_VH, 1).unsqueeze(1)
        return torch.einsum("vuh,uhd->vhd", dropout(share_VUH), z)

    def sampled_weight(self):
        return self.weight_VU.sum(1)

    def graph_degrees(self):
        return self.weight_VU.sum(1)

    def projected(self, x, project, aggregate, bias=None, finish=None):
        out = aggregate(x) if project is None else project(aggregate(x))
        out = out if bias is None else out + bias
        return out if finish is None else finish(out)


def sampled_blocks(graph):
    """Layers over all neighbours of all vertices, which are all vertices in the same order."""
    edges = EdgeLoader(graph, device=CPU, dtype=torch.float64, weights=True, degrees=True)
    segment = unsplit(graph, range(N), [-1] * LAYERS, edge_ids=edges.weights)
    assert segment.vertices.tolist() == list(range(N))
    return blocks_of(segment, CPU, None, **edges.load(segment))


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("name", OURS)
def test_models_on_a_dense_block_give_the_same_numbers(name, weighted):
    graph = without_loops(random_graph(N, 9, seed=8, weighted=weighted))
    sampled, dense = sampled_blocks(graph), DenseBlock(graph)
    assert (dense.count_VU.sum(1) == 0).any()
    assert (dense.count_VU > 1).any()  # double edges
    model = make_model(name, 5, 3, LAYERS).double()
    x = torch.randn(N, 5, dtype=torch.float64, requires_grad=True)
    ours, theirs = model(sampled, x), model(dict.fromkeys(sampled, dense), x)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    wanted = gradients(model, theirs, x)
    for key, gradient in gradients(model, ours, x).items():
        torch.testing.assert_close(gradient, wanted[key], rtol=1e-9, atol=1e-9, msg=key)


@pytest.mark.parametrize(("w_in", "w_out"), [(5, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("conv", [SAGEConv, GCNConv])
def test_a_sampled_block_exchanges_the_narrower_rows(monkeypatch, conv, w_in, w_out):
    assert widths_exchanged(monkeypatch, conv(w_in, w_out), w_in) == [(min(w_in, w_out),)]


def test_attention_exchanges_projections(monkeypatch):
    assert widths_exchanged(monkeypatch, GATConv(3, 4, heads=2), 3) == [(8,)]


def widths_exchanged(monkeypatch, conv, width):
    """The shape of each row that a convolution exchanges."""
    shapes = []

    def start_send(self, x, route, out=None, **options):
        shapes.append(tuple(x.shape[1:]))
        return lambda: x.new_zeros(route.num_received, *x.shape[1:])

    monkeypatch.setattr(Link, "start_send", start_send)
    block = split_blocks()[1]
    assert block.route.num_received > 0
    conv(block, torch.randn(block.num_own_sources, width))
    return shapes


def split_blocks():
    """The layers of one of two splits."""
    graph = random_graph(N, 9, seed=8)
    edges = EdgeLoader(graph, device=CPU, dtype=torch.float32, weights=True, degrees=True)
    sampler = MiniBatchSampler(
        *(graph.indptr, graph.indices, [0, N // 2, N]), fan_outs=[3] * LAYERS, seed=0, edge_ids=edges.weights
    )
    sampler.sample(np.arange(N), epoch=0, batch=0)
    segment = sampler.segment(0)
    return blocks_of(segment, CPU, BatchComm(None, ExchangeCounters(), CPU), **edges.load(segment))


def test_a_projection_of_neighbours_has_no_bias():
    block = sampled_block()
    with pytest.raises(ValueError, match="must have no bias"):
        block.mean(torch.randn(block.num_own_sources, 4), project=nn.Linear(4, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_factors_in_any_type_are_taken_in_that_of_sums(dtype):
    block = sampled_block()
    x, factor = torch.randn(block.num_own_sources, 4).to(dtype), torch.rand(block.num_own_sources)
    wanted, ours = (
        block.normalised_sum(x, Factors(sources=by, own=by[: block.num_destinations]))
        for by in (factor, factor.double())
    )
    torch.testing.assert_close(ours, wanted, rtol=0, atol=0)


def test_factors_that_would_be_trained_are_refused():
    with pytest.raises(ValueError, match="get no gradient"):
        Factors(own=nn.Parameter(torch.ones(3)))


def test_gradients_always_come_back_before_all_layers_but_the_first():
    assert {layer: block.route.always_returns for layer, block in split_blocks().items()} == {
        1: False,
        2: True,
        3: True,
    }
