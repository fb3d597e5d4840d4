"""What stands behind a layer's product, row by row: bias, activation and dropout, in one pass where the core can."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

import gsplit._core as _core
from gsplit.kernels import computed_in, in_core, on_accelerator
from gsplit.kernels.masks import kept
from gsplit.kernels.sums import SHORT
from gsplit.nn.rowwise.dense import has_hooks
from gsplit.nn.rowwise.products import Keeps, Pass, signs_of

ACTIVATIONS: dict[Callable[..., Tensor], int] = {torch.relu: 1, F.relu: 1, F.elu: 2}
"""Activations that the core knows, by its numbers; ELU with its default alpha of 1."""
NO_ACTIVATION, RELU, ELU = 0, 1, 2


def activated(
    x: Tensor,
    activation: Callable[[Tensor], Tensor],
    dropout: nn.Dropout,
    bias: Tensor | None = None,
    seed: int | None = None,
    keeps: Keeps = Keeps.RESULT,
) -> Tensor:
    """``dropout(activation(x + bias))``, for rows on the CPU in one pass, and in one backward.

    What is dropped in one pass follows from one number that is given or drawn, so that nothing is kept for backward
    but the result. PyTorch's own dropout on the CPU draws every value from one sequence, which takes longer than the
    layer's product.

    Args:
        x: [n, D].
        activation: such as ``torch.relu``.
        dropout: drops a share ``p`` where it drops anything.
        bias: [D]; None: 0. In one pass with ReLU alone.
        seed: that what is dropped follows from, the same on every device; None: it is drawn by PyTorch's generator.
        keeps: what is kept for backward; without a result that is asked for ``x`` is given back.
    """
    number = ACTIVATIONS.get(activation)
    one_pass = number is not None and in_core(x) and x.dim() == 2 and _is_plain(dropout)
    by_marks = seed is None and _leaves_marks(x, activation, dropout, keeps)
    if keeps is Keeps.NOTHING and (by_marks or (one_pass and number == RELU)):
        return x
    if bias is not None and not (one_pass and number == RELU and _fits(bias, x)):
        x, bias = (x + bias).to(x.dtype) if _fits(bias, x) else x + bias, None
    if by_marks:
        marked: Tensor = _Marked.apply(x, dropout.p if _drops(dropout) else 0.0)
        return marked
    if number is None or not one_pass:
        return dropout(activation(x)) if seed is None else _dropped(activation(x), dropout, seed)
    if number == ELU and x.dtype in SHORT:  # whose slope is not to be had from what it gave, which was rounded
        x, number = activation(x), NO_ACTIVATION
    return _in_one_pass(x, number, dropout, dropout.p, bias, seed, keeps=keeps)


def _dropped(x: Tensor, dropout: nn.Dropout, seed: int) -> Tensor:
    """Return what the core drops of rows [n, D] by a seed, on any device and in any type.

    The rest is scaled as there, in float32 for shorter types, which are rounded once.
    """
    assert isinstance(dropout, nn.Dropout)
    if not _drops(dropout):
        return x
    one = np.float64(1) if x.dtype == torch.float64 else np.float32(1)
    scale = float(one / (one - type(one)(dropout.p))) if dropout.p < 1 else 0.0
    return (x * kept(x, dropout.p, seed).to(x.dtype)).mul_(scale)


def _fits(bias: Tensor, x: Tensor) -> bool:
    return bias.dtype == computed_in(x.dtype) and bias.shape == x.shape[1:]


@dataclass(frozen=True)
class Finish:
    """What stands behind a layer's rows: an activation, and dropout. A product has it in its pass where it can."""

    activation: Callable[[Tensor], Tensor]
    dropout: nn.Dropout
    keeps: Keeps = Keeps.RESULT
    """What is kept for backward."""
    overwrites: bool = False
    """Whether backward may write gradients of a layer's rows over them: nobody else reads those."""

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Give ``dropout(activation(x + bias))``, as :func:`activated` does."""
        return activated(x, self.activation, self.dropout, bias, keeps=self.keeps)

    def asks_for(self, x: Tensor) -> bool:
        """Return whether the rows that it stands behind are asked for, where they are like ``x`` [n, D]."""
        return self.keeps is not Keeps.NOTHING or not (self.leaves_marks(x) or self.in_pass(x) is not None)

    def leaves_marks(self, x: Tensor) -> bool:
        """Return whether marks of values are kept for backward on a device, for rows like ``x`` [n, D]."""
        return _leaves_marks(x, self.activation, self.dropout, self.keeps)

    def in_pass(self, x: Tensor) -> Pass | None:
        """Return what the core is told, for rows like ``x`` [n, D]; None where a pass of its own has to follow."""
        return self.as_pass() if in_core(x) else None

    def as_pass(self) -> Pass | None:
        """Return what kernels are told, with a new seed; None where they do not know what stands here."""
        if ACTIVATIONS.get(self.activation) != RELU or not _is_plain(self.dropout):
            return None
        drop = self.dropout.p if _drops(self.dropout) else 0.0
        return Pass(RELU, drop, int(torch.randint(2**62, ())) if drop else 0)


class RowDropout(nn.Dropout):
    """``torch.nn.Dropout``, but for rows on the CPU the values are drawn as in :func:`activated`."""

    def forward(self, input: Tensor) -> Tensor:
        """``input`` of any shape, of which values were dropped."""
        if self.inplace or not in_core(input) or input.dim() != 2:
            return super().forward(input)
        return _in_one_pass(input, NO_ACTIVATION, super().forward, self.p)


def convert_dropouts(model: nn.Module) -> None:
    """Replace PyTorch's dropout inside a model, in place, by :class:`RowDropout`."""
    ours: dict[nn.Module, RowDropout] = {}  # a module may stand in several places
    for module in list(model.modules()):
        for name, child in module._modules.items():
            if _is_plain(child):
                own = RowDropout(child.p, child.inplace).train(child.training)
                module._modules[name] = ours.setdefault(child, own)


