"""GraphSAGE with mean aggregation (Hamilton, Ying, Leskovec, NeurIPS 2017, algorithm 1).

    h_v' = W_self h_v + b + W_neigh mean(h_u for u in N(v))

PyG's ``SAGEConv`` and DGL's ``SAGEConv("mean")`` compute the same.
"""

from __future__ import annotations

from torch import Tensor, nn
from typing_extensions import Unpack

from gsplit.kernels import StoredRows
from gsplit.nn.layered import Between, LayeredModel
from gsplit.nn.neighbourhood import Neighbourhood, narrows
from gsplit.nn.rowwise.activation import Finish
from gsplit.nn.rowwise.dense import has_hooks, is_plain
from gsplit.nn.rowwise.products import multiplies_stored


class SAGEConv(nn.Module):
    """One layer of GraphSAGE.

    Args:
        in_features: width of the sources.
        out_features: width of the destinations.

    Examples:
        >>> SAGEConv(4, 2)(block, torch.ones(3, 4)).shape  # the block of gsplit.nn.Block's example
        torch.Size([2, 2])
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.lin_self = nn.Linear(in_features, out_features)
        self.lin_neigh = nn.Linear(in_features, out_features, bias=False)

    @property
    def calls_forward_alone(self) -> bool:
        """True where nothing but :meth:`forward` is called for the layer: no hooks, no other forward."""
        return type(self) is SAGEConv and "forward" not in vars(self) and not has_hooks(self)

    @property
    def reads_stored_rows(self) -> bool:
        """True where rows may come as :class:`~gsplit.kernels.StoredRows`: they are projected, a row at a time."""
        own = self.calls_forward_alone and is_plain(self.lin_self) and is_plain(self.lin_neigh)
        width, outputs = self.lin_self.in_features, self.lin_self.out_features
        return own and narrows(self.lin_neigh) and multiplies_stored(outputs, width)

    def forward(self, block: Neighbourhood, x: Tensor | StoredRows) -> Tensor:
        """Rows of the destinations [num_destinations, out] for rows of the own sources [num_own_sources, in]."""
        return self.forward_finished(block, x, None)

    def forward_finished(self, block: Neighbourhood, x: Tensor | StoredRows, finish: Finish | None) -> Tensor:
        """``finish`` of the rows of :meth:`forward`."""
        return block.self_and_mean(x, self.lin_self, self.lin_neigh, finish)


class SAGE(LayeredModel):
    """Layers of :class:`SAGEConv` with ReLU and dropout between them; arguments as :class:`LayeredModel`'s.

    Examples:
        >>> model = SAGE(100, 16, 47, num_layers=2, dropout=0.5)  # as gsplit train --hidden 16 makes it
        >>> model.level_widths
        [100, 16, 47]
    """

    uses_source_rows = False

    def __init__(
        self, in_features: int, hidden: int, out_features: int, *, num_layers: int, **between: Unpack[Between]
    ) -> None:
        super().__init__(
            in_features, hidden, out_features, lambda _, *widths: SAGEConv(*widths), num_layers=num_layers, **between
        )
