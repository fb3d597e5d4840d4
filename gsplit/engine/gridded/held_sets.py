"""The set of a mini-batch as the trainers of a group hold it, and the edges into some of its vertices.

Legend: S vertices of the set, P trainers of a group, E edges.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gsplit.full.shards import Shard
from gsplit.kernels import Edges


class Held(NamedTuple):
    """A set as the trainers of a group hold it."""

    vertices: list[NDArray[np.int64]]
    """Layout ids of each trainer's, training vertices first. The set's order is this one, trainer by trainer."""
    sizes: NDArray[np.int64]
    """[P, 2] numbers of all of them, and of the training vertices."""

    @classmethod
    def of(cls, targets: NDArray[np.int64], others: NDArray[np.int64], bounds: NDArray[np.int64]) -> Held:
        """Deal a set out to the trainers by the bounds of their layout ids."""
        ends = [np.searchsorted(some, bounds) for some in (targets, others)]  # both ascend
        ours = [
            [some[begin:end] for some, (begin, end) in zip((targets, others), of_trainer, strict=True)]
            for of_trainer in zip(*map(itertools.pairwise, ends), strict=True)
        ]
        sizes = [(len(first) + len(rest), len(first)) for first, rest in ours]
        return cls([np.concatenate(each) for each in ours], np.array(sizes, np.int64))

    def places_among(self, trainers: Sequence[int]) -> NDArray[np.int32]:
        """Place of each vertex of the set among those of some trainers, int32 [S]; -1 of others."""
        ends = np.cumsum(self.sizes[:, 0])
        place_S, first = np.full(int(ends[-1]), -1, np.int32), 0
        for trainer in trainers:
            number = int(self.sizes[trainer, 0])
            place_S[ends[trainer] - number : ends[trainer]] = np.arange(first, first + number)
            first += number
        return place_S

    def of_targets(self, trainers: Sequence[int]) -> NDArray[np.bool_]:
        """Which vertices of some trainers are training vertices."""
        return np.concatenate([np.arange(size) < number for size, number in self.sizes[list(trainers)]])

    def own_in(self, trainers: Sequence[int], rank: int, *, last: bool) -> slice:
        """Where a trainer's vertices stand among those of some trainers; the training vertices alone for the last."""
        first = int(self.sizes[list(trainers[: trainers.index(rank)]), 0].sum())
        return slice(first, first + int(self.sizes[rank, int(last)]))


class EdgesOfSet(NamedTuple):
    """Edges into the vertices of a grid row, from all of the set."""

    rows: NDArray[np.int64]
    """[E] the destination of each, ascending."""
    places: NDArray[np.int32]
    """[E] the place of its source in the set."""
    weights: NDArray[np.floating] | None
    """[E] what each counts; None: 1, or nobody asks."""
    numbers: NDArray[np.int32]
    """[destinations] numbers of in-edges that a sum stands for."""
    totals: NDArray[np.floating] | None
    """[destinations] their weights; None where the model takes none."""
    estimates: bool
    """Whether sums stand for those over the whole graph."""

    def shard(self, column_S: NDArray[np.int32], kept_R: NDArray[np.bool_] | None) -> Shard:
        """The edges from some of the set.

        Args:
            column_S: place of each source; -1 to leave its edges out.
            kept_R: the destinations that are wanted; None: all.
        """
        sources, wanted = column_S[self.places], None if kept_R is None else kept_R[self.rows]
        mask = sources >= 0 if wanted is None else (sources >= 0) & wanted
        counts = np.bincount(self.rows[mask], minlength=len(self.numbers))
        counts = counts if kept_R is None else counts[kept_R]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        weight = None if self.weights is None else torch.from_numpy(self.weights[mask])
        return Shard(Edges(indptr=torch.from_numpy(indptr), indices=torch.from_numpy(sources[mask])), weight)
