r"""Where pairs stand among candidates, and what is made of that: no scores of pairs times candidates are kept.

Of a pair (u, v) two numbers are counted: the candidates c of u whose score s(u, c) is above s(u, v), and those that
score the same. Its rank is the mean of the best and the worst that it could have among its equals, as in OGB from
1.3.4 on: ``1 + above + equal / 2``, kept doubled as a whole number. Neither u nor v nor what u is known to belong
with is a candidate. Ranks are whole numbers and scores have one order of sums each, so metrics are the same to the
last bit for any number of trainers and threads.

Scores of ``dot``, ``cosine`` and ``distmult`` are dot products of rows that are prepared, which the core counts
(csrc/ranks.hpp). Other decoders are called on tiles of one size, so that equal rows give equal scores there, too, as
far as the decoder's own sums allow.

Legend: n pairs, N rows of the table, D their width, C candidates that all pairs share, K those of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit import _core
from gsplit.nn.decoders import Cosine, Decoder, DistMult, Dot
from gsplit.nn.decoders.similarities import SHORTEST

PIECE_PAIRS = 4096
PIECE_ENTRIES = 1 << 18
"""Bounds of what is counted at a time: pairs, and entries of their lists."""
TILE_SOURCES, TILE_CANDIDATES = 32, 1024
"""Sources and candidates that a decoder is called with, always so many."""


@dataclass(frozen=True)
class Lists:
    """A list of rows for each pair."""

    indptr: NDArray[np.int64]
    """[n + 1]"""
    rows: NDArray[np.int64]
    """One list after the other, each ascending and without repeats."""


class Known:
    """The destinations that sources are known to belong with, which are no candidates of theirs.

    Args:
        sources: int64 [S], ascending and distinct.
        keys: int64 [M] a source's place times N plus a destination; in any order, and sorted here.
        num_rows: N.
    """

    def __init__(self, sources: NDArray[np.int64], keys: NDArray[np.int64], num_rows: int) -> None:
        keys.sort()
        keeps = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=keeps[1:])
        self._n, self._sources, self._keys = num_rows, sources, keys[keeps]
        self._indptr = np.searchsorted(self._keys, np.arange(len(sources) + 1) * num_rows)

    @classmethod
    def of(cls, sources: NDArray[np.int64], destinations: NDArray[np.int64], num_rows: int) -> Known:
        """Return what knows of pairs, [M] each."""
        distinct, place = np.unique(sources, return_inverse=True)
        return cls(distinct, place.reshape(-1) * num_rows + destinations, num_rows)

    @classmethod
    def nothing(cls, num_rows: int) -> Known:
        """Return what knows of no pair."""
        none = np.empty(0, np.int64)
        return cls(none, none, num_rows)

    def lists(self, sources: NDArray[np.int64], *also: NDArray[np.int64]) -> Lists:
        """What some sources know, and further rows [n] of each."""
        at, counts = self._found(sources)
        each = np.arange(len(sources))
        pair = np.repeat(each, counts)
        within = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = self._keys[np.repeat(self._indptr[at], counts) + within] % self._n
        if also:
            keys = np.unique(np.concatenate([pair * self._n + rows, *(each * self._n + more for more in also)]))
            pair, rows = keys // self._n, keys % self._n
            counts = np.bincount(pair, minlength=len(sources))
        return Lists(np.concatenate([[0], np.cumsum(counts)]), rows)

    def lengths(self, sources: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many rows some sources know, [n]."""
        return self._found(sources)[1]

    def _found(self, sources: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The place of each source, and how many rows it knows."""
        if not len(self._sources):
            return np.zeros(len(sources), np.int64), np.zeros(len(sources), np.int64)
        at = np.minimum(np.searchsorted(self._sources, sources), len(self._sources) - 1)
        counts = np.where(self._sources[at] == sources, self._indptr[at + 1] - self._indptr[at], 0)
        return at, counts


class Scores(Protocol):
    """Scores of pairs of rows of one table."""

    def pairs(self, sources: NDArray[np.int64], destinations: NDArray[np.int64]) -> NDArray[Any]:
        """Scores of some pairs, [n]."""

    def counts(
        self,
        sources: NDArray[np.int64],
        destinations: NDArray[np.int64],
        candidates: NDArray[np.int64] | None,
        left_out: Lists,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many candidates score above each pair, or have no number for a score, and how many the same.

        Args:
            sources: [n] rows of the table.
            destinations: [n] rows of the table.
            candidates: [C] distinct rows for all pairs, or [n, K] for each, -1 for none; None: the whole table.
            left_out: rows of all, or of those for all pairs, that are no candidates.
        """

    def best(
        self,
        sources: NDArray[np.int64],
        k: int,
        candidates: NDArray[np.int64] | None,
        left_out: Lists,
        order: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The candidates of the highest scores, [n, k] rows and scores, the best first; -1 and NaN for none.

        Of those that score the same the one with the lower ``order`` [N] comes first.
        """


class DotScores:
    """Scores that are dot products.

    Args:
        table: float32 or float64 [N, D].
        factor: [D] what rows of sources are multiplied by; None: nothing.
        threads: that count.
    """

    def __init__(self, table: NDArray[Any], *, factor: NDArray[Any] | None = None, threads: int = 1) -> None:
        self._table, self._factor, self._threads = table, factor, threads

    def _of(self, sources: NDArray[np.int64]) -> NDArray[Any]:
        rows = self._table[sources]
        return rows if self._factor is None else rows * self._factor.astype(rows.dtype)

    def pairs(self, sources: NDArray[np.int64], destinations: NDArray[np.int64]) -> NDArray[Any]:
        """See :class:`Scores`."""
        out, destinations = np.empty(len(sources), self._table.dtype), np.ascontiguousarray(destinations)
        for begin in range(0, len(sources), PIECE_PAIRS):
            piece = slice(begin, begin + PIECE_PAIRS)
            of_piece = self._of(sources[piece])
            _core.score_pairs(of_piece, self._table, destinations[piece], out[piece], self._threads)
        return out

    def counts(
        self,
        sources: NDArray[np.int64],
        destinations: NDArray[np.int64],
        candidates: NDArray[np.int64] | None,
        left_out: Lists,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See :class:`Scores`."""
        of_pairs, n = self._of(sources), len(sources)
        bounds = self.pairs(sources, destinations)
        above, equal = np.zeros(n, np.int64), np.zeros(n, np.int64)
        if candidates is not None and candidates.ndim == 2:
            indptr = np.arange(n + 1) * candidates.shape[1]
            of_each = np.ascontiguousarray(candidates).reshape(-1)
            _core.count_listed(of_pairs, self._table, bounds, indptr, of_each, 1, above, equal, self._threads)
            return above, equal
        _core.count_shared(of_pairs, self._table, bounds, candidates, above, equal, self._threads)
        taken = left_out.rows
        if candidates is not None:
            taken = np.where(np.isin(taken, candidates), taken, -1)
        _core.count_listed(of_pairs, self._table, bounds, left_out.indptr, taken, -1, above, equal, self._threads)
        return above, equal

    def best(
        self,
        sources: NDArray[np.int64],
        k: int,
        candidates: NDArray[np.int64] | None,
        left_out: Lists,
        order: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """See :class:`Scores`."""
        rows, scores = np.empty((len(sources), k), np.int64), np.empty((len(sources), k), self._table.dtype)
        of_sources, out = self._of(sources), (left_out.indptr, left_out.rows)
        _core.best_rows(of_sources, self._table, candidates, order, *out, rows, scores, self._threads)
        return rows, scores


class DecoderScores:
    """Scores of any decoder, called on tiles of one size.

    Args:
        table: float [N, D].
        decoder: that is called.
        device: the decoder's.
    """

    def __init__(self, table: NDArray[Any], decoder: Decoder, device: torch.device) -> None:
        self._table, self._decoder, self._device = table, decoder, device

    def _rows(self, rows: NDArray[np.int64], size: int) -> Tensor:
        """Rows of the table as a tensor [size, D], 0 behind them."""
        out = torch.zeros(size, self._table.shape[1], dtype=torch.from_numpy(self._table[:0]).dtype)
        out[: len(rows)] = torch.from_numpy(self._table[rows])
        return out.to(self._device)

    @torch.no_grad()
    def pairs(self, sources: NDArray[np.int64], destinations: NDArray[np.int64]) -> NDArray[Any]:
        """See :class:`Scores`."""
        out, size = np.empty(len(sources), self._table.dtype), TILE_SOURCES * TILE_CANDIDATES
        for begin in range(0, len(sources), size):
            piece = slice(begin, begin + size)
            scores = self._decoder(self._rows(sources[piece], size), self._rows(destinations[piece], size))
            out[piece] = scores.cpu().numpy()[: len(out[piece])]
        return out

    def _tile(self, sources: Tensor, candidates: NDArray[np.int64]) -> NDArray[Any]:
        """Scores [len(candidates)] of the sources of a tile, [TILE_SOURCES, candidates]."""
        rows = self._rows(candidates, TILE_CANDIDATES)
        return np.asarray(self._decoder.matrix(sources, rows).cpu().numpy()[:, : len(candidates)])

    def _tiles(
        self, sources: NDArray[np.int64], candidates: NDArray[np.int64], left_out: Lists
    ) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[Any], NDArray[np.bool_]]]:
        """The pairs and candidates of each tile, their scores, and which of these are of candidates."""
        place = np.full(len(self._table), -1)
        place[candidates] = np.arange(len(candidates))
        for begin in range(0, len(sources), TILE_SOURCES):
            of_tile = slice(begin, min(begin + TILE_SOURCES, len(sources)))
            left, bounds = self._rows(sources[of_tile], TILE_SOURCES), left_out.indptr[begin : of_tile.stop + 1]
            pair = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
            out = place[left_out.rows[bounds[0] : bounds[-1]]]
            for first in range(0, len(candidates), TILE_CANDIDATES):
                piece = candidates[first : first + TILE_CANDIDATES]
                keeps = np.ones((len(bounds) - 1, len(piece)), bool)
                here = (out >= first) & (out < first + len(piece))
                keeps[pair[here], out[here] - first] = False
                yield of_tile, piece, self._tile(left, piece)[: len(keeps)], keeps

    def _all(self, candidates: NDArray[np.int64] | None) -> NDArray[np.int64]:
        return np.arange(len(self._table)) if candidates is None else candidates

    @torch.no_grad()
    def counts(
        self,
        sources: NDArray[np.int64],
        destinations: NDArray[np.int64],
        candidates: NDArray[np.int64] | None,
        left_out: Lists,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See :class:`Scores`."""
        above, equal = np.zeros(len(sources), np.int64), np.zeros(len(sources), np.int64)
        if candidates is not None and candidates.ndim == 2:
            bounds = self.pairs(sources, destinations)
            pair, column = np.nonzero(candidates >= 0)
            scores = self.pairs(sources[pair], candidates[pair, column])
            np.add.at(above, pair, ~(scores <= bounds[pair]))
            np.add.at(equal, pair, scores == bounds[pair])
            return above, equal
        bounds = np.empty(len(sources), self._table.dtype)
        for begin in range(0, len(sources), TILE_SOURCES):
            piece = slice(begin, begin + TILE_SOURCES)
            left = self._rows(sources[piece], TILE_SOURCES)
            bounds[piece] = np.diagonal(self._tile(left, destinations[piece]))
        for of_tile, _, scores, keeps in self._tiles(sources, self._all(candidates), left_out):
            limit = bounds[of_tile, None]
            above[of_tile] += (~(scores <= limit) & keeps).sum(1)
            equal[of_tile] += ((scores == limit) & keeps).sum(1)
        return above, equal

    @torch.no_grad()
    def best(
        self,
        sources: NDArray[np.int64],
        k: int,
        candidates: NDArray[np.int64] | None,
        left_out: Lists,
        order: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """See :class:`Scores`."""
        rows = np.full((len(sources), k), -1)
        found = np.full((len(sources), k), np.nan, self._table.dtype)
        among = self._all(candidates)
        for of_tile, piece, scores, keeps in self._tiles(sources, among[np.argsort(order[among])], left_out):
            scores = np.concatenate([found[of_tile], np.where(keeps, scores, np.nan)], axis=1)
            here = np.concatenate([rows[of_tile], np.broadcast_to(piece, keeps.shape)], axis=1)
            first = np.argsort(-scores, axis=1, kind="stable")[:, :k]  # NaN comes last
            found[of_tile] = np.take_along_axis(scores, first, 1)
            rows[of_tile] = np.where(np.isnan(found[of_tile]), -1, np.take_along_axis(here, first, 1))
        return rows, found


OfPairs = Callable[[slice, Lists], NDArray[np.int64]]
"""Gives the candidates [n, K] of some pairs, -1 for none, of which those that are left out are none."""


def doubled_ranks(
    scores: Scores,
    sources: NDArray[np.int64],
    destinations: NDArray[np.int64],
    candidates: NDArray[np.int64] | OfPairs | None,
    known: Known,
    *,
    each: int = 0,
    rows_of: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None,
) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Twice the rank of each pair, piece by piece, with which pairs they are of.

    Args:
        scores: of rows.
        sources: int64 [n] vertices.
        destinations: int64 [n] vertices.
        candidates: int64 [C] distinct vertices for all pairs, or what gives those of some pairs; None: all vertices.
            A pair's own ends are none.
        known: what is left out of them.
        each: K, where each pair has candidates of its own.
        rows_of: gives the rows of some vertices; None: vertices are rows.
    """
    for piece in pieces(known.lengths(sources) + 2 + each):
        u, v, among = sources[piece], destinations[piece], candidates
        left_out = known.lists(u, u, v)
        if callable(among):
            among, left_out = among(piece, left_out), Lists(np.zeros(len(u) + 1, np.int64), np.empty(0, np.int64))
        if rows_of is not None:
            u, v = rows_of(u), rows_of(v)
            if among is not None:
                among = np.where(among < 0, -1, rows_of(np.maximum(among, 0)))
        above, equal = scores.counts(u, v, among, left_out)
        yield piece, 2 + 2 * above + equal


def pieces(entries: NDArray[np.int64]) -> Iterator[slice]:
    """Cuts pairs so that a piece keeps to both bounds (but for a pair that breaks them alone)."""
    total, begin = np.cumsum(entries), 0
    while begin < len(entries):
        before = total[begin - 1] if begin else 0
        end = int(np.searchsorted(total, before + PIECE_ENTRIES, side="right"))
        end = min(max(end, begin + 1), begin + PIECE_PAIRS)
        yield slice(begin, end)
        begin = end


def prepare(decoder: Decoder, rows: NDArray[Any]) -> None:
    """Make of rows [n, D], in place, what a decoder is given as a table: of a cosine, rows of length 1.

    Each length is summed in one order, so that equal rows stay equal.
    """
    if type(decoder) is not Cosine:
        return
    lengths = np.empty(len(rows), rows.dtype)
    _core.score_pairs(rows, rows, np.arange(len(rows)), lengths, 1)
    np.sqrt(lengths, out=lengths)
    rows /= np.where(lengths > SHORTEST, lengths, np.inf).astype(rows.dtype)[:, None]


def scores_of(decoder: Decoder, table: NDArray[Any], *, threads: int, device: torch.device) -> Scores:
    """Scores that a decoder gives the rows of a table, which were prepared."""
    if type(decoder) in (Dot, Cosine):
        return DotScores(table, threads=threads)
    if type(decoder) is DistMult:
        return DotScores(table, factor=decoder.weight.detach().cpu().numpy(), threads=threads)
    return DecoderScores(table, decoder, device)
