"""Synthetic graphs whose samples look like those of the paper's graphs: redundancy, local edges, edge skew, caches.

Vertices stand on a line of four quarters. A quarter is cut into blocks within blocks, from leaves of some hundred
vertices upwards, four blocks to the next larger one; blocks of one level are the *communities*. A vertex has a
log-normal share of the edges, times that of its quarter. An edge

- takes a place in a block around its vertex, of a random level, each less likely than the next smaller one
  (``level_ratio``), or anywhere in its quarter (``quarter_share``) or on the line (``cross_share``), whose places are
  dealt out to the quarters in turn;
- ends there, or at a *hub* of the community it has come to (``hub_share``): the first few of the community's places.

Positions in a block are size * r ** skew: power laws, as in :mod:`gsplit.data.synthetic.plain`.

What calibrates what:

- *Edges across parts*: ``cross_share``; a partitioner finds the quarters. Local edges are about 1 - 3/4 of it.
- *Redundancy*: how much targets have in common. Hubs do most: a vertex with many neighbours shares them with others,
  and hubs sample few of theirs. The fewer ``hubs`` and the larger ``hub_share``, the sooner a micro-batch reaches
  them all and the more it repeats what the others do.
- *What a mini-batch reaches, and how well a cache serves it*: training targets are ``focused`` on few communities,
  with probability (1 + u / focus) ** -focus_power for communities at quantile u, so the rest of the graph is seldom
  needed. Hubs elsewhere have as high a degree, which is why an order by degree caches less than one by sampling.
- *Edge skew*: parts with as many vertices have unequal shares of the focused communities (``quarter_targets``) and
  of the edges (``quarter_degrees``).

A mini-batch of ``batch_size`` is as dense among the targets at any scale, and communities keep their size, so ratios
hold roughly when a preset is shrunk; where only few communities are left, chance decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.data.graph import GraphArrays
from gsplit.data.synthetic.plain import blur, class_features, deal_classes, label_block, stream

QUARTERS = 4
BRANCHING = 4


class Line:
    """A line of four quarters of one size (the last may be a little smaller), each cut into blocks from its begin.

    Args:
        leaf_size: of the smallest blocks, about.
        community_leaves: leaves of a community.
    """

    def __init__(self, n: int, *, leaf_size: int, community_leaves: int) -> None:
        self.n = n
        self.quarter = -(-self.n // QUARTERS)
        sizes = [-(-self.quarter // max(1, round(self.quarter / leaf_size)))]
        self.community = sizes[0] * community_leaves
        while sizes[-1] * BRANCHING < self.quarter:
            sizes.append(sizes[-1] * BRANCHING)
        self.sizes = np.array([self.quarter, *reversed(sizes)])
        """Sizes of the blocks of each level, the quarters first."""
        self.quarter_of_vertex = (np.arange(self.n) // self.quarter).astype(np.int8)

    def block_at(
        self, place: NDArray[np.int64], size: int | NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Begin and width of the blocks of a size that hold places; the last block of a quarter is what is left."""
        quarter_begin = place // self.quarter * self.quarter
        begin = quarter_begin + (place - quarter_begin) // size * size
        return begin, np.minimum(begin + size, np.minimum(quarter_begin + self.quarter, self.n)) - begin

    def blocks(self, size: int) -> tuple[int, NDArray[np.int64]]:
        """Return how many blocks of a size a quarter has, and the block of each vertex [N]."""
        in_quarter, place = np.divmod(np.arange(self.n), self.quarter)
        number = -(-self.quarter // size)
        return number, in_quarter * number + place // size


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """A synthetic graph after one of the paper's (its table 3), and how to sample it to match tables 2 and 5."""

    version: ClassVar[int] = 2
    """Version of the generator, like that of :class:`gsplit.data.synthetic.plain.Preset`."""

    num_vertices: int
    num_edges: int
    """Pairs of vertices, as OGB and the paper's table 3 count undirected graphs; each is stored in both directions.
    Duplicates are dropped, so a few per cent more or fewer come out."""
    num_features: int
    num_classes: int
    train_share: float
    valid_share: float
    labelled_share: float = 1.0
    """Share of vertices with labels. Below 1 they are those that targets focus on, and train, valid and test are
    random parts of them."""
    label_purity: float
    """Share of vertices that have the class of their block; others have a random one, which bounds the accuracy."""

    fan_out: tuple[int, ...]
    """Fan-outs at which the preset matches the paper's tables."""
    batch_size: int
    """Suggested targets of a mini-batch; they shrink with the graph."""

    leaf_size: int
    """Approximate number of vertices of the smallest blocks."""
    community_leaves: int
    """Leaves of a community: a power of BRANCHING."""
    drawn: float
    """Edges drawn for one that remains."""
    degree_sigma: float
    """Sigma of the log-normal share of a vertex."""
    level_ratio: float
    """Odds that an edge stays in a block and does not leave it for the next larger one."""
    block_skew: float = 3.0
    """Skew of places in blocks above the leaves: the larger it is, the fewer communities edges between them go to."""
    quarter_share: float
    """Share of the edges that go anywhere in the quarter, which hold it together at any scale."""
    cross_share: float
    cross_skew: float
    hub_share: float
    """Share of the edges that end at a hub."""
    hubs: float
    """Share of a community's vertices that are hubs."""
    focus: float
    focus_power: float
    quarter_targets: tuple[float, ...]
    """Share of each quarter in the training targets, in sum 1."""
    quarter_degrees: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    """Edges of each quarter's vertices, relative to the others'."""

    @property
    def least_vertices(self) -> int:
        """Fewest vertices to shrink it to: a few communities."""
        return QUARTERS * self.leaf_size * self.community_leaves


LEAF_SKEW, HUB_SKEW = 1.5, 1.5
CHUNK = 1 << 22
"""Edges drawn at once."""

EDGES, TARGETS, LABELS, SHUFFLE, FEATURES = range(5)
"""Streams of random numbers."""


def generate_calibrated(preset: Calibrated, *, seed: int = 0, features: bool = True) -> GraphArrays:
    """Make a symmetric graph without loops or duplicates; labels int64 [N], -1 for none; features float32 [N, D].

    Args:
        features: whether to make them; the rest is the same without.
    """
    line = Line(preset.num_vertices, leaf_size=preset.leaf_size, community_leaves=preset.community_leaves)
    n = preset.num_vertices
    shuffle = stream(seed, SHUFFLE).permutation(n).astype(np.int32)
    sources, destinations = _edges(preset, line, shuffle, stream(seed, EDGES))
    indptr, indices = _core.csc_from_edges(sources, destinations, n, True)
    del sources, destinations
    # The class of a block of at most a community: targets that focus on a few of them still see most classes.
    size = label_block(n, [s for s in line.sizes.tolist() if s <= line.community], preset.num_classes)
    number, block_of = line.blocks(size)
    random = stream(seed, LABELS)
    classes = deal_classes(number * QUARTERS, preset.num_classes, random)[block_of]
    blur(classes, preset.num_classes, preset.label_purity, random)
    labels = np.empty(n, np.int64)
    labels[shuffle] = classes
    del block_of, classes
    features_ND = None
    if features:
        features_ND = class_features(labels, preset.num_classes, preset.num_features, stream(seed, FEATURES))
    vertex_sets = [shuffle[places] for places in vertex_sets_of(preset, line, stream(seed, TARGETS))]
    train_idx, valid_idx, test_idx = (np.sort(ids).astype(np.int64) for ids in vertex_sets)
    if preset.labelled_share < 1:
        labelled = np.zeros(n, np.bool_)
        for ids in vertex_sets:
            labelled[ids] = True
        labels[~labelled] = -1
    return GraphArrays(
        indptr=indptr,
        indices=indices,
        features=features_ND,
        labels=labels,
        edge_weight=None,
        train_idx=train_idx,
        valid_idx=valid_idx,
        test_idx=test_idx,
        num_classes=preset.num_classes,
    )


def _edges(
    preset: Calibrated, line: Line, shuffle: NDArray[np.int32], random: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Both ends of each edge, as shuffled ids."""
    n = preset.num_vertices
    weight = random.lognormal(0.0, preset.degree_sigma, n)
    weight *= np.array(preset.quarter_degrees)[line.quarter_of_vertex]
    weight *= preset.num_edges * preset.drawn / weight.sum()
    counts = (weight + random.random(n)).astype(np.int64)
    del weight
    sources = np.repeat(np.arange(n, dtype=np.int32), counts)
    destinations = np.empty_like(sources)
    for first in range(0, len(sources), CHUNK):
        chunk = slice(first, first + CHUNK)
        destinations[chunk] = shuffle[_ends(preset, line, sources[chunk].astype(np.int64), random)]
        sources[chunk] = shuffle[sources[chunk]]
    return sources, destinations


def _ends(preset: Calibrated, line: Line, place: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """[E] the other ends of edges that start at ``place``."""
    edges, levels = len(place), len(line.sizes)
    odds = float(preset.level_ratio) ** np.arange(levels - 1)
    odds *= (1 - preset.cross_share - preset.quarter_share) / odds.sum()
    shares = np.concatenate([[preset.cross_share, preset.quarter_share], odds])
    level = np.searchsorted(shares.cumsum()[:-1], random.random(edges)) - 1
    cross = level < 0
    begin, width = line.block_at(place, line.sizes[level])
    begin[cross], width[cross] = 0, line.n
    skew = np.where(level == levels - 1, LEAF_SKEW, preset.block_skew)
    skew[cross] = preset.cross_skew
    place = begin + (width * random.random(edges) ** skew).astype(np.int64)
    place[cross] = np.minimum(place[cross] % QUARTERS * line.quarter + place[cross] // QUARTERS, line.n - 1)

    hub = random.random(edges, dtype=np.float32) < preset.hub_share
    begin, width = line.block_at(place[hub], line.community)
    hubs = np.maximum(1.0, preset.hubs * width)
    place[hub] = begin + (hubs * random.random(len(begin)) ** HUB_SKEW).astype(np.int64)
    return place


def vertex_sets_of(preset: Calibrated, line: Line, random: np.random.Generator) -> list[NDArray[np.int64]]:
    """Places on the line of the training, validation and test vertices: three arrays."""
    n = preset.num_vertices
    train, valid, labelled = (
        int(n * share)
        for share in (preset.train_share, preset.train_share + preset.valid_share, preset.labelled_share)
    )
    if labelled < n:
        order = random.permutation(_focused(preset, line, labelled, random))
        return [order[:train], order[train:valid], order[valid:]]
    targets = _focused(preset, line, train, random)
    others = np.ones(n, np.bool_)
    others[targets] = False
    order = random.permutation(np.flatnonzero(others))
    return [targets, order[: valid - train], order[valid - train :]]


def _focused(preset: Calibrated, line: Line, wanted: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Places drawn without replacement, by quarter, with the odds of their communities.

    Quarters with more targets have as many more communities in focus, rather than denser ones, so that their part of
    a mini-batch is as much larger.
    """
    number, community_of = line.blocks(line.community)
    quantile = (np.arange(number) + 0.5) / number
    odds = [
        (1 + random.permutation(quantile) / (preset.focus * QUARTERS * share)) ** -preset.focus_power
        for share in preset.quarter_targets
    ]
    # The smallest of exponential variables with these rates: a draw without replacement.
    keys = random.standard_exponential(line.n) / np.concatenate(odds)[community_of]
    ends = np.round(np.cumsum(preset.quarter_targets) * wanted).astype(np.int64)
    chosen = []
    for quarter, count in enumerate(np.diff(ends, prepend=0)):
        begin = quarter * line.quarter
        in_quarter = keys[begin : begin + line.quarter]
        chosen.append(begin + np.argsort(in_quarter, kind="stable")[: min(count, len(in_quarter))])
    return np.concatenate(chosen)
