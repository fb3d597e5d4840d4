"""Synthetic graphs with heavy-tailed degrees, nested communities, and labels that need the graph.

Vertices stand on a line that is cut into blocks within blocks: the whole, BRANCHING blocks of it, BRANCHING
blocks of each of those, down to leaves of some hundred vertices. Every edge starts at a vertex with a log-normal
share of the edges, picks a level of this nesting, and ends in the starting vertex's block of that level, at
position size * r ** SKEW for a uniform r: a power law within each block, so that the first vertices of a block
are its hubs, and the first of a large block hubs of a larger kind. All draws are vectorised; nothing is
rejected but self-loops and duplicates. At the end the line is shuffled, so that ids tell nothing.

A label belongs to a block of a middle level; several blocks share a class. The features are a weak class
signal under noise: alone they give a poor guess, averaged over a neighbourhood a good one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.data.graph import GraphArrays
from gsplit.errors import InputError

VERSION = 1
"""Of the generator: it changes with any change that gives another graph for the same preset and seed."""

BRANCHING = 8
SKEW = 2.0
LEVEL_RATIO = 1.8
"""How much likelier an edge is to stay in a block than to leave it for the next larger one."""
LOG_NORMAL_SIGMA = 0.8
BLOCKS_PER_CLASS = 2
SIGNAL = 0.16
"""Standard deviation of the class means, beside noise of 1."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The size of a synthetic graph."""

    num_vertices: int
    edges_per_vertex: float
    """Undirected edges drawn for a vertex; a few per cent fewer remain."""
    num_features: int
    num_classes: int
    train_share: float
    valid_share: float


PRESETS = {
    "tiny": Preset(num_vertices=1_000, edges_per_vertex=6, num_features=32, num_classes=4,
                   train_share=0.5, valid_share=0.2),
    "small": Preset(num_vertices=20_000, edges_per_vertex=10, num_features=64, num_classes=8,
                    train_share=0.5, valid_share=0.2),
    "medium": Preset(num_vertices=200_000, edges_per_vertex=15, num_features=100, num_classes=16,
                     train_share=0.3, valid_share=0.1),
    "large": Preset(num_vertices=1_000_000, edges_per_vertex=20, num_features=100, num_classes=32,
                    train_share=0.1, valid_share=0.05),
    "products": Preset(num_vertices=2_449_029, edges_per_vertex=25.3, num_features=100, num_classes=47,
                       train_share=0.08, valid_share=0.02),
}  # fmt: skip
"""``products`` has the counts of ogbn-products (the paper, table 3); its redundancy is not calibrated yet."""


def generate_preset(name: str, *, seed: int = 0) -> GraphArrays:
    """The synthetic graph of a preset; the same for the same seed.

    Raises:
        InputError: for an unknown preset.
    """
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}; choose one of {', '.join(PRESETS)}")
    return generate(PRESETS[name], seed=seed)


def generate(preset: Preset, *, seed: int = 0) -> GraphArrays:
    """A symmetric graph, features float32 [N, D], labels int64 [N] and random splits."""
    random = np.random.Generator(np.random.PCG64(seed))
    n = preset.num_vertices
    sizes = _block_sizes(n, preset.edges_per_vertex)
    sources, destinations = _edges(preset, sizes, random)
    shuffle = random.permutation(n).astype(np.int32)
    indptr, indices = _core.csc_from_edges(shuffle[sources], shuffle[destinations], n, True)
    del sources, destinations
    labels = np.empty(n, np.int64)
    labels[shuffle] = _labels(preset, sizes, random)
    means_CD = random.normal(0.0, SIGNAL, (preset.num_classes, preset.num_features)).astype(np.float32)
    features_ND = random.standard_normal((n, preset.num_features), dtype=np.float32)
    features_ND += means_CD[labels]
    order = random.permutation(n)
    train, valid = int(n * preset.train_share), int(n * (preset.train_share + preset.valid_share))
    return GraphArrays(
        indptr=indptr,
        indices=indices,
        features=features_ND,
        labels=labels,
        edge_weight=None,
        train_idx=np.sort(order[:train]),
        valid_idx=np.sort(order[train:valid]),
        test_idx=np.sort(order[valid:]),
        num_classes=preset.num_classes,
    )


def _block_sizes(n: int, edges_per_vertex: float) -> list[int]:
    """Sizes of the nested blocks, the whole first; leaves are wide enough that few edges are drawn twice."""
    leaf = 12 * edges_per_vertex
    sizes = [n]
    while sizes[-1] / BRANCHING >= leaf:
        sizes.append(-(-sizes[-1] // BRANCHING))
    return sizes


def _edges(
    preset: Preset, sizes: list[int], random: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    n = preset.num_vertices
    weight = random.lognormal(0.0, LOG_NORMAL_SIGMA, n)
    share = weight * (preset.edges_per_vertex * n / weight.sum())
    sources = np.repeat(np.arange(n, dtype=np.int32), (share + random.random(n)).astype(np.int64))
    odds = LEVEL_RATIO ** np.arange(len(sizes))
    level = random.choice(len(sizes), size=len(sources), p=odds / odds.sum()).astype(np.int8)
    size = np.array(sizes, np.int32)[level]
    start = sources // size * size
    width = np.minimum(size, n - start)
    destinations = start + (width * random.random(len(sources), dtype=np.float32) ** SKEW).astype(np.int32)
    return sources, np.minimum(destinations, n - 1)


def _labels(preset: Preset, sizes: list[int], random: np.random.Generator) -> NDArray[np.int64]:
    """The class of each place on the line: the coarsest level with enough blocks, dealt out to the classes."""
    n = preset.num_vertices
    wanted = BLOCKS_PER_CLASS * preset.num_classes
    size = next((s for s in sizes if n / s >= wanted), max(1, n // wanted))
    blocks = -(-n // size)
    classes = np.arange(blocks, dtype=np.int64) % preset.num_classes
    return random.permutation(classes)[np.arange(n) // size]
