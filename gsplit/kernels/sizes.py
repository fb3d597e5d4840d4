"""The kernels of tensors that have a size and no content (PyTorch's device ``meta``): what memory they would take.

They are those of PyTorch's operations, but for products that sparse tensors are made for, which have no content-less
form: here are tensors of the same sizes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from gsplit.kernels.library import Library
from gsplit.kernels.sums import Edges, computed_in


class ShapeKernels(Library):
    """Results of the right shapes, with all that is made on the way."""

    @override
    def dot(self, edges: Edges, own: Tensor, received: Tensor | None, left: Tensor, heads: int) -> Tensor:
        x = own if received is None else torch.cat([own, received])
        dtype = computed_in(own.dtype)
        x, left = x.to(dtype), left.to(dtype)
        pattern = edges.indptr.long(), edges.indices.long(), left.new_zeros(len(edges.indices))
        products = []
        for a, b in zip(left.chunk(heads, dim=1), x.chunk(heads, dim=1), strict=True):
            _ = a.contiguous(), b.contiguous()
            products.append([torch.empty_like(part) for part in pattern])  # a sparse tensor has places of its own
        return torch.stack([values for *_, values in products], dim=1).to(dtype)
