"""What every decoder does: scores of pairs, of groups of candidates, and of all sources with all candidates.

Legend: n pairs or sources, C candidates of each, m candidates of all, D columns.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

AT_ONCE = 1 << 16
"""Pairs of rows that are repeated at a time where all sources meet all candidates."""


class Decoder(nn.Module):
    """Scores of pairs of vertices, from a row of each; the rest follows from ``forward``.

    ``forward(source [n, D], destination [n, D]) -> [n]``. A score depends on its two rows alone.
    """

    def __init__(self) -> None:
        super().__init__()

    def groups(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, C] of each source [n, D] with candidates of its own [n, C, D]."""
        n, width = candidates.shape[:2]
        scores: Tensor = self(source.repeat_interleave(width, dim=0), candidates.flatten(0, 1))
        return scores.view(n, width)

    def groups_of_sources(self, destination: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, C] of each destination [n, D] with candidates of its own [n, C, D] as sources."""
        n, width = candidates.shape[:2]
        scores: Tensor = self(candidates.flatten(0, 1), destination.repeat_interleave(width, dim=0))
        return scores.view(n, width)

    def matrix(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, m] of each source [n, D] with all candidates [m, D]."""
        m = len(candidates)
        rows = source.split(max(1, AT_ONCE // max(1, m)))
        scores = [self(each.repeat_interleave(m, dim=0), candidates.repeat(len(each), 1)) for each in rows]
        return torch.cat(scores).view(len(source), m)


class OwnDecoder(Decoder):
    """A module of the user's as a decoder.

    Args:
        module: with ``forward(source, destination) -> [n]``, and perhaps a ``matrix`` of its own.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, source: Tensor, destination: Tensor) -> Tensor:
        """Scores [n] of pairs of rows [n, D]."""
        scores: Tensor = self.module(source, destination)
        return scores

    def matrix(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, m], by the module's own ``matrix`` where it has one."""
        own = getattr(self.module, "matrix", None)
        return own(source, candidates) if callable(own) else super().matrix(source, candidates)
