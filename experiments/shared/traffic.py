"""What moves between host and trainers, and between trainers, counted from segments; nothing is moved.

Caches are written apart from those that trainers load from (gsplit.features.cache), and tests hold the counts of one
against those of the other.

Legend: N vertices, P trainers, L layers. Ids are layout ids; ranks are 0 .. P - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gsplit.sampling.segment import Segment

HOST = -1
FLOAT32_BYTES = 4
"""Hidden vectors, their gradients, and features once they are on a trainer."""


class Cache(Protocol):
    """A cache of feature rows: it says where trainers find each."""

    def holders(self, rank: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n] the trainer that ``rank`` takes each row from: itself, a peer, or ``HOST``."""


class NoCache:
    """Every row comes from the host."""

    def holders(self, rank: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.full(len(ids), HOST)


class PartitionedCache:
    """A prefix of each part, on the trainer of the part; one trainer reads another's.

    Args:
        offsets: int64 [P + 1] of the layout.
        cache_rows: int64 [P] how long the prefixes are.
    """

    def __init__(self, offsets: NDArray[np.int64], cache_rows: NDArray[np.int64]) -> None:
        self._offsets, self._cache_rows = offsets, cache_rows

    def holders(self, rank: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        owner = np.searchsorted(self._offsets, ids, side="right") - 1
        return np.where(ids - self._offsets[owner] < self._cache_rows[owner], owner, HOST)


class ReplicatedCache:
    """A cache for each trainer, whatever the others hold; nobody reads another's.

    Args:
        places: P arrays, int32 [N]: the place of each vertex in the trainer's order of heat (:func:`places_of`).
        rows: that each trainer holds: the first of its order.
    """

    def __init__(self, places: Sequence[NDArray[np.int32]], rows: int) -> None:
        self._places, self._rows = places, rows

    def holders(self, rank: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(self._places[rank][ids] < self._rows, rank, HOST)


class GroupedCache:
    """A cache for each group of trainers: a prefix of each part, on the trainer of the group that holds the part.

    Args:
        offsets: int64 [P + 1] of the layout.
        cache_rows: int64 [P] how long the prefixes are.
        group: trainers of a group, a divisor of P; rank r is trainer r % group of group r // group.
    """

    def __init__(self, offsets: NDArray[np.int64], cache_rows: NDArray[np.int64], group: int) -> None:
        self._within, self._group = PartitionedCache(offsets, cache_rows), group
        self._parts_each = (len(offsets) - 1) // group

    def holders(self, rank: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        part = self._within.holders(rank, ids)
        return np.where(part == HOST, HOST, rank // self._group * self._group + part // self._parts_each)


def places_of(hottest: NDArray[np.int64], num_vertices: int) -> NDArray[np.int32]:
    """[N] where each vertex stands in ``hottest``; the last place there is for one that does not."""
    places = np.full(num_vertices, np.iinfo(np.int32).max, np.int32)
    places[hottest] = np.arange(len(hottest))
    return places


@dataclass(frozen=True, kw_only=True)
class Loads:
    """Feature rows that trainers need, by where they come from."""

    hit_rows: int = 0
    peer_rows: int = 0
    host_rows: int = 0

    def __add__(self, other: Loads) -> Loads:
        return Loads(
            hit_rows=self.hit_rows + other.hit_rows,
            peer_rows=self.peer_rows + other.peer_rows,
            host_rows=self.host_rows + other.host_rows,
        )

    @property
    def needed_rows(self) -> int:
        return self.hit_rows + self.peer_rows + self.host_rows


def loads_of(cache: Cache, segments: Sequence[Segment]) -> Loads:
    """The rows of the level-0 vertices of all segments; the p-th segment is that of trainer p."""
    return sum(loads_by_trainer(cache, segments), Loads())


def loads_by_trainer(cache: Cache, segments: Sequence[Segment]) -> list[Loads]:
    """The rows of the level-0 vertices of each segment; the p-th segment is that of trainer p."""
    loads = []
    for rank, segment in enumerate(segments):
        holders = cache.holders(rank, segment.vertices)
        hits, host = int((holders == rank).sum()), int((holders == HOST).sum())
        loads.append(Loads(hit_rows=hits, peer_rows=len(holders) - hits - host, host_rows=host))
    return loads


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What trainers send each other before one layer, and as much backward where gradients return."""

    rows: int = 0
    messages: int = 0

    def __add__(self, other: Exchange) -> Exchange:
        return Exchange(rows=self.rows + other.rows, messages=self.messages + other.messages)


def exchange_of(layer: int, segments: Sequence[Segment]) -> Exchange:
    """The exchange before layer ``layer``: at most one message for each pair that has rows to send."""
    counts = [segment.layers[layer].send_counts for segment in segments]
    return Exchange(rows=sum(map(sum, counts)), messages=sum(count > 0 for row in counts for count in row))


def exchange_bytes(
    layer: int, rows: int, level_widths: Sequence[int], *, project_first: bool = False
) -> tuple[int, int]:
    """(forward, backward) bytes of the rows sent before a layer.

    Args:
        layer: from 1 on.
        rows: sent.
        level_widths: [L + 1] columns of the vectors of each level, the features first.
        project_first: a layer with fewer outputs than inputs sends its projections, as gsplit.nn.SAGEConv does. They
            want a gradient before every layer; features as they are want none.
    """
    width_in, width_out = level_widths[layer - 1], level_widths[layer]
    projected = project_first and width_out < width_in
    num_bytes = rows * (width_out if projected else width_in) * FLOAT32_BYTES
    return num_bytes, num_bytes if layer > 1 or projected else 0
