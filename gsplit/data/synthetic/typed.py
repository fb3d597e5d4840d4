"""Synthetic graphs of several types: communities of all types, hubs in each of them, both directions of all edges.

The vertices of each type stand in a line that is cut into communities, the same for all types, whose sizes are heavy
tailed. An edge of a relation starts at a vertex drawn evenly, of the type that has the more edges to give, and ends
in the same community (``inside``), or anywhere. Where it ends there is a power law: position size * r ** ``skew`` of
the community, or of an order of all vertices of the type that mixes communities, so that both have hubs. Repeated
edges and self-loops are dropped. At the end the ids of each type are shuffled, so that they tell nothing.

A label is the community of a target, or with some probability a random one. Features of all types are a weak signal
of their community under noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gsplit.data.graph import Adjacency
from gsplit.data.schema import Relation, Schema, VertexType
from gsplit.data.synthetic.plain import blur, class_features, random_vertex_sets, stream
from gsplit.data.typed_graph import TypedGraph

SIZE_TAIL, SIZE_LEAST = 1.5, 0.3
"""Exponent of the Pareto distribution of the communities' sizes, and what is added to each draw."""
TYPES, EDGES, LABELS, FEATURES = range(4)
"""Streams of random numbers."""


@dataclass(frozen=True, kw_only=True)
class EdgesOf:
    """A relation: how many edges are drawn, and how they are placed."""

    relation: Relation
    edges: int
    inside: float
    """Share of the edges that stay in their community."""
    skew: float
    from_destination: bool = False
    """True where edges start, evenly, at the destinations, and hubs are sources."""


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A synthetic graph of several types; vertices of the first are the targets, of a class for each community."""

    version: ClassVar[int] = 3
    """Version of the generator, like that of :class:`gsplit.data.synthetic.plain.Preset`."""

    types: tuple[VertexType, ...]
    relations: tuple[EdgesOf, ...]
    communities: int
    num_features: int
    train_share: float
    valid_share: float
    label_purity: float
    """Share of targets that have the class of their community, which bounds the accuracy."""

    @property
    def num_vertices(self) -> int:
        """The number of targets."""
        return self.types[0].num_vertices

    @property
    def least_vertices(self) -> int:
        """Fewest targets to shrink it to: two for a class."""
        return 2 * self.communities


class _Line:
    """The vertices of a type, in the order of their communities."""

    def __init__(self, n: int, communities: int, random: np.random.Generator) -> None:
        share = random.pareto(SIZE_TAIL, communities) + SIZE_LEAST
        self.n = n
        self.size = np.bincount(random.choice(communities, n, p=share / share.sum()), minlength=communities)
        self.begin = np.cumsum(self.size) - self.size
        self.community = np.repeat(np.arange(communities), self.size)
        self.anywhere = random.permutation(n)
        """Order of all vertices, whose first are the hubs of the whole."""
        self.shuffle = random.permutation(n)
        """Ids of the vertices."""

    def ends(
        self, community: NDArray[np.int64], inside: float, skew: float, random: np.random.Generator
    ) -> NDArray[np.int64]:
        """One place on the line for each of the communities [m]."""
        stays = (random.random(len(community)) < inside) & (self.size[community] > 0)
        quantile = random.random(len(community)) ** skew
        place = self.anywhere[(self.n * quantile).astype(np.int64)]
        own = community[stays]
        place[stays] = self.begin[own] + (self.size[own] * quantile[stays]).astype(np.int64)
        return place


def generate_typed(preset: Typed, *, seed: int = 0, features: bool = True) -> TypedGraph:
    """Make the graph: reverse relations after all others, relations inside one type symmetric.

    Args:
        features: whether to make them, float32; the rest is the same without.
    """
    random = stream(seed, TYPES)
    lines = {each.name: _Line(each.num_vertices, preset.communities, random) for each in preset.types}
    random = stream(seed, EDGES)
    found: dict[Relation, Adjacency] = {}
    reverses: dict[Relation, Adjacency] = {}
    for each in preset.relations:
        relation = each.relation
        source, destination = _edges(each, lines, random)
        counts = lines[relation.source].n, lines[relation.destination].n
        if relation.inside_one_type:
            other = source != destination
            source, destination = (
                np.concatenate([source[other], destination[other]]),
                np.concatenate([destination[other], source[other]]),
            )
        else:
            reverse = Relation(relation.destination, f"rev_{relation.name}", relation.source)
            reverses[reverse] = _adjacency(destination, source, counts[::-1])
        found[relation] = _adjacency(source, destination, counts)
    found |= reverses
    target = lines[preset.types[0].name]
    random = stream(seed, LABELS)
    classes = target.community.copy()
    blur(classes, preset.communities, preset.label_purity, random)
    labels = np.empty(target.n, np.int64)
    labels[target.shuffle] = classes
    sets = random_vertex_sets(target.n, preset.train_share, preset.valid_share, random)
    rows: list[NDArray[np.float32] | None] = [None] * len(lines)
    for number, line in enumerate(lines.values() if features else ()):
        communities = np.empty(line.n, np.int64)
        communities[line.shuffle] = line.community
        random = stream(seed, FEATURES + number)
        rows[number] = class_features(communities, preset.communities, preset.num_features, random)
    return TypedGraph(
        schema=Schema(preset.types, tuple(found)),
        target=0,
        adjacencies=tuple(found.values()),
        features_by_type=tuple(rows),
        labels=labels,
        num_classes=preset.communities,
        **sets,
    )


def _edges(
    each: EdgesOf, lines: dict[str, _Line], random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids of sources and destinations of the edges of a relation."""
    source, destination = lines[each.relation.source], lines[each.relation.destination]
    starts, ends = (destination, source) if each.from_destination else (source, destination)
    start = random.integers(0, starts.n, each.edges)
    end = ends.ends(starts.community[start], each.inside, each.skew, random)
    ids = starts.shuffle[start], ends.shuffle[end]
    return ids[::-1] if each.from_destination else ids


def _adjacency(source: NDArray[np.int64], destination: NDArray[np.int64], counts: tuple[int, int]) -> Adjacency:
    """The edges by destination, each once, sources ascending within a row."""
    num_sources, n = counts
    keys = np.unique(destination * num_sources + source)
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(keys // num_sources, minlength=n), out=indptr[1:])
    return Adjacency(indptr=indptr, indices=(keys % num_sources).astype(np.int32), edge_weight=None)
