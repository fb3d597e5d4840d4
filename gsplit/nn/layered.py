"""Models made of layers of one convolution, as SAGE, GAT and GCN are, and what stands between the layers.

A layer l < L:  x -> convolution -> (+ skip) -> normalisation -> activation -> dropout; the last one ends with the
skip. With ``input_projection`` the features are first made as wide as the hidden layers, vertex by vertex.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypedDict, runtime_checkable

import torch
from torch import Tensor, nn

from gsplit.kernels import StoredRows, copied
from gsplit.nn.neighbourhood import Neighbourhood
from gsplit.nn.norm import BatchNorm, normalised
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.dense import has_hooks, mapped
from gsplit.nn.rowwise.products import Keeps

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda width: nn.Identity(),
    "layer": nn.LayerNorm,
    "rms": nn.RMSNorm,
    "batch": BatchNorm,
}


def check_norm(name: str) -> None:
    """Raise ValueError for what is none of :data:`NORMS`."""
    if name not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}, not {name!r}")


def skip_of(width: int, out: int) -> nn.Module:
    """What a layer's own input goes through before it is added to its output."""
    return nn.Identity() if width == out else nn.Linear(width, out, bias=False)


class Between(TypedDict, total=False):
    """The named arguments of :class:`LayeredModel`: what stands between the convolutions."""

    dropout: float
    input_dropout: float
    norm: str
    residual: bool
    residual_after: bool
    input_projection: bool
    output_projection: bool


@runtime_checkable
class Finishes(Protocol):
    """A convolution that can have what stands behind it in the pass of its products."""

    @property
    def calls_forward_alone(self) -> bool:
        """Whether :meth:`forward_finished` may be called in place of the layer: no hooks, no other forward."""

    def forward_finished(self, block: Neighbourhood, x: Tensor | StoredRows, finish: Finish) -> Tensor:
        """``finish`` of the rows of the layer, [num_destinations, out].

        Nothing that backward reads may be these rows: where the layer is computed again they are written over.
        """


