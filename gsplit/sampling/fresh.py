"""Uniform vertex sampling with another random set for each layer.

One set for all layers makes several layers biased: a source of the second layer is there only if it is in the set of
the first, so that the way from a vertex to a neighbour and back counts 1/p times (docs/results/rules.md). Here the
training vertices of a set start, and each hop draws B of all N vertices anew. A hop's set depends on nothing that
was drawn before, so an in-edge is kept with the chance B / N, whoever its destination is, and counts N / B. That goes
for loops of the graph and for sources that are destinations, too; a destination's own row is there in any case.
Layers that are linear so have the whole graph's outputs as their expectation, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.sampling.masses import uniform_below
from gsplit.sampling.plan import fold_key
from gsplit.sampling.sampler import SetSampler
from gsplit.sampling.subgraphs import SETS, OfShuffle, ShuffledPlan, set_size


def subset_below(key: int, bound: int, size: int) -> NDArray[np.bool_]:
    """Return a mask of ``size`` of the numbers below ``bound``: bool [bound], each subset as likely.

    Numbers are drawn until so many different ones are there, in rounds of as many as are missing; where that is more
    than half of all, those that are left out are drawn.
    """
    fewer = min(size, bound - size)
    drawn = np.zeros(bound, np.bool_)
    turn, missing = 0, fewer
    while missing > 0:
        drawn[uniform_below(fold_key(key, turn), bound, missing)] = True
        turn, missing = turn + 1, fewer - int(np.count_nonzero(drawn))
    return drawn if fewer == size else ~drawn


def bytes_of_sets(vertices: int, size: int, layers: int) -> int:
    """Bytes of a mini-batch's sets while the last is drawn: int64 ids, two masks, and numbers that are drawn.

    Args:
        vertices: of the graph.
        size: of a set.
        layers: sets of a mini-batch.
    """
    return 8 * size * layers + 2 * vertices + 40 * min(size, vertices - size)


class TargetsOfSets(ShuffledPlan):
    """Runs of each epoch's shuffle, of which the training vertices alone start."""

    def others(self, epoch: int, batch: int) -> list[NDArray[np.int64]]:
        """Nothing beside the targets: [G] empty arrays."""
        return [np.empty(0, np.int64)] * self._number


class FreshSampler(SetSampler):
    """Draws a set of sources for each hop, out of all vertices.

    Args:
        layout, offsets, options: see :class:`~gsplit.sampling.sampler.SetSampler`.
        layers: number of layers.
        size: vertices of a set, B.
        scaled: segments carry what an edge counts: N / B.
    """

    def __init__(
        self, layout: Layout, offsets: NDArray[np.int64], *, layers: int, size: int, scaled: bool, **options: Any
    ) -> None:
        super().__init__(layout, offsets, **options)
        self._global_ids, self._layers, self._size = layout.permutation, layers, size
        self._scale = len(self._global_ids) / size if scaled else None

    def sets(self, epoch: int, batch: int, micro: int) -> list[NDArray[np.int64]]:
        """The set of each hop, the first for the targets: [L] int64 arrays of layout ids, ascending."""
        keys = [fold_key(self._seed, epoch, batch, micro, hop, SETS) for hop in range(1, self._layers + 1)]
        masks = (subset_below(key, len(self._global_ids), self._size) for key in keys)
        return [np.flatnonzero(mask[self._global_ids]) for mask in masks]

    def _keep(self, start: NDArray[np.int64], targets: int, about: tuple[int, int, int, int]) -> None:
        assert len(start) == targets
        self._core.sample_inside(start, self.sets(*about[:3]), None, self._scale, *about, self._edge_ids)


@dataclass(frozen=True, kw_only=True)
class Fresh(OfShuffle):
    """Uniform vertex sampling that draws another set for each layer; targets are those of :class:`Uniform`.

    A sampler takes :func:`bytes_of_sets` beside its maps.
    """

    def plan(
        self, layout: Layout, *, batch_size: int, seed: int, micro_batches: int = 1, fixed_shares: bool = False
    ) -> TargetsOfSets:
        """The training vertices of runs of each epoch's shuffle of all vertices."""
        return TargetsOfSets(layout, pieces=self.pieces(layout), seed=seed, micro_batches=micro_batches)

    def sampler(self, layout: Layout, offsets: NDArray[np.int64], **options: Any) -> FreshSampler:
        """The sampler that draws the sets."""
        size = set_size(self.subgraph, layout.graph.num_vertices)
        return FreshSampler(layout, offsets, layers=self.layers, size=size, scaled=self.scaled, **options)
