"""Blocks to compare one convolution with another on, and the comparison."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from gsplit.engine.inputs import blocks_of
from gsplit.features import EdgeLoader
from gsplit.sampling import MiniBatchSampler
from support.graphs import random_graph
from support.steps import CPU


def unsplit(graph, targets, fan_outs, *, epoch=0, edge_ids=False):
    """The segment of a mini-batch that nobody splits; ``graph`` has ``indptr`` and ``indices``."""
    offsets = [0, len(graph.indptr) - 1]
    sampler = MiniBatchSampler(graph.indptr, graph.indices, offsets, fan_outs=fan_outs, seed=0, edge_ids=edge_ids)
    sampler.sample(np.asarray(targets), epoch=epoch, batch=0)
    return sampler.segment(0)


def sampled_block(graph=None, *, targets=60, fan_out=6, epoch=0, dtype=torch.float32):
    """One unsplit layer of a random graph, with what edge data there is; some destinations have no neighbours."""
    graph = random_graph(150, 9, seed=8) if graph is None else graph
    edges = EdgeLoader(graph, device=CPU, dtype=dtype, weights=True, degrees=True)
    segment = unsplit(graph, range(targets), [fan_out], epoch=epoch, edge_ids=edges.weights)
    block = blocks_of(segment, CPU, None, **edges.load(segment))[1]
    assert (block.in_degrees() == 0).any()
    return block


def without_loops(graph):
    """The same graph without edges from a vertex to itself, which PyG treats apart."""
    from dataclasses import replace

    destination = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    kept = graph.indices != destination
    counts = np.bincount(destination[kept], minlength=graph.num_vertices)
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return replace(graph, indptr=indptr, indices=graph.indices[kept], edge_weight=weight)


def coo(block):
    """[2, E] source and destination rows, by NumPy alone."""
    destinations = np.repeat(np.arange(block.num_destinations), np.diff(block.indptr.numpy()))
    return torch.from_numpy(np.stack([block.indices.numpy().astype(np.int64), destinations]))


def gradients(module, output, x):
    """Of x and of each parameter by name, for the same random direction of the output."""
    torch.manual_seed(2)
    names, parameters = zip(*module.named_parameters(), strict=True)
    grads = torch.autograd.grad((output * torch.randn(output.shape)).sum(), (x, *parameters))
    return dict(zip(("x", *names), grads, strict=True))


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def dgl_block(block):
    import dgl

    source, destination = coo(block)
    return dgl.create_block(
        (source, destination), num_src_nodes=block.num_sources, num_dst_nodes=block.num_destinations
    )


def largest_allocation(function):
    """Bytes of the largest single allocation while ``function`` runs."""
    with torch.profiler.profile(profile_memory=True) as profile:
        function()
    events = profile.profiler.kineto_results.events()
    return max(event.nbytes() for event in events if event.name() == "[memory]")


def complete_block(n):
    """All n vertices from all n: n * n edges."""
    graph = SimpleNamespace(indptr=np.arange(0, n * n + 1, n), indices=np.tile(np.arange(n, dtype=np.int32), n))
    return blocks_of(unsplit(graph, range(n), [-1]), CPU, None)[1]
