"""The collectives: all that trainers send each other goes through here, and only this module makes such calls.

All members of a group make each call, in one order. ``None`` in place of a group is a trainer that is alone: it sends
nothing and has its own values back. What belongs to a mini-batch is posted to the collective checker
(:mod:`gsplit.parallel.checker`) before it is called.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor

from gsplit.device import accelerator
from gsplit.parallel.between_hosts import COUNT, EXCHANGE, REDUCE, SENT, Across
from gsplit.parallel.mailboxes import Mailboxes

Group: TypeAlias = dist.ProcessGroup
"""Trainers that talk to each other, as PyTorch knows them."""
SIZE_BYTES = 8
"""Bytes of the size of an object, which is sent before it."""


def size_of(group: Group | None) -> int:
    """Number of members of a group."""
    return 1 if group is None else group.size()


def _across(group: Group | None) -> Across | None:
    """The members of a group on several hosts, where bytes between hosts are counted; None elsewhere."""
    if not SENT.here or group is None:
        return None
    ranks = dist.get_process_group_ranks(group)
    hosts = [rank // SENT.here for rank in ranks]
    return Across(hosts, ranks.index(dist.get_rank())) if len(set(hosts)) > 1 else None


def all_reduce(x: Tensor, group: Group | Mailboxes | None, op: Literal["sum", "max"] = "sum") -> None:
    """Replace ``x``, of one shape and type everywhere, by the element-wise sum or maximum over the group.

    Args:
        x: contiguous; through mailboxes [n].
        group: those who sum, as PyTorch's group or by memory that they share; the latter only sums.
        op: what is done.
    """
    if isinstance(group, Mailboxes):
        assert op == "sum"
        group.all_reduce(x)
    elif group is not None:
        if (across := _across(group)) is not None:
            SENT.add(across.all_reduce(x.numel(), x.itemsize), COUNT)
        dist.all_reduce(x, dist.ReduceOp.MAX if op == "max" else dist.ReduceOp.SUM, group=group)


def start_all_reduce(x: Tensor, group: Group) -> Callable[[], object]:
    """Begin to do what :func:`all_reduce` does; what is returned waits until ``x`` holds the sum."""
    if (across := _across(group)) is not None:
        SENT.add(across.all_reduce(x.numel(), x.itemsize), REDUCE)
    return dist.all_reduce(x, group=group, async_op=True).wait


def all_to_all(
    out: Tensor,
    sent: Tensor,
    receive_counts: Sequence[int],
    send_counts: Sequence[int],
    group: Group | Mailboxes | None,
) -> None:
    """Send each member its rows, and fill ``out`` with those of member 0, 1, ...; see :func:`start_all_to_all`."""
    start_all_to_all(out, sent, receive_counts, send_counts, group)()


def all_to_all_halves(out: Tensor, sent: Tensor, backend: dist.ProcessGroupGloo) -> None:
    """Send each of two members half of ``sent``, by a backend that is in none of PyTorch's groups."""
    backend.alltoall_base(out, sent, [], []).wait()  # type: ignore[attr-defined]


def all_to_all_places(
    places: Sequence[Sequence[Tensor]], sent: Tensor, send_counts: Sequence[int], group: Group | Mailboxes | None
) -> None:
    """Send each member its numbers in one message, and fill the places with those of the members.

    Args:
        places: [P] of each member the tensors of any shapes that its message fills, one after another; contiguous.
        sent: [sum(send_counts)] numbers, those for member 0 first; places may be of another type.
        send_counts: [P] numbers for each member.
        group: those who send, as PyTorch's group or by memory that they share.
    """
    counts, flat = [sum(each.numel() for each in of_member) for of_member in places], [*chain(*places)]
    if isinstance(group, Mailboxes) and all(each.dtype == sent.dtype for each in flat):
        group.start(flat, sent, counts, send_counts)()
        return
    received = sent.new_empty(sum(counts))
    all_to_all(received, sent, counts, send_counts, group)
    for place, numbers in zip(flat, received.split([each.numel() for each in flat]), strict=True):
        place.copy_(numbers.view_as(place))


def start_all_to_all(
    out: Tensor,
    sent: Tensor,
    receive_counts: Sequence[int],
    send_counts: Sequence[int],
    group: Group | Mailboxes | None,
) -> Callable[[], None]:
    """Begin to send each member its rows; what is returned waits until ``out`` holds those of member 0, 1, ...

    Args:
        out: [sum(receive_counts), ...] filled with the received rows.
        sent: [sum(send_counts), ...] contiguous rows, those for member 0 first; not to be written meanwhile.
        receive_counts: [P] rows from each member of the group.
        send_counts: [P] rows for each member.
        group: those who exchange rows, as PyTorch's group or by memory that they share.
    """
    if group is None:
        out.copy_(sent)
        return lambda: None
    if isinstance(group, Mailboxes):
        return group.start(out, sent, receive_counts, send_counts)
    if (across := _across(group)) is not None:
        row_bytes = sent.itemsize * sent.shape[1:].numel()
        SENT.add(across.all_to_all([rows * row_bytes for rows in send_counts]), EXCHANGE)
    into, given = out.detach(), sent.detach()
    work = dist.all_to_all_single(into, given, list(receive_counts), list(send_counts), group=group, async_op=True)

    def wait() -> None:
        work.wait()
        _let_go([into, given])

    return wait


