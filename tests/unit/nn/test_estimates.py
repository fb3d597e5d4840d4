"""Sums, means and attention over edges with scales, beside dense algebra: ratio and unbiased, weighted and not."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.graphs import random_graph
from support.steps import CPU

from gsplit.engine.inputs import blocks_of
from gsplit.features import EdgeLoader
from gsplit.nn import Factors, GATConv, GCNConv, SAGEConv
from gsplit.sampling import Ladies, Uniform

N = 60
X = torch.randn(N, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Sampled:
    """One layer of LADIES over half of a graph's vertices, and what estimates it stands for, as dense matrices."""

    def __init__(self, estimate, weighted):
        graph = random_graph(N, 8, seed=4, weighted=weighted)
        layout = SimpleNamespace(graph=graph, permutation=np.arange(N))
        sampler = Ladies(sizes=(14,)).sampler(layout, np.array([0, N]), seed=2, edge_ids=weighted)
        sampler.sample(np.arange(N // 2), epoch=0, batch=0)
        segment = sampler.segment(0)
        edges = EdgeLoader(graph, device=CPU, dtype=torch.float64, weights=True, degrees=True, estimate=estimate)
        self.block = blocks_of(segment, CPU, None, **edges.load(segment))[1]
        self.vertices = segment.vertices
        self.x = X[segment.vertices].requires_grad_()
        n, m = N // 2, len(segment.vertices)
        rows = np.repeat(np.arange(n), np.diff(segment.indptr(1)))
        scale = segment.scales(1)[segment.indices(1)].astype(float)
        weight = graph.edge_weight[segment.edge_ids(1)].astype(float) if weighted else np.ones(len(scale))
        number, whole = np.diff(graph.indptr)[:n].astype(float), self.whole(graph)[:n]
        self.plain, self.weighted = np.zeros((n, m)), np.zeros((n, m))
        np.add.at(self.plain, (rows, segment.indices(1)), scale)
        np.add.at(self.weighted, (rows, segment.indices(1)), scale * weight)
        if estimate == "ratio":
            for matrix, total in ((self.plain, number), (self.weighted, whole)):
                kept = matrix.sum(axis=1)
                matrix *= np.divide(total, kept, out=np.zeros(n), where=kept > 0)[:, None]
        self.number, self.whole_weight = number, whole
        self.lonely = int((np.diff(segment.indptr(1)) == 0).sum())

    @staticmethod
    def whole(graph):
        if graph.edge_weight is None:
            return np.diff(graph.indptr).astype(float)
        return np.array([graph.edge_weight[a:b].astype(float).sum() for a, b in pairwise(graph.indptr)])


@pytest.fixture(params=[("ratio", False), ("ratio", True), ("unbiased", False), ("unbiased", True)], ids=str)
def sampled(request):
    case = Sampled(*request.param)
    assert case.lonely  # some destinations keep no edge
    return case


def close(ours, wanted, *sources):
    torch.testing.assert_close(ours, wanted, rtol=1e-6, atol=1e-9)  # scales are float32
    direction = torch.randn(ours.shape, dtype=ours.dtype, generator=torch.Generator().manual_seed(1))
    gradients = [torch.autograd.grad((out * direction).sum(), sources) for out in (ours, wanted)]
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-9)


def test_sums_and_means(sampled):
    block, x = sampled.block, sampled.x
    plain, weighted = torch.from_numpy(sampled.plain), torch.from_numpy(sampled.weighted)
    means = plain / torch.from_numpy(sampled.number).clamp(min=1).unsqueeze(1)
    close(block.sum(x), plain @ x, x)
    close(block.sum(x, weighted=True), weighted @ x, x)
    close(block.mean(x), means @ x, x)
    torch.testing.assert_close(block.sampled_weight().double(), torch.from_numpy(sampled.whole_weight))
    factors = Factors(sources=torch.rand(len(x), dtype=torch.float64))
    close(block.normalised_sum(x, factors), plain @ (x * factors.sources.unsqueeze(1)), x)
    for width in (3, 9):  # projected before the sums, and after
        conv = SAGEConv(5, width).double()
        wanted = conv.lin_self(x[: N // 2]) + conv.lin_neigh(means @ x)
        close(conv(block, x), wanted, x, conv.lin_self.weight, conv.lin_neigh.weight)


def test_gcn_divides_by_what_the_sums_stand_for(sampled):
    block, x, n = sampled.block, sampled.x, N // 2
    degrees = block.graph_degrees()
    weighted = torch.from_numpy(sampled.weighted)
    conv = GCNConv(5, 3).double()
    factor = (1 + degrees).rsqrt()
    sums = weighted @ (x * factor.unsqueeze(1)) * factor[:n].unsqueeze(1) + x[:n] / (1 + degrees[:n]).unsqueeze(1)
    close(conv(block, x), conv.lin(sums) + conv.bias, x, conv.lin.weight)
    conv = GCNConv(5, 3, normalization="mean").double()
    means = (x[:n] + weighted @ x) / (1 + degrees[:n]).unsqueeze(1)
    close(conv(block, x), conv.lin(means) + conv.bias, x, conv.lin.weight)


@pytest.mark.parametrize("loops", [True, False])
def test_attention_adds_the_logarithm_of_the_scale(sampled, loops):
    block, x, n, m = sampled.block, sampled.x, N // 2, len(sampled.x)
    conv = GATConv(5, 4, heads=2, loops=loops).double()
    z = conv.lin(x).unflatten(1, (2, 4))
    source, destination = (z * conv.att_source).sum(2), (z * conv.att_destination).sum(2)[:n]
    scores = torch.nn.functional.leaky_relu(source[None] + destination[:, None], 0.2)  # [n, m, heads]
    powers = scores.exp() * torch.from_numpy(sampled.plain).unsqueeze(2)
    if loops:
        own = torch.nn.functional.leaky_relu(source[:n] + destination, 0.2).exp()
        powers = powers + own.unsqueeze(1) * torch.eye(n, m, dtype=torch.float64).unsqueeze(2)
    shares = powers / powers.sum(1, keepdim=True).clamp(min=1e-300)
    wanted = torch.einsum("nmh,mhd->nhd", shares, z).flatten(1) + conv.bias
    close(conv(block, x), wanted, x, conv.lin.weight, conv.att_source, conv.att_destination)


def test_loops_count_one_in_a_subgraph():
    """They are kept wherever their vertex is, whatever the chance of a vertex to be in the set."""
    n, ring = 12, np.arange(12)
    indices = np.stack([ring, np.roll(ring, 1), np.roll(ring, 2)]).T.ravel().astype(np.int32)
    indptr = np.arange(0, 3 * n + 1, 3)
    graph = SimpleNamespace(indptr=indptr, indices=indices, edge_weight=None, num_vertices=n)
    layout = SimpleNamespace(graph=graph, permutation=np.arange(n))
    sampler = Uniform(subgraph="5", layers=1, scaled=True).sampler(layout, np.array([0, n]), seed=0)
    sampler.sample(np.arange(5), epoch=0, batch=0)
    segment = sampler.segment(0)
    edges = EdgeLoader(graph, device=CPU, dtype=torch.float64, weights=False, degrees=False, estimate="unbiased")
    block = blocks_of(segment, CPU, None, **edges.load(segment))[1]
    wanted = [1 + (v > 0) * 11 / 4 + (v > 1) * 11 / 4 for v in range(5)]
    ones = torch.ones(5, 1, dtype=torch.float64)
    torch.testing.assert_close(block.sum(ones)[:, 0], torch.tensor(wanted, dtype=torch.float64))


def test_models_see_the_scales_as_weights():
    for weighted in (False, True):
        case = Sampled("ratio", weighted)
        adjacency = case.block.adjacency(torch.float64).to_dense()
        torch.testing.assert_close(adjacency, torch.from_numpy(case.weighted), rtol=1e-6, atol=1e-9)
