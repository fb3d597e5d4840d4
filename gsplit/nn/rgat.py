"""Relational GAT: graph attention inside each relation, summed over the relations (Busbridge et al., 2019, WIRGAT).

    e_uv = LeakyReLU(a_source . W_r h_u + a_destination . W_r h_v)      per head, for u in N_r(v), each r its own a
    h_v' = W_t h_v + b_t + sum over relations r into t of sum over u of softmax_u(e_uv) W_r h_u         v of type t

Heads are concatenated, or averaged in the last layer. Where the two types of a relation have several widths, h_v has
a matrix of its own in e_uv. DGL's ``HeteroGraphConv`` and PyG's ``HeteroConv`` of ``GATConv`` compute the same sums
over relations, with a bias of each; MLPerf trains such a model on IGBH. The self term is ours: without it a vertex
without in-edges would lose its row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack, override

from gsplit.kernels import computed_in
from gsplit.nn.block import Block
from gsplit.nn.layered import Between
from gsplit.nn.relational import RelationalConv
from gsplit.nn.rowwise.products import without_autocast
from gsplit.nn.typed_layered import LayerEnds, TypedLayeredModel
from gsplit.sampling.reach import Reach


class RGATConv(RelationalConv):
    """One layer of relational GAT.

    Args:
        in_features: width of the sources of each type of the level below, by its number.
        out_features: width of the destinations.
        types: numbers of the destinations' types.
        relations: the source and destination type of each relation of the layer, by its number.
        heads: number of attention heads of each relation.
        average: average the heads (each as wide as the output) instead of concatenating them.
        negative_slope: slope of the LeakyReLU below 0.
        attention_dropout: share of edges dropped, per head.
        on_features: the sources are features as they were loaded, whose gradients nobody wants.

    Raises:
        ValueError: where ``heads`` that are concatenated do not divide ``out_features``.

    Examples:
        >>> sizes = {"num_own_sources": (3,), "num_destinations": (2,)}  # of one type; gsplit.nn.Block's example
        >>> typed = TypedBlock(ends=((0, 0),), **sizes, blocks=(block,), routes=None, comm=None)
        >>> conv = RGATConv({0: 4}, 6, types=[0], relations={0: (0, 0)}, heads=3)
        >>> [rows.shape for rows in conv(typed, [torch.ones(3, 4)])]
        [torch.Size([2, 6])]
    """

    def __init__(
        self,
        in_features: Mapping[int, int],
        out_features: int,
        types: Sequence[int],
        relations: Mapping[int, tuple[int, int]],
        *,
        heads: int = 1,
        average: bool = False,
        negative_slope: float = 0.2,
        attention_dropout: float = 0.0,
        on_features: bool = False,
    ) -> None:
        if not average and out_features % heads:
            raise ValueError(f"{heads} heads do not divide the width {out_features}")
        head_features = out_features if average else out_features // heads
        wide, ways = heads * head_features, 1 if on_features else 2
        # Rows that travel projected are projected by their owner alone, so that wins where bytes are equal.
        super().__init__(in_features, out_features, types, relations, projected_features=wide, ways=ways, ties=True)
        self.heads, self.average, self.negative_slope = heads, average, negative_slope
        self.lin_relation = nn.ModuleDict(
            {str(r): nn.Linear(in_features[source], wide, bias=False) for r, (source, _) in relations.items()}
        )
        self.lin_destination = nn.ModuleDict(
            {
                str(r): nn.Linear(in_features[destination], wide, bias=False)
                for r, (source, destination) in relations.items()
                if in_features[source] != in_features[destination]
            }
        )
        self.att_source, self.att_destination = (
            nn.ParameterDict({str(r): nn.Parameter(torch.empty(heads, head_features)) for r in relations})
            for _ in range(2)
        )
        self.dropout = nn.Dropout(attention_dropout)
        for of_relations in (self.lin_relation, self.lin_destination, self.att_source, self.att_destination):
            for weight in of_relations.parameters():
                nn.init.xavier_uniform_(weight)

    @override
    def weights(self) -> dict[int, Tensor]:
        """The matrix of each relation, [heads x features of a head, in], by its number."""
        return {r: self.lin_relation[str(r)].get_parameter("weight") for r in self.relations}

    @override
    def term(
        self, relation: int, of_relation: Block, rows: Tensor, weight: Tensor, own: Tensor, *, is_projected: bool
    ) -> Tensor:
        """The attention over the in-edges."""
        name = str(relation)
        z_SF = rows if is_projected else F.linear(rows, weight)
        if name in self.lin_destination:
            weight = self.lin_destination[name].get_parameter("weight")
        out_NHD = of_relation.attend(
            z_SF.unflatten(1, (self.heads, -1)),
            self.att_source[name],
            None,
            negative_slope=self.negative_slope,
            dropout=self.dropout,
            loops=False,
            of_destinations=_scores(own, weight, self.att_destination[name]),
        )
        return out_NHD.mean(dim=1) if self.average else out_NHD.flatten(1)


def _scores(x: Tensor, weight: Tensor, att: Tensor) -> Tensor:
    """``att_h . (W x_v)_h`` of each row and head, [n, heads]: no row is made as wide as all heads together."""
    with without_autocast(x.device):
        by_head = torch.einsum("hd,hdi->hi", att, weight.unflatten(0, att.shape))
        return F.linear(x.to(computed_in(x.dtype)), by_head)


class RGAT(TypedLayeredModel):
    """Layers of :class:`RGATConv` with ELU and dropout between them.

    Args:
        in_features: [T] width of the features of each type.
        hidden: width of the hidden layers, all heads together.
        out_features: width of the output, the number of classes.
        reach: the types of each level and the relations of each layer.
        heads: heads of the hidden layers, concatenated.
        out_heads: heads of the last layer, averaged.
        negative_slope, attention_dropout: of each layer, see :class:`RGATConv`.
        between: as those of :class:`gsplit.nn.LayeredModel`.

    Raises:
        ValueError: where ``heads`` does not divide ``hidden``.

    Examples:
        >>> reach = gsplit.sampling.reach_of([(1, 0), (0, 1)], [[5, 5], [5, 5]], target=0)  # both ways
        >>> model = RGAT([128, 0], 64, 349, reach, heads=8)
        >>> model.num_layers, model.level_widths
        (2, [128, 64, 349])
    """

    activation = staticmethod(F.elu)

    def __init__(
        self,
        in_features: Sequence[int],
        hidden: int,
        out_features: int,
        reach: Reach,
        *,
        heads: int = 4,
        out_heads: int = 1,
        negative_slope: float = 0.2,
        attention_dropout: float = 0.0,
        **between: Unpack[Between],
    ) -> None:
        if hidden % heads:
            raise ValueError(f"{heads} heads do not divide the hidden width {hidden}")

        def conv(layer: int, ends: LayerEnds) -> RGATConv:
            last = layer == reach.num_layers
            return RGATConv(
                **ends,
                heads=out_heads if last else heads,
                average=last,
                negative_slope=negative_slope,
                attention_dropout=attention_dropout,
            )

        super().__init__(in_features, hidden, out_features, conv, reach, **between)
