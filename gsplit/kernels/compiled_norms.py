"""Normalisation by kernels that Triton compiles for the GPU that is there (:mod:`gsplit.kernels.norm_rows`)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from typing_extensions import override

from gsplit.device import accelerator
from gsplit.kernels.compiled import GivesUp
from gsplit.kernels.library_norms import LibraryNorms
from gsplit.kernels.normalising import LAYER, ColumnSums, Finishing, Given, Normaliser, sums_like

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Types of rows; what is computed of them is float32."""
FIRST = "normalisation is PyTorch's own: "
"""How the one line begins that says why nothing is compiled here."""


class CompiledNorms(GivesUp, LibraryNorms):
    """Kernels of Triton's: one pass forward and one backward. Nothing is kept for backward but the rows.

    Where they cannot be compiled, or a first small LayerNorm or first sums of columns come out otherwise than by
    PyTorch's operations, a warning says so, and those take their place as long as the process lives.

    Args:
        drives: whether Triton drives a device.
    """

    first = FIRST
    what = "it"
    finishes = True

    def __init__(self, drives: Callable[[torch.device], bool]) -> None:
        super().__init__()
        self._drives = drives

    def takes(self, x: Tensor) -> bool:
        """Return whether these kernels normalise rows like ``x`` [n, D]."""
        fits = self._works and accelerator.is_one(x.device) and x.dtype in DTYPES and x.dim() == 2
        if not (fits and self._drives(x.device)):
            return False
        from gsplit.kernels.norm_passes import MAX_COLUMNS

        return 0 < x.shape[1] <= MAX_COLUMNS and self._tried(x.device)

    @override
    def forward(self, x: Tensor, by: Normaliser, skip: Tensor | None, *, keeps: bool) -> tuple[Tensor, Tensor | None]:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)

        def launch() -> None:
            from gsplit.kernels.norm_passes import normalise

            normalise(x, by, skip, out)

        return (out, None) if self._made(launch) else super().forward(x, by, skip, keeps=keeps)

    @override
    def backward(self, given: Given, of_x: Tensor, of_weight: Tensor | None, of_bias: Tensor | None) -> None:
        def launch() -> None:
            from gsplit.kernels.norm_passes import normalise_backward

            normalise_backward(given.x, given.by, given.gradients, of_x, of_weight, of_bias)

        if not self._made(launch, raises=of_x.data_ptr() == given.x.data_ptr()):
            super().backward(given, of_x, of_weight, of_bias)

    @override
    def column_sums(self, x: Tensor) -> ColumnSums:
        found: list[Tensor] = []

        def launch() -> None:
            from gsplit.kernels.norm_passes import column_sums

            found.extend(column_sums(x))

        if not self._made(launch):
            return super().column_sums(x)
        (values, squares), count = found, len(x)
        own_mean = values / max(count, 1)
        return ColumnSums(values, lambda mean: squares + count * (own_mean - mean).square())

    @override
    def batch_sums_backward(self, given: Given) -> Tensor:
        found: list[Tensor] = []

        def launch() -> None:
            from gsplit.kernels.norm_passes import batch_sums_backward

            found.append(batch_sums_backward(given.x, given.by, given.gradients))

        return found[0] if self._made(launch) else super().batch_sums_backward(given)

    @override
    def batch_backward(self, given: Given, shift: Tensor, slope: Tensor, of_x: Tensor) -> None:
        def launch() -> None:
            from gsplit.kernels.norm_passes import batch_backward

            batch_backward(given.x, given.by, given.gradients, shift, slope, of_x)

        if not self._made(launch):
            super().batch_backward(given, shift, slope, of_x)

    @override
    def _check(self, device: torch.device) -> None:
        """Hold first small rows and their gradients against those of PyTorch's operations."""
        random = torch.Generator().manual_seed(0)
        x, skip, gradients = (torch.randn((5, 20), generator=random).to(device) for _ in range(3))
        weight, bias = (torch.randn(20, generator=random).to(device) for _ in range(2))
        by = Normaliser(kind=LAYER, eps=1e-5, weight=weight, bias=bias, behind=Finishing(1, 0.5, 3))
        found: list[tuple[Tensor, ...]] = []
        for kernels in (self, LibraryNorms()):
            out, kept = kernels.forward(x, by, skip, keeps=True)
            of_x, of_columns = torch.empty_like(x), sums_like(x, 2, 20)
            kernels.backward(Given(x, by, kept, gradients), of_x, *of_columns)
            sums = kernels.column_sums(x)
            found.append((out, of_x, of_columns, sums.values, sums.squares_over(weight)))
        close = [torch.allclose(one, other, rtol=1e-4, atol=1e-4) for one, other in zip(*found, strict=True)]
        if self._works and not all(close):
            self._give_up("the kernels for it give other numbers here")
