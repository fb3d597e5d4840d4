"""Shares of edges whose rows several trainers have: a softmax over the edges of all of them.

With m_k and t_k the highest score and the total of powers of trainer k, M = max m_k and T = sum over k of
t_k exp(m_k - M), an edge's share is exp(e - M) / T. Highest scores and totals are put together by who owns the row,
and told to all; meanwhile each finds the rows of its edges, and what dropout keeps.

Legend: G trainers, R rows of the shard, S sources, E edges, h heads of a trainer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gsplit.full.plans import COLUMNS
from gsplit.kernels import Sums, kernels_for
from gsplit.nn.head_scores import kept_of

if TYPE_CHECKING:
    from gsplit.full.grid_attention import GridAttention


def shares_of_edges(
    operator: GridAttention, source: Tensor, destination: Tensor, slope: float, dropout: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor | None]:
    """Shares [E, h] of the edges, whose softmax is over those of all trainers along ``columns``, and what is kept."""
    edges, across = operator.two_way.edges, operator.destinations.across
    powers, highest = kernels_for(source).powers(edges, source, destination, slope)
    if operator.weight is not None:
        powers *= operator.weight.to(powers.dtype).unsqueeze(1)
    of_row, total = None, sums_of_values(operator, powers)
    pieces = operator.pieces()
    rows, half = [], len(pieces) // 2
    if operator.moves.sides[COLUMNS].size > 1:
        moves, packed = operator.of_scores, torch.cat([highest, total], dim=1)
        parts = moves.start_reduce_scatter(packed, across, COLUMNS, joined=joined_powers)
        rows = [piece.edges.rows() for piece in pieces[:half]]
        of_all = moves.start_gather(parts(), across, COLUMNS)
    rows += [piece.edges.rows() for piece in pieces[len(rows) :]]
    kept = kept_of(dropout, powers)
    if operator.moves.sides[COLUMNS].size > 1:
        of_highest, total = of_all().chunk(2, dim=1)
        of_row = (highest - of_highest).exp() / total
    # A row without edges anywhere has no total, and one without edges here has no highest.
    factor = torch.where(total > 0, total.reciprocal() if of_row is None else of_row, 0)
    for piece, row in zip(pieces, rows, strict=True):
        powers[piece.at].mul_(factor[piece.rows][row])
    return powers, kept


def joined_powers(parts_GR2h: Tensor) -> Tensor:
    """Put highest scores and totals of powers together, [R, 2 h] of members' [G, R, 2 h]: those of all edges."""
    highest, total = parts_GR2h.chunk(2, dim=2)
    of_all = highest.amax(dim=0)
    by = torch.where(highest > -torch.inf, (highest - of_all).exp(), 0)
    return torch.cat([of_all, (total * by).sum(dim=0)], dim=1)


def sums_of_values(operator: GridAttention, values: Tensor) -> Tensor:
    """Sums [R, h] of values of edges [E, h] over each row."""
    edges = operator.two_way.edges
    sums = values.new_empty((edges.num_rows, values.shape[1]))
    kernels_for(values).sum(Sums(edges.of_values(), values, None, sums))
    return sums
