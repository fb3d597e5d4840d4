"""Attention on a grid: scores, softmax and sums of a layer's in-edges by all trainers, own rows in and own rows out.

On a grid R x K x F trainer (r, k, f) has the heads f of the rows of column k, and the edges from these to row r:

    forward     to_columns (F) | gather (R) | scores of destinations: gather (K) | powers of scores
                highest and total: reduce_scatter (K), gather (K) | sums: reduce_scatter (K) | to_rows (F)
    backward    to_columns (F) | gather (K) | sums of shares' gradients: reduce_scatter (K), gather (K)
                gradients of destinations' scores: reduce_scatter (K) | of rows: reduce_scatter (R) | to_rows (F)

Scores, their highest, totals and gradients are as wide as the heads of a trainer, in the type that rows are added up
in. A softmax over edges of several trainers is theirs put together: with m_k and t_k the highest score and the total
of powers of trainer k, M = max m_k and T = sum over k of t_k exp(m_k - M), an edge's share is exp(e - M) / T. Edges
from a vertex to itself are in the shard, where the model wants them.

Legend: R rows of the shard, S sources, E edges, H heads, D features of a head; of this trainer alone h heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.profiler import record_function

from gsplit.full.moves import Moves
from gsplit.full.operators import Sizes
from gsplit.full.plans import COLUMNS, FEATURES, ROWS
from gsplit.full.shards import Shard
from gsplit.kernels import Sums, TwoWayEdges, computed_in, kernels_for
from gsplit.nn.head_scores import columns_of, gradient_of, kept_of, scores_of, where_kept
from gsplit.nn.rowwise.products import without_autocast
from gsplit.parallel.checker import CollectiveChecker, Step


class GridAttention:
    """The edges of one layer on one trainer of a grid, and the moves around them.

    Args:
        shard: edges from the places of its column to those of its row; a weight is what an edge counts.
        moves: of the trainer.
        sources, destinations: sizes of the layer's two levels.
        loops: whether the shard has edges from destinations to themselves that the graph has not.
        num_edges: number of edges of the graph.
    """

    def __init__(
        self, shard: Shard, moves: Moves, sources: Sizes, destinations: Sizes, *, loops: bool, num_edges: int
    ) -> None:
        self.two_way = TwoWayEdges(shard.edges, sum(sources.across))
        self.moves, self.sources, self.destinations = moves, sources, destinations
        self.weight, self.loops, self.num_edges = shard.weight, loops, num_edges

    def tensors(self) -> Iterator[Tensor]:
        """The edges; those turned round are made in backward."""
        edges = self.two_way.edges
        yield from (edges.indptr, edges.indices, *([] if self.weight is None else [self.weight]))

    @property
    def of_scores(self) -> Moves:
        """The moves of scores, in their own type."""
        return replace(self.moves, dtype=None)

    @property
    def own(self) -> slice:
        """Where the rows of the trainers along ``features`` stand among all that are gathered."""
        first = sum(self.sources.across[: self.moves.sides[ROWS].place])
        return slice(first, first + sum(self.sources.features))

    def heads(self, number: int) -> slice:
        """The heads of this trainer, of so many."""
        side = self.moves.sides[FEATURES]
        if number % side.size:
            raise ValueError(f"{side.size} trainers along features do not divide {number} heads")
        share = number // side.size
        return slice(side.place * share, (side.place + 1) * share)

    def own_destinations(self, rows: Tensor) -> Tensor:
        """The rows that stand for the destinations of the trainers along ``features``, of all that are gathered."""
        parts = self.of_destinations(rows[self.own])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def of_destinations(self, rows: Tensor) -> list[Tensor]:
        """Those of the destinations, of rows [sum(sources.features), ...], by trainer along ``features``."""
        parts = rows.split(self.sources.features)
        return [part[:number] for part, number in zip(parts, self.destinations.features, strict=True)]


def places_of_own(
    row: Sequence[int], column: Sequence[int], destinations: NDArray[np.int64], sources: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Place of each destination of some trainers among the sources of others, int32 [R]; -1 of those that have none.

    Args:
        row: trainers whose destinations are meant, in this order.
        column: trainers whose sources are.
        destinations, sources: [P] numbers of rows of all trainers; the first sources are the destinations.
    """
    firsts, first = {}, 0
    for trainer in column:
        firsts[trainer] = first
        first += int(sources[trainer])
    places = []
    for trainer in row:
        number = int(destinations[trainer])
        first = firsts.get(trainer, -1)
        places.append(np.full(number, -1) if first < 0 else np.arange(first, first + number))
    return np.concatenate(places).astype(np.int32)


