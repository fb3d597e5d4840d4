"""R-GCN: a mean and a weight for each relation (Schlichtkrull et al., ESWC 2018, equations 2 and 3).

    h_v' = W_t h_v + b_t + sum over relations r into t of W_r mean(h_u for u in N_r(v))       v of type t

With bases W_r = sum over b of a_rb V_b. DGL's ``HeteroGraphConv`` of ``GraphConv`` and PyG's ``HeteroConv`` of
``SAGEConv`` compute the same, but for weights of their own of each term. With edge weights the mean is that of
w_uv h_u, divided by the number of in-edges and not by their weights: so do DGL's ``GraphConv(norm="right")`` and
PyG's ``GraphConv(aggr="mean")``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import Unpack, override

from gsplit.nn.block import Block
from gsplit.nn.layered import Between
from gsplit.nn.relational import RelationalConv
from gsplit.nn.typed_layered import LayerEnds, TypedLayeredModel
from gsplit.sampling.reach import Reach

A_SUM = 8
"""Multiplications of a product that take as long as one number of a row that is added."""


class RGCNConv(RelationalConv):
    """One layer of R-GCN.

    Args:
        in_features: width of the sources of each type of the level below, by its number.
        out_features: width of the destinations.
        types: numbers of the destinations' types.
        relations: the source and destination type of each relation of the layer, by its number.
        bases: matrices that those of all relations are sums of; None: each relation has its own.
        edge_weights: multiply rows by the edge weights, where a relation's block carries any.
        on_features: the sources are features as they were loaded, whose gradients nobody wants.

    Raises:
        ValueError: for bases where sources have several widths, or fewer than one.

    Examples:
        >>> sizes = {"num_own_sources": (3,), "num_destinations": (2,)}  # of one type; gsplit.nn.Block's example
        >>> typed = TypedBlock(ends=((0, 0),), **sizes, blocks=(block,), routes=None, comm=None)
        >>> conv = RGCNConv({0: 4}, 2, types=[0], relations={0: (0, 0)})
        >>> [rows.shape for rows in conv(typed, [torch.ones(3, 4)])]
        [torch.Size([2, 2])]
    """

    def __init__(
        self,
        in_features: Mapping[int, int],
        out_features: int,
        types: Sequence[int],
        relations: Mapping[int, tuple[int, int]],
        *,
        bases: int | None = None,
        edge_weights: bool = False,
        on_features: bool = False,
    ) -> None:
        ways = 1 if on_features else 2
        super().__init__(in_features, out_features, types, relations, projected_features=out_features, ways=ways)
        self.edge_weights = edge_weights
        widths = {in_features[source] for source, _ in relations.values()}
        if bases is not None and bases < 1:
            raise ValueError(f"there must be at least 1 basis, not {bases}")
        if bases is not None and len(widths) > 1:
            raise ValueError(
                f"bases need sources of one width, and the types have {sorted(widths)}; use an input projection"
            )
        if bases is None or not relations:
            self.bases = self.coefficients = None
            linear = {str(r): nn.Linear(in_features[s], out_features, bias=False) for r, (s, _) in relations.items()}
            self.lin_relation = nn.ModuleDict(linear)
        else:
            self.lin_relation = nn.ModuleDict()
            self.bases = nn.Parameter(torch.empty(bases, out_features, widths.pop()))
            self.coefficients = nn.Parameter(torch.empty(len(relations), bases))
            nn.init.xavier_uniform_(self.bases)
            nn.init.xavier_uniform_(self.coefficients)

    @override
    def weights(self) -> dict[int, Tensor]:
        """The matrix of each relation, [out, in], by its number."""
        if self.bases is None or self.coefficients is None:
            return {r: self.lin_relation[str(r)].get_parameter("weight") for r in self.relations}
        matrices = torch.einsum("rb,boi->roi", self.coefficients, self.bases)
        return dict(zip(self.relations, matrices.unbind(), strict=True))

    @override
    def term(
        self, relation: int, of_relation: Block, rows: Tensor, weight: Tensor, own: Tensor, *, is_projected: bool
    ) -> Tensor:
        """The mean over the in-edges, projected: each source before it, or each mean, whichever is quicker."""
        wide_out, wide_in = weight.shape
        summed = len(of_relation.indices) * (wide_in - wide_out)
        multiplied = (len(rows) - of_relation.num_destinations) * wide_in * wide_out
        before = is_projected or summed * A_SUM > multiplied
        if before and not is_projected:
            rows = functional.linear(rows, weight)
        mean = of_relation.mean(rows, weighted=self.edge_weights)
        return mean if before else functional.linear(mean, weight)


class RGCN(TypedLayeredModel):
    """Layers of :class:`RGCNConv` with ReLU and dropout between them.

    Args:
        in_features: [T] width of the features of each type.
        hidden: width of the hidden layers.
        out_features: width of the output, the number of classes.
        reach: the types of each level and the relations of each layer.
        bases, edge_weights: of each layer, see :class:`RGCNConv`.
        between: as those of :class:`gsplit.nn.LayeredModel`.

    Examples:
        >>> reach = gsplit.sampling.reach_of([(1, 0), (0, 1)], [[5, 5], [5, 5]], target=0)  # both ways
        >>> model = RGCN([128, 0], 64, 349, reach, bases=2, input_projection=True)
        >>> model.num_layers, sorted(model.projection)
        (2, ['0', '1'])
    """

    def __init__(
        self,
        in_features: Sequence[int],
        hidden: int,
        out_features: int,
        reach: Reach,
        *,
        bases: int | None = None,
        edge_weights: bool = False,
        **between: Unpack[Between],
    ) -> None:
        def conv(_: int, ends: LayerEnds) -> RGCNConv:
            return RGCNConv(**ends, bases=bases, edge_weights=edge_weights)

        super().__init__(in_features, hidden, out_features, conv, reach, **between)
        self.uses_edge_weight = edge_weights
