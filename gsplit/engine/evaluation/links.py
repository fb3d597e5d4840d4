"""What models score on pairs: ranks among candidates, and curves of positives against negatives.

Rows of the vertices that pairs and candidates need are computed as evaluation of vertices does it, up to the last
level, into memory that all trainers map. Then each trainer ranks its share of the pairs, piece by piece, and writes a
number for each, also into such memory, in the order of their rows; so what is made of them depends neither on the
number of trainers nor on who ranked what. Shares are runs of the pairs in the order of their sources, of which each
trainer holds what is known of its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gsplit.config.links import drawn_candidates
from gsplit.data import Layout
from gsplit.data.links.edge_sets import Links
from gsplit.engine.evaluation.candidates import (
    drawn_rows,
    given_candidates,
    given_negatives,
    known_beside_edges,
    known_entries,
    known_of,
    ranked_rows,
    ranking_candidates,
    rounds,
)
from gsplit.engine.evaluation.exact import LevelRows
from gsplit.engine.evaluation.pair_metrics import measured
from gsplit.engine.evaluation.ranking import Known, Lists, Scores, doubled_ranks, pieces, prepare, scores_of
from gsplit.engine.evaluation.sampled_targets import EVALUATION
from gsplit.engine.evaluation.vectors import Vectors
from gsplit.engine.inputs import SplitLoader
from gsplit.host import SharedBuffer
from gsplit.nn.decoders import Decoder
from gsplit.parallel import Member, count_over_trainers, sum_over_trainers
from gsplit.parallel.collectives import all_reduce
from gsplit.parallel.host_memory import complete
from gsplit.runs.log import finite
from gsplit.sampling.plan import fold_key, hashed


def ranks_are_needed(metrics: Sequence[str]) -> bool:
    """Return whether some of these metrics are made of ranks."""
    return any(name.partition("@")[0] in ("mrr", "hits") for name in metrics)


def negatives_are_needed(metrics: Sequence[str]) -> bool:
    """Return whether some of these metrics compare the scores of pairs with those of others."""
    return any(name.partition("@")[0] not in ("mrr", "hits") for name in metrics)


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """The pairs of a set that are ranked, and what they are compared with; vertices are layout ids."""

    rows: NDArray[np.int64]
    """[m] in their set."""
    sources: NDArray[np.int64]
    """[m]"""
    destinations: NDArray[np.int64]
    """[m]"""
    own: NDArray[np.int64]
    """Places of this trainer's pairs, in the order of their sources."""
    candidates: str
    """``given``, ``all`` or ``uniform:K``."""
    known: list[NDArray[np.int64]]
    """Pairs of global ids that are known beside message edges."""
    of_each: NDArray[np.int64] | None
    """[m of the set, K] global ids of candidates that the store gives."""
    of_all: NDArray[np.int64] | None
    """[K, 2] pairs that all are compared with."""


@dataclass(frozen=True)
class _Numbers:
    """What metrics are made of, in memory that all trainers map."""

    doubled: NDArray[np.int64]
    """[m] twice the ranks."""
    positive: NDArray[np.float64]
    """[m] scores of the pairs."""
    negative: NDArray[np.float64]
    """Scores of what they are compared with, NaN where there is none."""

    def settled(self, *, ranked: bool) -> _Numbers:
        """The same without negatives that there are not, and with ranks among all negatives where none were made."""
        negative = np.sort(self.negative[~np.isnan(self.negative)])
        if ranked:
            return replace(self, negative=negative)
        below, up_to = (np.searchsorted(negative, self.positive, side=side) for side in ("left", "right"))
        return _Numbers(2 + 2 * (len(negative) - up_to) + (up_to - below), self.positive, negative)


