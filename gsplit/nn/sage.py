"""GraphSAGE with mean aggregation (Hamilton, Ying, Leskovec, NeurIPS 2017, algorithm 1).

    h_v' = W_self h_v + b + W_neigh mean(h_u for u in N(v))

PyG's ``SAGEConv`` and DGL's ``SAGEConv("mean")`` compute the same. As W_neigh and the mean commute, whichever
comes first is chosen to make the rows narrow that are exchanged and averaged: where the layer has more inputs
than outputs, the trainers project their own rows first and exchange the projections.
"""

from __future__ import annotations

from torch import Tensor, nn
from typing_extensions import Unpack

from gsplit.nn.aggregate import mean_of_neighbours
from gsplit.nn.block import Block
from gsplit.nn.layered import Between, LayeredModel


class SAGEConv(nn.Module):
    """One layer; own level-(l-1) rows [num_own_sources, in] -> own level-l rows [num_destinations, out]."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.lin_self = nn.Linear(in_features, out_features)
        self.lin_neigh = nn.Linear(in_features, out_features, bias=False)

    def forward(self, block: Block, x: Tensor) -> Tensor:
        own = x[: block.num_destinations]
        if self.lin_neigh.in_features > self.lin_neigh.out_features:
            neighbours = mean_of_neighbours(block, block.exchange(self.lin_neigh(x)))
        else:
            neighbours = self.lin_neigh(mean_of_neighbours(block, block.exchange(x)))
        return self.lin_self(own) + neighbours


class SAGE(LayeredModel):
    """Layers of :class:`SAGEConv` with ReLU and dropout between them; arguments as :class:`LayeredModel`'s."""

    def __init__(
        self, in_features: int, hidden: int, out_features: int, *, num_layers: int, **between: Unpack[Between]
    ) -> None:
        super().__init__(
            in_features, hidden, out_features, lambda _, *widths: SAGEConv(*widths), num_layers=num_layers, **between
        )
