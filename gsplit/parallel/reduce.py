"""Sums over the trainers, and the largest of their values."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from gsplit.parallel.between_hosts import REDUCE, SENT
from gsplit.parallel.checker import Step
from gsplit.parallel.collectives import all_reduce, start_all_reduce
from gsplit.parallel.member import Member


class EarlySums:
    """Gradients that are summed over the trainers while backward goes on: those of a layer as soon as all are there.

    All trainers have to come to the same layers in the same order. With models of ours they do: gradients of a layer
    follow from those of the one above it, whatever a trainer has of the mini-batch.

    Args:
        layers: parameters that are trained, layer by layer; others are summed at the end.
        member: of this trainer, which sums by PyTorch's group.
    """

    def __init__(self, layers: Sequence[Sequence[nn.Parameter]], member: Member) -> None:
        self._layers, self._member = layers, member
        self._missing: list[int] = []
        self._begun: list[tuple[Sequence[nn.Parameter], Tensor, Callable[[], object]]] = []
        me = weakref.ref(self)  # a parameter that held this would be let go of by the garbage collector alone
        for number, layer in enumerate(layers):
            for parameter in layer:
                parameter.register_post_accumulate_grad_hook(partial(_arrived, me, number))

    def begin(self) -> None:
        """Backward of a mini-batch is to come."""
        self._missing, self._begun = [len(layer) for layer in self._layers], []

    def arrived(self, number: int) -> None:
        """A parameter of a layer has its gradient."""
        if not self._missing:  # backward of something else
            return
        self._missing[number] -= 1
        if self._missing[number]:
            return
        layer = self._layers[number]
        flat = _flat(layer)
        for parameter in layer:
            parameter.grad = None  # its memory is not needed beside the copy
        _enter(flat, self._member)
        assert self._member.group is not None
        self._begun.append((layer, flat, start_all_reduce(flat, self._member.group)))

    def end(self) -> tuple[list[nn.Parameter], int]:
        """Wait for the sums that were begun; return the parameters that have theirs, and the bytes that were sent."""
        done: list[nn.Parameter] = []
        num_bytes = 0
        for layer, flat, wait in self._begun:
            wait()
            _take(layer, flat)
            done += layer
            num_bytes += flat.nbytes
        self._missing, self._begun = [], []
        return done, num_bytes


def _arrived(early: weakref.ref[EarlySums], number: int, _: Tensor) -> None:
    if (sums := early()) is not None:
        sums.arrived(number)


def _flat(parameters: Sequence[nn.Parameter], *others: Tensor) -> Tensor:
    return torch.cat(
        [
            torch.zeros_like(p).view(-1) if p.grad is None else p.grad.reshape(-1)  # a gradient may be strided
            for p in parameters
        ]
        + [other.detach().reshape(-1) for other in others]
    )


def _take(parameters: Sequence[nn.Parameter], flat: Tensor) -> None:
    for parameter, total in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.grad = total.view_as(parameter)


def _enter(flat: Tensor, member: Member) -> None:
    if member.checker is not None:
        member.checker.enter(Step.REDUCE, width=flat.numel(), dtype=flat.dtype)


def reduce_gradients(
    parameters: Sequence[nn.Parameter], loss: Tensor, member: Member, early: EarlySums | None = None
) -> tuple[Tensor, int]:
    """Replace every gradient by its sum over the trainers, in one message but for those on their way already.

    A parameter without a gradient counts as zeros, as on a trainer that got no targets; afterwards all trainers
    hold bit-equal gradients.

    Args:
        parameters: those that are trained, in the same order everywhere.
        loss: this trainer's share of the mini-batch's loss, and of what else is summed with it; of any shape.
        member: of this trainer.
        early: which sums some of them while backward goes on.

    Returns:
        The sum of the trainers' losses, of the same shape, and the bytes that were reduced.
    """
    done, num_bytes = ([], 0) if early is None else early.end()
    ids = set(map(id, done))
    rest = [p for p in parameters if id(p) not in ids]
    flat = _flat(rest, loss, *([] if member.vote is None else [member.vote.own(loss)]))
    _enter(flat, member)
    with SENT.during(REDUCE):
        all_reduce(flat, member.everyone)
    if member.vote is not None:
        flat, vote = flat[:-1], flat[-1:]
        member.vote.note(vote)
    of_rest = flat.numel() - loss.numel()
    _take(rest, flat[:of_rest])
    return flat[of_rest:].view_as(loss), num_bytes + flat.nbytes


def max_over_trainers(value: int, member: Member) -> int:
    """The largest of the trainers' values."""
    largest = torch.tensor(value)
    all_reduce(largest, member.group, "max")
    return int(largest)


def count_over_trainers(counts: Sequence[int], member: Member) -> list[int]:
    """Element-wise sum of whole numbers over the trainers: the same in any order, so by the quickest way."""
    total = torch.tensor(counts, dtype=torch.int64)
    all_reduce(total, member.everyone if member.hosts == 1 else member.group)
    return total.tolist()


def sum_over_trainers(values: Sequence[float], member: Member) -> list[float]:
    """Element-wise sum over the trainers, in float64 (exact for counts below 2**53)."""
    total = torch.tensor(values, dtype=torch.float64)
    all_reduce(total, member.group)
    return total.tolist()
