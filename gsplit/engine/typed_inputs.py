"""What a model of several types computes from: the blocks of one split, and the input features of each type."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gsplit.data import GraphArrays
from gsplit.engine.typed_blocks import typed_blocks_of
from gsplit.features import FeatureLoader, HostRows, LoadCounters
from gsplit.nn import BatchComm, TypedBlock
from gsplit.sampling import Segment


class TypedInputs(NamedTuple):
    """The arguments of a typed model's forward."""

    blocks: dict[int, TypedBlock]
    """Blocks of each layer, 1 .. L."""
    xs: list[Tensor | None]
    """[T] features of the own vertices of level 0, [n_t, D_t]; None of a type that has none."""


class TypedSplitLoader:
    """Loads what belongs to a segment of several types: a loader of rows for each type that has features.

    Every vertex of level 0 is of one split and one type, so each row is loaded once, by its owner (law 3).

    Args:
        graph: of the layout.
        device: where the tensors shall be.
        dtype: of the model's parameters.
        row_dtype: of the features that it is given; None: the same.
        weights: carry edge weights of the relations that have some. The segments must carry edge ids then.
        normalize, threads: see :class:`gsplit.features.FeatureLoader`.
    """

    def __init__(
        self,
        graph: GraphArrays,
        *,
        device: torch.device,
        dtype: torch.dtype,
        row_dtype: torch.dtype | None = None,
        weights: bool = False,
        normalize: bool = False,
        threads: int = 1,
    ) -> None:
        self._graph, self._device, self._dtype = graph, device, dtype
        self._weights = weights and any(each.edge_weight is not None for each in graph.adjacencies)
        self._loaders = [
            None
            if rows is None
            else FeatureLoader(
                HostRows(rows), device=device, dtype=row_dtype or dtype, normalize=normalize, threads=threads
            )
            for rows in graph.features_by_type
        ]

    def load(self, segment: Segment, comm: BatchComm | None = None) -> TypedInputs:
        """Load the blocks and the features of a segment.

        Args:
            segment: this trainer's, unsplit (one part) where ``comm`` is None.
            comm: of the mini-batch.

        Raises:
            ValueError: for a segment without edge ids where weights are carried.
        """
        xs = [
            None if loader is None else loader.load(segment.vertices_of(number))
            for number, loader in enumerate(self._loaders)
        ]
        return TypedInputs(self.blocks(segment, comm), xs)

    def blocks(self, segment: Segment, comm: BatchComm | None = None) -> dict[int, TypedBlock]:
        """The blocks alone; arguments and what is raised as :meth:`load`'s."""
        blocks = typed_blocks_of(segment, self._device, comm)
        if self._weights:
            blocks = {layer: self._weighted(block, segment, layer) for layer, block in blocks.items()}
        return blocks

    def take_counters(self) -> dict[str, LoadCounters]:
        """Return what was loaded since the last call, by name of the type; nothing of types without features."""
        named = zip(self._graph.schema.type_names, self._loaders, strict=True)
        return {name: loader.take_counters() for name, loader in named if loader is not None}

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
