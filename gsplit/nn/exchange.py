"""The split-aware exchange: before a layer, rows of sources go to the trainers whose destinations need them.

This is the source-to-destination scatter of the paper (section 3.3.1). Forward gathers, backward scatter-adds:
with E the exchange and E' its backward, <E x, y> = <x, E' y> (law 4). Each trainer sends each other at most one
message per exchange, forward and backward (law 3).

All trainers call every exchange, also those with no rows, or the others would wait for ever. Autograd would be
free to run the backward of two independent exchanges in a different order on different trainers; the token, an
empty tensor that goes through each exchange, chains them. A model that keeps to none of this is found out before
anyone waits for ever, by a :class:`~gsplit.parallel.checker.CollectiveChecker`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsplit.kernels import Edges, Sums, TwoWayEdges, computed_in, kernels_for
from gsplit.parallel.between_hosts import NORM, SENT
from gsplit.parallel.checker import CollectiveChecker, Step
from gsplit.parallel.collectives import Group, all_reduce, size_of, start_all_to_all
from gsplit.parallel.mailboxes import Mailboxes


@dataclass(kw_only=True)
class ExchangeCounters:
    """Counts of what this trainer sent in exchanges.

    Examples:
        >>> counters = ExchangeCounters()
        >>> counters.forward_bytes, counters.forward_messages
        (0, 0)
    """

    forward_bytes: int = 0
    """Bytes of the rows sent in forward."""
    backward_bytes: int = 0
    """Bytes of the gradients sent in backward, and of counts that go the same way."""
    forward_messages: int = 0
    """Number of messages sent in forward: one to each trainer that needed a row."""
    backward_messages: int = 0
    """Number of messages sent in backward."""
    moves: dict[str, int] = field(default_factory=dict)
    """Bytes and messages by name, where rows travel in more ways than one; the numbers above have their sums, too."""
    bytes_of_types: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Bytes by way and number of the type, where messages have rows of several; the numbers above are their sums."""

    def count(self, way: str, num_bytes: int, messages: int) -> None:
        """Add what was sent ``forward`` or ``backward``."""
        if way == "forward":
            self.forward_bytes += num_bytes
            self.forward_messages += messages
        else:
            self.backward_bytes += num_bytes
            self.backward_messages += messages


class Returned:
    """What others send back: it is waited for, and added to own rows.

    Args:
        add_to: adds it to [own rows, ...], once it has come.
        wait: waits for it.
        sent: what is alive until it has gone.
    """

    def __init__(
        self, add_to: Callable[[Tensor], None], wait: Callable[[], None] = lambda: None, sent: Tensor | None = None
    ) -> None:
        self._add_to, self._wait, self._sent = add_to, wait, sent

    def arrive(self) -> None:
        """Wait for it, and let go of what was sent."""
        self._wait()
        self._wait, self._sent = lambda: None, None

    def __call__(self, own: Tensor) -> None:
        """Wait for it, and add it to [own rows, ...]."""
        self.arrive()
        self._add_to(own)


