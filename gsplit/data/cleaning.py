"""Steps that clean edges on their way into a store, and what they did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gsplit.data.links.held_out import Withheld


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """Steps that clean the edges of a source."""

    undirected: bool = False
    self_loops: Literal["keep", "drop", "add"] = "keep"
    duplicates: str = "first"
    """A rule of :mod:`gsplit.data.repeats`, resolved."""
    withheld: Withheld | None = None
    """Which edges are no message edges."""

    @property
    def weights(self) -> type:
        """Type of weights on disk: float32, but for rules that add them up."""
        return np.float64 if self.duplicates in ("sum", "mean", "count") else np.float32


@dataclass(kw_only=True)
class Tally:
    """Numbers of edges that the cleaning removed or added."""

    repeated: int = 0
    """Edges of the source that repeat another one."""
    self_loops: int = 0
    """Self-loops that were dropped."""
    reverses: int = 0
    """Reverse edges, now or before added: of the k-th edge u -> v, where the source has no k-th edge v -> u."""
    loops: int = 0
    """Self-loops that were added, now or before."""
