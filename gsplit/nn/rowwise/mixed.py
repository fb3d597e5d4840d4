"""Products of rows in bfloat16 or float16 by weights in float32, outside of autograd: sums of products are float32.

On the CPU by the tiles of AMX where there are any (``csrc/tile_products.hpp``), else in float32 from rows that are
widened. On accelerators by PyTorch, with weights that are rounded first, as under ``torch.autocast``: each product is
rounded before another is added to it, and so is the gradient of a weight, but what is asked for in float32 is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import gsplit._core as _core
from gsplit.kernels import in_core
from gsplit.kernels.sums import SHORT, core_rests, whole_rows


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
    terms: Sequence[Term], bias: Tensor | None, dtype: torch.dtype, out_dtype: torch.dtype | None = None
) -> Tensor:
    """Return ``bias`` and one or two products added up, [n, O].

    Args:
        terms: the products; the second may have fewer rows than the first, and is 0 in the others.
        bias: float32 [O].
        dtype: of the rows, a short one; others are rounded to it.
        out_dtype: of the result, ``dtype`` or float32; by default ``dtype``.
    """
    first = terms[0]
    outputs = first.weight.shape[1] if first.turned else first.weight.shape[0]
    if _by_tiles(first.x, dtype):
        out = torch.empty((len(first.x), outputs), dtype=out_dtype or dtype)
        given = [(whole_rows(x), weight.detach().contiguous(), turned) for x, weight, turned in terms]
        begins = None if bias is None else bias.detach().contiguous()
        _core.multiply_mixed(given, begins, out, threads=torch.get_num_threads())
        return out
    wide = torch.float32 if out_dtype == torch.float32 else _widened(first.x, dtype)
    with without_autocast(first.x.device):
        total = _product(first, wide, bias)
        for term in terms[1:]:
            total[: len(term.x)] += _product(term, wide, None)
        return total.to(out_dtype or dtype)


def gradient(gradients: Tensor, x: Tensor, dtype: torch.dtype, *, bias: bool = False) -> tuple[Tensor, Tensor | None]:
    """``gradients.t() @ x[: len(gradients)]``, float32 [O, D], what a weight gets; with ``bias`` also what that gets.

    Args:
        gradients: [n, O].
        x: [at least n, D].
        dtype: of the rows, a short one.
        bias: sum the gradients' rows up as well.
    """
    if _by_tiles(x, dtype):
        out = torch.empty((gradients.shape[1], x.shape[1]))
        sums = torch.empty(gradients.shape[1]) if bias else None
        _core.mixed_gradient(whole_rows(gradients), whole_rows(x), out, sums, threads=torch.get_num_threads())
        return out, sums
    rows = x[: len(gradients)]
    wide = _widened(rows, dtype)
    with without_autocast(rows.device):
        product = (gradients.to(wide).t() @ rows.to(wide)).float()
        return product, gradients.sum(dim=0, dtype=torch.float32) if bias else None


def _widened(x: Tensor, dtype: torch.dtype) -> torch.dtype:
    """The type that PyTorch multiplies in: few CPUs have fast products of short types."""
    return torch.float32 if x.device.type == "cpu" and not core_rests[0] else dtype


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Let operations compute in the types of what they are given while the block runs."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def _product(term: Term, dtype: torch.dtype, bias: Tensor | None) -> Tensor:
    weight = term.weight.t() if term.turned else term.weight
    return F.linear(term.x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))


def _by_tiles(x: Tensor, dtype: torch.dtype) -> bool:
    given = in_core(x) and x.dtype in (torch.bfloat16, torch.float32)
    return given and dtype == torch.bfloat16 and _core.has_tiles()
