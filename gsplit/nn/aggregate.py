"""Sums and means over the drawn in-edges of each destination, with the exchange of rows before them inside.

Own rows are read where they lie, while those of other trainers are on their way; received rows are read where they
arrived. In backward the gradient takes the same way through the transposed edges: that of received rows is summed
first, and is on its way while that of own rows is summed.
No tensor of edges x features is made, and nothing is sorted, zero-filled or copied beside anything.

Legend: S source rows, N destinations, E edges, D features, H heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsplit.kernels import Edges, Sums, TwoWayEdges, computed_in, in_core, kernels_for
from gsplit.nn.exchange import BatchComm, Link, Route, times, wants_gradient_back
from gsplit.nn.neighbourhood import NO_FACTORS, Factors
from gsplit.nn.slices import Columns, in_columns


class DrawnEdges(Protocol):
    """In-edges of each destination, as a sampled block has them."""

    @property
    def two_way(self) -> TwoWayEdges:
        """The edges, a row for each destination."""


def sum_of_neighbours(block: DrawnEdges, x_SD: Tensor, weight_E: Tensor | None = None) -> Tensor:
    """Sum, weighted where weights are given, over the in-edges of each destination; zero where there are none.

    Args:
        block: the in-edges of the layer.
        x_SD: [num_sources, D] rows of all sources, after the exchange.
        weight_E: [edges] in the dtype of x, or [edges, H], where the columns are dealt out to H heads in equal runs;
            a gradient flows to it where it wants one.

    Returns:
        [num_destinations, D].

    Examples:
        >>> sum_of_neighbours(block, torch.tensor([[1.0], [2.0], [4.0]]))  # the block of gsplit.nn.Block's example
        tensor([[6.],
                [1.]])
    """
    return neighbour_sum(block.two_way, x_SD, None, None, weight=weight_E)[0]


def mean_of_neighbours(block: DrawnEdges, x_SD: Tensor) -> Tensor:
    """Mean over the in-edges of each destination; zero where there are none.

    Args:
        block: the in-edges of the layer.
        x_SD: [num_sources, D] rows of all sources, after the exchange.

    Returns:
        [num_destinations, D].

    Examples:
        >>> mean_of_neighbours(block, torch.tensor([[1.0], [2.0], [4.0]]))  # the block of gsplit.nn.Block's example
        tensor([[3.],
                [1.]])
    """
    return neighbour_sum(block.two_way, x_SD, None, None, mean=True)[0]


def neighbour_sum(
    two_way: TwoWayEdges,
    x: Tensor,
    route: Route | None,
    comm: BatchComm | None,
    *,
    weight: Tensor | None = None,
    mean: bool = False,
    start: Tensor | None = None,
    own: bool = False,
    drawn: Tensor | None = None,
    by: Factors = NO_FACTORS,
) -> tuple[Tensor, Tensor | None]:
    """Exchange rows, and sum or average them over the in-edges of each destination.

    Args:
        two_way: the in-edges of the layer.
        x: [num_own_sources, D] rows of the own sources.
        route, comm: of the exchange; None: x are the rows of all sources.
        weight: [edges] or [edges, H] in the dtype of x.
        mean: divide by the number of in-edges.
        start: [num_destinations, D] that the sums are added to.
        own: give the own row of each destination, too. Its gradient and that of its sums are added in one pass.
        drawn: [num_destinations] by which a mean divides where some of the rows received are sums; None: the number
            of in-edges.
        by: factors of a normalised sum, in place of ``mean`` and ``start``; no own row is given.

    Returns:
        [num_destinations, D], and with ``own`` x[:num_destinations], or None.
    """
    if weight is not None and weight.dim() == 1:
        weight = weight.unsqueeze(1)
    if route is None or comm is None:
        args = _SumArgs(edges=two_way, route=None, link=None, mean=mean, own=own, drawn=drawn, by=by)
        return _NeighbourSum.apply(x, weight, start, None, args)[:2]
    args = _SumArgs(
        edges=two_way,
        route=route,
        link=comm.link,
        mean=mean,
        own=own,
        drawn=drawn,
        by=by,
        overlaps=comm.overlaps,
        # Gradients of weights want all columns of the rows.
        in_slices=comm.in_slices and (weight is None or (weight.shape[1] == 1 and not weight.requires_grad)),
    )
    if not wants_gradient_back(x, route):
        return _NeighbourSum.apply(x, weight, start, None, args)[:2]
    out, rows, comm.token = _NeighbourSum.apply(x, weight, start, comm.token, args)
    return out, rows


@dataclass(frozen=True, kw_only=True)
class _SumArgs:
    """The arguments of a sum beside its tensors: neither block nor communicator, which hold the token."""

    edges: TwoWayEdges
    route: Route | None
    link: Link | None
    mean: bool
    own: bool
    drawn: Tensor | None
    by: Factors
    overlaps: bool = True
    in_slices: bool = False

    @property
    def degrees(self) -> Tensor | None:
        """Numbers by which the sums are divided, int32 [num_destinations]; None where they stay sums."""
        if not self.mean:
            return None
        return self.edges.edges.indptr.diff() if self.drawn is None else self.drawn


def _come(rows: Tensor) -> Callable[[], Tensor]:
    return lambda: rows


def _summed(
    x: Tensor, weight: Tensor | None, start: Tensor | None, args: _SumArgs, width: int
) -> tuple[Tensor, Tensor | None]:
    """Sums [num_destinations, d] of columns of rows of ``width``, and what came, if weights want gradients."""
    kernels, edges, by, x = kernels_for(x), args.edges.edges, args.by, x.detach()
    shape = (edges.num_rows, x.shape[1])
    scaling: dict[str, Any] = {"weight": None if weight is None else weight.detach(), "degrees": args.degrees}
    scaling |= {"scale": by.sums, "width": width}
    of_own: dict[str, Any] = {"start": None if start is None else start.detach(), "start_scale": by.own}
    if args.link is None or args.route is None:
        out, received = x.new_empty(shape), None
        kernels.sum(Sums(edges, x, None, out, factor=by.sources, **of_own, **scaling))
    elif not args.edges.parts_are_cheap:
        received = args.link.send(x, args.route, factor=by.sources)
        out, factor = x.new_empty(shape), _beside_ones(by.sources, len(received))
        kernels.sum(Sums(edges, x, received, out, factor=factor, **of_own, **scaling))
    else:
        arrive = args.link.start_send(x, args.route, factor=by.sources)
        if not args.overlaps:
            arrive = _come(arrive())
        out = x.new_empty(shape)
        from_own, from_others = args.edges.apart(len(x), order=weight is not None)
        part = out if x.dtype == computed_in(x.dtype) else torch.empty_like(out, dtype=computed_in(x.dtype))
        kernels.sum(Sums(from_own, x, None, part, factor=by.sources, **of_own, **scaling))
        received = arrive()
        del arrive  # and what was sent
        kernels.sum(Sums(from_others, received, None, out, start=part, **scaling))
    return out, received if weight is not None and weight.requires_grad else None


class _NeighbourSum(torch.autograd.Function):
    """Gather and sum in forward; sum over the transposed edges and scatter-add in backward."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, start: Tensor | None, token: Tensor | None, args: _SumArgs
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        ctx.args, ctx.num_own, by = args, x.shape[0], args.by
        begin = start if by.own is None else x[: len(by.own)]
        out, received = in_columns(
            lambda columns: _summed(columns(x), weight, columns(begin), args, x.shape[1]), x.shape[1], args.in_slices
        )
        rows = (times(x, by.sources), received) if weight is not None and weight.requires_grad else (None, None)
        ctx.save_for_backward(weight, *rows)
        return out, x[: args.edges.edges.num_rows] if args.own else None, None if token is None else token.clone()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_sums: Tensor, of_own: Tensor | None, grad_token: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        args: _SumArgs = ctx.args
        weight, x, received = ctx.saved_tensors
        by, degrees = args.by, args.degrees
        divisor = None if degrees is None else degrees.clamp(min=1).to(computed_in(of_sums.dtype)).reciprocal_()
        factor = divisor if by.sums is None else by.sums
        grad_x = grad_weight = None
        link = None if grad_token is None else args.link
        if ctx.needs_input_grad[0] or link is not None:
            begin = of_own if by.own is None else of_sums[: len(by.own)]

            def of_columns(columns: Columns) -> tuple[Tensor, None]:
                return summed_back(
                    args.edges,
                    columns(of_sums),
                    ctx.num_own,
                    args.route,
                    link,
                    start=columns(begin),
                    start_scale=by.own,
                    factor=factor,
                    scale=by.sources,
                    weight=weight,
                    overlaps=args.overlaps,
                    width=of_sums.shape[1],
                ), None

            grad_x, _ = in_columns(of_columns, of_sums.shape[1], args.in_slices)
        if ctx.needs_input_grad[1]:
            grad_weight = kernels_for(of_sums).dot(args.edges.edges, x, received, of_sums, weight.shape[1])
            if factor is not None:
                grad_weight *= factor[args.edges.edges.rows()].unsqueeze(1)
            grad_weight = grad_weight.to(weight.dtype)
        grad_start = of_sums if ctx.needs_input_grad[2] else None
        return (grad_x if ctx.needs_input_grad[0] else None), grad_weight, grad_start, grad_token, None


