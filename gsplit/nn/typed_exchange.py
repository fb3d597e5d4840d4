"""The exchange of rows of several types, in one message a pair of trainers (law 3).

The message for a trainer has its rows of type 0, then those of type 1, ..., each row in the width of its type.
Backward is the same the other way, with the types whose gradients come back: with E the exchange and E' its backward,
<E x, y> = <x, E' y> over the tuple of types (law 4). Which types these are does not depend on what was drawn, so
messages are as long as their receivers expect.

Legend: T types, P trainers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsplit.kernels import computed_in, kernels_for
from gsplit.nn.exchange import BatchComm, Link, Route, wants_gradient_back
from gsplit.parallel.checker import Step
from gsplit.parallel.collectives import all_to_all_places


def exchange_types(xs: Sequence[Tensor], routes: Sequence[Route], comm: BatchComm) -> tuple[Tensor, ...]:
    """Own rows of each type, then the rows of that type received from trainer 0, 1, ...

    Args:
        xs: [T] own rows of each type, [own rows, width of the type], of one dtype.
        routes: [T] which rows of each type go where, and whether gradients come back; they send no sums.
        comm: the communicator of the mini-batch.

    Returns:
        [T] tensors [own rows + received rows, width of the type].

    Raises:
        ValueError: for rows of several dtypes.
    """
    if len(dtypes := {x.dtype for x in xs}) > 1:
        raise ValueError(f"rows of all types travel in one dtype, not in {', '.join(sorted(map(str, dtypes)))}")
    backs = tuple(wants_gradient_back(x, route) for x, route in zip(xs, routes, strict=True))
    if not any(backs):
        return _beside(xs, routes, comm.link)
    comm.token, *out = _ExchangeTypes.apply(comm.token, tuple(routes), comm.link, backs, *xs)
    return tuple(out)


class _ExchangeTypes(torch.autograd.Function):
    """Gather in forward, scatter-add in backward; of types without gradients nothing travels back."""

    @staticmethod
    def forward(
        ctx: Any, token: Tensor, routes: tuple[Route, ...], link: Link, backs: tuple[bool, ...], *xs: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.routes, ctx.link, ctx.backs = routes, link, backs
        ctx.num_own = [len(x) for x in xs]
        out = _beside(xs, routes, link)
        ctx.mark_non_differentiable(*(rows for rows, back in zip(out, backs, strict=True) if not back))
        return token.clone(), *out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_token: Tensor, *grads: Tensor) -> tuple[Tensor | None, ...]:
        which = [type_ for type_, back in enumerate(ctx.backs) if back]
        own, routes = [ctx.num_own[type_] for type_ in which], [ctx.routes[type_] for type_ in which]
        theirs = _folded(which, [grads[type_] for type_ in which], own, routes, ctx.link)
        folded = dict(zip(which, theirs, strict=True))
        return grad_token, None, None, None, *(folded.get(type_) for type_ in range(len(grads)))


def _beside(xs: Sequence[Tensor], routes: Sequence[Route], link: Link) -> tuple[Tensor, ...]:
    out, places = [], []
    for x, route in zip(xs, routes, strict=True):
        out.append(x.new_empty((len(x) + route.num_received, x.shape[1])))
        out[-1][: len(x)] = x.detach()
        places.append(out[-1][len(x) :].split(route.receive_counts))
    rows = [route.send_rows.split(route.send_counts) for route in routes]

    def write(type_: int, peer: int, into: Tensor) -> None:
        if into.dtype == xs[type_].dtype:
            torch.index_select(xs[type_].detach(), 0, rows[type_][peer], out=into)
        else:
            into.copy_(xs[type_].detach().index_select(0, rows[type_][peer]))

    counts = [route.send_counts for route in routes]
    _send("forward", range(len(xs)), write, counts, places, routes[0].layer, link)
    return tuple(out)


def _folded(
    types: Sequence[int], grads: Sequence[Tensor], num_own: Sequence[int], routes: Sequence[Route], link: Link
) -> tuple[Tensor, ...]:
    """Gradients of own rows: those of them here, and those of their copies, from where these are."""
    copies = [grad[own:].split(route.receive_counts) for grad, own, route in zip(grads, num_own, routes, strict=True)]
    returned = [
        grad.new_empty((sum(route.send_counts), grad.shape[1])) for grad, route in zip(grads, routes, strict=True)
    ]
    places = [rows.split(route.send_counts) for rows, route in zip(returned, routes, strict=True)]
    counts = [route.receive_counts for route in routes]
    _send(
        "backward", types, lambda at, peer, into: into.copy_(copies[at][peer]), counts, places, routes[0].layer, link
    )
    folded = []
    for grad, own, rows, route in zip(grads, num_own, returned, routes, strict=True):
        total = grad[:own].to(computed_in(grad.dtype), copy=True, memory_format=torch.contiguous_format)
        values = rows.to(total.dtype)
        kernels_for(total).add(total, route.send_rows, values, route.send_counts)  # a peer wants a row once
        folded.append(total.to(grad.dtype))
    return tuple(folded)


def _send(
    way: Literal["forward", "backward"],
    types: Sequence[int],
    write: Callable[[int, int, Tensor], object],
    send_counts: Sequence[Sequence[int]],
    places: Sequence[Sequence[Tensor]],
    layer: int,
    link: Link,
) -> None:
    """Send each trainer one flat message of rows of some types, S of them, and wait for those of the others.

    Args:
        way: that is counted.
        types: [S] their numbers.
        write: of (place in ``types``, trainer, place [count, width] in the message), puts the rows there.
        send_counts: [S][P] numbers of rows.
        places: [S][P] where the rows of each type go that each trainer sends, [count, width].
        layer: to be named in messages.
        link: the way of the rows.
    """
    like, widths = places[0][0], [of_type[0].shape[1] for of_type in places]
    ats, peers = range(len(places)), range(len(places[0]))
    dtype = like.dtype if link.dtype is None else link.dtype
    if link.checker is not None:
        step = Step.EXCHANGE if way == "forward" else Step.RETURN
        link.checker.enter(step, layer=layer, width=sum(widths), dtype=like.dtype)

    sizes = [send_counts[at][peer] * widths[at] for peer, at in product(peers, ats)]
    sent = like.new_empty(sum(sizes), dtype=dtype)
    for (peer, at), part in zip(product(peers, ats), sent.split(sizes), strict=True):
        if part.numel():
            write(at, peer, part.view(-1, widths[at]))
    outgoing = [
        sum(of_type[peer] * width for of_type, width in zip(send_counts, widths, strict=True)) for peer in peers
    ]
    all_to_all_places(list(zip(*places, strict=True)), sent, outgoing, link.group)
    link.counters.count(way, sent.nbytes, sum(number > 0 for number in outgoing))
    for type_, of_type, width in zip(types, send_counts, widths, strict=True):
        link.counters.bytes_of_types[way, type_] += sum(of_type) * width * sent.itemsize
