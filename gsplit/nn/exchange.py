"""The split-aware exchange: before a layer, rows of sources go to the trainers whose destinations need them.

This is the source-to-destination scatter of the paper (section 3.3.1). Forward gathers, backward scatter-adds:
with E the exchange and E' its backward, <E x, y> = <x, E' y> (law 4). Each trainer sends each other at most one
message per exchange, forward and backward (law 3).

All trainers call every exchange, also those with no rows, or the others would wait for ever. Autograd would be
free to run the backward of two independent exchanges in a different order on different trainers; the token, an
empty tensor that goes through each exchange, chains them. A model that keeps to none of this is found out before
anyone waits for ever, by a :class:`~gsplit.parallel.board.Board`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsplit.parallel.board import Board, Step
from gsplit.parallel.collectives import Group, all_reduce, all_to_all, size_of


@dataclass(kw_only=True)
class ExchangeCounters:
    """What this trainer sent in exchanges since the counters were made."""

    forward_bytes: int = 0
    """Bytes of the rows sent in forward."""
    backward_bytes: int = 0
    """Bytes of the gradients sent in backward, and of counts that go the same way."""
    forward_messages: int = 0
    """Number of messages sent in forward: one to each trainer that needed a row."""
    backward_messages: int = 0
    """Number of messages sent in backward."""


class Chain:
    """What the collectives of one mini-batch share: process groups, token and counters.

    Args:
        group: the trainers that exchange rows, those of a split group.
        counters: what is sent is added to these.
        device: where the rows are.
        everyone: all trainers that compute the mini-batch; None where those are the ones of ``group``.
        board: on which all of them agree about what comes next; None: that is not checked.
    """

    def __init__(
        self,
        group: Group | None,
        counters: ExchangeCounters,
        device: torch.device,
        everyone: Group | None = None,
        board: Board | None = None,
    ) -> None:
        self.group = group
        self.board = board
        self.everyone = group if everyone is None else everyone
        self.counters = counters
        self.token = torch.zeros(0, device=device, requires_grad=True)
        self.world = size_of(self.everyone)

    def tie(self, loss: Tensor) -> Tensor:
        """The loss with the token in its graph, so that backward reaches every exchange on every trainer."""
        return loss + self.token.sum().to(loss.dtype) * 0

    def sum(self, x: Tensor) -> Tensor:
        """Sum of x over everyone, the same on all of them; its backward sums the gradients likewise."""
        if self.world == 1:
            return x
        if not torch.is_grad_enabled():
            return _summed(x, Step.SUM, self.everyone, self.board)
        out, self.token = _Sum.apply(x, self.token, self.everyone, self.board)
        return out


@dataclass(frozen=True, kw_only=True)
class Route:
    """Which rows go where before one layer, and whether gradients come back. P trainers exchange rows."""

    send_rows: Tensor
    """Own rows to send, int32 [sum(send_counts)], in the order of the trainers that need them."""
    send_counts: tuple[int, ...]
    """Number of rows for each trainer, [P]."""
    receive_counts: tuple[int, ...]
    """Number of rows from each trainer, [P]."""
    layer: int = 0
    """The layer, 1 .. L, to be named in messages; 0 where it is not known."""
    always_returns: bool = False
    """Whether gradients of the rows come back in backward even if this trainer's rows want none.

    True before every layer but the first. There the rows come out of a layer: a trainer without vertices may hold
    zeros that want no gradient, while its peers wait for its part. Rows before the first layer are features, which
    want no gradient on any trainer, or projections of features, which want one on all of them; so whether they want
    one decides.
    """

    @property
    def num_received(self) -> int:
        """Number of rows received."""
        return sum(self.receive_counts)


def exchange(x: Tensor, route: Route, chain: Chain) -> Tensor:
    """Own rows, then the rows received from trainer 0, 1, ...

    Args:
        x: [own rows, ...] rows of this trainer.
        route: which of them go where, and whether gradients come back.
        chain: the chain of the mini-batch.

    Returns:
        [own rows + received rows, ...].
    """
    returns = x.requires_grad or (route.always_returns and x.is_floating_point())
    if not (torch.is_grad_enabled() and returns):
        return _send_rows(x, route, chain.group, chain.counters, chain.board)
    out, chain.token = _Exchange.apply(x, chain.token, route, chain)
    return out


class _Exchange(torch.autograd.Function):
    """Gather in forward, scatter-add in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, token: Tensor, route: Route, chain: Chain) -> tuple[Tensor, Tensor]:
        # Not the chain: it holds the token, which holds this, and such a ring keeps its segment in memory until the
        # garbage collector comes by.
        ctx.route, ctx.group, ctx.counters, ctx.board = route, chain.group, chain.counters, chain.board
        ctx.num_own = x.shape[0]
        return _send_rows(x, route, chain.group, chain.counters, chain.board), token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor, grad_token: Tensor) -> tuple[Tensor, Tensor, None, None]:
        returned = _return_rows(grad_out, ctx.num_own, ctx.route, ctx.group, ctx.counters, ctx.board)
        return returned, grad_token, None, None


