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

from gsplit.full.attention_cut import AttentionCut, Piece, dotted, own_of, scored
from gsplit.full.grid_shares import shares_of_edges, sums_of_values
from gsplit.full.moves import Moves
from gsplit.full.operators import Sizes
from gsplit.full.passing import arriving, cuts, leaving
from gsplit.full.plans import COLUMNS, FEATURES, ROWS
from gsplit.full.shards import Shard
from gsplit.kernels import Edges, Sums, TwoWayEdges, computed_in, kernels_for
from gsplit.nn.head_scores import columns_of, gradient_of, scores_of, where_kept
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
        cut = cuts(shard.edges.indices.device)
        self.cut = AttentionCut.of(shard.edges, moves, sources, destinations) if cut else None

    def tensors(self) -> Iterator[Tensor]:
        """The edges; those turned round are made in backward."""
        edges = self.two_way.edges
        yield from (edges.indptr, edges.indices, *([] if self.weight is None else [self.weight]))
        yield from (piece.edges.indptr for piece in ([] if self.cut is None else self.cut.pieces()))

    def pieces(self) -> list[Piece]:
        """The edges in pieces, or all in one."""
        edges = self.two_way.edges
        if self.cut is None:
            return [Piece(slice(0, edges.num_rows), slice(0, len(edges.indices)), edges)]
        return self.cut.pieces()

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

    @property
    def every(self) -> slice:
        """Places of all that are gathered."""
        return slice(0, sum(self.sources.across))

    @property
    def moves_to_columns(self) -> int:
        """Number of moves that are waited for one by one before the rows of all along ``features`` are there."""
        return int(self.cut is not None and self.moves.sides[FEATURES].size > 1)

    def own_destinations(self, rows: Tensor, first: int = 0) -> Tensor:
        """The rows that stand for the destinations of the trainers along ``features``.

        Args:
            rows: of all that are gathered, those from ``first`` on.
            first: place of the first.
        """
        parts = self.of_destinations(rows[self.own.start - first : self.own.stop - first])
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
    overlaps: bool = True
    """Whether gradients of rows are summed while those of scores travel, which takes memory."""

    def enter(self, step: Step, x: Tensor) -> None:
        """Post on the collective checker what is entered."""
        if self.checker is not None:
            self.checker.enter(step, layer=self.layer, width=x.shape[1], dtype=x.dtype)


def rows_on_grid(z: Tensor, args: AttentionArgs) -> tuple[Tensor, list[Any]]:
    """Bring the rows that attention is over; all trainers make the call.

    They are no result of autograd's, for it would hold ``z`` beside them while there are sums.

    Args:
        z: [own sources, H, D].
        args: of attention.

    Returns:
        What stands for ``z`` among the arguments of :func:`attention_on_grid`, [0], and the rows for it, or what
        gives them move by move.
    """
    box: list[Any] = []
    return _GridRows.apply(z.flatten(1), args, box), box


