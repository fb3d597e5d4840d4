"""Additive attention over the drawn in-edges of each destination (Velickovic et al., ICLR 2018, section 2.1).

    e_uv = LeakyReLU(a_source . z_u + a_destination . z_v)         per head
    out_v = sum over u of dropout(softmax_u(e_uv)) z_u

Where edges have scales s_uv, the softmax is of e_uv + log(s_uv): the estimate of the one over all in-edges.

One autograd function from the rows of the own sources to those of the destinations, with the exchange inside: what it
keeps for backward are the rows, the scores of the vertices and the shares, [edges, heads].

Legend: S source rows, N destinations, E edges, D features of a head, H heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsplit.kernels import Sums, TwoWayEdges, kernels_for
from gsplit.nn.aggregate import neighbour_sum, summed_back
from gsplit.nn.exchange import BatchComm, Link, Route, wants_gradient_back
from gsplit.nn.head_scores import by_head, columns_of, gradient_of, kept_of, scores_of, where_kept
from gsplit.nn.rowwise.products import without_autocast

if TYPE_CHECKING:
    from gsplit.nn.block import Block


def attention_over_neighbours(
    two_way: TwoWayEdges,
    z: Tensor,
    route: Route | None,
    comm: BatchComm | None,
    att_source: Tensor,
    att_destination: Tensor | None,
    *,
    negative_slope: float,
    dropout: Callable[[Tensor], Tensor],
    loops: bool,
    scale: Tensor | None = None,
    of_destinations: Tensor | None = None,
) -> Tensor:
    """Exchange rows and attend to them, as :meth:`gsplit.nn.Neighbourhood.attend` says.

    Args:
        two_way: the in-edges of the layer.
        z: [num_own_sources, H, D] projected rows of the own sources.
        route, comm: of the exchange; None: z are the rows of all sources.
        att_source, att_destination: [H, D]; no ``att_destination`` where the destinations' scores are given.
        negative_slope: slope of the LeakyReLU below 0.
        dropout: multiplies the shares by what it makes of ones.
        loops: whether every destination attends to itself, too; it counts 1 then.
        scale: [edges] in the dtype of z, what each edge counts; None: 1 each.
        of_destinations: [num_destinations, H] scores of destinations that are not the first own sources, in the dtype
            that rows like z are added up in; without loops.

    Returns:
        [num_destinations, H, D].
    """
    assert (att_destination is None) == (of_destinations is not None)
    assert of_destinations is None or not loops
    split = route is not None and comm is not None
    args = _AttentionArgs(
        edges=two_way,
        route=route,
        link=comm.link if comm is not None else None,
        slope=negative_slope,
        dropout=dropout,
        loops=loops,
        heads=z.shape[1],
        scale=scale,
    )
    returns = split and wants_gradient_back(z, route) if route is not None else False
    token = comm.token if returns and comm is not None else None
    out, new_token = _Attention.apply(z.flatten(1), att_source, att_destination, of_destinations, token, args)
    if new_token is not None and comm is not None:
        comm.token = new_token
    return out.unflatten(1, (z.shape[1], -1))


@dataclass(frozen=True, kw_only=True)
class _AttentionArgs:
    """The arguments of attention beside its tensors: neither block nor communicator, which hold the token."""

    edges: TwoWayEdges
    route: Route | None
    link: Link | None
    slope: float
    dropout: Callable[[Tensor], Tensor]
    loops: bool
    heads: int
    scale: Tensor | None

    def counted(self, shares: Tensor, own: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The shares of edges and loops, which are a softmax's, with the scales in it."""
        if self.scale is None:
            return shares, own
        edges, shares = self.edges.edges, shares * self.scale.unsqueeze(1)
        rows, total = edges.rows(), shares.new_empty((edges.num_rows, self.heads))
        kernels_for(shares).sum(Sums(edges.of_values(), shares, None, total, start=own))
        # Shares and scales are above 0, so only a row without edges has no total, and it has no shares either.
        part = torch.where(total > 0, total.reciprocal(), 0)
        return shares * part[rows], None if own is None else own * part


