"""Products of two rows: plain, of their directions alone, and with a weight for each column."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gsplit.nn.decoders.decoder import Decoder

SHORTEST = 1e-8
"""The length of a row that still has a direction; PyTorch's ``cosine_similarity`` has the same bound."""


class Dot(Decoder):
    """The product of two rows.

    Examples:
        >>> Dot()(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]))
        tensor([11.])
    """

    def forward(self, source: Tensor, destination: Tensor) -> Tensor:
        """Scores [n] of pairs of rows [n, D]."""
        return (source * destination).sum(dim=-1)

    def groups(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, C] of each source [n, D] with candidates of its own [n, C, D]."""
        return torch.bmm(candidates, source.unsqueeze(2)).squeeze(2)

    def groups_of_sources(self, destination: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, C] of each destination [n, D] with candidates of its own [n, C, D] as sources: the same."""
        return self.groups(destination, candidates)

    def matrix(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, m] of each source [n, D] with all candidates [m, D]."""
        return source @ candidates.T


class Cosine(Dot):
    """The cosine of the angle between two rows; 0, without a slope, where one of them has no direction.

    Its scores are from -1 to 1, so softmax wants a small ``--temperature`` with it.
    """

    def forward(self, source: Tensor, destination: Tensor) -> Tensor:
        """Scores [n] of pairs of rows [n, D]."""
        return super().forward(_direction(source), _direction(destination))

    def groups(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, C] of each source [n, D] with candidates of its own [n, C, D]."""
        return super().groups(_direction(source), _direction(candidates))

    def matrix(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, m] of each source [n, D] with all candidates [m, D]."""
        return super().matrix(_direction(source), _direction(candidates))


class DistMult(Dot):
    """The product of two rows with a learned weight for each column, which begins as 1 (Yang et al., ICLR 2015).

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, source: Tensor, destination: Tensor) -> Tensor:
        """Scores [n] of pairs of rows [n, D]."""
        return super().forward(source * self.weight, destination)

    def groups(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, C] of each source [n, D] with candidates of its own [n, C, D]."""
        return super().groups(source * self.weight, candidates)

    def matrix(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, m] of each source [n, D] with all candidates [m, D]."""
        return super().matrix(source * self.weight, candidates)


def _direction(rows: Tensor) -> Tensor:
    """Rows [..., D] of length 1; 0 for those that are too short, whose gradient would be beyond bounds."""
    length = rows.norm(dim=-1, keepdim=True)
    return rows / torch.where(length > SHORTEST, length, torch.inf)
