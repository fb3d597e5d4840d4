"""Products of rows by weights, outside of autograd.

In float32 by the core where it has vectors of 16 (``csrc/wide_products.hpp``), else by PyTorch; narrow ones of rows
that are read once by kernels of their own (``csrc/narrow_products.hpp``).

Of rows in bfloat16 or float16 by weights in float32, with sums of products in float32: of bfloat16 on the CPU by the
tiles of AMX where there are any (``csrc/tile_products.hpp``), else by vectors (``csrc/widened_products.hpp``); of
float16 in float32 from rows that are widened. On accelerators by PyTorch, with weights that are rounded first, as
under ``torch.autocast``: a product is rounded before another is added to it, and so is the gradient of a weight, but
what is asked for in float32 is not.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import gsplit._core as _core
from gsplit.kernels import StoredRows, computed_in, copied, in_core
from gsplit.kernels.normalising import Finishing
from gsplit.kernels.sums import SHORT, core_rests, whole_rows

MOST_PIECES, FEWEST_ROWS = 4, 1024
"""Pieces of a product that is added to another, at most, and rows of each, at least: of more, calls would cost."""


class Keeps(enum.Enum):
    """What is kept for backward of what stands behind a layer, where that is ReLU in one pass; else its result is.

    On devices there is no pass, and marks of ReLU and dropout are kept, two bits a value.
    """

    RESULT = enum.auto()
    """Its result."""
    SIGNS = enum.auto()
    """A bit a value; the layer is computed again in backward."""
    NOTHING = enum.auto()
    """Nothing, for signs were kept: the layer is computed again, and its result is not asked for."""


class Pass(Finishing):
    """What stands behind a product, in its pass."""

    def finish(self, x: Tensor) -> Tensor:
        """Activation and dropout of rows [n, D] on the CPU, in place."""
        _core.activate(x, *self, x, threads=torch.get_num_threads())
        return x

    def backward(self, out: Tensor, grad: Tensor) -> Tensor:
        """Gradients of the rows that ``out`` was made of, from those of ``out``, [n, D] each."""
        grad_x = torch.empty_like(out)
        _core.activate_backward(out, *self, grad.contiguous(), grad_x, threads=torch.get_num_threads())
        return grad_x

    def backward_by_signs(self, signs: Tensor, grad: Tensor) -> Tensor:
        """As :meth:`backward` of ReLU, of the signs of what it gave (:func:`signs_of`)."""
        grad_x = torch.empty_like(grad, memory_format=torch.contiguous_format)
        _core.relu_backward(signs, self.drop, grad.contiguous(), grad_x, threads=torch.get_num_threads())
        return grad_x


def signs_of(out: Tensor) -> Tensor:
    """A bit for each value of rows [n, D] on the CPU, as ReLU's backward asks for them, uint8 [n, D / 8]."""
    signs = out.new_empty((len(out), -(-out.shape[1] // 8)), dtype=torch.uint8)
    _core.pack_signs(out.detach(), signs, threads=torch.get_num_threads())
    return signs


class Term(NamedTuple):
    """``x @ weight.t()``, or ``x @ weight``."""

    x: Tensor
    """[n, D]."""
    weight: Tensor
    """float32 [O, D], or [D, O]."""
    turned: bool = False
    """Whether the weight is [D, O]."""


def is_mixed(dtype: torch.dtype, *weights: Tensor) -> bool:
    """Return whether products in a type are taken by weights that are wider."""
    return dtype in SHORT and all(weight.dtype == torch.float32 for weight in weights)


def multiplied(
    terms: Sequence[Term],
    bias: Tensor | None,
    dtype: torch.dtype,
    out_dtype: torch.dtype | None = None,
    finish: Pass | None = None,
) -> Tensor:
    """Return ``bias`` and one or two products added up, [n, O].

    Args:
        terms: the products; the second may have fewer rows than the first, and is 0 in the others.
        bias: [O] in the type of the weights.
        dtype: of the rows; others are rounded to a short one.
        out_dtype: of the result, ``dtype`` or float32; by default ``dtype``.
        finish: what stands behind the products, of rows that the core computes on.
    """
    first = terms[0]
    if way := _core_way(first.x, dtype, *(term.weight for term in terms)):
        outputs = first.weight.shape[1] if first.turned else first.weight.shape[0]
        out = first.x.new_empty((len(first.x), outputs), dtype=out_dtype or dtype)
        given = [(whole_rows(x), weight.detach().contiguous(), turned) for x, weight, turned in terms]
        begins = None if bias is None else bias.detach().contiguous()
        _core.multiply(given, begins, out, finish, by=way, threads=torch.get_num_threads())
        return out
    if dtype in SHORT:
        wide = torch.float32 if out_dtype == torch.float32 else _widened(first.x, dtype)
        with without_autocast(first.x.device):
            total = _product(first, wide, bias)
            for x, weight, turned in terms[1:]:
                total[: len(x)].addmm_(x.to(wide), (weight if turned else weight.t()).to(wide))
            total = total.to(out_dtype or dtype)
    else:
        if not first.turned and _fit_narrow(first.x, dtype, first.weight):
            [total] = _products_at_once(first.x, [(len(first.x), first.weight, bias)], dtype, "narrow")
        else:
            total = _product(first, dtype, bias)
        for x, weight, turned in terms[1:]:
            total[: len(x)].addmm_(x, weight if turned else weight.t())
    return total if finish is None else finish.finish(total)


def add_multiplied(x: Tensor, weight: Tensor, out: Tensor) -> None:
    """Add ``x @ weight.t()`` to ``out`` [n, O], by the core in pieces, as it multiplies each row by itself."""
    rows = piece_rows(len(x)) if _core_way(x, x.dtype, weight) else max(1, len(x))
    for part, into in zip(x.split(rows), out.split(rows), strict=True):
        into += multiplied([Term(part, weight)], None, x.dtype)


def piece_rows(rows: int) -> int:
    """Rows of a piece of :func:`add_multiplied`."""
    return max(FEWEST_ROWS, -(-rows // MOST_PIECES))


class Back(NamedTuple):
    """A term of a sum of products, and which gradients are wanted."""

    x: Tensor
    """[n, D]."""
    weight: Tensor
    """[O, D]."""
    of_x: bool
    of_weight: bool


def multiplied_back(
    grad: Tensor,
    terms: Sequence[Back],
    *,
    bias: bool,
    finish: Pass | None = None,
    out: Tensor | None = None,
    overwrites: bool = False,
) -> tuple[list[tuple[Tensor | None, Tensor | None]], Tensor | None]:
    """Gradients of rows and weight of each term, and of the bias, from those of :func:`multiplied`.

    Args:
        grad: [n, O].
        terms: one or two, with as many rows.
        bias: whether its gradient is wanted.
        finish: what stood behind the products, which then gave ``out`` [n, O].
        overwrites: whether gradients of rows may be written over these, which nobody else reads.
    """
    if way := _core_way(grad, grad.dtype, *(term.weight for term in terms)):
        of_bias = grad.new_empty(grad.shape[1], dtype=torch.float32) if bias else None
        found = [
            (room_like(x, overwrites) if of_x else None, room_like(weight) if of_weight else None)
            for x, weight, of_x, of_weight in terms
        ]
        given = [
            (whole_rows(x), weight.detach().contiguous(), of_weight, of_x)
            for (x, weight, *_), (of_x, of_weight) in zip(terms, found, strict=True)
        ]
        _core.multiply_backward(
            whole_rows(grad), given, of_bias, finish, out, by=way, threads=torch.get_num_threads()
        )
        return found, of_bias
    if finish is not None and out is not None:
        grad = finish.backward(out, grad)
    found, of_bias = [], sum_of_rows(grad) if bias else None
    for x, weight, of_x, of_weight in terms:
        by_weight = weight_gradients([grad], x)[0] if of_weight else None
        found.append((_of_rows(grad, x, weight, overwrites=overwrites) if of_x else None, by_weight))
    return found, of_bias


def _of_rows(grad: Tensor, x: Tensor, weight: Tensor, *, overwrites: bool) -> Tensor:
    """Gradients of rows x [n, D] that were multiplied by a weight [O, D], over them where they may be."""
    if overwrites and x.dtype == grad.dtype == weight.dtype and x.is_contiguous() and len(x) == len(grad):
        with without_autocast(x.device):
            return torch.mm(grad, weight, out=x)
    return multiplied([Term(grad, weight, turned=True)], None, grad.dtype)


def products(
    x: Tensor | StoredRows, maps: Sequence[tuple[int, Tensor, Tensor | None]], dtype: torch.dtype
) -> list[Tensor]:
    """``x[:first] @ weight.t() + bias`` of each (first, weight, bias); the core reads each row once for all of them.

    Args:
        x: [n, D].
        maps: one or two, of weights [O, D] and biases [O].
        dtype: of the results, as :func:`~gsplit.kernels.product_dtype` says.
    """
    weights = [weight for _, weight, _ in maps]
    if _are_like(x, *weights) and (way := _once(x, dtype, *map(len, weights))):
        return _products_at_once(x, maps, dtype, way)
    rows = copied(x)
    return [multiplied([Term(rows[:first], weight)], bias, dtype) for first, weight, bias in maps]


def _products_at_once(
    x: Tensor | StoredRows, maps: Sequence[tuple[int, Tensor, Tensor | None]], dtype: torch.dtype, way: str
) -> list[Tensor]:
    written = dtype if dtype == torch.bfloat16 else torch.float32  # the core writes no float16
    outs = [torch.empty((first, len(weight)), dtype=written) for first, weight, _ in maps]
    wanted = [
        (weight.detach().contiguous(), None if bias is None else bias.detach().contiguous(), out)
        for (_, weight, bias), out in zip(maps, outs, strict=True)
    ]
    _core.project_rows(*_table(x), wanted, by=way, threads=torch.get_num_threads())
    return [out.to(dtype) for out in outs]


def weight_gradients(gradients: Sequence[Tensor], x: Tensor | StoredRows) -> list[Tensor]:
    """``gradient.t() @ x[: len(gradient)]`` of each, what the weights of :func:`products` get.

    Those of rows in a short type are float32.

    Args:
        gradients: one or two, [first, O] each.
        x: [n, D].
    """
    outputs, dtype = [gradient.shape[1] for gradient in gradients], gradients[0].dtype
    if (way := _once(x, dtype, *outputs)) is None:
        rows = copied(x)
        return [weight_gradient(gradient, rows, dtype) for gradient in gradients]
    outs = [torch.empty((number, x.shape[1]), dtype=torch.float32) for number in outputs]
    read = [gradient.float() if gradient.dtype == torch.float16 else gradient for gradient in gradients]
    given = [(gradient.detach().contiguous(), out) for gradient, out in zip(read, outs, strict=True)]
    _core.rows_gradient(*_table(x), given, by=way, threads=torch.get_num_threads())
    return outs


def weight_gradient(gradients: Tensor, x: Tensor, dtype: torch.dtype) -> Tensor:
    """``gradients.t() @ x[: len(gradients)]``, [O, D]; float32 of rows in a short type.

    Args:
        gradients: [n, O].
        x: [at least n, D].
        dtype: of the rows.
    """
    if way := _core_way(x, dtype):
        out = x.new_empty((gradients.shape[1], x.shape[1]), dtype=torch.float32)
        terms = [(whole_rows(x), None, out, None)]
        _core.multiply_backward(whole_rows(gradients), terms, by=way, threads=torch.get_num_threads())
        return out
    rows = x[: len(gradients)]
    if dtype not in SHORT:
        return gradients.t() @ rows
    wide = _widened(rows, dtype)
    with without_autocast(rows.device):
        return (gradients.to(wide).t() @ rows.to(wide)).float()


def are_narrow(x: Tensor | StoredRows, dtype: torch.dtype, *outputs: int) -> bool:
    """Return whether the core multiplies rows like ``x`` [n, D] by matrices with so many outputs each, read once.

    Args:
        x: the rows.
        dtype: of the products.
        outputs: of the matrices.
    """
    if x.dtype != torch.float32 and not _are_short(x, dtype):
        return False
    if isinstance(x, Tensor) and (not in_core(x) or x.stride(1) != 1):
        return False
    return all(_core.narrow_fits(number, x.shape[1]) for number in outputs)


def _once(x: Tensor | StoredRows, dtype: torch.dtype, *outputs: int) -> str | None:
    """How the core takes one or two products of rows, reading each once for all of them; None: it does not."""
    stored = isinstance(x, StoredRows)
    if stored and _are_short(x, dtype):
        return "bfloat16"
    if are_narrow(x, dtype, *outputs) and (stored or dtype not in SHORT):
        return "narrow"
    return "float32" if stored and x.dtype == dtype == torch.float32 and _core.has_wide_products() else None


def multiplies_stored(outputs: int, width: int) -> bool:
    """Return whether the core multiplies rows that are read where they lie, in float32.

    Args:
        outputs: of each matrix.
        width: of the rows.
    """
    return bool(_core.narrow_fits(outputs, width) or _core.has_wide_products())


def _are_short(x: Tensor | StoredRows, dtype: torch.dtype) -> bool:
    """Whether the core takes products in bfloat16 of rows that are read where they lie."""
    return dtype == torch.bfloat16 and x.dtype in (torch.bfloat16, torch.float32) and isinstance(x, StoredRows)


def _are_like(x: Tensor | StoredRows, *weights: Tensor) -> bool:
    """Whether the core multiplies such rows by the weights: float32, as wide."""
    return all(weight.dtype == torch.float32 and weight.shape[1] == x.shape[1] for weight in weights)


def _fit_narrow(x: Tensor | StoredRows, dtype: torch.dtype, *weights: Tensor) -> bool:
    return _are_like(x, *weights) and are_narrow(x, dtype, *map(len, weights))


def in_layers(x: Tensor, weight: Tensor, dtype: torch.dtype) -> bool:
    """Return whether products of such rows by a weight, and what stands behind them, are taken by a pass of the core.

    Args:
        x: [n, D].
        weight: [O, D].
        dtype: of the rows that are multiplied.
    """
    return is_mixed(dtype, weight) or bool(_core_way(x, dtype, weight)) or are_narrow(x, dtype, len(weight))


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Let operations compute in the types of what they are given while the block runs."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def _core_way(x: Tensor, dtype: torch.dtype, *weights: Tensor) -> str | None:
    """The type that the core takes products of rows by weights in; None: a library does."""
    if not in_core(x) or any(weight.dtype != torch.float32 for weight in weights):
        return None
    if dtype == torch.bfloat16 and x.dtype in (torch.bfloat16, torch.float32):
        return "bfloat16"
    return "float32" if x.dtype == dtype == torch.float32 and _core.has_wide_products() else None


def room_like(x: Tensor, overwrites: bool = False) -> Tensor:
    """Return room for as many values, row by row, however those of ``x`` lie; that of ``x`` where it may be."""
    if overwrites and x.is_contiguous():  # the core has read a row for all else when it writes its gradient
        return x
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _widened(x: Tensor, dtype: torch.dtype) -> torch.dtype:
    """The type that PyTorch multiplies in: few CPUs have fast products of short types."""
    return torch.float32 if x.device.type == "cpu" and not core_rests[0] else dtype


def _product(term: Term, dtype: torch.dtype, bias: Tensor | None) -> Tensor:
    weight = term.weight.t() if term.turned else term.weight
    return F.linear(term.x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))


def sum_of_rows(gradients: Tensor) -> Tensor:
    """What a bias gets of gradients [n, O]."""
    return gradients.sum(dim=0, dtype=computed_in(gradients.dtype))


def _table(x: Tensor | StoredRows) -> tuple[Any, Any]:
    return (x.table, x.ids) if isinstance(x, StoredRows) else (x.detach(), None)
