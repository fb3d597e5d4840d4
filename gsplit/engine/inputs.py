"""What a model computes from: the blocks and the input features of one split."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gsplit.data import Layout
from gsplit.features import EdgeLoader, FeatureLoader
from gsplit.nn import Block, Chain, blocks_of
from gsplit.sampling import Segment


class Inputs(NamedTuple):
    """The arguments of a model's forward."""

    blocks: dict[int, Block]
    """Block of each layer, 1 .. L."""
    x: Tensor
    """[n_0, D] features of the own vertices of level 0."""


class SplitLoader:
    """Loads what belongs to a segment; training, evaluation, predictions and the check of models all use it.

    Args:
        layout: that segments are of.
        device: where the tensors shall be.
        features: loader of feature rows; nobody else may use it, for it counts what it loads.
        edges: loader of edge weights and degrees.
    """

    def __init__(self, layout: Layout, device: torch.device, features: FeatureLoader, edges: EdgeLoader) -> None:
        self.layout, self.device, self.features, self.edges = layout, device, features, edges

    def inputs(self, segment: Segment, chain: Chain | None) -> Inputs:
        """Blocks and features of a split.

        Args:
            segment: of this trainer.
            chain: of the mini-batch; None where the segment is not split.
        """
        return Inputs(self.blocks(segment, chain), self.features.load(segment.vertices))

    def blocks(self, segment: Segment, chain: Chain | None) -> dict[int, Block]:
        """The blocks alone, where the rows do not come from the features."""
        return blocks_of(segment, self.device, chain, **self.edges.load(segment))

    def whole_blocks(self, segment: Segment) -> dict[int, Block]:
        """Blocks of all neighbours, not split, which answer out-degrees with those of the whole graph."""

        def out_degrees() -> Tensor:
            return self.edges.out_degrees(segment.vertices)

        return blocks_of(segment, self.device, None, **self.edges.load(segment), whole_out_degrees=out_degrees)

    def labels(self, segment: Segment) -> Tensor:
        """Labels of the split's own targets: int64 [n_L], or [n_L, C] where each vertex may have several."""
        return torch.from_numpy(self.layout.graph.labels[segment.targets]).to(self.device, non_blocking=True)
