"""The rule of links: pairs start a mini-batch, and another rule says which in-edges of their ends are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.sampling.links.negatives import NegativeDraws, Negatives, Replaced
from gsplit.sampling.links.plan import LinkPlan
from gsplit.sampling.links.training_pairs import TrainingPairs
from gsplit.sampling.plan import num_batches
from gsplit.sampling.rule import Neighbours
from gsplit.sampling.sampler import MiniBatchSampler


class Exclude(NamedTuple):
    """Which edges no mini-batch sees that asks for them."""

    targets: bool = True
    """Whether the edge of each pair, and the reverse one, are excluded."""
    below: int | None = None
    """Only where an end has fewer in-edges than this; None: everywhere."""


EXCLUDED = Exclude()
"""The edges of all pairs, and their reverses."""


@dataclass(frozen=True, kw_only=True)
class Links:
    """Pairs start, with candidates to compare them with; a :class:`gsplit.sampling.Rule`."""

    neighbours: Neighbours
    """Which in-edges are kept."""
    negatives: Negatives
    """What pairs are compared with."""
    edges: bool = False
    """Whether all edges are trained on, also where there are training pairs."""
    epoch_pairs: int | None = None
    """Pairs of an epoch; None: all."""
    corrupt: Replaced = "destination"
    """The end of a pair that candidates take the place of."""
    exclude: Exclude = EXCLUDED
    """Which edges are not seen."""
    apart: bool = False
    """Whether pairs and candidates are scored where their destinations are, each by itself."""

    def num_batches(self, layout: Layout, *, batch_size: int, micro_batches: int = 1) -> int:
        """Number of mini-batches that the pairs fill; the last one may be smaller."""
        return num_batches(self._of_epoch(TrainingPairs(layout, edges=self.edges)), batch_size)

    def plan(
        self, layout: Layout, *, batch_size: int, seed: int, micro_batches: int = 1, fixed_shares: bool = False
    ) -> LinkPlan:
        """The pairs, shuffled anew in each epoch, with their candidates."""
        assert not fixed_shares  # refused with the flag
        pairs = TrainingPairs(layout, edges=self.edges)
        return LinkPlan(
            layout,
            pairs,
            NegativeDraws(layout, pairs, self.negatives, seed, corrupt=self.corrupt),
            batch_size=batch_size,
            epoch_pairs=self._of_epoch(pairs),
            seed=seed,
            micro_batches=micro_batches,
            corrupt=self.corrupt,
            exclude=self.exclude.targets,
            exclude_below=self.exclude.below,
            apart=self.apart,
        )

    def sampler(self, layout: Layout, offsets: NDArray[np.int64], **options: Any) -> MiniBatchSampler:
        """The sampler of neighbours."""
        sampler = self.neighbours.sampler(layout, offsets, **options)
        assert isinstance(sampler, MiniBatchSampler)
        return sampler

    def _of_epoch(self, pairs: TrainingPairs) -> int:
        return pairs.number if self.epoch_pairs is None else min(self.epoch_pairs, pairs.number)
