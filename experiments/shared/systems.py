"""The paper's systems as strategies of one engine: how each places mini-batches over the trainers, what it caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from experiments.shared.placements import Placements
from experiments.shared.traffic import (
    Cache,
    Exchange,
    Loads,
    NoCache,
    PartitionedCache,
    ReplicatedCache,
    exchange_of,
    loads_of,
    places_of,
)
from gsplit.data import Layout
from gsplit.features.placement import hottest, prefixes
from gsplit.partition.report import edges_of
from gsplit.sampling.segment import Segment

OURS = "GSplit"


@dataclass(kw_only=True)
class System:
    """One system with one size of cache, and the rows that its trainers have needed so far."""

    name: str
    cache_percent: int
    """Size of the cache on each trainer, in percent of all feature rows."""
    placement: str
    """The name of a placement, as in :meth:`experiments.shared.placements.Placements.ways`."""
    cache: Cache
    loads: Loads = field(default_factory=Loads)


@dataclass(kw_only=True)
class Work:
    """What one placement of mini-batches has come to so far, whatever is cached."""

    edges: int = 0
    inputs: int = 0
    """Level-0 vertices, summed over trainers."""
    exchanges: dict[int, Exchange] = field(default_factory=dict)
    """Layer -> what was sent before it; nothing under data parallelism."""

    def add(self, segments: Sequence[Segment]) -> None:
        self.edges += sum(edges_of(segments))
        self.inputs += sum(segment.level_sizes[0] for segment in segments)
        for layer in segments[0].layers:
            self.exchanges[layer] = self.exchanges.get(layer, Exchange()) + exchange_of(layer, segments)


def systems_of(layout: Layout, placements: Placements, caches: Sequence[int], hops: int) -> list[System]:
    """DGL without a cache, and the others with each size.

    Args:
        layout: its parts are the trainers.
        placements: of its mini-batches.
        caches: sizes, in percent of all feature rows, on each trainer.
        hops: of a sample.
    """
    graph, n = layout.graph, layout.graph.num_vertices
    most = -(-n * max(caches) // 100)
    places = [
        places_of(hottest(graph.indptr, graph.indices, share, hops, most) if most else share[:0], n)
        for share in placements.shares
    ]
    systems = [System(name="DGL", cache_percent=0, placement="micro-batches", cache=NoCache())]
    for percent in caches:
        replicated = ReplicatedCache(places, -(-n * percent // 100))
        cache_rows = prefixes(layout.offsets, layout.parts, share=Fraction(percent, 100))
        partitioned = PartitionedCache(layout.offsets, cache_rows)
        systems += [
            System(name="PaGraph", cache_percent=percent, placement="fixed shares", cache=replicated),
            System(name="Quiver", cache_percent=percent, placement="micro-batches", cache=partitioned),
            System(name=OURS, cache_percent=percent, placement="splits", cache=partitioned),
        ]
    names = ("DGL", "PaGraph", "Quiver", OURS)
    return sorted(systems, key=lambda system: names.index(system.name))


def count(placements: Placements, systems: Sequence[System], batches: Sequence[int]) -> dict[str, Work]:
    """Place each mini-batch in each way, let every system count what it loads; the work of each way."""
    work = {}
    for name, place in placements.ways().items():
        work[name] = Work()
        for batch in batches:
            segments = place(batch)
            work[name].add(segments)
            for system in systems:
                if system.placement == name:
                    system.loads += loads_of(system.cache, segments)
    return work