@dataclass(frozen=True, kw_only=True)
class Link:
    """The way of the rows of one mini-batch: what an exchange needs forward, and keeps for its backward."""

    group: Group | Mailboxes | None
    """The trainers that exchange rows."""
    counters: ExchangeCounters
    """What is sent is added to these."""
    checker: CollectiveChecker | None = None
    """Collective checker, which compares what the trainers do next; None: that is not checked."""
    dtype: torch.dtype | None = None
    """Type in which rows and gradients of floating numbers travel; None: their own. Sums are taken in their own."""

    def send(self, x: Tensor, route: Route, out: Tensor | None = None, *, factor: Tensor | None = None) -> Tensor:
        """The rows received from trainer 0, 1, ..., [received rows, ...]; see :meth:`start_send`."""
        return self.start_send(x, route, out, factor=factor)()

    def start_send(
        self, x: Tensor, route: Route, out: Tensor | None = None, *, factor: Tensor | None = None
    ) -> Callable[[], Tensor]:
        """Begin to send rows, and to receive those of the others.

        Args:
            x: [own rows, ...] rows of this trainer.
            route: which of them go where, or sums of them.
            out: where the received rows go; by default memory of their own.
            factor: [own rows] by which they are multiplied before they travel, in the type they are added up in.

        Returns:
            Function that waits for the rows of trainer 0, 1, ..., and gives them, [received rows, ...].
        """
        self._enter(Step.EXCHANGE, x, route)
        sent = self._packed(_rows_to_send(x.detach(), route, factor))
        received = x.new_empty((route.num_received, *x.shape[1:])) if out is None else out
        arrived = received if sent.dtype == x.dtype else torch.empty_like(received, dtype=sent.dtype)
        wait = start_all_to_all(arrived, sent, route.receive_counts, route.send_counts, self.group)
        self.counters.forward_bytes += sent.nbytes
        self.counters.forward_messages += sum(count > 0 for count in route.send_counts)

        def rows(_: Tensor = sent) -> Tensor:  # alive until the message has gone
            wait()
            return received if arrived is received else received.copy_(arrived)

        return rows

    def start_return(self, received: Tensor, route: Route, *, factor: Tensor | None = None) -> Returned:
        """Begin to send back what belongs to received rows.

        Args:
            received: [received rows, ...], for the trainers that sent these rows.
            route: of the rows.
            factor: [own rows] by which what comes back is multiplied, before it is added.

        Returns:
            What adds to [own rows, ...] what the others send back.
        """
        self._enter(Step.RETURN, received, route)
        sent = self._packed(received).contiguous()
        returned = sent.new_empty((sum(route.send_counts), *received.shape[1:]))
        wait = start_all_to_all(returned, sent, route.send_counts, route.receive_counts, self.group)
        self.counters.backward_bytes += sent.nbytes
        self.counters.backward_messages += sum(count > 0 for count in route.receive_counts)

        def add_to(own: Tensor) -> None:
            values = returned.to(own.dtype)
            if route.sums is not None:
                weight = route.sum_weight
                edges = route.sums.transposed if weight is None else route.sums.transposed_with_order
                scale = None if factor is None else factor[: edges.num_rows]
                kernels_for(own).sum(Sums(edges, values, None, own, start=own, weight=weight, scale=scale))
            elif own.is_floating_point():
                if factor is not None:
                    values = rows_times(values, None, factor[route.send_rows])
                flat, by_row = (x.flatten(1) if x.dim() > 1 else x.unsqueeze(1) for x in (own, values))
                kernels_for(own).add(flat, route.send_rows, by_row, route.send_counts)  # a peer wants a row once
            else:
                own.index_add_(0, route.send_rows, values)

        return Returned(add_to, wait, sent)

    def _enter(self, step: Step, x: Tensor, route: Route) -> None:
        if self.checker is not None:
            self.checker.enter(step, layer=route.layer, width=x.shape[1:].numel(), dtype=x.dtype)

    def _packed(self, x: Tensor) -> Tensor:
        return x if self.dtype is None or not x.is_floating_point() else x.to(self.dtype)


