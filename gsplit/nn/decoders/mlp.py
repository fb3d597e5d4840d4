"""A multilayer perceptron on two rows side by side."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gsplit.nn.decoders.decoder import Decoder

AT_ONCE_NUMBERS = 1 << 22
"""Hidden numbers that are made at a time where all sources meet all candidates."""


class MLP(Decoder):
    """Layers with ReLU between them on (source, destination), the last of width 1.

    The first layer of a pair is the sum of a source's half and a destination's half, so each row is multiplied once,
    whatever the number of its pairs.

    Args:
        width: D.
        hidden: of the layers between; None: D.
        layers: how many, at least 1.
    """

    def __init__(self, width: int, hidden: int | None = None, layers: int = 2) -> None:
        super().__init__()
        hidden = width if hidden is None else hidden
        if min(hidden, layers) < 1:
            raise ValueError(f"hidden and layers must be at least 1, not {hidden} and {layers}")
        widths = [2 * width, *[hidden] * (layers - 1), 1]
        self.first, *others = [nn.Linear(n, m) for n, m in pairwise(widths)]
        self.rest = nn.ModuleList(others)

    def forward(self, source: Tensor, destination: Tensor) -> Tensor:
        """Scores [n] of pairs of rows [n, D]."""
        return self._beyond(self._sources(source) + self._destinations(destination))

    def groups(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, C] of each source [n, D] with candidates of its own [n, C, D]."""
        return self._beyond(self._sources(source).unsqueeze(1) + self._destinations(candidates))

    def groups_of_sources(self, destination: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, C] of each destination [n, D] with candidates of its own [n, C, D] as sources."""
        return self._beyond(self._sources(candidates) + self._destinations(destination).unsqueeze(1))

    def matrix(self, source: Tensor, candidates: Tensor) -> Tensor:
        """Scores [n, m] of each source [n, D] with all candidates [m, D]."""
        sources, destinations = self._sources(source).unsqueeze(1), self._destinations(candidates)
        step = max(1, AT_ONCE_NUMBERS // max(1, destinations.numel()))
        return torch.cat([self._beyond(each + destinations) for each in sources.split(step)])

    def _sources(self, rows: Tensor) -> Tensor:
        return F.linear(rows, self.first.weight[:, : rows.shape[-1]], self.first.bias)

    def _destinations(self, rows: Tensor) -> Tensor:
        return F.linear(rows, self.first.weight[:, rows.shape[-1] :])

    def _beyond(self, x: Tensor) -> Tensor:
        """Scores [...] of what the first layer gave [..., hidden]."""
        for layer in self.rest:
            x = layer(x.relu())
        return x.squeeze(-1)
