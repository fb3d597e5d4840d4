"""Sums, softmax and attention over the drawn in-edges of each destination. No tensor of edges x features is made.

Legend: S source rows (after the exchange), N destinations, E edges, D features, H heads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class DrawnEdges(Protocol):
    """The in-edges of each destination, one destination after the other: what a sampled block lists."""

    @property
    def num_destinations(self) -> int:
        """Number of destinations, N."""

    @property
    def num_edges(self) -> int:
        """Number of edges, E."""

    @property
    def indptr(self) -> Tensor:
        """Where the edges of each destination begin, int32 [num_destinations + 1]."""

    @property
    def indices(self) -> Tensor:
        """Source row of each edge, int32 [edges]."""

    def destinations(self) -> Tensor:
        """Destination row of each edge, int32 [edges]."""


def sum_of_neighbours(block: DrawnEdges, x_SD: Tensor, weight_E: Tensor | None = None) -> Tensor:
    """Sum, weighted where weights are given, over the in-edges of each destination; zero where there are none.

    Args:
        block: the in-edges of the layer.
        x_SD: [num_sources, D] rows of all sources, after the exchange.
        weight_E: [edges] in the dtype of x; a gradient flows to it where it wants one.

    Returns:
        [num_destinations, D].
    """
    return _bag(block, x_SD, "sum", weight_E)


def mean_of_neighbours(block: DrawnEdges, x_SD: Tensor) -> Tensor:
    """Mean over the in-edges of each destination; zero where there are none.

    Args:
        block: the in-edges of the layer.
        x_SD: [num_sources, D] rows of all sources, after the exchange.

    Returns:
        [num_destinations, D].
    """
    return _bag(block, x_SD, "mean", None)


def _bag(block: DrawnEdges, x_SD: Tensor, mode: str, weight_E: Tensor | None) -> Tensor:
    if block.num_edges == 0:
        nothing = x_SD[:0].sum(dim=0)  # zeros that keep x, and the weights, in the graph
        if weight_E is not None:
            nothing = nothing + weight_E.sum()
        return nothing.expand(block.num_destinations, -1)
    return F.embedding_bag(
        block.indices, x_SD, block.indptr, mode=mode, include_last_offset=True, per_sample_weights=weight_E
    )


def softmax_over_neighbours(
    block: DrawnEdges, score_EH: Tensor, own_score_NH: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Softmax over the in-edges of each destination and, where given, an edge from the destination to itself.

    Args:
        block: the in-edges of the layer.
        score_EH: [edges, heads].
        own_score_NH: [num_destinations, heads] scores of the edges to itself, or None.

    Returns:
        The shares of the edges [edges, heads] and of the edges to itself [num_destinations, heads] or None.
    """
    destination_E = block.destinations()
    with torch.no_grad():  # a shift of the exponents, which cancels
        if own_score_NH is None:
            highest_NH = score_EH.new_full((block.num_destinations, score_EH.shape[1]), -torch.inf)
        else:
            highest_NH = own_score_NH.detach().clone()
        row_EH = destination_E.long().unsqueeze(1).expand_as(score_EH)
        highest_NH.scatter_reduce_(0, row_EH, score_EH.detach(), "amax")
    power_EH = (score_EH - highest_NH[destination_E]).exp()
    total_NH = torch.zeros_like(highest_NH).index_add(0, destination_E, power_EH)
    if own_score_NH is None:
        return power_EH / total_NH[destination_E], None
    own_power_NH = (own_score_NH - highest_NH).exp()
    total_NH = total_NH + own_power_NH
    return power_EH / total_NH[destination_E], own_power_NH / total_NH


def attention_over_neighbours(
    block: DrawnEdges,
    z_SHD: Tensor,
    att_source_HD: Tensor,
    att_destination_HD: Tensor,
    *,
    negative_slope: float,
    dropout: Callable[[Tensor], Tensor],
    loops: bool,
) -> Tensor:
    """Additive attention, as :meth:`gsplit.nn.Neighbourhood.attend` says; z are the rows of all sources here."""
    z_NHD = z_SHD[: block.num_destinations]
    source_SH = (z_SHD * att_source_HD).sum(dim=2)
    destination_NH = (z_NHD * att_destination_HD).sum(dim=2)
    score_EH = F.leaky_relu(source_SH[block.indices] + destination_NH[block.destinations()], negative_slope)
    own_NH = F.leaky_relu(source_SH[: block.num_destinations] + destination_NH, negative_slope) if loops else None
    share_EH, own_share_NH = softmax_over_neighbours(block, score_EH, own_NH)
    share_HE = dropout(share_EH).t().contiguous()
    z_HSD = z_SHD.transpose(0, 1).contiguous()
    heads = range(z_SHD.shape[1])
    out_NHD = torch.stack([sum_of_neighbours(block, z_HSD[h], share_HE[h]) for h in heads], dim=1)
    if own_share_NH is not None:
        out_NHD = out_NHD + dropout(own_share_NH).unsqueeze(2) * z_NHD
    return out_NHD
