"""Rules whose mini-batch is a subgraph: a set of vertices with all edges between them, in every layer.

The training vertices of the set are the targets; the last layer computes them alone, the layers below share one block
over the whole set. Split over the trainers like any other mini-batch.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

import gsplit._core as _core
from gsplit.data import Layout
from gsplit.sampling.plan import fold_key, hashed
from gsplit.sampling.sampler import SetSampler

SETS = 0x53455453
"""A tag that keeps the keys of sets apart from those of draws."""


class SetPlan(ABC):
    """The sets of a run, each with its training vertices first.

    Args:
        layout: to take vertices from.
        seed: of the run.
        micro_batches: sets of a mini-batch, G.
    """

    def __init__(self, layout: Layout, *, seed: int, micro_batches: int) -> None:
        self._layout, self._seed, self._number = layout, seed, micro_batches
        self._train = np.zeros(layout.graph.num_vertices, bool)
        self._train[layout.graph.train_idx] = True

    @abstractmethod
    def sets(self, epoch: int, batch: int) -> list[NDArray[np.int64]]:
        """The sets of a mini-batch: [G] int64 arrays of layout ids, perhaps empty."""

    def micro_batches(self, epoch: int, batch: int) -> list[NDArray[np.int64]]:
        """The training vertices of each set of a mini-batch: [G] int64 arrays of layout ids, perhaps empty."""
        return [vertices[self._train[vertices]] for vertices in self.sets(epoch, batch)]

    def others(self, epoch: int, batch: int) -> list[NDArray[np.int64]]:
        """The other vertices of each set of a mini-batch: [G] int64 arrays of layout ids, perhaps empty."""
        return [vertices[~self._train[vertices]] for vertices in self.sets(epoch, batch)]


class CutPlan(SetPlan):
    """Sets that an epoch is cut into.

    So every vertex is in one set of the epoch, and its features are loaded once.

    Args:
        layout, seed, micro_batches: as above.
        pieces: number of sets that an epoch is cut into; the last mini-batch may have empty ones beside them.
    """

    def __init__(self, layout: Layout, *, pieces: int, seed: int, micro_batches: int) -> None:
        super().__init__(layout, seed=seed, micro_batches=micro_batches)
        self._pieces = pieces
        self._epoch: tuple[int, list[NDArray[np.int64]]] | None = None
        """The epoch asked for last and its sets."""

    def sets(self, epoch: int, batch: int) -> list[NDArray[np.int64]]:
        """The sets of a mini-batch: [G] int64 arrays of layout ids, ascending, until another epoch is asked for."""
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, self._cut(epoch)
        sets = self._epoch[1][batch * self._number : (batch + 1) * self._number]
        return [*sets, *[np.empty(0, np.int64)] * (self._number - len(sets))]

    @abstractmethod
    def _cut(self, epoch: int) -> list[NDArray[np.int64]]:
        """All sets of an epoch."""


class ShuffledPlan(CutPlan):
    """Sets that are a shuffle of all vertices, in runs that differ by one at most. Arguments: :class:`CutPlan`'s."""

    def __init__(self, layout: Layout, *, pieces: int, seed: int, micro_batches: int) -> None:
        super().__init__(layout, pieces=pieces, seed=seed, micro_batches=micro_batches)
        self._ids = np.ascontiguousarray(layout.permutation)
        self._order = np.empty(len(self._ids), np.int64)
        """The vertices of all sets: of every epoch, for fresh memory would take a tenth of the time."""

    def _cut(self, epoch: int) -> list[NDArray[np.int64]]:
        bounds = np.arange(self._pieces + 1) * len(self._ids) // self._pieces
        _core.shuffle_into_runs(self._ids, fold_key(self._seed, epoch, SETS), bounds, self._order)
        return [self._order[begin:end] for begin, end in itertools.pairwise(bounds)]


class ClusterPlan(CutPlan):
    """Sets of whole parts, which are shuffled. Arguments as :class:`CutPlan`'s."""

    def _cut(self, epoch: int) -> list[NDArray[np.int64]]:
        key, parts = fold_key(self._seed, epoch, SETS), self._layout.parts
        order = np.argsort(hashed(key, np.arange(parts, dtype=np.uint64)))
        offsets = self._layout.offsets
        return [
            np.concatenate([np.arange(offsets[part], offsets[part + 1]) for part in np.sort(some)])
            for some in np.array_split(order, self._pieces)
        ]


class SubgraphSampler(SetSampler):
    """Cuts the subgraph of a set out of the graph, and splits it; the set are the targets and the others.

    Args:
        layout, offsets, options: see :class:`~gsplit.sampling.sampler.SetSampler`.
        layers: number of layers.
        scaled: segments carry what an edge counts: (N - 1) / (S - 1) for a set of S out of N vertices.
    """

    def __init__(
        self, layout: Layout, offsets: NDArray[np.int64], *, layers: int, scaled: bool, **options: Any
    ) -> None:
        super().__init__(layout, offsets, **options)
        self._layers, self._scaled, self._all = layers, scaled, layout.graph.num_vertices

    def _keep(self, start: NDArray[np.int64], targets: int, about: tuple[int, int, int, int]) -> None:
        scale = scale_in_set(len(start), self._all) if self._scaled else None
        self._core.sample_subgraph(start, targets, self._layers, None, scale, *about, self._edge_ids)


