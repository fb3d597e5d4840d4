"""The pair block: from the vectors of a split's targets to the scores of the pairs that it scores.

It is one layer more: rows of targets go to the trainers that score them, each once, and in backward their gradients
come back and are added. A pair is scored by the owner of its source, so that a loss over a pair and all its
candidates is local; or, for a loss that looks at one score at a time, each pair and each candidate by the owner of
that end, so that rows of sources travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.nn.decoders import Decoder
from gsplit.nn.exchange import BatchComm, Route, exchange


class PairScores(NamedTuple):
    """Scores of G pairs, and of K + C candidates in the place of an end of each.

    Examples:
        >>> scores = PairScores(torch.tensor([2.0]), torch.tensor([[0.5, 3.0]]), torch.tensor([[False, True]]))
        >>> scores.negative[~scores.masked]
        tensor([0.5000])
    """

    positive: Tensor
    """[G]"""
    negative: Tensor
    """[G, K + C]; with ``--score-at destination`` [n], of candidates whose pairs others may score."""
    masked: Tensor | None
    """bool [G, K + C]: candidates that count nothing; None: all count."""


@dataclass(frozen=True, kw_only=True)
class PairBlock:
    """The pairs that a trainer scores: G pairs with K candidates of their own each, and C that a chunk shares.

    Candidates take the place of the destination, the last ``own_at_source`` of the K and ``shared_at_source`` of the
    C that of the source. With ``--score-at destination`` the last ``num_apart`` of the G are candidates, each with
    the end of its pair that stays in ``sources``, and K and C are 0. Rows count the own targets first, then the rows
    received from trainer 0, 1, ...

    Examples:
        >>> from gsplit.nn.decoders import Dot
        >>> def ids(*values):
        ...     return torch.tensor(values, dtype=torch.int32)
        >>> shared = {"shared": ids([3]), "chunk_groups": [1]}
        >>> about = {"rows": None, "groups_of_all": 1, "negatives_of_all": 1, "route": None, "comm": None}
        >>> pair = PairBlock(sources=ids(0), destinations=ids(1), own=ids([2]), masked=None, **shared, **about)
        >>> pair.scores(torch.tensor([[1.0], [2.0], [3.0], [4.0]]), Dot()).negative
        tensor([[3., 4.]])
    """

    sources: Tensor
    """int32 [G] rows, of own targets but where pairs are scored at destinations."""
    destinations: Tensor
    """int32 [G] rows, of own targets where pairs are scored there."""
    own: Tensor
    """int32 [G, K] rows of each pair's candidates."""
    shared: Tensor
    """int32 [S, C] rows of the candidates of all pairs of each chunk that has some here."""
    chunk_groups: list[int]
    """[S] how many of the G pairs each chunk has, in order."""
    masked: Tensor | None
    """bool [G, K + C]: candidates that count nothing, own ones first; None: all count."""
    rows: NDArray[np.int64]
    """[G] numbers of the pairs among the training pairs."""
    own_log_q: Tensor | None = None
    """float32 [G, K] logarithms of how often each candidate is expected; None: nobody asked."""
    shared_log_q: Tensor | None = None
    """float32 [S, C] likewise."""
    weights: Tensor | None = None
    """[G] what each pair counts in the loss, with all its candidates; None: 1."""
    own_at_source: int = 0
    """How many of the K, or of those apart, the last ones, take the place of the source."""
    shared_at_source: int = 0
    """How many of the C likewise."""
    groups_of_all: int
    """Number of pairs that all trainers score."""
    negatives_of_all: int
    """Number of their candidates that are not masked."""
    route: Route | None
    """Which rows of targets travel; None where the mini-batch is not split."""
    comm: BatchComm | None
    """The communicator of the mini-batch; None where nothing travels."""
    turned: bool = False
    """Whether pairs are turned round: candidates take the place of sources, and scores are of (end given as the
    destination, end given as the source)."""
    num_apart: int = 0
    """How many of the pairs, the last, are candidates; their numbers are those of their pairs."""

    def exchange(self, h: Tensor) -> Tensor:
        """Own targets' vectors [n_L, D] -> the same, then those received [n_L + received, D].

        All trainers make the call, also without pairs.
        """
        return h if self.route is None or self.comm is None else exchange(h, self.route, self.comm)

    def scores(self, h: Tensor, decoder: Decoder) -> PairScores:
        """Score the pairs by a decoder; all trainers make the call, also without pairs.

        Args:
            h: [n_L, D] vectors of the own targets.
            decoder: of :mod:`gsplit.nn.decoders`.
        """
        rows = self.exchange(h)
        sources, destinations = rows.index_select(0, self.sources), rows.index_select(0, self.destinations)
        own, shared = (
            rows.index_select(0, each.flatten()).view(*each.shape, rows.shape[1]) for each in (self.own, self.shared)
        )
        if self.turned:
            decoder = _Turned(decoder)
        at_source = _Turned(decoder) if self.own_at_source or self.shared_at_source else decoder
        if self.num_apart:
            cut = [
                each.split([len(each) - self.own_at_source, self.own_at_source]) for each in (sources, destinations)
            ]
            scores = torch.cat([score(*each) for score, *each in zip((decoder, at_source), *cut, strict=True)])
            return PairScores(scores[: -self.num_apart], scores[-self.num_apart :], None)
        k, c = own.shape[1] - self.own_at_source, shared.shape[1] - self.shared_at_source
        negative = [decoder.groups(sources, own[:, :k])]
        if self.own_at_source:
            negative.append(at_source.groups(destinations, own[:, k:]))
        if shared.shape[1]:
            of_chunks = [sources.new_empty(0, shared.shape[1])]
            ends = [each.split(self.chunk_groups) for each in (sources, destinations)]
            for u, v, candidates in zip(*ends, shared, strict=True):
                scores = decoder.matrix(u, candidates[:c])
                if self.shared_at_source:
                    scores = torch.cat([scores, at_source.matrix(v, candidates[c:])], 1)
                of_chunks.append(scores)
            negative.append(torch.cat(of_chunks))
        return PairScores(decoder(sources, destinations), torch.cat(negative, 1), self.masked)

    def log_q(self) -> Tensor | None:
        """[G, K + C] logarithms of how often each candidate is expected among those of its pair.

        None where nobody asked (``--log-q``).
        """
        parts = [] if self.own_log_q is None else [self.own_log_q]
        if (shared := self.shared_log_q) is not None:
            rows = [row.expand(number, -1) for row, number in zip(shared, self.chunk_groups, strict=True)]
            parts.append(torch.cat([shared[:0], *rows]))
        return torch.cat(parts, 1) if parts else None


class _Turned(Decoder):
    """Scores of (destination, source), where candidates take the place of sources."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self._decoder = decoder

    def forward(self, source: Tensor, destination: Tensor) -> Tensor:
        """Scores [n] of pairs of rows [n, D]."""
        scores: Tensor = self._decoder(destination, source)
        return scores

    def groups(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, C] of each source [n, D] with candidates of its own [n, C, D]."""
        return self._decoder.groups_of_sources(source, candidates)

    def matrix(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, m] of each source [n, D] with all candidates [m, D]."""
        return self._decoder.matrix(candidates, source).T
