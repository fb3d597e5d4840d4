"""Our convolutions beside PyG's on one block: time of forward and backward, and the largest single allocation.

    python -m experiments.micro.convolutions

Times are medians of pairs run in turn, one thread, and only their ratio is kept. Wants torch_geometric
(pip install '.[pyg]').
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive
from experiments.shared.rounds import ratios, seconds_of, spread
from gsplit import cli
from gsplit.engine.inputs import blocks_of
from gsplit.nn import Block, GATConv, GCNConv, SAGEConv
from gsplit.sampling import MiniBatchSampler

MIB = 1 << 20
Called = tuple[nn.Module, Callable[[Tensor], Tensor]]
"""A module, and how it is called on x."""


@dataclass(frozen=True, kw_only=True)
class ConvolutionsConfig(Flags):
    """Our convolutions beside PyG's on one block."""

    destinations: Positive = 20_000
    """Rows of the result."""
    sources: Positive = 100_000
    """Vertices of a random graph."""
    fan_out: Positive = 20
    """Neighbours of each destination."""
    width: Positive = 64
    """Features in and out."""
    heads: Positive = 4
    """Heads of GAT, each as wide as width / heads."""
    repeats: Positive = 5
    """Pairs of runs."""


def random_block(config: ConvolutionsConfig) -> Block:
    """An unsplit layer with degrees."""
    degree = config.fan_out
    random = np.random.default_rng(0)
    indptr = np.arange(0, config.sources * degree + 1, degree)
    indices = random.integers(0, config.sources, config.sources * degree).astype(np.int32)
    sampler = MiniBatchSampler(indptr, indices, [0, config.sources], fan_outs=[degree], seed=0)
    sampler.sample(np.arange(config.destinations), epoch=0, batch=0)
    segment = sampler.segment(0)
    return blocks_of(segment, torch.device("cpu"), None, degrees=torch.full((len(segment.vertices),), float(degree)))[
        1
    ]


def pairs(config: ConvolutionsConfig, block: Block) -> dict[str, tuple[Called, Called]]:
    """Ours and PyG's by the name that the record has."""
    import torch_geometric.nn as pyg

    width, heads, n = config.width, config.heads, block.num_destinations
    edge_index = block.edge_index()

    def ours(conv: nn.Module) -> Called:
        return conv, lambda x: conv(block, x)

    def theirs(conv: nn.Module) -> Called:
        return conv, lambda x: conv((x, x[:n]), edge_index)

    return {
        "sage": (ours(SAGEConv(width, width)), theirs(pyg.SAGEConv(width, width))),
        "gat": (
            ours(GATConv(width, width // heads, heads=heads)),
            theirs(pyg.GATConv(width, width // heads, heads=heads)),
        ),
        # PyG's GCNConv takes no block; its GraphConv sums over the same edges and has a second product for v itself.
        "gcn": (ours(GCNConv(width, width)), theirs(pyg.GraphConv(width, width))),
    }


def step(call: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """Seconds of one forward and backward."""
    x.grad = None
    return seconds_of(lambda: call(x).sum().backward())


def largest_allocation(call: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """Bytes."""
    with torch.profiler.profile(profile_memory=True) as profile:
        step(call, x)
    events = profile.profiler.kineto_results.events()
    return max(event.nbytes() for event in events if event.name() == "[memory]")


def measure(config: ConvolutionsConfig) -> list[dict[str, Any]]:
    """A row for each convolution."""
    torch.set_num_threads(1)
    block = random_block(config)
    x = torch.randn(block.num_sources, config.width, requires_grad=True)
    rows = []
    for key, ((_, ours), (_, theirs)) in pairs(config, block).items():
        times = [(step(theirs, x), step(ours, x)) for _ in range(config.repeats)]
        largest = {"pyg_mib": largest_allocation(theirs, x) / MIB, "our_mib": largest_allocation(ours, x) / MIB}
        rows.append({"key": key, **spread(ratios(*zip(*times, strict=True)), "time_ratio"), **largest})
    return rows


command = Experiment("micro.convolutions", ConvolutionsConfig, measure)

if __name__ == "__main__":
    cli.main(command)
