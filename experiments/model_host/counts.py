"""What every strategy computes, loads and sends, by mini-batch and trainer: counted from samples, nothing is moved.

Samples are those of the training (gsplit.sampling), caches those of experiments.shared.traffic.

Legend: P trainers, L layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from experiments.shared.placements import Placements, group_name
from experiments.shared.systems import OURS, systems_of
from experiments.shared.traffic import Cache, GroupedCache, Loads, NoCache, loads_by_trainer
from gsplit.data import Layout
from gsplit.features.placement import prefixes
from gsplit.sampling.segment import Segment
from gsplit.sampling.segment_headers import LayerHeader


@dataclass(frozen=True, kw_only=True)
class LayerCount:
    """One layer of what one trainer has of a mini-batch."""

    destinations: int
    own_sources: int
    edges: int
    sent_rows: tuple[int, ...]
    """[K] own source rows sent to each trainer of the group."""
    received_rows: tuple[int, ...]
    """[K] rows received from each."""

    @property
    def sent(self) -> int:
        return sum(self.sent_rows)

    @property
    def received(self) -> int:
        return sum(self.received_rows)


@dataclass(frozen=True, kw_only=True)
class TrainerCount:
    """What one trainer has of a mini-batch."""

    layers: tuple[LayerCount, ...]
    """[L]"""
    segment_bytes: int
    loads: Loads = field(default_factory=Loads)

    @property
    def edges(self) -> int:
        return sum(layer.edges for layer in self.layers)


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way to train, with one size of cache on each trainer."""

    name: str
    cache_percent: int
    """Percent of all feature rows on each trainer."""
    group: int
    """Trainers that split a micro-batch between them."""
    placement: str
    cache: Cache

    @property
    def reads_peers(self) -> bool:
        """Whether trainers read rows out of each other's caches."""
        return self.name == "Quiver"


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A strategy with the counts of its mini-batches."""

    strategy: Strategy
    mini_batches: tuple[tuple[TrainerCount, ...], ...]
    """Mini-batches, each [P]."""

    @property
    def every(self) -> Iterator[TrainerCount]:
        """What each trainer has of each mini-batch."""
        return (trainer for mini_batch in self.mini_batches for trainer in mini_batch)

    @property
    def edges(self) -> int:
        """Edges sampled and computed."""
        return sum(trainer.edges for trainer in self.every)

    @property
    def messages(self) -> int:
        """Messages before layers, of one direction."""
        return sum(rows > 0 for trainer in self.every for layer in trainer.layers for rows in layer.sent_rows)

    @property
    def segment_bytes(self) -> int:
        return sum(trainer.segment_bytes for trainer in self.every)

    @property
    def loads(self) -> Loads:
        return sum((trainer.loads for trainer in self.every), Loads())


def strategies_of(
    layout: Layout, placements: Placements, caches: Sequence[int], hops: int, groups: Sequence[int]
) -> list[Strategy]:
    """The paper's systems (experiments.shared.systems), and split groups of K trainers with partitioned caches.

    Args:
        layout: its parts are the trainers.
        placements: of its mini-batches, with these ``groups``.
        caches: sizes, in percent of all feature rows, on each trainer.
        hops: of a sample.
        groups: sizes K of the groups.
    """
    parts = layout.parts
    strategies = [
        Strategy(
            name=system.name,
            cache_percent=system.cache_percent,
            group=parts if system.name == OURS else 1,
            placement=system.placement,
            cache=NoCache() if system.cache_percent == 0 else system.cache,
        )
        for system in systems_of(layout, placements, caches, hops)
    ]
    for group in groups:
        for percent in caches:
            rows = prefixes(layout.offsets, group, share=Fraction(percent, 100))
            strategies.append(
                Strategy(
                    name=f"{OURS}, groups of {group}",
                    cache_percent=percent,
                    group=group,
                    placement=group_name(group),
                    cache=GroupedCache(layout.offsets, rows, group),
                )
            )
    return strategies


def count(placements: Placements, strategies: Sequence[Strategy], batches: Sequence[int]) -> list[Counted]:
    """Place each mini-batch in each way once, and count it for every strategy that places it so."""
    counted: dict[int, list[tuple[TrainerCount, ...]]] = {at: [] for at in range(len(strategies))}
    for name, place in placements.ways().items():
        wanted = [at for at, strategy in enumerate(strategies) if strategy.placement == name]
        for batch in batches if wanted else ():
            segments = place(batch)
            shares = [of_segment(segment) for segment in segments]
            for at in wanted:
                loads = loads_by_trainer(strategies[at].cache, segments)
                pairs = zip(shares, loads, strict=True)
                counted[at].append(tuple(replace(share, loads=loaded) for share, loaded in pairs))
    return [Counted(strategy=strategy, mini_batches=tuple(counted[at])) for at, strategy in enumerate(strategies)]


def of_segment(segment: Segment) -> TrainerCount:
    """What a segment says, before anything is loaded."""
    return TrainerCount(
        layers=tuple(_of_header(header) for _, header in sorted(segment.layers.items())),
        segment_bytes=segment.num_bytes,
    )


def _of_header(header: LayerHeader) -> LayerCount:
    return LayerCount(
        destinations=header.num_destinations,
        own_sources=header.num_own_sources,
        edges=header.num_edges,
        sent_rows=header.send_counts,
        received_rows=header.receive_counts,
    )
