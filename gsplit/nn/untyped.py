"""GraphSAGE that is blind to relations: the untyped baseline on a graph of several types.

    h_v' = W_self h_v + b + W_neigh mean(h_u for u in the union of N_r(v) over all relations r into v's type)

It is :class:`~gsplit.nn.SAGE` on the graph without types: all edges count alike, whatever their relation, and all
vertices have the same two matrices. So is PyG's ``SAGEConv`` on ``HeteroData.to_homogeneous()``. Types are left where
rows would not fit otherwise: the input projection, and the norms and skips between layers, are of each type's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from gsplit.nn.layered import Between
from gsplit.nn.relational import travels_projected
from gsplit.nn.typed_block import TypedNeighbourhood
from gsplit.nn.typed_layered import LayerEnds, TypedLayeredModel
from gsplit.sampling.reach import Reach


class UntypedSAGEConv(nn.Module):
    """One layer of GraphSAGE over all in-edges, whatever their relation.

    Args:
        in_features: width of the sources of each type of the level below, by its number; it must be one.
        out_features: width of the destinations.
        types: numbers of the destinations' types.
        relations: the source and destination type of each relation of the layer, by its number.
        on_features: the sources are features as they were loaded, whose gradients nobody wants.

    Raises:
        ValueError: for sources of several widths.

    Examples:
        >>> sizes = {"num_own_sources": (3,), "num_destinations": (2,)}  # of one type; gsplit.nn.Block's example
        >>> typed = TypedBlock(ends=((0, 0),), **sizes, blocks=(block,), routes=None, comm=None)
        >>> conv = UntypedSAGEConv({0: 4}, 2, types=[0], relations={0: (0, 0)})
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
        on_features: bool = False,
    ) -> None:
        super().__init__()
        if len(widths := set(in_features.values())) > 1:
            raise ValueError(
                f"one matrix for all types needs features of one width, and they have {sorted(widths)}; use an input "
                "projection"
            )
        width = widths.pop()
        self.sources, self.types, self.relations = tuple(in_features), tuple(types), dict(relations)
        self.out_features = out_features
        self.projects_first = travels_projected(width, out_features, ways=1 if on_features else 2)
        self.lin_self = nn.Linear(width, out_features)
        self.lin_neigh = nn.Linear(width, out_features, bias=False)

    def forward(self, block: TypedNeighbourhood, xs: Sequence[Tensor]) -> list[Tensor]:
        """Rows of the destinations by type for rows of the own sources by type.

        Args:
            block: of the layer.
            xs: [T][num_own_sources, in].

        Returns:
            [T][num_destinations, out]; of types that the layer has not [0, out].
        """
        rows, projects_first = list(xs), self.projects_first and block.exchanges
        for type_ in self.sources if projects_first else ():
            rows[type_] = self.lin_neigh(xs[type_])
        sources = block.exchange(rows)
        out = [xs[0].new_empty((0, self.out_features)) for _ in xs]
        for type_ in self.types:
            out[type_] = self.lin_self(xs[type_][: block.num_destinations[type_]])
            into = {r: source for r, (source, destination) in self.relations.items() if destination == type_}
            if not into:
                continue
            sums = reduce(torch.add, [block.relation(r).sum(sources[source]) for r, source in into.items()])
            number = reduce(torch.add, [block.relation(r).in_degrees() for r in into])
            mean = sums / number.clamp(min=1).to(sums.dtype).unsqueeze(1)
            out[type_] = out[type_] + (mean if projects_first else self.lin_neigh(mean))
        return out


class UntypedSAGE(TypedLayeredModel):
    """Layers of :class:`UntypedSAGEConv` with ReLU and dropout between them.

    Args:
        in_features: [T] width of the features of each type.
        hidden: width of the hidden layers.
        out_features: width of the output, the number of classes.
        reach: the types of each level and the relations of each layer.
        between: as those of :class:`gsplit.nn.LayeredModel`.

    Raises:
        ValueError: for features of several widths without an input projection.

    Examples:
        >>> reach = gsplit.sampling.reach_of([(1, 0), (0, 1)], [[5, 5], [5, 5]], target=0)  # both ways
        >>> model = UntypedSAGE([128, 0], 64, 349, reach)
        >>> model.convs[1].lin_neigh
        Linear(in_features=64, out_features=349, bias=False)
    """

    def __init__(
        self, in_features: Sequence[int], hidden: int, out_features: int, reach: Reach, **between: Unpack[Between]
    ) -> None:
        def conv(_: int, ends: LayerEnds) -> UntypedSAGEConv:
            return UntypedSAGEConv(**ends)

        super().__init__(in_features, hidden, out_features, conv, reach, **between)