@dataclass(frozen=True, kw_only=True)
class AttentionArgs:
    """The arguments of attention beside its tensors; not the communicator, whose token holds this."""

    operator: GridAttention
    layer: int
    checker: CollectiveChecker | None
    slope: float
    dropout: Callable[[Tensor], Tensor]

    def enter(self, step: Step, x: Tensor) -> None:
        """Post on the collective checker what is entered."""
        if self.checker is not None:
            self.checker.enter(step, layer=self.layer, width=x.shape[1], dtype=x.dtype)


def rows_on_grid(z: Tensor, args: AttentionArgs) -> tuple[Tensor, list[Tensor]]:
    """Bring the rows that attention is over; all trainers make the call.

    They are no result of autograd's, for it would hold ``z`` beside them while there are sums.

    Args:
        z: [own sources, H, D].
        args: of attention.

    Returns:
        What stands for ``z`` among the arguments of :func:`attention_on_grid`, [0], and the rows for it.
    """
    box: list[Tensor] = []
    return _GridRows.apply(z.flatten(1), args, box), box


def attention_on_grid(
    came: Tensor,
    box: list[Tensor],
    att_source: Tensor,
    att_destination: Tensor,
    token: Tensor | None,
    args: AttentionArgs,
) -> tuple[Tensor, Tensor | None]:
    """Attend as :meth:`gsplit.nn.Neighbourhood.attend` says; all trainers make the call.

    Args:
        came, box: of :func:`rows_on_grid`.
        att_source, att_destination: [H, D].
        token: of the communicator, where a gradient comes back.
        args: all else.

    Returns:
        [own destinations, H, D] and the token.
    """
    out, token = _GridAttention.apply(came, att_source, att_destination, token, args, box)
    return out.unflatten(1, att_source.shape), token