class BatchComm:
    """The shared state of one mini-batch's collectives: process groups, token and counters.

    Args:
        group: the trainers that exchange rows, those of a split group.
        counters: what is sent is added to these.
        device: where the rows are.
        everyone: all trainers that compute the mini-batch; None where those are the ones of ``group``, PyTorch's.
        checker: on which all of them agree about what comes next; None: that is not checked.
        exchange_dtype: in which exchanged rows and gradients travel; None: in their own.
        link: another way for rows to travel, with the same counters and checker.

    Examples:
        >>> comm = BatchComm(None, ExchangeCounters(), torch.device("cpu"))  # a trainer alone
        >>> comm.world, comm.sum(torch.ones(2))
        (1, tensor([1., 1.]))
    """

    def __init__(
        self,
        group: Group | Mailboxes | None,
        counters: ExchangeCounters,
        device: torch.device,
        everyone: Group | None = None,
        checker: CollectiveChecker | None = None,
        exchange_dtype: torch.dtype | None = None,
        link: Link | None = None,
    ) -> None:
        self.link = link or Link(group=group, counters=counters, checker=checker, dtype=exchange_dtype)
        self.counters, self.checker = counters, checker
        self.everyone = everyone if everyone is not None or isinstance(group, Mailboxes) else group
        self.token = torch.zeros(0, device=device, requires_grad=True)
        self.overlaps = True
        """Whether sums are taken while rows travel, which wants memory for both; False: one after the other."""
        self.in_slices = False
        """Whether rows move and are summed in slices of columns, for less memory (:mod:`gsplit.nn.slices`)."""
        self.world = size_of(self.everyone)

    def tie(self, loss: Tensor) -> Tensor:
        """The loss with the token in its graph, so that backward reaches every exchange on every trainer."""
        return loss + self.token.sum().to(loss.dtype) * 0

    def sum(self, x: Tensor) -> Tensor:
        """Sum of x over everyone, the same on all of them; its backward sums the gradients likewise."""
        if self.world == 1:
            return x
        if not torch.is_grad_enabled():
            return _summed(x, Step.SUM, self.everyone, self.checker)
        out, self.token = _Sum.apply(x, self.token, self.everyone, self.checker)
        return out

    def sum_of_backward(self) -> Callable[[Tensor], Tensor]:
        """Return what sums over everyone in the backward of an operation that the token goes through."""
        if self.world == 1:
            return lambda x: x
        everyone, checker = self.everyone, self.checker  # and not the token, whose graph would have itself in it
        return lambda x: _summed(x, Step.SUM_BACKWARD, everyone, checker)


@dataclass(frozen=True, kw_only=True)
class Route:
    """The rows that go where before one layer, and whether gradients come back. P trainers exchange rows.

    Examples:
        >>> rows = torch.tensor([0, 2], dtype=torch.int32)
        >>> route = Route(send_rows=rows, send_counts=(0, 2), receive_counts=(0, 1))  # of trainer 0 of two
        >>> route.num_received
        1
    """

    send_rows: Tensor
    """Own rows to send, or to send sums of, int32 [own rows], in the order of the trainers that need them."""
    send_counts: tuple[int, ...]
    """Number of rows, or sums of rows, for each trainer, [P]."""
    receive_counts: tuple[int, ...]
    """Number of rows, or sums of rows, from each trainer, [P]."""
    layer: int = 0
    """The layer, 1 .. L, to be named in messages; 0 where it is not known."""
    always_returns: bool = False
    """Whether gradients of the rows come back in backward even if this trainer's rows want none.

    True before every layer but the first. There the rows come out of a layer: a trainer without vertices may hold
    zeros that want no gradient, while its peers wait for its part. Rows before the first layer are features, which
    want no gradient on any trainer, or projections of features, which want one on all of them; so whether they want
    one decides.
    """

    sums: TwoWayEdges | None = None
    """What each row sent is the sum of, a row for each and ``send_rows`` as sources; None: each is one own row."""
    sum_weight: Tensor | None = None
    """Factor of each of ``send_rows`` in its sum, [own rows, 1] in the type that rows are added up in; None: 1."""

    @property
    def num_received(self) -> int:
        """Number of rows received."""
        return sum(self.receive_counts)


def wants_gradient_back(x: Tensor, route: Route) -> bool:
    """Return whether the gradients of exchanged rows will come back in backward."""
    return torch.is_grad_enabled() and (x.requires_grad or (route.always_returns and x.is_floating_point()))


def exchange(x: Tensor, route: Route, comm: BatchComm) -> Tensor:
    """Own rows, then the rows received from trainer 0, 1, ...

    Args:
        x: [own rows, ...] rows of this trainer.
        route: which of them go where, and whether gradients come back; it sends no sums.
        comm: the communicator of the mini-batch.

    Returns:
        [own rows + received rows, ...].

    Examples:
        >>> nothing = Route(send_rows=torch.zeros(0, dtype=torch.int32), send_counts=(0,), receive_counts=(0,))
        >>> comm = BatchComm(None, ExchangeCounters(), torch.device("cpu"))  # a trainer alone
        >>> exchange(torch.ones(2, 1), nothing, comm).shape
        torch.Size([2, 1])
    """
    assert route.sums is None
    if not wants_gradient_back(x, route):
        return _beside(x, route, comm.link)
    out, comm.token = _Exchange.apply(x, comm.token, route, comm.link)
    return out


