"""What training pairs are compared with: other destinations for the same source.

All are drawn out of the whole graph by (seed, epoch, number of the pair), or of the mini-batch where they are shared,
so they are the same for any number of trainers, samplers and parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsplit.sampling.links.training_pairs import TrainingPairs
from gsplit.sampling.plan import fold_key, hashed

NEGATIVES, JOINT, BY_DEGREE, HARD = 0x4E454741, 0x4A4F494E, 0x44454752, 0x48415244
"""Tags that keep the keys of these draws apart from others."""
MOST_ATTEMPTS = 8
"""How often a candidate is drawn that turns out to be known; then it is masked."""


@dataclass(frozen=True, kw_only=True)
class Negatives:
    """The candidates of each pair. Kinds may be added to each other."""

    uniform: int = 0
    """Vertices drawn for each pair."""
    joint: int = 0
    """Vertices drawn for all pairs of a micro-batch."""
    in_batch: bool = False
    """Whether the destinations of all pairs of a micro-batch are candidates of each."""
    hard: int = 0
    """How many of the hard negatives of each pair are drawn, filled up by vertices."""
    of_pairs: bool = False
    """Whether vertices are drawn out of those alone that training pairs have at that end."""
    degree_share: float = 0.0
    """Share of the vertices drawn that are destinations of random training pairs."""
    known: bool = False
    """Whether known edges are candidates, too."""
    log_q: bool = False
    """Whether it is noted how often each candidate is expected."""


class Candidates(NamedTuple):
    """The candidates of G pairs, as layout ids."""

    own: NDArray[np.int64]
    """[G, K] of each pair."""
    shared: NDArray[np.int64]
    """[C] of all of them."""
    masked: NDArray[np.bool_]
    """[G, K + C] what counts nothing, own ones first."""
    own_log_q: NDArray[np.float32]
    """[G, K] logarithms of how often a candidate is expected among all of its pair; empty where nobody asks."""
    shared_log_q: NDArray[np.float32]
    """[C] likewise."""


class NegativeDraws:
    """Draws the candidates of a run.

    Args:
        pairs: that are trained on.
        negatives: what is drawn.
        positions: [N] global id -> layout id.
        hard: [M, H] global ids of hard negatives by pair, -1 for none; None without.
        seed: of the run.
        turned: whether pairs are given turned round, because candidates take the place of their sources.
    """

    def __init__(
        self,
        pairs: TrainingPairs,
        negatives: Negatives,
        positions: NDArray[np.int64],
        hard: NDArray[np.int64] | None,
        seed: int,
        *,
        turned: bool = False,
    ) -> None:
        self._pairs, self._negatives, self._positions, self._hard = pairs, negatives, positions, hard
        self._seed, self._turned = seed, turned
        drawn_from = pairs.distinct(0 if turned else 1) if negatives.of_pairs else None
        self._drawn_from = positions if drawn_from is None else drawn_from

    def of(
        self,
        rows: NDArray[np.int64],
        sources: NDArray[np.int64],
        destinations: NDArray[np.int64],
        *,
        epoch: int,
        batch: int,
        micro: int,
    ) -> Candidates:
        """Draw the candidates of pairs [G], of which a micro-batch is made."""
        own = self._own(rows, sources, destinations, epoch)
        shared = self._joint(epoch, batch, micro)
        if self._negatives.in_batch:
            shared = np.concatenate([shared, destinations])
        wide = [np.repeat(ends, own.shape[1]) for ends in (sources, destinations)]
        masked_own = self._refused(wide[0], wide[1], own.ravel()).reshape(own.shape)
        masked_shared = (shared == sources[:, None]) | (shared == destinations[:, None])
        if not self._negatives.known and masked_shared.size:
            if self._turned:
                masked_shared |= self._pairs.known_to_all(shared, sources).T
            else:
                masked_shared |= self._pairs.known_to_all(sources, shared)
        masked = np.concatenate([masked_own, masked_shared], axis=1)
        return Candidates(own, shared, masked, self._log_q(own, len(rows)), self._log_q(shared, len(rows)))

    def _log_q(self, candidates: NDArray[np.int64], pairs: int) -> NDArray[np.float32]:
        """Logarithms of how often candidates are expected among all those of one of so many pairs."""
        negatives = self._negatives
        if not negatives.log_q:
            return np.empty(0, np.float32)
        by_degree = self._pairs.in_degrees(candidates.ravel()).reshape(candidates.shape) / self._pairs.number
        share, drawn = negatives.degree_share, negatives.uniform + negatives.joint
        expected = drawn * ((1 - share) / len(self._drawn_from) + share * by_degree)
        if negatives.in_batch:
            expected = expected + pairs * by_degree
        return np.log(np.maximum(expected, np.finfo(np.float32).tiny)).astype(np.float32)

    def _own(
        self, rows: NDArray[np.int64], sources: NDArray[np.int64], destinations: NDArray[np.int64], epoch: int
    ) -> NDArray[np.int64]:
        negatives = self._negatives
        each = negatives.uniform + negatives.hard
        places = (rows[:, None] * each + np.arange(each)).ravel()  # a number for each candidate of the run
        sources, destinations = (np.repeat(ends, each) for ends in (sources, destinations))
        drawn = self._drawn(places, fold_key(self._seed, epoch, NEGATIVES, 0))
        if negatives.hard:
            picked = self._picked(rows, epoch)
            drawn.reshape(-1, each)[:, : negatives.hard] = np.where(
                picked >= 0, self._positions[picked], drawn.reshape(-1, each)[:, : negatives.hard]
            )
        left = np.flatnonzero(self._refused(sources, destinations, drawn))
        for attempt in range(1, MOST_ATTEMPTS):
            if not len(left):
                break
            drawn[left] = self._drawn(places[left], fold_key(self._seed, epoch, NEGATIVES, attempt))
            left = left[self._refused(sources[left], destinations[left], drawn[left])]
        return drawn.reshape(len(rows), each)

    def _picked(self, rows: NDArray[np.int64], epoch: int) -> NDArray[np.int64]:
        """[G, negatives.hard] global ids of some of the hard negatives of each pair; -1 where it has fewer."""
        assert self._hard is not None
        given = np.asarray(self._hard[rows])
        width = given.shape[1]
        keys = (rows[:, None] * width + np.arange(width)).astype(np.uint64)
        chances = hashed(fold_key(self._seed, epoch, HARD), keys)
        chances[given < 0] = np.iinfo(np.uint64).max  # those that are there come first
        order = np.argsort(chances, axis=1, kind="stable")[:, : self._negatives.hard]
        picked = np.full((len(rows), self._negatives.hard), -1, np.int64)
        picked[:, : order.shape[1]] = np.take_along_axis(given, order, axis=1)
        return picked

    def _joint(self, epoch: int, batch: int, micro: int) -> NDArray[np.int64]:
        places = np.arange(self._negatives.joint)
        return self._drawn(places, fold_key(self._seed, epoch, JOINT, batch, micro))

    def _drawn(self, places: NDArray[np.int64], key: int) -> NDArray[np.int64]:
        """Vertices drawn out of all, or as destinations of training pairs, by key and place: layout ids [n]."""
        words = hashed(key, places.astype(np.uint64))
        drawn = self._drawn_from[below(len(self._drawn_from), words)].astype(np.int64)
        share = self._negatives.degree_share
        if share > 0:
            by_degree = hashed(fold_key(key, BY_DEGREE), places.astype(np.uint64)) < _threshold(share)
            rows = below(self._pairs.number, hashed(fold_key(key, BY_DEGREE, 1), places[by_degree].astype(np.uint64)))
            drawn[by_degree] = self._pairs.ends(rows)[0 if self._turned else 1]
        return drawn

    def _refused(
        self, sources: NDArray[np.int64], destinations: NDArray[np.int64], candidates: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which candidates are an end of their pair, or known."""
        refused = (candidates == sources) | (candidates == destinations)
        if not self._negatives.known and len(candidates):
            ends = (candidates, sources) if self._turned else (sources, candidates)
            refused |= self._pairs.known(*ends)
        return refused


def below(n: int, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Numbers below n of uniform 64-bit words: the high half of their product with n; of n from 2^32 on the rest."""
    if n >= 2**32:
        return (words % np.uint64(n)).astype(np.int64)
    high, low, factor = words >> np.uint64(32), words & np.uint64(2**32 - 1), np.uint64(n)
    return ((high * factor + ((low * factor) >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)


def _threshold(share: float) -> np.uint64:
    return np.uint64(min(int(share * 2**64), 2**64 - 1))
