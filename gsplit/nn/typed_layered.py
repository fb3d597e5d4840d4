"""Models of layers over several types of vertices: what stands between the layers, by type.

As :class:`~gsplit.nn.layered.LayeredModel`, with a projection, norms and skips of each type's own. A model has
weights for the types and relations that mini-batches can have at a level (:mod:`gsplit.sampling.reach`), and for no
others. Types and relations are named by their numbers, which later ones never move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

import torch
from torch import Tensor, nn

from gsplit.nn.layered import NORMS, check_norm, skip_of
from gsplit.nn.norm import normalised
from gsplit.nn.typed_block import TypedNeighbourhood
from gsplit.sampling.reach import Reach


class LayerEnds(TypedDict):
    """What a layer leads from and to: the arguments that every convolution over several types takes."""

    in_features: Mapping[int, int]
    """Width of the sources of each type of the level below, by its number."""
    out_features: int
    """Width of the destinations."""
    types: Sequence[int]
    """Numbers of the destinations' types."""
    relations: Mapping[int, tuple[int, int]]
    """The source and destination type of each relation of the layer, by its number."""
    on_features: bool
    """Whether the sources are features as they were loaded, whose gradients nobody wants."""


class TypedLayeredModel(nn.Module):
    """A model that offers its layers one at a time; rows of all types go in and out of each.

    Args:
        in_features: [T] width of the features of each type; of types that are at no level any.
        hidden: width of the hidden layers.
        out_features: width of the output, the number of classes.
        conv: makes the convolution of (layer, what it leads from and to), layer from 1 on.
        reach: the types of each level and the relations of each layer.
        dropout, input_dropout, norm, residual, residual_after, input_projection, output_projection: see
            :class:`gsplit.nn.LayeredModel`.

    Raises:
        ValueError: for another ``norm``.

    Examples:
        >>> reach = gsplit.sampling.reach_of([(1, 0)], [[5]], target=0)
        >>> model = TypedLayeredModel([3, 4], 8, 2, lambda *_: torch.nn.Identity(), reach, input_projection=True)
        >>> model.projection["1"]
        Linear(in_features=4, out_features=8, bias=True)
    """

    activation: Callable[[Tensor], Tensor] = staticmethod(torch.relu)
    """The activation behind each layer but the last."""
    uses_edge_weight = False
    """Whether blocks must carry the edge weights of relations that have some."""

    def __init__(
        self,
        in_features: Sequence[int],
        hidden: int,
        out_features: int,
        conv: Callable[[int, LayerEnds], nn.Module],
        reach: Reach,
        *,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        norm: str = "none",
        residual: bool = False,
        residual_after: bool = False,
        input_projection: bool = True,
        output_projection: bool = False,
    ) -> None:
        super().__init__()
        check_norm(norm)
        self.reach, layers = reach, reach.num_layers
        outputs = [*[hidden] * (layers - 1), hidden if output_projection else out_features]
        self.level_widths = [max(in_features[t] for t in reach.types[0]), *outputs[:-1], out_features]
        """Width of the vectors of each level, [L + 1]; of level 0 that of the widest type."""
        inputs = {t: in_features[t] for t in reach.types[0]}
        self.projection = (
            nn.ModuleDict({str(t): nn.Linear(width, hidden) for t, width in inputs.items()})
            if input_projection
            else None
        )
        first = dict.fromkeys(inputs, hidden) if input_projection else inputs
        widths = [first, *(dict.fromkeys(reach.types[level], outputs[level - 1]) for level in range(1, layers))]
        self.convs = nn.ModuleList(
            conv(
                layer,
                {
                    "in_features": widths[layer - 1],
                    "out_features": outputs[layer - 1],
                    "types": reach.types[layer],
                    "relations": {r: reach.ends[r] for r in reach.relations[layer]},
                    "on_features": layer == 1 and not input_projection,
                },
            )
            for layer in range(1, layers + 1)
        )
        self.head = nn.Linear(hidden, out_features) if output_projection else None
        finished = layers if output_projection else layers - 1
        self.norms = nn.ModuleList(
            nn.ModuleDict({str(t): NORMS[norm](outputs[layer - 1]) for t in reach.types[layer]})
            for layer in range(1, finished + 1)
        )
        self.residual_after = residual_after
        self.skips = nn.ModuleList(
            nn.ModuleDict({str(t): skip_of(widths[layer - 1][t], outputs[layer - 1]) for t in reach.types[layer]})
            for layer in range(1, layers + 1)
            if residual
        )
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)

    @property
    def num_layers(self) -> int:
        """Number of layers, L."""
        return len(self.convs)

    def forward(self, blocks: Mapping[int, TypedNeighbourhood], xs: Sequence[Tensor]) -> Tensor:
        """Logits of the targets [n_L, out] for features of the inputs by type, [T][n_0, in]."""
        for layer in range(1, self.num_layers + 1):
            xs = self.forward_layer(layer, blocks[layer], xs)
        return xs[self.reach.target]

    def forward_layer(self, layer: int, block: TypedNeighbourhood, xs: Sequence[Tensor]) -> list[Tensor]:
        """Vectors of level ``layer`` by type for those of the level below; exact evaluation calls each layer."""
        rows = list(xs)
        if layer == 1:
            for type_ in self.reach.types[0]:
                rows[type_] = self.input_dropout(rows[type_])
                if self.projection is not None:
                    rows[type_] = self.dropout(self.activation(self.projection[str(type_)](rows[type_])))
        out = self.convs[layer - 1](block, rows)
        for type_ in self.reach.types[layer]:
            out[type_] = self._between(layer, type_, out[type_], rows[type_])
        if layer == self.num_layers and self.head is not None:
            out[self.reach.target] = self.head(out[self.reach.target])
        return out

    def _between(self, layer: int, type_: int, out: Tensor, x: Tensor) -> Tensor:
        """Return what a layer's skip, norm and activation make of what its convolution gave for rows x of a type."""
        skip = self.skips[layer - 1].get_submodule(str(type_))(x[: len(out)]) if len(self.skips) else None
        ends = layer == self.num_layers and self.head is None
        if skip is not None and (ends or not self.residual_after):
            out, skip = out + skip, None
        if ends:
            return out
        norm = self.norms[layer - 1].get_submodule(str(type_))
        out = self.dropout(self.activation(normalised(norm, out)))
        return out if skip is None else out + skip
