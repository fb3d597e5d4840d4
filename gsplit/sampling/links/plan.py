"""The plan of a run on links: which pairs are in which mini-batch, and what else they make targets of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.data import Layout
from gsplit.sampling.links.negatives import NegativeDraws, Replaced
from gsplit.sampling.links.training_pairs import TrainingPairs
from gsplit.sampling.plan import fold_key, num_batches

LINK = 0x4C494E4B
"""A tag that keeps the keys of the shuffled pairs apart from others."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The pairs of one micro-batch, G of them with candidates; ends are numbers of targets."""

    targets: NDArray[np.int64]
    """[T] layout ids of the distinct ends, by first appearance among sources, destinations and candidates."""
    sources: NDArray[np.int32]
    """[G]"""
    destinations: NDArray[np.int32]
    """[G]"""
    own: NDArray[np.int32]
    """[G, K] candidates of each pair."""
    shared: NDArray[np.int32]
    """[S, C] candidates of all pairs of each chunk."""
    masked: NDArray[np.bool_]
    """[G, K + C] candidates that count nothing, own ones first."""
    rows: NDArray[np.int64]
    """[G] numbers of the pairs."""
    own_log_q: NDArray[np.float32]
    """[G, K] logarithms of how often each candidate is expected among all of its pair; empty where nobody asks."""
    shared_log_q: NDArray[np.float32]
    """[S, C] likewise."""
    own_at_source: int
    """How many of the K, the last ones, take the place of the source, where others take that of the destination."""
    shared_at_source: int
    """How many of the C likewise."""
    chunk: int
    """Pairs of a chunk; the last one may be smaller."""
    excluded: Ends
    """Edges that the micro-batch must not see."""
    turned: bool = False
    """Whether sources and destinations have changed places, so that candidates take the place of sources."""
    apart: bool = False
    """Whether pairs and candidates are scored where their destinations are, each by itself."""


class Ends(NamedTuple):
    """Edges, as layout ids."""

    sources: NDArray[np.int64]
    """[X]"""
    destinations: NDArray[np.int64]
    """[X]"""


class LinkPlan:
    """Shuffles the pairs of each epoch, cuts them into mini-batches, and draws their candidates.

    Args:
        layout: of the graph.
        pairs: that are trained on.
        draws: of their candidates.
        batch_size: pairs of a mini-batch over all trainers.
        epoch_pairs: pairs of an epoch.
        seed: of the run.
        micro_batches: that each mini-batch is cut into; their sizes differ by one at most.
        corrupt: the end that candidates take the place of. With ``source`` pairs are turned round: the end that stays
            is called the source.
        exclude_below: in-edges of an end below which an edge is excluded; None: all are.
        exclude: whether the edges of pairs, and the reverse ones, are excluded.
        apart: whether pairs and candidates are scored where their destinations are, each by itself.
    """

    def __init__(
        self,
        layout: Layout,
        pairs: TrainingPairs,
        draws: NegativeDraws,
        *,
        batch_size: int,
        epoch_pairs: int,
        seed: int,
        micro_batches: int = 1,
        corrupt: Replaced = "destination",
        exclude: bool = True,
        exclude_below: int | None = None,
        apart: bool = False,
    ) -> None:
        self._indptr, self._pairs, self._draws = layout.graph.indptr, pairs, draws
        self._batch_size, self._epoch_pairs, self._seed = batch_size, epoch_pairs, seed
        self._micro_batches, self._turned = micro_batches, corrupt == "source"
        self._exclude, self._exclude_below, self._apart = exclude, exclude_below, apart
        self._made: tuple[tuple[int, int], list[Pairs]] | None = None
        """The mini-batch asked for last."""

    @property
    def num_batches(self) -> int:
        """Number of mini-batches of an epoch."""
        return num_batches(self._epoch_pairs, self._batch_size)

    def micro_batches(self, epoch: int, batch: int) -> list[NDArray[np.int64]]:
        """The distinct ends of the pairs of one mini-batch and of their candidates, by micro-batch."""
        return [pairs.targets for pairs in self.pairs(epoch, batch)]

    def others(self, epoch: int, batch: int) -> None:
        """Nothing: the targets alone start."""

    def pairs(self, epoch: int, batch: int) -> list[Pairs]:
        """The pairs of one mini-batch, by micro-batch."""
        if self._made is None or self._made[0] != (epoch, batch):
            rows = self.rows(epoch, batch)
            shares = enumerate(np.array_split(rows, self._micro_batches))
            self._made = (epoch, batch), [self._micro_batch(share, epoch, batch, micro) for micro, share in shares]
        return self._made[1]

    def rows(self, epoch: int, batch: int) -> NDArray[np.int64]:
        """The numbers of the pairs of a mini-batch, int64, as they are shuffled in an epoch."""
        begin, end = (min(number * self._batch_size, self._epoch_pairs) for number in (batch, batch + 1))
        return _core.permuted_rows(fold_key(self._seed, epoch, LINK), self._pairs.number, begin, end)

    def _micro_batch(self, rows: NDArray[np.int64], epoch: int, batch: int, micro: int) -> Pairs:
        sources, destinations = self._pairs.ends(rows)
        no_loops = sources != destinations
        rows, sources, destinations = rows[no_loops], sources[no_loops], destinations[no_loops]
        excluded = self._excluded(sources, destinations)
        if self._turned:
            sources, destinations = destinations, sources
        candidates = self._draws.of(rows, sources, destinations, epoch=epoch, batch=batch, micro=micro)
        number = len(rows)
        ends = np.concatenate([sources, destinations, candidates.own.ravel(), candidates.shared.ravel()])
        targets, ends = _by_first_appearance(ends)
        own = ends[2 * number : 2 * number + candidates.own.size]
        return Pairs(
            targets=targets,
            sources=ends[:number],
            destinations=ends[number : 2 * number],
            own=own.reshape(candidates.own.shape),
            shared=ends[2 * number + candidates.own.size :].reshape(candidates.shared.shape),
            masked=candidates.masked,
            rows=rows,
            own_log_q=candidates.own_log_q,
            shared_log_q=candidates.shared_log_q,
            own_at_source=candidates.own_at_source,
            shared_at_source=candidates.shared_at_source,
            chunk=candidates.chunk,
            excluded=excluded,
            turned=self._turned,
            apart=self._apart,
        )

    def _excluded(self, sources: NDArray[np.int64], destinations: NDArray[np.int64]) -> Ends:
        if not self._exclude:
            return Ends(sources[:0], sources[:0])
        if self._exclude_below is not None:
            in_degrees = [self._indptr[ends + 1] - self._indptr[ends] for ends in (sources, destinations)]
            few = np.minimum(*in_degrees) < self._exclude_below
            sources, destinations = sources[few], destinations[few]
        return Ends(np.concatenate([sources, destinations]), np.concatenate([destinations, sources]))


def _by_first_appearance(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Distinct ids [T] in the order in which they appear, and the number of each of ids [n] among them."""
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first)
    numbers = np.empty(len(order), np.int32)
    numbers[order] = np.arange(len(order), dtype=np.int32)
    return ids[first[order]], numbers[inverse]