def _beside_ones(factor: Tensor | None, count: int) -> Tensor | None:
    """The factors of own rows, and of so many that are multiplied already."""
    return None if factor is None else torch.cat([factor, factor.new_ones(count)])


def summed_back(
    two_way: TwoWayEdges,
    grad: Tensor,
    num_own: int,
    route: Route | None,
    link: Link | None,
    *,
    start: Tensor | None = None,
    start_scale: Tensor | None = None,
    factor: Tensor | None = None,
    scale: Tensor | None = None,
    weight: Tensor | None = None,
    finish: Callable[[Tensor, int], None] | None = None,
    overlaps: bool = True,
    width: int | None = None,
) -> Tensor:
    """Gradients of the own sources, from those of the sums of the destinations; received rows' go back on the way.

    They are added up in the type that such rows are added up in, and rounded to theirs: once, or on the CPU before
    what comes back is added, and behind it.

    Args:
        two_way: the in-edges of the layer.
        grad: [N, D] gradients of the sums.
        num_own: number of own sources.
        route, link: of the exchange that brought the other rows; no link: nothing is sent back.
        start: [at most num_own, D] what the gradients of the first own sources begin with.
        start_scale: [len(start)] by which that is multiplied.
        factor: [N] by which the gradients of the destinations are multiplied.
        scale: [num_own] by which the sums of those are multiplied.
        weight: [E, H] weights of the edges.
        finish: adds to gradients of sources [n, D], of which the first has the number that it is given, what else
            there is, before any is sent.
        overlaps: whether those of own rows are summed while others travel.
        width: columns of the gradients that these are some of; None: these are all.

    Returns:
        [num_own, D].
    """
    kernels, dtype = kernels_for(grad), computed_in(grad.dtype)
    edges = two_way.transposed if weight is None else two_way.transposed_with_order
    until_finished = grad.dtype if finish is None else dtype

    def gradients(
        of: Edges, first: int, dtype: torch.dtype, scale: Tensor | None = scale, start: Tensor | None = start
    ) -> Tensor:
        out = grad.new_empty((of.num_rows, grad.shape[1]), dtype=dtype)
        by = None if start is None else start_scale
        of_edges: dict[str, Any] = {"factor": factor, "scale": scale, "weight": weight, "width": width}
        kernels.sum(Sums(of, grad, None, out, start=start, start_scale=by, **of_edges))
        if finish is not None:
            finish(out, first)
        return out

    if link is None or route is None:
        return gradients(edges.from_row(0, num_own), 0, until_finished).to(grad.dtype)
    if two_way.parts_are_cheap and (finish is None or not in_core(grad)):
        of_own, of_others = two_way.transposed_apart(num_own, order=weight is not None)
        received = gradients(of_others, num_own, until_finished, scale=None, start=None)
        add_returned = link.start_return(received.to(grad.dtype), route, factor=scale)
        if not overlaps:
            del received
            add_returned.arrive()
        # Not float32 beside the rounded ones: on the CPU a step's peak is here.
        own = gradients(of_own, 0, grad.dtype if in_core(grad) else dtype)
    else:
        out = gradients(edges, 0, dtype, scale=_beside_ones(scale, edges.num_rows - num_own))
        own = out[:num_own]
        add_returned = link.start_return(out[num_own:].to(grad.dtype), route, factor=scale)
    add_returned(own)
    return own.to(grad.dtype)