class _GridRows(torch.autograd.Function):
    """Leave the rows that came in a box; backward gives the gradient that was left there."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, args: AttentionArgs, box: list[Tensor]) -> Tensor:
        args.enter(Step.EXCHANGE, z)
        moves, sources = args.operator.moves, args.operator.sources
        with without_autocast(z.device):  # types are those of the rows
            columns = [moves.to_columns(z.detach(), sources.features)]
            box.append(moves.gather(columns.pop(), sources.across, ROWS))
        ctx.box = box
        return z.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None, None]:
        return ctx.box.pop(), None, None


class _GridAttention(torch.autograd.Function):
    """Score and sum rows in forward; the same over the transposed edges, with R and K exchanged, in backward."""

    @staticmethod
    def forward(
        ctx: Any,
        came: Tensor,
        att_source: Tensor,
        att_destination: Tensor,
        token: Tensor | None,
        args: AttentionArgs,
        box: list[Tensor],
    ) -> tuple[Tensor, Tensor | None]:
        ctx.box = box
        with without_autocast(came.device):
            return _GridAttention._attended(ctx, box.pop(), att_source, att_destination, token, args)

    @staticmethod
    def _attended(
        ctx: Any, rows: Tensor, att_source: Tensor, att_destination: Tensor, token: Tensor | None, args: AttentionArgs
    ) -> tuple[Tensor, Tensor | None]:
        operator, kernels = args.operator, kernels_for(rows)
        moves, wanted, mine = operator.moves, operator.destinations, operator.heads(len(att_source))
        source = scores_of(rows, att_source[mine])
        of_own = scores_of(operator.own_destinations(rows), att_destination[mine])
        destination = operator.of_scores.gather(of_own, wanted.across, COLUMNS)
        shares = _shares(operator, source, destination, args.slope)
        kept = kept_of(args.dropout, shares)
        edges = operator.two_way.edges
        with record_function("product"):
            sums = [rows.new_empty((edges.num_rows, rows.shape[1]))]  # moves have the only reference, as in chains
            kernels.sum(Sums(edges, rows, None, sums[0], weight=where_kept(shares, kept)))
        sums.append(moves.reduce_scatter(sums.pop(), wanted.across, COLUMNS))
        out = moves.to_rows(sums.pop(), wanted.features, att_source.numel())
        ctx.args = args
        ctx.save_for_backward(rows, att_source, att_destination, source, destination, shares, kept)
        return out, None if token is None else token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_token: Tensor | None) -> tuple[Tensor | None, ...]:
        args: AttentionArgs = ctx.args
        rows, att_source, att_destination, source, destination, shares, kept = ctx.saved_tensors
        args.enter(Step.RETURN, grad)
        operator, kernels = args.operator, kernels_for(rows)
        moves, of_scores, wanted = operator.moves, operator.of_scores, operator.destinations
        mine, edges, dtype = operator.heads(len(att_source)), operator.two_way.edges, computed_in(rows.dtype)
        columns = [moves.to_columns(grad.contiguous(), wanted.features, "backward")]
        of_sums = moves.gather(columns.pop(), wanted.across, COLUMNS, "backward")

        # Of scores: through the softmax over all edges of a row, also those of other trainers.
        grad_shares = where_kept(kernels.dot(edges, rows, None, of_sums, shares.shape[1]), kept)
        of_row = None
        if moves.sides[COLUMNS].size > 1:
            part = _sums_of_values(operator, shares * grad_shares)
            of_own = of_scores.reduce_scatter(part, wanted.across, COLUMNS, "backward")
            of_row = of_scores.gather(of_own, wanted.across, COLUMNS, "backward")
        grad_scores, _, of_part = kernels.shares_backward(
            edges, source, destination, args.slope, (shares, None), (grad_shares, None), of_row
        )
        grad_destination = of_scores.reduce_scatter(of_part, wanted.across, COLUMNS, "backward")
        transposed = operator.two_way.transposed_with_order
        assert transposed.order is not None
        grad_source = torch.empty_like(source)
        by_position = type(transposed)(indptr=transposed.indptr, indices=transposed.order)
        kernels.sum(Sums(by_position, grad_scores, None, grad_source))
        del grad_shares, grad_scores
        of_att_source = _of_all_heads(gradient_of(att_source[mine], rows, grad_source), att_source, mine)
        of_att_destination = _of_all_heads(
            gradient_of(att_destination[mine], operator.own_destinations(rows), grad_destination),
            att_destination,
            mine,
        )
        size, rows_dtype = rows.shape, rows.dtype
        del rows

        # Of rows: of what was summed, and of their scores.
        with record_function("product"):
            of_rows = [of_sums.new_empty(size, dtype=dtype)]
            kernels.sum(Sums(transposed, of_sums, None, of_rows[0], weight=where_kept(shares, kept)))
        del of_sums, shares, kept
        of_rows[0].addmm_(grad_source, columns_of(att_source[mine]).t().to(dtype))
        of_rows.append(moves.reduce_scatter(of_rows.pop().to(rows_dtype), operator.sources.across, ROWS, "backward"))
        for_destination = columns_of(att_destination[mine]).t().to(rows_dtype)
        parts = zip(operator.of_destinations(of_rows[0]), grad_destination.split(wanted.features), strict=True)
        for part, of_scores_there in parts:
            part.addmm_(of_scores_there.to(rows_dtype), for_destination)
        del part, parts
        grad_z = moves.to_rows(of_rows.pop(), operator.sources.features, grad.shape[1], "backward")
        if ctx.needs_input_grad[0]:
            ctx.box.append(grad_z)
        return grad_z.new_zeros(0), of_att_source, of_att_destination, grad_token, None, None


def _shares(operator: GridAttention, source: Tensor, destination: Tensor, slope: float) -> Tensor:
    """Shares [E, h] of the edges, whose softmax is over those of all trainers along ``columns``."""
    edges, across = operator.two_way.edges, operator.destinations.across
    powers, highest = kernels_for(source).powers(edges, source, destination, slope)
    if operator.weight is not None:
        powers *= operator.weight.to(powers.dtype).unsqueeze(1)
    of_row, total = None, _sums_of_values(operator, powers)
    if operator.moves.sides[COLUMNS].size > 1:
        moves, packed = operator.of_scores, torch.cat([highest, total], dim=1)
        of_own = moves.start_reduce_scatter(packed, across, COLUMNS, joined=joined_powers)()
        of_all = moves.gather(of_own, across, COLUMNS)
        of_highest, total = of_all.chunk(2, dim=1)
        of_row = (highest - of_highest).exp() / total
    # A row without edges anywhere has no total, and one without edges here has no highest.
    factor = torch.where(total > 0, total.reciprocal() if of_row is None else of_row, 0)
    return powers.mul_(factor[edges.rows()])


def joined_powers(parts_GR2h: Tensor) -> Tensor:
    """Put highest scores and totals of powers together, [R, 2 h] of members' [G, R, 2 h]: those of all edges."""
    highest, total = parts_GR2h.chunk(2, dim=2)
    of_all = highest.amax(dim=0)
    by = torch.where(highest > -torch.inf, (highest - of_all).exp(), 0)
    return torch.cat([of_all, (total * by).sum(dim=0)], dim=1)


def _sums_of_values(operator: GridAttention, values: Tensor) -> Tensor:
    """Sums [R, h] of values of edges [E, h] over each row."""
    edges = operator.two_way.edges
    sums = values.new_empty((edges.num_rows, values.shape[1]))
    kernels_for(values).sum(Sums(edges.of_values(), values, None, sums))
    return sums


def _of_all_heads(gradient: Tensor, att: Tensor, mine: slice) -> Tensor:
    """The gradient [h, D] of this trainer's heads among those of all [H, D], which others have."""
    of_all = gradient.new_zeros(att.shape)
    of_all[mine] = gradient
    return of_all
