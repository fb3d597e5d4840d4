"""Graph attention (Velickovic et al., ICLR 2018, section 2.1).

    e_uv = LeakyReLU(a_source . W h_u + a_destination . W h_v)         per head, for u in N(v) and u = v
    h_v' = b + sum over u of softmax_u(e_uv) W h_u                     heads concatenated or averaged

PyG's ``GATConv`` computes the same; DGL's does with the loops in its graph and ``loops=False`` here. Trainers
project their own rows, and the projections are what is sent, so that no row is projected twice.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from gsplit.nn.layered import Between, LayeredModel
from gsplit.nn.neighbourhood import Neighbourhood
from gsplit.nn.rowwise.dense import mapped


class GATConv(nn.Module):
    """One layer of GAT.

    Args:
        in_features: width of the sources.
        head_features: width of one head.
        heads: number of attention heads.
        average: average the heads (out = head_features) instead of concatenating them (out = heads x
            head_features).
        negative_slope: slope of the LeakyReLU below 0.
        attention_dropout: share of edges dropped, per head.
        loops: let every vertex attend to itself; False where the graph has such edges already.

    Examples:
        >>> GATConv(4, 2, heads=3)(block, torch.ones(3, 4)).shape  # the block of gsplit.nn.Block's example
        torch.Size([2, 6])
    """

    def __init__(
        self,
        in_features: int,
        head_features: int,
        *,
        heads: int = 1,
        average: bool = False,
        negative_slope: float = 0.2,
        attention_dropout: float = 0.0,
        loops: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.average, self.loops = heads, average, loops
        self.negative_slope = negative_slope
        self.lin = nn.Linear(in_features, heads * head_features, bias=False)
        self.att_source = nn.Parameter(torch.empty(heads, head_features))
        self.att_destination = nn.Parameter(torch.empty(heads, head_features))
        self.bias = nn.Parameter(torch.zeros(head_features if average else heads * head_features))
        self.dropout = nn.Dropout(attention_dropout)
        for weight in (self.lin.weight, self.att_source, self.att_destination):
            nn.init.xavier_uniform_(weight)

    def forward(self, block: Neighbourhood, x: Tensor) -> Tensor:
        """Rows of the destinations [num_destinations, out] for rows of the own sources [num_own_sources, in]."""
        out_NHD = block.attend(
            mapped(x, self.lin).unflatten(1, (self.heads, -1)),
            self.att_source,
            self.att_destination,
            negative_slope=self.negative_slope,
            dropout=self.dropout,
            loops=self.loops,
        )
        out = out_NHD.mean(dim=1) if self.average else out_NHD.flatten(1)
        return (out + self.bias).to(out.dtype)


class GAT(LayeredModel):
    """Layers of :class:`GATConv` with ELU and dropout between them.

    Args:
        hidden: width of the hidden layers, all heads together.
        heads: heads of the hidden layers, concatenated.
        out_heads: heads of the last layer, averaged.
        negative_slope, attention_dropout, loops: arguments of :class:`GATConv`.
        in_features, out_features, num_layers, between: arguments of :class:`LayeredModel`.

    Raises:
        ValueError: where ``heads`` does not divide ``hidden``.

    Examples:
        >>> model = GAT(100, 16, 47, num_layers=2, heads=4)  # as gsplit train --model gat --hidden 16 makes it
        >>> model.num_layers
        2
    """

    activation = staticmethod(F.elu)

    def __init__(
        self,
        in_features: int,
        hidden: int,
        out_features: int,
        *,
        num_layers: int,
        heads: int = 4,
        out_heads: int = 1,
        negative_slope: float = 0.2,
        attention_dropout: float = 0.0,
        loops: bool = True,
        **between: Unpack[Between],
    ) -> None:
        if hidden % heads:
            raise ValueError(f"{heads} heads do not divide the hidden width {hidden}")

        def conv(layer: int, w_in: int, w_out: int) -> GATConv:
            last = layer == num_layers
            return GATConv(
                w_in,
                w_out if last else w_out // heads,
                heads=out_heads if last else heads,
                average=last,
                negative_slope=negative_slope,
                attention_dropout=attention_dropout,
                loops=loops,
            )

        super().__init__(in_features, hidden, out_features, conv, num_layers=num_layers, **between)
        self.loops = loops
        """Whether every vertex attends to itself."""
