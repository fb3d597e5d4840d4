"""What training pairs are compared with: other destinations for the same source, or other sources.

All are drawn out of the whole graph by (seed, epoch, number of the pair), or of the mini-batch where they are shared,
so they are the same for any number of trainers, samplers and parts. The end of a pair that candidates take the place
of is *replaced*, the other one *kept*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.sampling.links.training_pairs import TrainingPairs
from gsplit.sampling.plan import fold_key, hashed

Replaced = Literal["destination", "source", "both"]
NEGATIVES, JOINT, BY_DEGREE, HARD, NEAR = 0x4E454741, 0x4A4F494E, 0x44454752, 0x48415244, 0x4E454152
"""Tags that keep the keys of these draws apart from others."""
MOST_ATTEMPTS = 8
"""How often a candidate is drawn that turns out to be known; then it is masked."""


@dataclass(frozen=True, kw_only=True)
class Negatives:
    """The candidates of each pair. Kinds may be added to each other."""

    uniform: int = 0
    """Vertices drawn for each pair."""
    joint: int = 0
    """Vertices drawn for all pairs of a micro-batch, or of each chunk of it."""
    chunk: int | None = None
    """Pairs of a chunk; None: all of a micro-batch."""
    in_batch: bool = False
    """Whether the destinations of all pairs of a micro-batch are candidates of each."""
    hard: int = 0
    """How many of the hard negatives of each pair are drawn, filled up by vertices."""
    near: int = 0
    """Walks of two steps from the kept end of each pair, whose ends are candidates."""
    of_pairs: bool = False
    """Whether vertices are drawn out of those alone that training pairs have at that end."""
    degree_share: float = 0.0
    """Share of the vertices drawn that are destinations of random training pairs."""
    known: bool = False
    """Whether known edges are candidates, too."""
    log_q: bool = False
    """Whether it is noted how often each candidate is expected."""


class Candidates(NamedTuple):
    """The candidates of G pairs, as layout ids; those that take the place of destinations come first."""

    own: NDArray[np.int64]
    """[G, K] of each pair."""
    shared: NDArray[np.int64]
    """[S, C] of all pairs of each chunk."""
    masked: NDArray[np.bool_]
    """[G, K + C] what counts nothing, own ones first."""
    own_log_q: NDArray[np.float32]
    """[G, K] logarithms of how often a candidate is expected among all of its pair; empty where nobody asks."""
    shared_log_q: NDArray[np.float32]
    """[S, C] likewise."""
    own_at_source: int
    """How many of the K, the last ones, take the place of the source, where others take that of the destination."""
    shared_at_source: int
    """How many of the C likewise."""
    chunk: int
    """Pairs of a chunk; the last one may be smaller."""


class _Side(NamedTuple):
    """What is drawn to take the place of one end of each pair."""

    at_source: bool
    """Whether that end is the source."""
    vertices: NDArray[np.int64]
    """Layout ids that are drawn from."""
    hard: int
    """Hard negatives."""
    uniform: NDArray[np.int64]
    """Which of the vertices of each pair."""
    joint: NDArray[np.int64]
    """Which of the shared ones."""
    near: NDArray[np.int64]
    """Which of the walks."""


class _OfSide(NamedTuple):
    """Candidates of a side, as in :class:`Candidates`, and their masks apart."""

    own: NDArray[np.int64]
    shared: NDArray[np.int64]
    own_masked: NDArray[np.bool_]
    shared_masked: NDArray[np.bool_]


class _Ends(NamedTuple):
    """Pairs by what becomes of their ends."""

    rows: NDArray[np.int64]
    """[G] numbers of the pairs."""
    kept: NDArray[np.int64]
    """[G]"""
    replaced: NDArray[np.int64]
    """[G]"""


Draw = Callable[[NDArray[np.int64], int], NDArray[np.int64]]
"""From places of candidates [n] and which attempt it is to vertices [n]."""


class NegativeDraws:
    """Draws the candidates of a run.

    Args:
        layout: of the graph.
        pairs: that are trained on.
        negatives: what is drawn.
        seed: of the run.
        corrupt: the end of a pair that is replaced. With ``source`` pairs are given turned round; with ``both`` half
            of each kind replace the source, the smaller one, and hard ones none.
    """

    def __init__(
        self,
        layout: Layout,
        pairs: TrainingPairs,
        negatives: Negatives,
        seed: int,
        *,
        corrupt: Replaced = "destination",
    ) -> None:
        self._graph, self._positions = layout.graph, layout.positions
        self._hard = None if layout.graph.links is None else layout.graph.links.hard_negatives
        self._pairs, self._negatives, self._seed = pairs, negatives, seed
        self._sides = [
            self._side(at_source, halved=corrupt == "both")
            for at_source in (False, True)
            if corrupt in ("both", "source" if at_source else "destination")
        ]

    def _side(self, at_source: bool, *, halved: bool) -> _Side:
        def part(number: int) -> NDArray[np.int64]:
            half = -(-number // 2) if halved else 0
            return np.arange(half, number) if at_source else np.arange(half or number)

        negatives = self._negatives
        ends = self._pairs.distinct(0 if at_source else 1) if negatives.of_pairs else None
        return _Side(
            at_source,
            self._positions if ends is None else ends,
            0 if halved and at_source else negatives.hard,
            *(part(number) for number in (negatives.uniform, negatives.joint, negatives.near)),
        )

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
        chunk = self._negatives.chunk or max(1, len(rows))
        joint_key = fold_key(self._seed, epoch, JOINT, batch, micro)
        both = _Ends(rows, sources, destinations), _Ends(rows, destinations, sources)
        sides = [
            self._of_side(side, ends, epoch=epoch, joint_key=joint_key, chunk=chunk)
            for side, ends in zip(self._sides, both, strict=False)
        ]
        own, shared = (np.concatenate(each, axis=1) for each in list(zip(*sides, strict=True))[:2])
        last = sides[1:]
        return Candidates(
            own,
            shared,
            np.concatenate([side.own_masked for side in sides] + [side.shared_masked for side in sides], axis=1),
            self._log_q(own, len(rows)),
            self._log_q(shared, len(rows)),
            sum(side.own.shape[1] for side in last),
            sum(side.shared.shape[1] for side in last),
            chunk,
        )

    def _of_side(self, side: _Side, ends: _Ends, *, epoch: int, joint_key: int, chunk: int) -> _OfSide:
        """Draw the candidates that take the place of one end of each pair."""
        rows, kept, replaced = ends
        apart = self._own(side, ends, epoch), self._near(side, ends, epoch)
        own, own_masked = (np.concatenate(each, axis=1) for each in zip(*apart, strict=True))
        begins = range(0, max(1, len(rows)), chunk)
        places = np.arange(len(begins))[:, None] * self._negatives.joint + side.joint
        shared = self._drawn(side, places.ravel(), joint_key).reshape(places.shape)
        chunks = [slice(begin, begin + chunk) for begin in begins]
        masked = [
            self._refused_to_all(side, kept[of], replaced[of], each) for of, each in zip(chunks, shared, strict=True)
        ]
        shared_masked = np.concatenate(masked)
        if self._negatives.in_batch:
            shared = np.concatenate([shared, np.broadcast_to(replaced, (len(chunks), len(rows)))], axis=1)
            of_all = self._refused_to_all(side, kept, replaced, replaced)
            shared_masked = np.concatenate([shared_masked, of_all], axis=1)
        return _OfSide(own, shared, own_masked, shared_masked)

    def _log_q(self, candidates: NDArray[np.int64], pairs: int) -> NDArray[np.float32]:
        """Logarithms of how often candidates are expected among all those of one of so many pairs."""
        negatives = self._negatives
        if not negatives.log_q:
            return np.empty(0, np.float32)
        (side,) = self._sides
        by_degree = self._pairs.in_degrees(candidates.ravel()).reshape(candidates.shape) / self._pairs.number
        share, drawn = negatives.degree_share, negatives.uniform + negatives.joint
        expected = drawn * ((1 - share) / len(side.vertices) + share * by_degree)
        if negatives.in_batch:
            expected = expected + pairs * by_degree
        return np.log(np.maximum(expected, np.finfo(np.float32).tiny)).astype(np.float32)

    def _own(self, side: _Side, ends: _Ends, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Hard negatives, then vertices drawn for each pair: layout ids [G, side.hard + side.uniform]; and a mask."""
        each = self._negatives.hard + self._negatives.uniform
        columns = np.concatenate([np.arange(side.hard), self._negatives.hard + side.uniform])
        places = (ends.rows[:, None] * each + columns).ravel()  # a number for each candidate of the run

        def draw(which: NDArray[np.int64], attempt: int) -> NDArray[np.int64]:
            return self._drawn(side, places[which], fold_key(self._seed, epoch, NEGATIVES, attempt))

        drawn = draw(np.arange(len(places)), 0)
        table = drawn.reshape(len(ends.rows), len(columns))
        if side.hard:
            picked = self._picked(ends.rows, epoch)
            table[:, : side.hard] = np.where(picked >= 0, self._positions[picked], table[:, : side.hard])
        return table, self._draw_again(side, ends, drawn, draw).reshape(table.shape)

    def _draw_again(self, side: _Side, ends: _Ends, drawn: NDArray[np.int64], draw: Draw) -> NDArray[np.bool_]:
        """Draw candidates, as many for each pair, again where they are refused; return whether each still is."""
        each = len(drawn) // max(1, len(ends.rows))
        kept, replaced = np.repeat(ends.kept, each), np.repeat(ends.replaced, each)
        left = np.flatnonzero(self._refused(side, kept, replaced, drawn))
        for attempt in range(1, MOST_ATTEMPTS):
            if not len(left):
                break
            drawn[left] = draw(left, attempt)
            left = left[self._refused(side, kept[left], replaced[left], drawn[left])]
        refused = np.zeros(len(drawn), np.bool_)
        refused[left] = True
        return refused

    def _near(self, side: _Side, ends: _Ends, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Ends of walks from the kept end of each pair, [G, side.near]; that end itself, masked, where none did."""
        places = (ends.rows[:, None] * self._negatives.near + side.near).ravel().astype(np.uint64)
        starts = np.repeat(ends.kept, len(side.near))

        def draw(which: NDArray[np.int64], attempt: int) -> NDArray[np.int64]:
            at = starts[which]
            for step in (1, 2):
                words = hashed(fold_key(self._seed, epoch, NEAR, attempt, step), places[which])
                at = self._in_neighbours(at, words, otherwise=starts[which])
            return at

        drawn = draw(np.arange(len(places)), 0)
        refused = self._draw_again(side, ends, drawn, draw)
        drawn[refused] = starts[refused]  # an end of its pair, and no target more
        shape = len(ends.rows), len(side.near)
        return drawn.reshape(shape), refused.reshape(shape)

    def _in_neighbours(
        self, vertices: NDArray[np.int64], words: NDArray[np.uint64], *, otherwise: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The source of an in-edge of each vertex, by a word; another vertex where there is no in-edge."""
        begins = self._graph.indptr[vertices]
        degrees = self._graph.indptr[vertices + 1] - begins
        found = np.array(otherwise)
        some = degrees > 0
        found[some] = self._graph.indices[begins[some] + below(degrees[some], words[some])]
        return found

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

    def _drawn(self, side: _Side, places: NDArray[np.int64], key: int) -> NDArray[np.int64]:
        """Vertices drawn out of all, or as ends of training pairs, by key and place: layout ids [n]."""
        words = hashed(key, places.astype(np.uint64))
        drawn = side.vertices[below(len(side.vertices), words)].astype(np.int64)
        share = self._negatives.degree_share
        if share > 0:
            by_degree = hashed(fold_key(key, BY_DEGREE), places.astype(np.uint64)) < _threshold(share)
            rows = below(self._pairs.number, hashed(fold_key(key, BY_DEGREE, 1), places[by_degree].astype(np.uint64)))
            drawn[by_degree] = self._pairs.ends(rows)[0 if side.at_source else 1]
        return drawn

    def _refused(
        self, side: _Side, kept: NDArray[np.int64], replaced: NDArray[np.int64], candidates: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which candidates [n], one for each pair, are an end of their pair, or known."""
        refused = (candidates == kept) | (candidates == replaced)
        if not self._negatives.known and len(candidates):
            refused |= self._pairs.known(*((candidates, kept) if side.at_source else (kept, candidates)))
        return refused

    def _refused_to_all(
        self, side: _Side, kept: NDArray[np.int64], replaced: NDArray[np.int64], candidates: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which candidates [C] of all pairs [G] are an end of a pair, or known: [G, C]."""
        refused: NDArray[np.bool_] = (candidates == kept[:, None]) | (candidates == replaced[:, None])
        if not self._negatives.known and refused.size:
            if side.at_source:
                refused |= self._pairs.known_to_all(candidates, kept).T
            else:
                refused |= self._pairs.known_to_all(kept, candidates)
        return refused


def below(n: int | NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Numbers below n, one or one for each, of uniform 64-bit words.

    They are the high half of the word times n; of n from 2^32 on the rest of a division.
    """
    factor = np.asarray(n).astype(np.uint64)
    if (large := factor >= 2**32).any():
        small = below(np.where(large, 1, n), words)
        return np.where(large, words % factor, small.astype(np.uint64)).astype(np.int64)
    high, low = words >> np.uint64(32), words & np.uint64(2**32 - 1)
    return ((high * factor + ((low * factor) >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)


def _threshold(share: float) -> np.uint64:
    return np.uint64(min(int(share * 2**64), 2**64 - 1))
