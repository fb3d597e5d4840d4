"""GraphSAGE with mean aggregation (Hamilton, Ying, Leskovec, NeurIPS 2017, algorithm 1).

    h_v' = W_self h_v + b + W_neigh mean(h_u for u in N(v))

PyG's ``SAGEConv`` and DGL's ``SAGEConv("mean")`` compute the same. As W_neigh and the mean commute, whichever
comes first is chosen to make the rows narrow that are exchanged and averaged: where the layer has more inputs
than outputs, the trainers project their own rows first and exchange the projections.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gsplit.nn.block import Block


def mean_of_neighbours(block: Block, x: Tensor) -> Tensor:
    """Mean over the in-edges of each destination; zero where there are none.

    A fused sparse-dense product: no tensor of edges x features is made.

    Args:
        block: of the layer.
        x: [num_sources, D], after the exchange.

    Returns:
        [num_destinations, D].
    """
    if block.num_edges == 0:
        return x[:0].sum(dim=0).expand(block.num_destinations, -1)  # zeros that keep x in the graph
    return F.embedding_bag(block.indices, x, block.indptr, mode="mean", include_last_offset=True)


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


class SAGE(nn.Module):
    """Layers of :class:`SAGEConv` with ReLU and dropout between them.

    Args:
        in_features: width of the features.
        hidden: width of the hidden layers.
        out_features: classes.
        num_layers: at least 1.
        dropout: on the hidden vectors.
        input_dropout: on the features.
    """

    def __init__(
        self,
        in_features: int,
        hidden: int,
        out_features: int,
        *,
        num_layers: int,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.level_widths = [in_features, *[hidden] * (num_layers - 1), out_features]
        """[L + 1] width of the vectors of each level."""
        self.convs = nn.ModuleList(
            SAGEConv(w_in, w_out) for w_in, w_out in zip(self.level_widths[:-1], self.level_widths[1:], strict=True)
        )
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)

    @property
    def num_layers(self) -> int:
        return len(self.convs)

    def forward(self, blocks: dict[int, Block], x: Tensor) -> Tensor:
        """Features of the inputs [n_0, in] -> logits of the targets [n_L, out]."""
        for layer in range(1, self.num_layers + 1):
            x = self.forward_layer(layer, blocks[layer], x)
        return x

    def forward_layer(self, layer: int, block: Block, x: Tensor) -> Tensor:
        """Level layer-1 -> level ``layer``; the seam that exact evaluation uses."""
        if layer == 1:
            x = self.input_dropout(x)
        x = self.convs[layer - 1](block, x)
        return x if layer == self.num_layers else self.dropout(torch.relu(x))