def _in_one_pass(
    x: Tensor,
    activation: int,
    dropout: Callable[[Tensor], Tensor],
    share: float,
    bias: Tensor | None = None,
    seed: int | None = None,
    keeps: Keeps = Keeps.RESULT,
) -> Tensor:
    """An activation by its number, and dropout of a share of the values where ``dropout`` drops anything."""
    drop = share if _drops(dropout) else 0.0
    if seed is None or not drop:
        seed = int(torch.randint(2**62, ())) if drop else 0
    if not (drop or activation or bias is not None):
        return x
    out: Tensor = _Activated.apply(x, bias, activation, drop, seed, activation == RELU and keeps is Keeps.SIGNS)
    return out


def _is_plain(dropout: nn.Module | None) -> TypeGuard[nn.Dropout]:
    """Return whether calling a module does nothing but what PyTorch's dropout does."""
    return type(dropout) is nn.Dropout and "forward" not in vars(dropout) and not has_hooks(dropout)


def _leaves_marks(x: Tensor, activation: Callable[[Tensor], Tensor], dropout: nn.Module, keeps: Keeps) -> bool:
    """Return whether backward goes by marks: of ReLU on a device, where its result is not kept."""
    if keeps is Keeps.RESULT or ACTIVATIONS.get(activation) != RELU or not on_accelerator(x):
        return False
    return x.dim() == 2 and _is_plain(dropout) and not dropout.inplace and dropout.p < 1


def _drops(dropout: Callable[[Tensor], Tensor]) -> bool:
    probe = torch.ones(1)  # comes back as it was where dropout is switched off, by whatever does that
    return not (dropout(probe) is probe and probe.item() == 1)


class _Activated(torch.autograd.Function):
    """Bias, activation and dropout in forward; in backward the same is dropped, by the same number."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bias: Tensor | None, activation: int, drop: float, seed: int, keeps_signs: bool
    ) -> Tensor:
        x, bias = x.detach().contiguous(), None if bias is None else bias.detach().contiguous()
        out = torch.expm1(x) if activation == ELU else torch.empty_like(x)
        _core.activate(x, activation, drop, seed, out, bias, threads=torch.get_num_threads())
        ctx.activation, ctx.drop, ctx.seed = activation, drop, seed
        ctx.signs = signs_of(out) if keeps_signs else None
        ctx.save_for_backward(*(() if keeps_signs else (out,)))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out = None if ctx.signs is not None else ctx.saved_tensors[0]  # which may be computed again, so before others
        grad_x, threads = torch.empty_like(grad, memory_format=torch.contiguous_format), torch.get_num_threads()
        grad_bias = grad.new_empty(grad.shape[1], dtype=computed_in(grad.dtype)) if ctx.needs_input_grad[1] else None
        if out is None:
            _core.relu_backward(ctx.signs, ctx.drop, grad.contiguous(), grad_x, grad_bias, threads=threads)
            return grad_x, grad_bias, None, None, None, None
        _core.activate_backward(
            out.detach(), ctx.activation, ctx.drop, ctx.seed, grad.contiguous(), grad_x, grad_bias, threads=threads
        )
        return grad_x, grad_bias, None, None, None, None


class _Marked(torch.autograd.Function):
    """ReLU and dropout on a device, over the rows that they are given; for backward two bits a value are kept.

    They are 1: not dropped, 2: stopped by ReLU. Values and gradients are those of PyTorch's own operations.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, drop: float) -> Tensor:
        x.relu_()  # nobody keeps these rows: the layer is computed again
        marks = (x <= 0).view(torch.uint8).mul_(2)
        ctx.drop, ctx.shape = drop, x.shape
        if drop:
            out, mask = torch.native_dropout(x, drop, True)
            marks += mask.view(torch.uint8)
            del mask
        else:
            ctx.mark_dirty(x)
            out = x
        ctx.marks = _packed(marks)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        packed, ctx.marks = ctx.marks, None
        marks = _unpacked(packed, ctx.shape)
        if not ctx.drop:
            return grad.masked_fill(marks > 1, 0), None
        kept_ones, scale = (marks & 1).view(torch.bool), 1 / (1 - ctx.drop)
        return torch.ops.aten.native_dropout_backward(grad, kept_ones, scale).masked_fill_(marks > 1, 0), None


def _packed(marks: Tensor) -> Tensor:
    """Marks of two bits, uint8 [n, D], four in a byte."""
    beyond = -marks.numel() % 4
    of_byte = (F.pad(marks.view(-1), (0, beyond)) if beyond else marks).view(-1, 4)
    packed = of_byte[:, 0].clone()
    for place in range(1, 4):
        packed |= of_byte[:, place] << 2 * place
    return packed


def _unpacked(packed: Tensor, shape: torch.Size) -> Tensor:
    """The marks that :func:`_packed` has packed."""
    of_byte = torch.stack([(packed >> 2 * place) & 3 for place in range(4)], dim=1)
    return of_byte.view(-1)[: shape.numel()].view(shape)
