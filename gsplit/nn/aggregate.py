"""Sums over the in-edges of each destination, and the softmax over them. No tensor of edges x features is made.

Legend: S source rows (after the exchange), N destinations, E edges, D features, H heads.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gsplit.nn.block import Block


def sum_of_neighbours(block: Block, x_SD: Tensor, weight_E: Tensor | None = None) -> Tensor:
    """Sum, weighted where weights are given, over the in-edges of each destination; zero where there are none.

    Args:
        block: of the layer.
        x_SD: [num_sources, D], after the exchange.
        weight_E: [edges] in the dtype of x; a gradient flows to it where it wants one.

    Returns:
        [num_destinations, D].
    """
    return _bag(block, x_SD, "sum", weight_E)


def mean_of_neighbours(block: Block, x_SD: Tensor) -> Tensor:
    """Mean over the in-edges of each destination; zero where there are none. Shapes as above."""
    return _bag(block, x_SD, "mean", None)


def _bag(block: Block, x_SD: Tensor, mode: str, weight_E: Tensor | None) -> Tensor:
    if block.num_edges == 0:
        nothing = x_SD[:0].sum(dim=0)  # zeros that keep x, and the weights, in the graph
        if weight_E is not None:
            nothing = nothing + weight_E.sum()
        return nothing.expand(block.num_destinations, -1)
    return F.embedding_bag(
        block.indices, x_SD, block.indptr, mode=mode, include_last_offset=True, per_sample_weights=weight_E
    )


def softmax_over_neighbours(
    block: Block, score_EH: Tensor, own_score_NH: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Softmax over the in-edges of each destination and, where given, an edge from the destination to itself.

    Args:
        block: of the layer.
        score_EH: [edges, heads].
        own_score_NH: [num_destinations, heads] of the edges to itself, or None.

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
