"""A second sampling rule, small and real. Sampler processes import it, so it imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.sampling import MiniBatchSampler


@dataclass(frozen=True, kw_only=True)
class InSequence:
    """The plan of a rule without a shuffle: all vertices by global id, so that no layout changes it (law 1)."""

    ids: NDArray[np.int64]
    """Layout ids in the order of the global ones."""
    batch_size: int
    number: int
    """Micro-batches of a mini-batch."""

    def micro_batches(self, epoch, batch):
        begin = batch * self.batch_size
        return np.array_split(self.ids[begin : begin + self.batch_size], self.number)

    def others(self, epoch, batch):
        return None


@dataclass(frozen=True, kw_only=True)
class FirstNeighbours:
    """All vertices start, whether to train on or not; a destination keeps its first in-neighbours, without draws."""

    keep: int
    hops: int

    def num_batches(self, layout: Layout, *, batch_size, micro_batches=1):
        return -(-layout.graph.num_vertices // batch_size)

    def plan(self, layout: Layout, *, batch_size, seed, micro_batches=1, fixed_shares=False):
        return InSequence(ids=np.argsort(layout.permutation), batch_size=batch_size, number=micro_batches)

    def sampler(self, layout: Layout, offsets, *, seed, edge_ids=False, memory=None, threads=1, partial_sums=False):
        assert not edge_ids  # positions would be those of the cut graph
        indptr, indices = layout.graph.indptr, layout.graph.indices
        degrees = np.diff(indptr)
        place = np.arange(len(indices)) - np.repeat(indptr[:-1], degrees)
        cut_indptr = np.concatenate([[0], np.cumsum(np.minimum(degrees, self.keep))])
        cut_indices = indices[place < self.keep]
        return MiniBatchSampler(
            cut_indptr,
            cut_indices,
            offsets,
            fan_outs=[-1] * self.hops,
            seed=seed,
            memory=memory,
            threads=threads,
            partial_sums=partial_sums,
        )
