"""Scores of rows by head, and their gradients: what attention is computed by, on blocks and on grids.

Legend: n rows, D features of a head, H heads.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gsplit.kernels import computed_in
from gsplit.nn.rowwise.products import Term, is_mixed, multiplied, weight_gradient


def columns_of(att: Tensor) -> Tensor:
    """[H D, H] matrix whose column h holds ``att[h]`` [D] where head h has its features, and zeros elsewhere."""
    return torch.block_diag(*att.detach().unsqueeze(2))


def scores_of(z: Tensor, att: Tensor) -> Tensor:
    """Dot products of each head's features with those of ``att``, [n, H], in the type that rows are added up in."""
    columns = columns_of(att).to(computed_in(z.dtype))
    if is_mixed(z.dtype, columns):
        return multiplied([Term(z, columns, turned=True)], None, z.dtype, columns.dtype)
    return z @ columns


def gradient_of(att: Tensor, z: Tensor, grad: Tensor) -> Tensor:
    """Gradient of ``att`` [H, D] for that of :func:`scores_of` [n, H]: of pairs of heads those of one with itself."""
    product = weight_gradient(grad, z, z.dtype).t()
    return product.unflatten(0, att.shape).diagonal(dim1=0, dim2=2).t().contiguous()


def kept_of(dropout: Callable[[Tensor], Tensor], shares: Tensor) -> Tensor | None:
    """Return what dropout multiplies the shares by; None where it changes nothing, not in place either.

    Whether it wrote to what it gave back is asked of the tensor, not of its values, which a GPU would have to send.
    """
    ones = torch.ones_like(shares)
    kept = dropout(ones)
    return None if kept is ones and ones._version == 0 else kept


def where_kept(values: Tensor, kept: Tensor | None) -> Tensor:
    """``values`` multiplied by what :func:`kept_of` gave for them."""
    return values if kept is None else values * kept


def by_head(x: Tensor, heads: int) -> Tensor:
    """Rows [n, H D] as [n, H, D]."""
    return x.unflatten(1, (heads, -1))