@dataclass(frozen=True, kw_only=True)
class OfShuffle:
    """The part of a rule whose mini-batches are runs of each epoch's shuffle of all vertices."""

    subgraph: str
    """Vertices of a set: a number, or a share of all such as ``10%``."""
    layers: int
    """Number of layers."""
    scaled: bool = False
    """Let segments carry what an edge stands for. A mean over what is there has no need of it, but for loops where
    a set's edges are kept, theirs among them."""

    def pieces(self, layout: Layout) -> int:
        """Number of sets of an epoch."""
        n = layout.graph.num_vertices
        return max(1, -(-n // set_size(self.subgraph, n)))

    def num_batches(self, layout: Layout, *, batch_size: int, micro_batches: int = 1) -> int:
        """Number of mini-batches in which every vertex is in one set; they say nothing of ``batch_size``."""
        return -(-self.pieces(layout) // micro_batches)


@dataclass(frozen=True, kw_only=True)
class Uniform(OfShuffle):
    """Uniform vertex sampling: the subgraph of a random set, the same for all layers.

    ScaleGNN (arXiv 2604.02651, section 4): equations 20 to 24 with ``unbiased`` estimates; one shuffle an epoch in
    place of a permutation a step, so that a set is as random and every vertex is met once an epoch.
    """

    draws_targets: ClassVar[bool] = False

    def plan(
        self, layout: Layout, *, batch_size: int, seed: int, micro_batches: int = 1, fixed_shares: bool = False
    ) -> ShuffledPlan:
        """Runs of each epoch's shuffle of all vertices."""
        return ShuffledPlan(layout, pieces=self.pieces(layout), seed=seed, micro_batches=micro_batches)

    def sampler(self, layout: Layout, offsets: NDArray[np.int64], **options: Any) -> SubgraphSampler:
        """The sampler that cuts subgraphs out."""
        return SubgraphSampler(layout, offsets, layers=self.layers, scaled=self.scaled, **options)

    def scales(self, layout: Layout, vertices: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """What an edge from each vertex of a set counts."""
        if not self.scaled:
            return None
        return np.full(len(vertices), scale_in_set(len(vertices), layout.graph.num_vertices), np.float32)


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """Cluster-GCN: the subgraph of some whole parts of the layout, edges between them kept.

    Chiang et al., "Cluster-GCN: An Efficient Algorithm for Training Deep and Large Graph Convolutional Networks", KDD
    2019, section 3.2. The sets are those of the layout, so no other rule depends on the partition as this one does.
    """

    draws_targets: ClassVar[bool] = False
    clusters: int
    """Parts of a set, q."""
    layers: int
    """Number of layers."""

    def pieces(self, layout: Layout) -> int:
        """Number of sets of an epoch."""
        return max(1, -(-layout.parts // self.clusters))

    def num_batches(self, layout: Layout, *, batch_size: int, micro_batches: int = 1) -> int:
        """Number of mini-batches in which every part is in one set; they say nothing of ``batch_size``."""
        return -(-self.pieces(layout) // micro_batches)

    def plan(
        self, layout: Layout, *, batch_size: int, seed: int, micro_batches: int = 1, fixed_shares: bool = False
    ) -> ClusterPlan:
        """Runs of each epoch's shuffle of all parts."""
        return ClusterPlan(layout, pieces=self.pieces(layout), seed=seed, micro_batches=micro_batches)

    def sampler(self, layout: Layout, offsets: NDArray[np.int64], **options: Any) -> SubgraphSampler:
        """The sampler that cuts subgraphs out."""
        return SubgraphSampler(layout, offsets, layers=self.layers, scaled=False, **options)

    def scales(self, layout: Layout, vertices: NDArray[np.int64]) -> None:
        """Nothing: edges to other clusters are left out, and those that are kept count 1."""


@runtime_checkable
class OfSets(Protocol):
    """A rule whose mini-batches are sets of vertices with all edges between them."""

    draws_targets: ClassVar[bool]
    """Whether what an edge from a training vertex counts is what its loss counts, too."""

    def num_batches(self, layout: Layout, *, batch_size: int, micro_batches: int = 1) -> int:
        """Number of mini-batches of an epoch."""

    def plan(
        self, layout: Layout, *, batch_size: int, seed: int, micro_batches: int = 1, fixed_shares: bool = False
    ) -> SetPlan:
        """The sets of a run."""

    def scales(self, layout: Layout, vertices: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """Return what an edge from each vertex of a set counts, but for one to itself; None: 1 each.

        Args:
            layout: that the set is of.
            vertices: layout ids of the whole set.
        """


def scale_in_set(size: int, num_vertices: int) -> float:
    """What an edge inside a random set stands for: 1 over the chance that its source is there where its end is."""
    return (num_vertices - 1) / max(1, size - 1)


def set_size(subgraph: str, num_vertices: int) -> int:
    """Number of vertices that ``--subgraph`` means, of a graph of so many: ``10%`` or ``4096``, at least 1."""
    if subgraph.endswith("%"):
        return max(1, round(float(subgraph[:-1]) / 100 * num_vertices))
    return min(int(subgraph), max(1, num_vertices))