class LayeredModel(nn.Module):
    """A model that offers its layers one at a time, which exact evaluation and inference use.

    Args:
        in_features: width of the features.
        hidden: width of the hidden layers.
        out_features: width of the output, the number of classes.
        conv: makes the convolution of (layer, width in, width out), layer from 1 on.
        num_layers: number of layers, at least 1.
        dropout: share of the hidden vectors' numbers that is dropped.
        input_dropout: share of the features' numbers that is dropped.
        norm: ``none``, ``layer`` or ``rms`` (each vertex by itself) or ``batch`` (over all trainers' vertices).
        residual: add to each layer's output its own input, projected where the widths differ.
        residual_after: add it behind activation and dropout, not before normalisation.
        input_projection: project the features to the hidden width before the first layer.
        output_projection: the last layer is a hidden one, too, and its rows are projected to the classes.

    Raises:
        ValueError: for another ``norm``.

    Examples:
        >>> model = LayeredModel(4, 8, 2, lambda layer, wide, out: SAGEConv(wide, out), num_layers=1)
        >>> model({1: block}, torch.ones(3, 4)).shape  # the block of gsplit.nn.Block's example
        torch.Size([2, 2])
    """

    activation: Callable[[Tensor], Tensor] = staticmethod(torch.relu)
    """The activation behind each layer but the last."""
    uses_edge_weight = False
    """Whether blocks must carry the edge weights of the graph, where it has any."""
    uses_degrees = False
    """Whether blocks must carry the degrees of the whole graph."""
    uses_source_rows = True
    """Whether a convolution needs the rows of its sources, one by one. Where it is False, convolutions ask their
    blocks for sums and means alone, and trainers may send each other sums of rows (``--exchange auto``)."""

    def __init__(
        self,
        in_features: int,
        hidden: int,
        out_features: int,
        conv: Callable[[int, int, int], nn.Module],
        *,
        num_layers: int,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        norm: str = "none",
        residual: bool = False,
        residual_after: bool = False,
        input_projection: bool = False,
        output_projection: bool = False,
    ) -> None:
        super().__init__()
        check_norm(norm)
        outputs = [*[hidden] * (num_layers - 1), hidden if output_projection else out_features]
        self.level_widths = [in_features, *outputs[:-1], out_features]
        """Width of the vectors of each level, [L + 1]."""
        pairs = list(zip([hidden if input_projection else in_features, *outputs[:-1]], outputs, strict=True))
        self.projection = nn.Linear(in_features, hidden) if input_projection else None
        self.convs = nn.ModuleList(conv(layer, *pair) for layer, pair in enumerate(pairs, start=1))
        self.head = nn.Linear(hidden, out_features) if output_projection else None
        self.norms = nn.ModuleList(NORMS[norm](width) for width in (outputs if output_projection else outputs[:-1]))
        self.residual_after = residual_after
        self.skips = nn.ModuleList(skip_of(*pair) for pair in pairs if residual)
        self.dropout = nn.Dropout(dropout)
        self.input_dropout = nn.Dropout(input_dropout)

    @property
    def num_layers(self) -> int:
        """Number of layers, L."""
        return len(self.convs)

    @property
    def reads_stored_rows(self) -> bool:
        """True where the features of a mini-batch may be given as :class:`~gsplit.kernels.StoredRows`.

        They may where nothing looks at them but a first convolution that says so.
        """
        cls, first = type(self), self.convs[0]
        own = cls.forward is LayeredModel.forward and cls.forward_layer is LayeredModel.forward_layer
        own = own and not {"forward", "forward_layer"} & vars(self).keys()
        changed = self.input_dropout.p > 0 or self.projection is not None or len(self.skips) > 0
        return own and not changed and not has_hooks(self) and bool(getattr(first, "reads_stored_rows", False))

    def forward(self, blocks: Mapping[int, Neighbourhood], x: Tensor | StoredRows) -> Tensor:
        """Logits of the targets [n_L, out] for features of the inputs [n_0, in]."""
        out = self.forward_layer(1, blocks[1], x)
        for layer in range(2, self.num_layers + 1):
            out = self.forward_layer(layer, blocks[layer], out)
        return out

    def forward_layer(
        self, layer: int, block: Neighbourhood, x: Tensor | StoredRows, keeps: Keeps = Keeps.RESULT
    ) -> Tensor:
        """Vectors of level ``layer`` for those of the level below; exact evaluation computes layer by layer.

        Args:
            layer: from 1 on.
            block: of the layer.
            x: [num_own_sources, D].
            keeps: what the activation keeps for backward. Where it is not its result, nobody else may read ``x`` of a
                layer but the first.
        """
        conv = self.convs[layer - 1]
        finish = Finish(self.activation, self.dropout, keeps, overwrites=layer > 1 and keeps is not Keeps.RESULT)
        if layer == 1 and not (isinstance(x, StoredRows) and self.reads_stored_rows):
            x = self.first_rows(x)
        if isinstance(conv, Finishes) and conv.calls_forward_alone and self._finishes_next(layer):
            out = conv.forward_finished(block, x, finish)
        else:
            out = self._between(layer, conv(block, x), x, finish)
        return mapped(out, self.head) if layer == self.num_layers and self.head is not None else out

    def first_rows(self, x: Tensor | StoredRows) -> Tensor:
        """Return the rows that the first convolution and its skip get for features, [n_0, D]."""
        rows: Tensor = self.input_dropout(copied(x))
        if self.projection is not None:
            rows = Finish(self.activation, self.dropout)(mapped(rows, self.projection))
        return rows

    def _between(self, layer: int, out: Tensor, x: Tensor | StoredRows, finish: Finish) -> Tensor:
        """Return what a layer's skip, normalisation and ``finish`` make of what its convolution gave for rows x."""
        skip = mapped(copied(x)[: len(out)], self.skips[layer - 1]) if len(self.skips) else None
        ends = layer == self.num_layers and self.head is None
        if skip is not None and (ends or not self.residual_after):
            out, skip = out + skip, None
        if ends:
            return out
        ours = isinstance(conv := self.convs[layer - 1], Finishes) and conv.calls_forward_alone
        return normalised(self.norms[layer - 1], out, finish, skip, overwrites=ours)

    def _finishes_next(self, layer: int) -> bool:
        """Return whether nothing stands between a layer's convolution, from 1 on, and an activation."""
        if len(self.skips) or (layer == self.num_layers and self.head is None):
            return False
        norm = self.norms[layer - 1]
        return type(norm) is nn.Identity and "forward" not in vars(norm) and not has_hooks(norm)