class LinkEvaluator(Vectors):
    """Evaluates encoders and decoders on the pairs of a layout; every trainer makes every call.

    Args:
        layout: with links.
        member: this trainer.
        loader: of what belongs to segments.
        levels: two buffers that all trainers map.
        width: of the vectors that encoders give.
        metrics: names of what is measured, the one that decides first.
        candidates: as ``--evaluate-negatives``.
        seed: of draws.
        pairs: of a set that are ranked; None: all of the test set and of the validation set.
        options: the other arguments of :class:`Vectors`.

    Raises:
        Stopped: by what gives scores, where somebody asked to stop.
    """

    def __init__(
        self,
        layout: Layout,
        member: Member,
        loader: SplitLoader,
        levels: tuple[SharedBuffer, SharedBuffer],
        *,
        width: int,
        metrics: Sequence[str] = ("mrr",),
        candidates: str = "auto",
        seed: int = 0,
        pairs: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(layout, member, loader, levels, seed=seed, **options)
        assert layout.graph.links is not None
        self._links: Links = layout.graph.links
        self._width, self._metrics, self._candidates, self._seed = width, tuple(metrics), candidates, seed
        self._num_pairs = pairs

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores that :meth:`scores` gives, the one that decides first."""
        return self._metrics

    def ranking(self, name: str) -> dict[str, Any]:
        """Return what the pairs of a set are compared with, as a run records it: scores differ by it."""
        of_set = self._of_set(name)
        given = of_set.candidates == "given"
        found = {
            "pairs": len(of_set.rows),
            "candidates": of_set.candidates,
            "filter": "none" if given else "train" if name == "valid" else "train+valid",
            "ties": "mean",
        }
        if negatives_are_needed(self._metrics):
            found["negatives"] = "given" if given else "uniform:1"
        return found

    def scores(self, encoder: nn.Module, decoder: Decoder, name: str) -> dict[str, float | None]:
        """The metrics of a model on the pairs of ``valid`` or ``test``, by name; None where one is not defined.

        No metric is defined where a vector is not finite: its scores are no numbers, and would be ranked somewhere.
        """
        of_set = self._of_set(name)
        rows, table, are_finite = self._table(encoder, decoder, self._needed(of_set))
        m = len(of_set.rows)
        negatives = m if of_set.of_all is None else len(of_set.of_all)
        shared = self._exact.shared(self._num_layers + 1, 2 * m + negatives, 1, np.int64)[:, 0]
        numbers = _Numbers(shared[:m], *np.split(shared[m:].view(np.float64), [m]))
        was_training = decoder.training
        decoder.eval()
        if are_finite:
            self._fill(
                of_set, rows, scores_of(decoder, table, threads=self._threads, device=self._member.device), numbers
            )
        decoder.train(was_training)
        self._agree()
        complete(self._member, torch.from_numpy(shared), lambda: self._written(of_set))
        found = [math.nan] * len(self._metrics)
        if self._member.rank == 0 and are_finite:
            numbers = numbers.settled(ranked=of_set.of_all is None or of_set.of_each is not None)
            found = [measured(each, numbers.doubled, numbers.positive, numbers.negative) for each in self._metrics]
        elif self._member.rank > 0:
            found = [0.0] * len(self._metrics)
        agreed = sum_over_trainers(found, self._member)
        return {each: finite(value) for each, value in zip(self._metrics, agreed, strict=True)}

    def _of_set(self, name: str) -> _Pairs:
        pairs, links = self._links.edge_set(name), self._links
        assert pairs is not None
        rows = ranked_rows(len(pairs), self._num_pairs if name == "valid" else None, self._seed)
        sources, destinations = self._layout.positions[pairs[rows]].T
        order = np.argsort(sources, kind="stable")
        begin, end = (len(rows) * each // self._member.world for each in (self._member.rank, self._member.rank + 1))
        candidates = ranking_candidates(
            self._candidates, links, name, num_vertices=self._graph.num_vertices, width=self._width, pairs=len(rows)
        )
        given = candidates == "given"
        return _Pairs(
            rows=rows,
            sources=sources,
            destinations=destinations,
            own=order[begin:end],
            candidates=candidates,
            known=[] if given else known_beside_edges(self._layout, name),
            of_each=given_candidates(links, name) if given else None,
            of_all=given_negatives(links, name) if given else None,
        )

    def _needed(self, of_set: _Pairs) -> NDArray[np.bool_] | None:
        """[N] the vertices whose rows are needed; None: all."""
        n, drawn = self._graph.num_vertices, drawn_candidates(of_set.candidates)
        if of_set.candidates == "all" or (drawn is not None and (drawn + 2) * len(of_set.rows) >= n):
            return None
        mask = np.zeros(n, np.uint8)
        if of_set.of_all is not None:
            mask[self._layout.positions[of_set.of_all]] = 1
        for places, known in self._rounds(of_set):
            lengths = known.lengths(of_set.sources[places])
            for piece in pieces(lengths + 2 + self._each(of_set)):
                here = places[piece]
                u, v = of_set.sources[here], of_set.destinations[here]
                left_out = known.lists(u, u, v)
                candidates, negative = self._of_pairs(of_set, here, left_out), self._negative(of_set, here, left_out)
                for needed in (u, v, candidates, negative):
                    mask[needed[needed >= 0]] = 1
        all_reduce(torch.from_numpy(mask), self._member.group, "max")
        return mask.astype(np.bool_)

    def _table(
        self, encoder: nn.Module, decoder: Decoder, mask: NDArray[np.bool_] | None
    ) -> tuple[LevelRows, NDArray[Any], bool]:
        """Where vertices have their rows, these rows of all trainers, prepared, and whether all are finite."""
        chunks = self._last(encoder, np.arange(self._graph.num_vertices) if mask is None else np.flatnonzero(mask))
        rows, table, not_finite = self.table(
            chunks, mask, self._num_layers, self._width, functools.partial(prepare, decoder)
        )
        return rows, table, count_over_trainers([len(not_finite)], self._member) == [0]

    def _rounds(self, of_set: _Pairs) -> Iterator[tuple[NDArray[np.int64], Known]]:
        """This trainer's pairs by their places, and what is known of them, of so many that this is bounded."""
        sources, n = of_set.sources[of_set.own], self._graph.num_vertices
        if of_set.candidates == "given":
            yield of_set.own, Known.nothing(n)
            return
        for part in rounds(sources, known_entries(self._layout, of_set.known)):
            yield of_set.own[part], known_of(self._layout, sources[part], of_set.known)

    def _fill(self, of_set: _Pairs, rows: LevelRows, scores: Scores, numbers: _Numbers) -> None:
        """Write this trainer's share of the numbers that metrics are made of."""
        if of_set.of_all is not None:
            share = self._share_of_all(of_set.of_all)
            u, v = self._layout.positions[of_set.of_all[share]].T
            numbers.negative[share] = scores.pairs(rows.places(u), rows.places(v))
        ranked = ranks_are_needed(self._metrics) and (of_set.of_all is None or of_set.of_each is not None)
        for places, known in self._rounds(of_set):
            sources, destinations = of_set.sources[places], of_set.destinations[places]
            if ranked:

                def candidates(
                    piece: slice, left_out: Lists, places: NDArray[np.int64] = places
                ) -> NDArray[np.int64]:
                    return self._of_pairs(of_set, places[piece], left_out)

                among = None if of_set.candidates == "all" else candidates
                each = self._each(of_set)
                found = doubled_ranks(scores, sources, destinations, among, known, each=each, rows_of=rows.places)
                for piece, doubled in takewhile(self._goes_on, found):
                    numbers.doubled[places[piece]] = doubled
            numbers.positive[places] = scores.pairs(rows.places(sources), rows.places(destinations))
            if of_set.of_all is not None or not negatives_are_needed(self._metrics):
                continue
            for piece in takewhile(self._goes_on, pieces(known.lengths(sources) + 2)):
                here, u, v = places[piece], sources[piece], destinations[piece]
                negative = self._negative(of_set, here, known.lists(u, u, v))
                values = scores.pairs(rows.places(u), rows.places(np.maximum(negative, 0)))
                numbers.negative[here] = np.where(negative < 0, math.nan, values)

    def _share_of_all(self, of_all: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of the pairs [K, 2] that all are compared with that this trainer scores."""
        return np.array_split(np.arange(len(of_all)), self._member.world)[self._member.rank]

    def _written(self, of_set: _Pairs) -> NDArray[np.int64]:
        """Places of the numbers that this trainer wrote: ranks, scores of pairs, and those of negatives."""
        m, own = len(of_set.rows), of_set.own
        negative = own if of_set.of_all is None else self._share_of_all(of_set.of_all)
        return np.concatenate([own, m + own, 2 * m + negative])

    def _each(self, of_set: _Pairs) -> int:
        """How many candidates each pair has for itself."""
        if of_set.of_each is not None:
            return of_set.of_each.shape[1]
        return drawn_candidates(of_set.candidates) or 0

    def _of_pairs(self, of_set: _Pairs, places: NDArray[np.int64], left_out: Lists) -> NDArray[np.int64]:
        """Candidates [n, K] of some pairs for themselves."""
        if of_set.of_each is not None:
            return self._layout.positions[of_set.of_each[of_set.rows[places]]]
        rows, k = of_set.rows[places], self._each(of_set)
        return drawn_rows(self._layout, self._seed, rows, k, left_out, threads=self._threads)

    def _negative(self, of_set: _Pairs, places: NDArray[np.int64], left_out: Lists) -> NDArray[np.int64]:
        """One vertex [n] that does not belong with the source of each pair; -1 for none."""
        rows = of_set.rows[places]
        if of_set.of_each is None:
            return drawn_rows(self._layout, self._seed, rows, 1, left_out)[:, 0]
        chosen = hashed(fold_key(self._seed, EVALUATION), rows.astype(np.uint64)) % np.uint64(of_set.of_each.shape[1])
        return self._layout.positions[of_set.of_each[rows, chosen.astype(np.int64)]]