def all_to_all_within(
    out: Tensor,
    sent: Tensor,
    receive_counts: Sequence[int],
    send_counts: Sequence[int],
    group: Group,
    deadline_s: float,
) -> bool:
    """Do what :func:`all_to_all` does between accelerators; whether it was over by a time of the monotonic clock.

    Where it was not, it goes on. What failed counts as completed with NCCL, and waiting for it raises nothing: only
    the device says whether it has done it.

    Raises:
        torch.distributed.DistError: where it failed, with what the library says of it.
    """
    work = dist.all_to_all_single(out, sent, list(receive_counts), list(send_counts), group=group, async_op=True)
    work.wait()  # this thread's stream does, not the host
    over = accelerator.event(out.device)
    while not over.query():
        if (reason := _failure(work)) is not None:
            raise dist.DistBackendError(reason)
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.001)
    return True


def _failure(work: dist.Work) -> str | None:
    """Why an exchange failed; None where it has not, or is not over."""
    if not work.is_completed():
        return None
    try:
        error = work.exception()
    except TypeError:  # of PyTorch up to 2.12, which hands no error over (its issue 147312)
        return "it failed, and PyTorch says above why"
    return None if error is None else str(error)


def all_gather(x: Tensor, group: Group | Mailboxes | None) -> list[Tensor]:
    """The tensors of all members, which are of one shape and type, in the order of their ranks.

    Args:
        x: of this member.
        group: those who send each other theirs, as PyTorch's group or by memory that they share.
    """
    if group is None:
        return [x]
    if isinstance(group, Mailboxes):
        return group.all_gather(x)
    if (across := _across(group)) is not None:
        SENT.add(across.all_gather(x.nbytes), COUNT)
    gathered = [torch.empty_like(x) for _ in range(group.size())]
    dist.all_gather(gathered, x, group=group)
    return gathered


def all_gather_object(value: Any, group: Group | None) -> list[Any]:
    """The values of all members, which can be pickled, in the order of their ranks."""
    values: list[Any] = [value]
    if group is not None:
        values *= group.size()
        dist.all_gather_object(values, value, group=group)
        if (across := _across(group)) is not None:  # their sizes, and each in the room of the largest
            SENT.add(across.all_gather(SIZE_BYTES + max(len(pickle.dumps(each)) for each in values)), COUNT)
    return values


def broadcast_object(value: Any, group: Group | None) -> Any:
    """The value of the first member, which can be pickled; what others give is not looked at."""
    if group is None:
        return value
    first = dist.get_group_rank(group, dist.get_rank()) == 0
    packed = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8) if first else None
    size = torch.tensor([0 if packed is None else len(packed)])
    broadcast(size, group)
    packed = torch.empty(int(size), dtype=torch.uint8) if packed is None else packed
    broadcast(packed, group)
    return value if first else pickle.loads(packed.numpy().data)


def broadcast(x: Tensor, group: Group | None) -> None:
    """Replace ``x``, of one shape and type everywhere, by that of the first member.

    It may lie in any way, as parameters that are transposed or expanded: NCCL only sends what has no gaps.
    """
    if group is None:
        return
    for dim in range(x.dim()):
        if x.stride(dim) == 0 and x.shape[dim] > 1:  # the same memory again and again
            x = x.narrow(dim, 0, 1)
    packed = x.contiguous()
    if (across := _across(group)) is not None:
        SENT.add(across.broadcast(packed.nbytes, 0), COUNT)
    dist.broadcast(packed, dist.get_global_rank(group, 0), group=group)
    if packed.data_ptr() != x.data_ptr():
        x.copy_(packed)


def broadcast_pieces(pieces: Sequence[Tensor], group: Group | None) -> None:
    """Fill piece i with that of member i; see :func:`start_broadcast_pieces`."""
    start_broadcast_pieces(pieces, group)()


def start_broadcast_pieces(pieces: Sequence[Tensor], group: Group | None) -> Callable[[], None]:
    """Begin to fill piece i, contiguous and of one shape everywhere, with that of member i; empty ones are not sent.

    What is returned waits until they are filled.
    """
    if (across := _across(group)) is not None:
        SENT.add(sum(across.broadcast(piece.nbytes, member) for member, piece in enumerate(pieces)), EXCHANGE)
    pieces = [piece.detach() for piece in pieces]
    works = [
        dist.broadcast(piece, group=group, group_src=member, async_op=True)
        for member, piece in enumerate(pieces if group is not None else ())
        if piece.numel()
    ]

    def wait() -> None:
        for work in works:
            work.wait()
        _let_go(pieces)

    return wait


def _let_go(given: Sequence[Tensor]) -> None:
    """Let go of aliases on the CPU: PyTorch's threads hold their memory a little longer than a collective takes.

    What a step takes would be more, and not the same twice.
    """
    for alias in given:
        if alias.device.type == "cpu":
            alias.data = alias.new_empty(0)


def barrier(group: Group | None) -> None:
    """Wait for all members. It is a sum on the host: NCCL's barrier would order the device, not the processes."""
    all_reduce(torch.zeros(1), group)