def attention_on_grid(
    came: Tensor,
    box: list[Any],
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
    def forward(ctx: Any, z: Tensor, args: AttentionArgs, box: list[Any]) -> Tensor:
        args.enter(Step.EXCHANGE, z)
        moves, sources = args.operator.moves, args.operator.sources
        ctx.box = box
        if args.operator.cut is not None:
            box.append(arriving(moves, z.detach(), sources, ROWS, "forward"))
            return z.new_empty(0)
        with without_autocast(z.device):  # types are those of the rows
            columns = [moves.to_columns(z.detach(), sources.features)]
            box.append(moves.gather(columns.pop(), sources.across, ROWS))
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
        box: list[Any],
    ) -> tuple[Tensor, Tensor | None]:
        ctx.box = box
        with without_autocast(came.device):
            return _GridAttention._attended(ctx, box.pop(), att_source, att_destination, token, args)

    @staticmethod
    def _attended(
        ctx: Any, come: Any, att_source: Tensor, att_destination: Tensor, token: Tensor | None, args: AttentionArgs
    ) -> tuple[Tensor, Tensor | None]:
        operator, mine = args.operator, args.operator.heads(len(att_source))
        moves, wanted, cut = operator.moves, operator.destinations, operator.cut
        gathered: list[Callable[[], Tensor]] = []

        def set_out(number: int, place: slice, rows: Tensor) -> None:
            if number == operator.moves_to_columns:
                scores = scores_of(operator.own_destinations(rows, place.start), att_destination[mine])
                gathered.append(operator.of_scores.start_gather(scores, wanted.across, COLUMNS))

        coming, places = ([lambda: come], [operator.every]) if cut is None else (come, cut.coming)
        rows, source = scored(coming, places, lambda some: scores_of(some, att_source[mine]), set_out)
        destination = gathered.pop()()
        shares, kept = shares_of_edges(operator, source, destination, args.slope, args.dropout)
        edges, dropped, kernels = operator.two_way.edges, where_kept(shares, kept), kernels_for(rows)

        def summed(edges: Edges, weight: Tensor) -> Tensor:
            out = rows.new_empty((edges.num_rows, rows.shape[1]))
            with record_function("product"):
                kernels.sum(Sums(edges, rows, None, out, weight=weight))
            return out

        if cut is None:
            sums = [summed(edges, dropped)]  # moves have the only reference, as in chains
            sums.append(moves.reduce_scatter(sums.pop(), wanted.across, COLUMNS))
            out = moves.to_rows(sums.pop(), wanted.features, att_source.numel())
        else:
            width = att_source.numel()

            def made(piece: Piece) -> Tensor:
                return summed(piece.edges, dropped[piece.at])

            out = leaving(moves, cut.blocks, made, wanted, width, COLUMNS, "forward")()
        ctx.args = args
        ctx.save_for_backward(rows, att_source, att_destination, source, destination, shares, kept)
        return out, None if token is None else token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_token: Tensor | None) -> tuple[Tensor | None, ...]:
        args: AttentionArgs = ctx.args
        rows, att_source, att_destination, source, destination, shares, kept = ctx.saved_tensors
        args.enter(Step.RETURN, grad)
        operator, kernels, cut = args.operator, kernels_for(rows), args.operator.cut
        moves, of_scores, wanted = operator.moves, operator.of_scores, operator.destinations
        mine, edges, dtype = operator.heads(len(att_source)), operator.two_way.edges, computed_in(rows.dtype)
        width, size, rows_dtype = grad.shape[1], rows.shape, rows.dtype
        transposed = operator.two_way.transposed_with_order
        assert transposed.order is not None

        # Of scores: through the softmax over all edges of a row, also those of other trainers.
        if cut is None:
            columns = [moves.to_columns(grad.contiguous(), wanted.features, "backward")]
            of_sums = moves.gather(columns.pop(), wanted.across, COLUMNS, "backward")
            grad_shares = kernels.dot(edges, rows, None, of_sums, shares.shape[1])
        else:
            coming = arriving(moves, grad.contiguous(), wanted, COLUMNS, "backward")
            of_sums, grad_shares = dotted(coming, cut.returning, cut.pieces(), rows, shares.shape[1])
        grad_shares = where_kept(grad_shares, kept)
        weight = of_row = room = None

        def summed(some: Edges, out: Tensor) -> Tensor:
            with record_function("product"):
                kernels.sum(Sums(some, of_sums, None, out, weight=weight))
            return out

        if moves.sides[COLUMNS].size > 1:
            part = sums_of_values(operator, shares * grad_shares)
            parts = of_scores.start_reduce_scatter(part, wanted.across, COLUMNS, "backward")
            if cut is not None and args.overlaps:
                weight = where_kept(shares, kept)
                first, second = (Piece.of(transposed, each).edges for each in cut.halves)
                room = of_sums.new_empty((first.num_rows + second.num_rows, size[1]), dtype=dtype)
                summed(first, room[: first.num_rows])
            come = of_scores.start_gather(parts(), wanted.across, COLUMNS, "backward")
            if room is not None:
                summed(second, room[first.num_rows :])
            of_row = come()
        grad_scores, _, of_part = kernels.shares_backward(
            edges, source, destination, args.slope, (shares, None), (grad_shares, None), of_row
        )
        come = of_scores.start_reduce_scatter(of_part, wanted.across, COLUMNS, "backward")
        grad_source = torch.empty_like(source)
        by_position = type(transposed)(indptr=transposed.indptr, indices=transposed.order)
        kernels.sum(Sums(by_position, grad_scores, None, grad_source))
        del grad_shares, grad_scores
        of_att_source = _of_all_heads(gradient_of(att_source[mine], rows, grad_source), att_source, mine)
        grad_destination = come()
        of_att_destination = _of_all_heads(
            gradient_of(att_destination[mine], operator.own_destinations(rows), grad_destination),
            att_destination,
            mine,
        )
        del rows

        # Of rows: of what was summed, and of their scores.
        to_source, to_destination = (columns_of(att[mine]).t() for att in (att_source, att_destination))
        of_members = grad_destination.split(wanted.features)
        weight = where_kept(shares, kept) if weight is None else weight
        if cut is None:
            of_rows = [summed(transposed, of_sums.new_empty(size, dtype=dtype))]
            del of_sums, shares, kept, weight
            of_rows[0].addmm_(grad_source, to_source.to(dtype))
            sizes = operator.sources.across
            of_rows.append(moves.reduce_scatter(of_rows.pop().to(rows_dtype), sizes, ROWS, "backward"))
            for some, of_member in zip(operator.of_destinations(of_rows[0]), of_members, strict=True):
                some.addmm_(of_member.to(rows_dtype), to_destination.to(rows_dtype))
            del some
            grad_z = moves.to_rows(of_rows.pop(), operator.sources.features, width, "backward")
        else:
            turned, ahead = cut.turned_round(transposed), [] if room is None else [room]
            del room
            own = dict(zip(map(id, own_of(turned, moves, ROWS)), of_members, strict=True))

            def made(piece: Piece) -> Tensor:
                some = piece.edges
                begun = ahead and piece is turned[cut.first][0]
                out = ahead.pop() if begun else summed(some, of_sums.new_empty((some.num_rows, size[1]), dtype=dtype))
                out.addmm_(grad_source[piece.rows], to_source.to(dtype))
                if id(piece) in own:
                    of_member = own[id(piece)]
                    out[: len(of_member)].addmm_(of_member, to_destination.to(dtype))
                return out.to(rows_dtype)

            grad_z = leaving(moves, turned, made, operator.sources, width, ROWS, "backward")()
        if ctx.needs_input_grad[0]:
            ctx.box.append(grad_z)
        return grad_z.new_zeros(0), of_att_source, of_att_destination, grad_token, None, None


def _of_all_heads(gradient: Tensor, att: Tensor, mine: slice) -> Tensor:
    """The gradient [h, D] of this trainer's heads among those of all [H, D], which others have."""
    of_all = gradient.new_zeros(att.shape)
    of_all[mine] = gradient
    return of_all
