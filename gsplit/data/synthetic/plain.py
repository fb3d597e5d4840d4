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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.data.graph import VERTEX_SETS, GraphArrays

BLOCKS_PER_CLASS = 2
SIGNAL = 0.16
"""Standard deviation of the class means, beside noise of 1."""
ROWS = 1 << 16
"""Rows of features that are made at once."""


def label_block(n: int, sizes: Sequence[int], num_classes: int) -> int:
    """The largest of ``sizes`` (descending) that gives every class its blocks."""
    wanted = BLOCKS_PER_CLASS * num_classes
    return next((size for size in sizes if n / size >= wanted), max(1, n // wanted))


def deal_classes(blocks: int, num_classes: int, random: np.random.Generator) -> NDArray[np.int64]:
    """[blocks] the class of each block; each class has as many."""
    return random.permutation(np.arange(blocks, dtype=np.int64) % num_classes)


def class_features(
    labels: NDArray[np.int64], num_classes: int, num_features: int, random: np.random.Generator
) -> NDArray[np.float32]:
    """Features float32 [N, D]: the mean of a vertex's class under noise."""
    means_CD = random.normal(0.0, SIGNAL, (num_classes, num_features)).astype(np.float32)
    features_ND = random.standard_normal((len(labels), num_features), dtype=np.float32)
    for first in range(0, len(labels), ROWS):
        features_ND[first : first + ROWS] += means_CD[labels[first : first + ROWS]]
    return features_ND


def blur(classes: NDArray[np.int64], num_classes: int, purity: float, random: np.random.Generator) -> None:
    """Give all of the classes [n] but a share ``purity`` a random value."""
    impure = random.random(len(classes)) >= purity
    classes[impure] = random.integers(0, num_classes, int(impure.sum()))


def random_vertex_sets(n: int, train_share: float, valid_share: float, random: np.random.Generator) -> dict[str, Any]:
    """``train_idx``, ``valid_idx`` and, of all others, ``test_idx``, by their shares of n vertices."""
    order = random.permutation(n)
    train, valid = int(n * train_share), int(n * (train_share + valid_share))
    sets = order[:train], order[train:valid], order[valid:]
    return {f"{name}_idx": np.sort(ids) for name, ids in zip(VERTEX_SETS, sets, strict=True)}


def stream(seed: int, number: int) -> np.random.Generator:
    """One of several streams of random numbers, so that what is drawn of one does not change another."""
    return np.random.Generator(np.random.PCG64([seed, number]))


BRANCHING = 8
SKEW = 2.0
LEVEL_RATIO = 1.8
"""Odds that an edge stays in a block and does not leave it for the next larger one."""
LOG_NORMAL_SIGMA = 0.8


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The size of a synthetic graph."""

    version: ClassVar[int] = 1
    """Version of the generator. It changes with any change that gives another graph for the same preset and seed."""
    least_vertices: ClassVar[int] = 100
    """Fewest vertices to shrink it to."""

    num_vertices: int
    edges_per_vertex: float
    """Undirected edges drawn for a vertex; a few per cent fewer remain."""
    num_features: int
    num_classes: int
    train_share: float
    valid_share: float


def generate(preset: Preset, *, seed: int = 0) -> GraphArrays:
    """Make a symmetric graph, features float32 [N, D], labels int64 [N] and random vertex sets."""
    random = np.random.Generator(np.random.PCG64(seed))
    n = preset.num_vertices
    sizes = _block_sizes(n, preset.edges_per_vertex)
    sources, destinations = _edges(preset, sizes, random)
    shuffle = random.permutation(n).astype(np.int32)
    indptr, indices = _core.csc_from_edges(shuffle[sources], shuffle[destinations], n, True)
    del sources, destinations
    labels = np.empty(n, np.int64)
    labels[shuffle] = _labels(preset, sizes, random)
    features_ND = class_features(labels, preset.num_classes, preset.num_features, random)
    return GraphArrays(
        indptr=indptr,
        indices=indices,
        features=features_ND,
        labels=labels,
        edge_weight=None,
        num_classes=preset.num_classes,
        **random_vertex_sets(n, preset.train_share, preset.valid_share, random),
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
    size = label_block(n, sizes, preset.num_classes)
    return deal_classes(-(-n // size), preset.num_classes, random)[np.arange(n) // size]
