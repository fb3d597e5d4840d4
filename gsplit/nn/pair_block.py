"""The pair block: from the vectors of a split's targets to the scores of the pairs that it scores.

It is one layer more: rows of targets go to the trainers that score them, each once, and in backward their gradients
come back and are added. A pair is scored by the owner of its source, so that a loss over a pair and all its
candidates is local.
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
    """Scores of G pairs, and of K + C candidates in the place of the destination of each.

    Examples:
        >>> scores = PairScores(torch.tensor([2.0]), torch.tensor([[0.5, 3.0]]), torch.tensor([[False, True]]))
        >>> scores.negative[~scores.masked]
        tensor([0.5000])
    """

    positive: Tensor
    """[G]"""
    negative: Tensor
    """[G, K + C]"""
    masked: Tensor | None
    """bool [G, K + C]: candidates that count nothing; None: all count."""


@dataclass(frozen=True, kw_only=True)
class PairBlock:
    """The pairs that a trainer scores: G pairs with K candidates of their own each, and C that all share.

    Rows count the own targets first, then the rows received from trainer 0, 1, ...

    Examples:
        >>> from gsplit.nn.decoders import Dot
        >>> def ids(*values):
        ...     return torch.tensor(values, dtype=torch.int32)
        >>> about = {"rows": None, "groups_of_all": 1, "negatives_of_all": 1, "route": None, "comm": None}
        >>> pair = PairBlock(sources=ids(0), destinations=ids(1), own=ids([2]), shared=ids(), masked=None, **about)
        >>> pair.scores(torch.tensor([[1.0], [2.0], [3.0]]), Dot()).negative
        tensor([[3.]])
    """

    sources: Tensor
    """int32 [G] rows, of own targets."""
    destinations: Tensor
    """int32 [G] rows."""
    own: Tensor
    """int32 [G, K] rows of each pair's candidates."""
    shared: Tensor
    """int32 [C] rows of the candidates of all pairs."""
    masked: Tensor | None
    """bool [G, K + C]: candidates that count nothing, own ones first; None: all count."""
    rows: NDArray[np.int64]
    """[G] numbers of the pairs among the training pairs."""
    own_log_q: Tensor | None = None
    """float32 [G, K] logarithms of how often each candidate is expected; None: nobody asked."""
    shared_log_q: Tensor | None = None
    """float32 [C] likewise."""
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
        own = rows.index_select(0, self.own.flatten()).view(*self.own.shape, rows.shape[1])
        shared = rows.index_select(0, self.shared)
        if self.turned:
            decoder = _Turned(decoder)
        negative = decoder.groups(sources, own)
        if len(shared):
            negative = torch.cat([negative, decoder.matrix(sources, shared)], 1)
        return PairScores(decoder(sources, destinations), negative, self.masked)

    def log_q(self) -> Tensor | None:
        """[G, K + C] logarithms of how often each candidate is expected among those of its pair.

        None where nobody asked (``--log-q``).
        """
        number = len(self.sources)
        parts = [self.own_log_q, None if self.shared_log_q is None else self.shared_log_q.expand(number, -1)]
        found = [part for part in parts if part is not None]
        return torch.cat(found, 1) if found else None


class _Turned(Decoder):
    """Scores of (destination, source), where pairs are turned round."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self._decoder = decoder

    def forward(self, source: Tensor, destination: Tensor) -> Tensor:
        """Scores [n] of pairs of rows [n, D]."""
        scores: Tensor = self._decoder(destination, source)
        return scores

    def matrix(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, m] of each source [n, D] with all candidates [m, D]."""
        return self._decoder.matrix(candidates, source).T
