"""Random typed graphs, and a slow typed sampler-and-splitter, written from docs/formats.md, not from the C++ code.

Plain Python integers, dictionaries and sets; the draws are those of :mod:`support.reference`. Nothing is shared with
the package.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gsplit.sampling import RelationEdges, TypedSampler, TypeInParts
from support.reference import draw_positions, key_of


@dataclass
class TypedGraph:
    sizes: list[int]
    """[T] vertices of each type"""
    ends: list[tuple[int, int]]
    """[R] source and destination type of each relation"""
    neighbours: list[list[list[int]]]
    """[R][N of the destination type] sources, in the order in which draws count them"""

    def relabelled(self, new_ids: list[np.ndarray]) -> TypedGraph:
        """The same with other ids: ``new_ids[type][old]``."""
        lists = []
        for (source, destination), old in zip(self.ends, self.neighbours, strict=True):
            new: list[list[int]] = [[] for _ in old]
            for vertex, row in enumerate(old):
                new[new_ids[destination][vertex]] = [int(new_ids[source][each]) for each in row]
            lists.append(new)
        return TypedGraph(self.sizes, self.ends, lists)

    def edges(self, relation: int, dtype=np.int32) -> RelationEdges:
        rows = self.neighbours[relation]
        source, destination = self.ends[relation]
        return RelationEdges(
            indptr=np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64),
            indices=np.array([each for row in rows for each in row], dtype),
            source=source,
            destination=destination,
            name=f"relation{relation}",
        )


def random_typed_graph(random: np.random.Generator, *, types=None, relations=None, most=25) -> TypedGraph:
    """Types may be empty, relations too, or stand twice between the same types; edges may be double."""
    num_types = int(random.integers(1, 6)) if types is None else types
    num_relations = int(random.integers(1, 9)) if relations is None else relations
    sizes = [int(random.integers(0, most)) * int(random.random() > 0.1) for _ in range(num_types)]
    ends = [tuple(random.integers(0, num_types, 2).tolist()) for _ in range(num_relations)]
    neighbours = []
    for source, destination in ends:
        mean = float(random.choice([0, 1, 3, 12])) if sizes[source] else 0
        degrees = random.poisson(mean, sizes[destination])
        neighbours.append([random.integers(0, max(sizes[source], 1), degree).tolist() for degree in degrees])
    return TypedGraph(sizes, ends, neighbours)


def random_fan_outs(random: np.random.Generator, layers: int, relations: int) -> list[list[int]]:
    fan_outs = random.choice([-1, 0, 1, 2, 5], (layers, relations)).tolist()
    for of_hop in fan_outs:
        if not any(of_hop):
            of_hop[int(random.integers(relations))] = 2
    return fan_outs


def typed_sampler(
    graph: TypedGraph, offsets, fan_outs, *, global_ids=None, dtype=np.int32, **options
) -> TypedSampler:
    types = [
        TypeInParts(offsets=of_type, global_ids=None if global_ids is None else global_ids[t], name=f"type{t}")
        for t, of_type in enumerate(offsets)
    ]
    edges = [graph.edges(relation, dtype) for relation in range(len(graph.ends))]
    return TypedSampler(edges, types, fan_outs=fan_outs, **options)


@dataclass
class TypedReferenceSplit:
    vertices: dict[int, list[int]] = field(default_factory=dict)
    """type -> vertices, by first appearance"""
    sizes: dict[tuple[int, int], int] = field(default_factory=dict)
    """(type, level) -> how many of them"""
    edges: dict[tuple[int, int], list[list[tuple[int, int]]]] = field(default_factory=dict)
    """(layer, relation) -> for each destination row, (place in its list, source) of what was drawn"""
    received: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)
    """(layer, type, owner) -> vertices needed from there, by first appearance"""


def sample_typed(
    graph: TypedGraph, offsets, targets, fan_outs, *, target_type, seed, epoch, batch, micro=0, global_ids=None
) -> list[TypedReferenceSplit]:
    """The splits of one mini-batch; targets are of ``target_type``."""
    types, parts, layers = range(len(graph.sizes)), range(len(offsets[0]) - 1), len(fan_outs)

    def owner(type_, vertex):
        return next(p for p in parts if offsets[type_][p] <= vertex < offsets[type_][p + 1])

    splits = [TypedReferenceSplit(vertices={t: [] for t in types}) for _ in parts]
    for vertex in targets:
        splits[owner(target_type, vertex)].vertices[target_type].append(int(vertex))
    for split in splits:
        split.sizes = {(t, layers): len(split.vertices[t]) for t in types}
    for hop in range(1, layers + 1):
        layer = layers - hop + 1
        for p, split in enumerate(splits):
            split.received |= {(layer, t, q): [] for t in types for q in parts}
            for relation, (source, destination) in enumerate(graph.ends):
                hop_key = key_of([seed, epoch, batch, micro, hop + relation * 2**32])
                fan_out, rows = fan_outs[hop - 1][relation], []
                for vertex in split.vertices[destination][: split.sizes[destination, layer]]:
                    name = vertex if global_ids is None else int(global_ids[destination][vertex])
                    listed = graph.neighbours[relation][vertex]
                    places = draw_positions(len(listed), fan_out, hop_key, name) if fan_out else []
                    rows.append([(place, listed[place]) for place in places])
                    for _, neighbour in rows[-1]:
                        q = owner(source, neighbour)
                        if neighbour not in splits[q].vertices[source]:
                            splits[q].vertices[source].append(neighbour)
                        if q != p and neighbour not in split.received[layer, source, q]:
                            split.received[layer, source, q].append(neighbour)
                split.edges[layer, relation] = rows
        for split in splits:
            split.sizes |= {(t, layer - 1): len(split.vertices[t]) for t in types}
    return splits


def drawn_edges(graph: TypedGraph, splits: list[TypedReferenceSplit], layer: int, relation: int, global_ids=None):
    """Sorted (destination, place in its list, source) of all splits, as global ids."""
    source, destination = graph.ends[relation]

    def name(type_, vertex):
        return vertex if global_ids is None else int(global_ids[type_][vertex])

    return sorted(
        (name(destination, vertex), place, name(source, neighbour))
        for split in splits
        for vertex, row in zip(split.vertices[destination], split.edges[layer, relation], strict=False)
        for place, neighbour in row
    )