def scatter_back(rows: Tensor, num_own: int, route: Route, chain: Chain) -> Tensor:
    """Add what each row holds to the row that it is a copy of, on its owner: what backward does, for counts.

    Args:
        rows: [num_own + received rows, ...], in the order that :func:`exchange` returns.
        num_own: number of own rows.
        route, chain: those of the exchange.

    Returns:
        [num_own, ...].
    """
    return _return_rows(rows, num_own, route, chain.group, chain.counters, chain.board)


class _Sum(torch.autograd.Function):
    """Sum over trainers in forward, sum of the gradients in backward; chained by the token as exchanges are."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, token: Tensor, group: Group | None, board: Board | None
    ) -> tuple[Tensor, Tensor]:
        ctx.group, ctx.board = group, board
        return _summed(x, Step.SUM, group, board), token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor, grad_token: Tensor) -> tuple[Tensor, Tensor, None, None]:
        return _summed(grad_out, Step.SUM_BACKWARD, ctx.group, ctx.board), grad_token, None, None


def _summed(x: Tensor, step: Step, group: Group | None, board: Board | None) -> Tensor:
    if board is not None:
        board.enter(step, width=x.numel(), dtype=x.dtype)
    total = x.detach().clone(memory_format=torch.contiguous_format)
    all_reduce(total, group)
    return total


def _send_rows(
    x: Tensor, route: Route, group: Group | None, counters: ExchangeCounters, board: Board | None
) -> Tensor:
    if board is not None:
        board.enter(Step.EXCHANGE, layer=route.layer, width=x.shape[1:].numel(), dtype=x.dtype)
    sent = x.detach().index_select(0, route.send_rows)
    out = x.new_empty((x.shape[0] + route.num_received, *x.shape[1:]))
    out[: x.shape[0]] = x.detach()
    all_to_all(out[x.shape[0] :], sent, route.receive_counts, route.send_counts, group)
    counters.forward_bytes += sent.nbytes
    counters.forward_messages += sum(count > 0 for count in route.send_counts)
    return out


def _return_rows(
    grad_out: Tensor, num_own: int, route: Route, group: Group | None, counters: ExchangeCounters, board: Board | None
) -> Tensor:
    if board is not None:
        board.enter(Step.RETURN, layer=route.layer, width=grad_out.shape[1:].numel(), dtype=grad_out.dtype)
    sent = grad_out[num_own:].contiguous()
    returned = grad_out.new_empty((len(route.send_rows), *grad_out.shape[1:]))
    all_to_all(returned, sent, route.send_counts, route.receive_counts, group)
    counters.backward_bytes += sent.nbytes
    counters.backward_messages += sum(count > 0 for count in route.receive_counts)
    return grad_out[:num_own].clone().index_add_(0, route.send_rows, returned)
