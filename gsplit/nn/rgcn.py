"""R-GCN: a mean and a weight for each relation (Schlichtkrull et al., ESWC 2018, equations 2 and 3).

    h_v' = W_t h_v + b_t + sum over relations r into t of W_r mean(h_u for u in N_r(v))       v of type t

With bases W_r = sum over b of a_rb V_b. DGL's ``HeteroGraphConv`` of ``GraphConv`` and PyG's ``HeteroConv`` of
``SAGEConv`` compute the same, but for weights of their own of each term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import Unpack

from gsplit.nn.layered import Between
from gsplit.nn.typed_block import TypedNeighbourhood
from gsplit.nn.typed_layered import TypedLayeredModel
from gsplit.sampling.reach import Reach


class RGCNConv(nn.Module):
    """One layer of R-GCN.

    Args:
        in_features: width of the sources of each type of the level below, by its number.
        out_features: width of the destinations.
        types: numbers of the destinations' types.
        relations: the source and destination type of each relation of the layer, by its number.
        bases: matrices that those of all relations are sums of; None: each relation has its own.
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
        on_features: bool = False,
    ) -> None:
        super().__init__()
        self.out_features, self.relations = out_features, dict(relations)
        self.projected = _projected_first(in_features, out_features, self.relations, 1 if on_features else 2)
        self.lin_self = nn.ModuleDict({str(t): nn.Linear(in_features[t], out_features) for t in types})
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

    def weights(self) -> dict[int, Tensor]:
        """The matrix of each relation, [out, in], by its number."""
        if self.bases is None or self.coefficients is None:
            return {r: self.lin_relation[str(r)].get_parameter("weight") for r in self.relations}
        matrices = torch.einsum("rb,boi->roi", self.coefficients, self.bases)
        return dict(zip(self.relations, matrices.unbind(), strict=True))

    def forward(self, block: TypedNeighbourhood, xs: Sequence[Tensor]) -> list[Tensor]:
        """Rows of the destinations by type for rows of the own sources by type.

        Args:
            block: of the layer.
            xs: [T][num_own_sources, in].

        Returns:
            [T][num_destinations, out]; of types that the layer has not [0, out].
        """
        weights, rows = self.weights(), list(xs)
        for type_, relations in self.projected.items():
            rows[type_] = functional.linear(xs[type_], torch.cat([weights[r] for r in relations]))
        sources = block.exchange(rows)
        out = [xs[0].new_empty((0, self.out_features)) for _ in xs]
        for name, linear in self.lin_self.items():
            type_ = int(name)
            out[type_] = linear(xs[type_][: block.num_destinations[type_]])
        for relation, (source, destination) in self.relations.items():
            of_relation = block.relation(relation)
            if source in self.projected:
                at = self.projected[source].index(relation) * self.out_features
                mean = of_relation.mean(sources[source][:, at : at + self.out_features].contiguous())
            elif weights[relation].shape[0] < weights[relation].shape[1]:
                mean = of_relation.mean(functional.linear(sources[source], weights[relation]))
            else:
                mean = functional.linear(of_relation.mean(sources[source]), weights[relation])
            out[destination] = out[destination] + mean
        return out


def _projected_first(
    in_features: Mapping[int, int], out_features: int, relations: Mapping[int, tuple[int, int]], ways: int
) -> dict[int, list[int]]:
    """Return the types whose rows travel projected by all relations out of them, with these: it is narrower.

    Projected rows travel two ways, for their gradients come back; rows as they are ``ways``.
    """
    out_of: dict[int, list[int]] = {}
    for relation, (source, _) in relations.items():
        out_of.setdefault(source, []).append(relation)
    return {s: each for s, each in out_of.items() if 2 * len(each) * out_features < ways * in_features[s]}


class RGCN(TypedLayeredModel):
    """Layers of :class:`RGCNConv` with ReLU and dropout between them.

    Args:
        in_features: [T] width of the features of each type.
        hidden: width of the hidden layers.
        out_features: width of the output, the number of classes.
        reach: the types of each level and the relations of each layer.
        bases: of each layer, see :class:`RGCNConv`.
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
        **between: Unpack[Between],
    ) -> None:
        def conv(layer: int, widths: Mapping[int, int], out: int) -> RGCNConv:
            relations = {r: reach.ends[r] for r in reach.relations[layer]}
            features = layer == 1 and not between.get("input_projection", True)
            return RGCNConv(widths, out, reach.types[layer], relations, bases=bases, on_features=features)

        super().__init__(in_features, hidden, out_features, conv, reach, **between)