class _Attention(torch.autograd.Function):
    """Gather, score and sum in forward; the same over the transposed edges and scatter-add in backward."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        att_source: Tensor,
        att_destination: Tensor | None,
        of_destinations: Tensor | None,
        token: Tensor | None,
        args: _AttentionArgs,
    ) -> tuple[Tensor, Tensor | None]:
        with without_autocast(z.device):  # types are those of the rows
            return _Attention._attended(ctx, z, att_source, att_destination, of_destinations, token, args)

    @staticmethod
    def _attended(
        ctx: Any,
        z: Tensor,
        att_source: Tensor,
        att_destination: Tensor | None,
        of_destinations: Tensor | None,
        token: Tensor | None,
        args: _AttentionArgs,
    ) -> tuple[Tensor, Tensor | None]:
        kernels, edges = kernels_for(z), args.edges.edges
        num_rows = edges.num_rows
        arrive = None if args.link is None or args.route is None else args.link.start_send(z, args.route)
        source = scores_of(z, att_source)
        destination = of_destinations if att_destination is None else scores_of(z[:num_rows], att_destination)
        assert destination is not None
        received = None if arrive is None else arrive()
        if received is not None:
            source = torch.cat([source, scores_of(received, att_source)])
        shares, own_shares = args.counted(*kernels.shares(edges, source, destination, args.slope, loops=args.loops))
        kept = kept_of(args.dropout, shares)
        own_kept = None if own_shares is None else kept_of(args.dropout, own_shares)
        dropped = where_kept(shares, kept)
        out = z.new_empty((num_rows, z.shape[1]))
        start = None
        if own_shares is not None:
            own_dropped = where_kept(own_shares, own_kept)
            start = out if z.dtype == source.dtype else torch.empty_like(out, dtype=source.dtype)
            torch.mul(
                own_dropped.unsqueeze(2), z[:num_rows].unflatten(1, (args.heads, -1)), out=by_head(start, args.heads)
            )
        kernels.sum(Sums(edges, z.detach(), received, out, start=start, weight=dropped))
        ctx.args = args
        ctx.save_for_backward(
            z, received, att_source, att_destination, source, destination, shares, own_shares, kept, own_kept
        )
        return out, None if token is None else token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_token: Tensor | None) -> tuple[Tensor | None, ...]:
        args: _AttentionArgs = ctx.args
        z, received, att_source, att_destination, source, destination, *of_shares = ctx.saved_tensors
        shares, own_shares, kept, own_kept = of_shares
        kernels, edges, heads = kernels_for(z), args.edges.edges, args.heads
        num_rows, num_own = edges.num_rows, len(z)
        grad = grad.contiguous()
        grad_shares = where_kept(kernels.dot(edges, z, received, grad, heads), kept)
        grad_own_shares = None
        if own_shares is not None:
            products = by_head(grad, heads).to(source.dtype) * by_head(z[:num_rows], heads)
            grad_own_shares = where_kept(products.sum(dim=2), own_kept)
        grad_scores, grad_own_scores, grad_destination = kernels.shares_backward(
            edges, source, destination, args.slope, (shares, own_shares), (grad_shares, grad_own_shares)
        )
        # Gradients of the sources' scores: sums over their edges, and those of their loops.
        transposed = args.edges.transposed_with_order
        grad_source = torch.empty_like(source)
        assert transposed.order is not None
        kernels.sum(
            Sums(
                type(transposed)(indptr=transposed.indptr, indices=transposed.order),
                grad_scores,
                None,
                grad_source,
                start=grad_own_scores,
            )
        )
        of_source = gradient_of(att_source, z, grad_source[:num_own])
        if received is not None:
            of_source += gradient_of(att_source, received, grad_source[num_own:])
        of_destination = None
        if att_destination is not None:
            of_destination = gradient_of(att_destination, z[:num_rows], grad_destination)

        grad_z = None
        link = None if grad_token is None else args.link
        if ctx.needs_input_grad[0] or link is not None:

            def finish(grad_part: Tensor, first: int) -> None:
                of_part = grad_source[first : first + len(grad_part)]
                grad_part.addmm_(of_part, columns_of(att_source).t().to(grad_part.dtype))
                if not first and att_destination is not None:  # the first rows are the destinations'
                    for_destination = columns_of(att_destination).t().to(grad_part.dtype)
                    grad_part[:num_rows].addmm_(grad_destination, for_destination)

            start = None
            if own_shares is not None:
                start = (where_kept(own_shares, own_kept).unsqueeze(2) * by_head(grad, heads)).flatten(1)
            weight = where_kept(shares, kept)
            grad_z = summed_back(
                args.edges, grad, num_own, args.route, link, start=start, weight=weight, finish=finish
            )
        return (
            grad_z if ctx.needs_input_grad[0] else None,
            of_source,
            of_destination,
            grad_destination if att_destination is None else None,
            grad_token,
            None,
        )


def softmax_over_neighbours(
    block: Block, score_EH: Tensor, own_score_NH: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Softmax over the in-edges of each destination and, where given, an edge from the destination to itself.

    Args:
        block: the in-edges of the layer.
        score_EH: [edges, heads].
        own_score_NH: [num_destinations, heads] scores of the edges to itself, or None.

    Returns:
        The shares of the edges [edges, heads] and of the edges to itself [num_destinations, heads] or None.

    Examples:
        >>> shares, of_itself = softmax_over_neighbours(block, torch.zeros(3, 1), None)
        >>> shares.flatten()  # two in-edges of vertex 0, one of vertex 1: the block of gsplit.nn.Block's example
        tensor([0.5000, 0.5000, 1.0000])
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
    total_NH = neighbour_sum(TwoWayEdges(block.two_way.edges.of_values(), block.num_edges), power_EH, None, None)[0]
    if own_score_NH is None:
        return power_EH / total_NH[destination_E], None
    own_power_NH = (own_score_NH - highest_NH).exp()
    total_NH = total_NH + own_power_NH
    return power_EH / total_NH[destination_E], own_power_NH / total_NH