class _Exchange(torch.autograd.Function):
    """Gather in forward, scatter-add in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, token: Tensor, route: Route, link: Link) -> tuple[Tensor, Tensor]:
        # Not the comm: it holds the token, which holds this, and such a ring keeps its segment in memory until the
        # garbage collector comes by.
        ctx.route, ctx.link, ctx.num_own = route, link, x.shape[0]
        return _beside(x, route, link), token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor, grad_token: Tensor) -> tuple[Tensor, Tensor, None, None]:
        return _folded(grad_out, ctx.num_own, ctx.route, ctx.link), grad_token, None, None


def scatter_back(rows: Tensor, num_own: int, route: Route, comm: BatchComm) -> Tensor:
    """Add what each row holds to the row that it is a copy of, on its owner: what backward does, for counts.

    Args:
        rows: [num_own + received rows, ...], in the order that :func:`exchange` returns.
        num_own: number of own rows.
        route, comm: those of the exchange.

    Returns:
        [num_own, ...].
    """
    assert route.sums is None
    return _folded(rows, num_own, route, comm.link)


def _rows_to_send(x: Tensor, route: Route, factor: Tensor | None) -> Tensor:
    if route.sums is None:
        rows = route.send_rows
        return x.index_select(0, rows) if factor is None else rows_times(x, rows, factor[rows])
    out = x.new_empty((sum(route.send_counts), x.shape[1]))
    kernels_for(x).sum(Sums(route.sums.edges, x, None, out, weight=route.sum_weight, factor=factor))
    return out


def rows_times(x: Tensor, rows: Tensor | None, by: Tensor) -> Tensor:
    """``by_i x[rows_i]`` [n, ...] in the type of x; None: all rows. Sums of one row each, with no wider copy."""
    flat, ends = x.flatten(1), torch.arange(len(by) + 1, dtype=torch.int32, device=x.device)
    out = flat.new_empty((len(by), flat.shape[1]))
    indices = ends[:-1] if rows is None else rows.int()
    kernels_for(flat).sum(Sums(Edges(indptr=ends, indices=indices), flat, None, out, scale=by))
    return out.view(len(by), *x.shape[1:])


def times(x: Tensor, by: Tensor | None) -> Tensor:
    """``by_v x_v`` for rows x [n, D] and by [n], in the type of the rows; x itself for None."""
    return x if by is None else (x * by.unsqueeze(1)).to(x.dtype)


def _beside(x: Tensor, route: Route, link: Link) -> Tensor:
    out = x.new_empty((x.shape[0] + route.num_received, *x.shape[1:]))
    out[: x.shape[0]] = x.detach()
    link.send(x, route, out[x.shape[0] :])
    return out


def _folded(rows: Tensor, num_own: int, route: Route, link: Link) -> Tensor:
    add_returned = link.start_return(rows[num_own:], route)
    own = rows[:num_own].to(computed_in(rows.dtype), copy=True, memory_format=torch.contiguous_format)
    add_returned(own)
    return own.to(rows.dtype)


class _Sum(torch.autograd.Function):
    """Sum over trainers in forward, sum of the gradients in backward; chained by the token as exchanges are."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, token: Tensor, group: Group | None, checker: CollectiveChecker | None
    ) -> tuple[Tensor, Tensor]:
        ctx.group, ctx.checker = group, checker
        return _summed(x, Step.SUM, group, checker), token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor, grad_token: Tensor) -> tuple[Tensor, Tensor, None, None]:
        return _summed(grad_out, Step.SUM_BACKWARD, ctx.group, ctx.checker), grad_token, None, None


def _summed(x: Tensor, step: Step, group: Group | None, checker: CollectiveChecker | None) -> Tensor:
    if checker is not None:
        checker.enter(step, width=x.numel(), dtype=x.dtype)
    total = x.detach().clone(memory_format=torch.contiguous_format)
    with SENT.during(NORM):
        all_reduce(total, group)
    return total
