"""What a model of several types computes from: the blocks of one split, and the input features of each type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import Layout
from gsplit.device import accelerator
from gsplit.engine.inputs import HOST, segment_counts, vertex_counts
from gsplit.engine.minibatch import MiniBatch, RowsLater
from gsplit.engine.typed.blocks import typed_blocks_of
from gsplit.engine.typed.trained import KeptRows, TypedTrainedRows
from gsplit.features import FeatureLoader, HostRows, LoadCounters
from gsplit.nn import BatchComm, TypedBlock
from gsplit.sampling import Segment
from gsplit.supply.ring import Handle


class TypedInputs(NamedTuple):
    """The arguments of a typed model's forward."""

    blocks: dict[int, TypedBlock]
    """Blocks of each layer, 1 .. L."""
    xs: list[Tensor]
    """[T] features of the own vertices of level 0, [n_t, D_t]; of a type that has none [n_t, 0]."""


class TypedSplitLoader:
    """Loads what belongs to a segment of several types: a loader of rows for each type that has features.

    Every vertex of level 0 is of one split and one type, so each row is loaded once, by its owner (law 3).

    Args:
        layout: that segments are of.
        device: where the tensors shall be.
        dtype: of the model's parameters.
        row_dtype: of the features that it is given; None: the same.
        weights: carry edge weights of the relations that have some. The segments must carry edge ids then.
        trained: rows of types whose features are trained, or were; None: of no type.
        normalize, threads: see :class:`gsplit.features.FeatureLoader`.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        dtype: torch.dtype,
        device: torch.device = HOST,
        row_dtype: torch.dtype | None = None,
        weights: bool = False,
        trained: TypedTrainedRows | KeptRows | None = None,
        normalize: bool = False,
        threads: int = 1,
    ) -> None:
        self.layout, self._graph, self._device, self._dtype = layout, layout.graph, device, dtype
        self._rows, self._trained = row_dtype or dtype, trained
        self.weights = weights and any(each.edge_weight is not None for each in self._graph.adjacencies)
        """Whether segments must carry edge ids."""
        self._loaders: Sequence[FeatureLoader | None] = [
            None
            if rows is None
            else FeatureLoader(HostRows(rows), device=device, dtype=self._rows, normalize=normalize, threads=threads)
            for rows in self._graph.features_by_type
        ]

    def mini_batch(
        self, segment: Segment, comm: BatchComm, handle: Handle, xs: Sequence[Tensor | RowsLater] | None = None
    ) -> MiniBatch:
        """Make this trainer's share of a mini-batch; rows that are trained are taken when it is computed.

        Args:
            segment: of this trainer.
            comm: of the mini-batch.
            handle: ticket of the mini-batch.
            xs: [T] features of the own vertices of level 0, or what gives them; None: they are loaded.
        """
        data = accelerator.moved(segment.data, self._device)
        if xs is None:
            xs = [self._now_or_later(number, segment.vertices_of(number)) for number in range(len(self._loaders))]
        loaded = self.take_counters_by_type()
        vertices = zip(self._graph.schema.type_names, segment.levels, strict=True)
        return MiniBatch(
            handle=handle,
            num_targets=segment.num_targets,
            comm=comm,
            blocks=self.blocks(segment, comm, data),
            x=tuple(xs),
            labels=self.labels(segment),
            loaded=sum(loaded.values(), LoadCounters()),
            counts=segment_counts(segment),
            counts_by_type={
                name: vertex_counts(sizes) | loaded.get(name, LoadCounters()).by_name() for name, sizes in vertices
            },
            targets=segment.targets.copy(),  # the segment's memory is another mini-batch's soon
            seconds={},
        )

    def _now_or_later(self, type_: int, vertices: NDArray[np.int64]) -> Tensor | RowsLater:
        """The features of some vertices of a type, or, where they are trained, what gives them as they are then."""
        trained = self._trained
        assert not isinstance(trained, KeptRows)
        own = None if trained is None else trained.of_vertices(type_, vertices, self._rows)
        return self._features(type_, vertices) if own is None else own

    def inputs(self, segment: Segment, comm: BatchComm | None = None) -> TypedInputs:
        """The blocks and the features of a segment; rows that are trained as they were published last.

        Args:
            segment: this trainer's, unsplit (one part) where ``comm`` is None.
            comm: of the mini-batch.

        Raises:
            ValueError: for a segment without edge ids where weights are carried.
        """
        xs = [self.features(number, segment.vertices_of(number)) for number in range(len(self._loaders))]
        return TypedInputs(self.blocks(segment, comm), xs)

    def features(self, type_: int, vertices: NDArray[np.int64]) -> Tensor:
        """The features of some vertices of a type, layout ids int64 [n]: [n, D_t], of a type that has none [n, 0]."""
        published = None if self._trained is None else self._trained.published(type_, vertices)
        if published is not None:
            return published.to(self._device, self._rows)
        return self._features(type_, vertices)

    def _features(self, type_: int, vertices: NDArray[np.int64]) -> Tensor:
        """The rows of a type that the graph has."""
        loader = self._loaders[type_]
        if loader is None:
            return torch.empty((len(vertices), 0), dtype=self._rows, device=self._device)
        return loader.load(vertices)

    def labels(self, segment: Segment) -> Tensor:
        """Labels of the split's own targets: int64 [n_L], or [n_L, C] where each vertex may have several."""
        return accelerator.moved(self._graph.labels[segment.targets], self._device)

    def take_counters(self) -> LoadCounters:
        """Return what was loaded since the last call, of all types."""
        return sum(self.take_counters_by_type().values(), LoadCounters())

    def take_counters_by_type(self) -> dict[str, LoadCounters]:
        """Return the same by name of the type; nothing of types without features."""
        named = zip(self._graph.schema.type_names, self._loaders, strict=True)
        return {name: loader.take_counters() for name, loader in named if loader is not None}

    def blocks(
        self, segment: Segment, comm: BatchComm | None = None, data: Tensor | None = None
    ) -> dict[int, TypedBlock]:
        """The blocks alone; ``data`` is the segment on the device. What else is asked and raised is as in inputs."""
        blocks = typed_blocks_of(segment, self._device, comm, data)
        if not self.weights:
            return blocks
        return {layer: self._weighted(block, segment, layer) for layer, block in blocks.items()}

    def _weighted(self, block: TypedBlock, segment: Segment, layer: int) -> TypedBlock:
        """The block with the weights of the drawn edges."""
        found = []
        for relation, (of_relation, edges) in enumerate(zip(block.blocks, self._graph.adjacencies, strict=True)):
            if edges.edge_weight is not None:
                ids = segment.edge_ids(layer, relation)
                if ids is None:
                    raise ValueError("the segment carries no edge ids, which the weights of its edges are found by")
                weight = np.asarray(edges.edge_weight[ids])
                of_relation = replace(of_relation, edge_weight=torch.from_numpy(weight).to(self._device, self._dtype))
            found.append(of_relation)
        return replace(block, blocks=tuple(found))
