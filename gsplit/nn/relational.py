"""Layers over several types of vertices with weights of their own for each relation.

    h_v' = W_t h_v + b_t + sum over relations r into t of term_r(h_u W_r' for u in N_r(v))      v of type t

What the term of a relation is, a mean or attention, is the business of the convolution.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from gsplit.nn.block import Block
from gsplit.nn.typed_block import TypedNeighbourhood


class RelationalConv(nn.Module, ABC):
    """What the layers of R-GCN and of relational GAT share: self terms, what travels, the sum over relations.

    Args:
        in_features: width of the sources of each type of the level below, by its number.
        out_features: width of the destinations.
        types: numbers of the destinations' types.
        relations: the source and destination type of each relation of the layer, by its number.
        projected_features: width of a source's row that a relation has projected.
        ways: how often a row that is not projected travels: 1, or 2 where its gradient comes back.
        ties: where rows are as wide in sum either way, let them travel projected.

    Examples:
        >>> isinstance(RGCNConv({0: 4}, 2, types=[0], relations={0: (0, 0)}), RelationalConv)
        True
    """

    def __init__(
        self,
        in_features: Mapping[int, int],
        out_features: int,
        types: Sequence[int],
        relations: Mapping[int, tuple[int, int]],
        *,
        projected_features: int,
        ways: int,
        ties: bool = False,
    ) -> None:
        super().__init__()
        self.out_features, self.relations = out_features, dict(relations)
        self.projected_features = projected_features
        out_of: dict[int, list[int]] = {}
        for relation, (source, _) in relations.items():
            out_of.setdefault(source, []).append(relation)
        self.projected = {
            source: each
            for source, each in out_of.items()
            if travels_projected(in_features[source], len(each) * projected_features, ways=ways, ties=ties)
        }
        """Types whose rows travel projected by all relations out of them, and these relations."""
        self.lin_self = nn.ModuleDict({str(t): nn.Linear(in_features[t], out_features) for t in types})

    @abstractmethod
    def weights(self) -> Mapping[int, Tensor]:
        """The matrix of each relation, [projected_features, in], by its number."""

    @abstractmethod
    def term(
        self, relation: int, of_relation: Block, rows: Tensor, weight: Tensor, own: Tensor, *, is_projected: bool
    ) -> Tensor:
        """What a relation adds to its destinations, [num_destinations, out].

        Args:
            relation: its number.
            of_relation: its in-edges.
            rows: [num_sources, projected_features] of all sources, projected; else [num_sources, in].
            weight: of the relation.
            own: [num_destinations, in of their type] rows of the destinations.
            is_projected: whether the rows are.
        """

    def forward(self, block: TypedNeighbourhood, xs: Sequence[Tensor]) -> list[Tensor]:
        """Rows of the destinations by type for rows of the own sources by type.

        Args:
            block: of the layer.
            xs: [T][num_own_sources, in].

        Returns:
            [T][num_destinations, out]; of types that the layer has not [0, out].
        """
        weights, rows = self.weights(), list(xs)
        projected = self.projected if block.exchanges else {}
        for type_, relations in projected.items():
            rows[type_] = functional.linear(xs[type_], torch.cat([weights[r] for r in relations]))
        sources = block.exchange(rows)
        own = [x[:number] for x, number in zip(xs, block.num_destinations, strict=True)]
        out = [xs[0].new_empty((0, self.out_features)) for _ in xs]
        for name, linear in self.lin_self.items():
            out[int(name)] = linear(own[int(name)])
        for relation, (source, destination) in self.relations.items():
            of_source, is_projected = sources[source], source in projected
            if is_projected:
                at = projected[source].index(relation) * self.projected_features
                of_source = of_source[:, at : at + self.projected_features].contiguous()
            of_relation, weight = block.relation(relation), weights[relation]
            term = self.term(relation, of_relation, of_source, weight, own[destination], is_projected=is_projected)
            out[destination] = out[destination] + term
        return out


def travels_projected(in_features: int, projected_features: int, *, ways: int, ties: bool = False) -> bool:
    """Return whether fewer bytes travel projected: two ways, for their gradients come back, instead of ``ways``."""
    projected, stored = 2 * projected_features, ways * in_features
    return projected < stored or (ties and projected == stored)
