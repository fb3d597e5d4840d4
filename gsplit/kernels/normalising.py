"""Normalisation of rows, with ReLU and dropout behind it and a skip added: what every set of kernels computes.

Nothing here knows autograd: :mod:`gsplit.nn.rowwise.norms` calls it forward and backward.

    forward     n = (x - mean) * factor,  factor = (mean of (x - mean)^2 + eps)^-1/2
                out = finish(n * weight + bias) + skip
    backward    g = gradients that finish let through,  weight gets the sum of g * n, bias that of g, and x
                factor * (g * weight - mean of (g * weight) - n * mean of (g * weight * n))

with the means of a row; RMSNorm takes 0 for the mean of x and for that of gradients. A batch's means are of columns,
over the rows of all trainers: they are given, and ``weight`` is multiplied by the factors already.

Legend: R rows, D columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

RMS, LAYER, BATCH = 0, 1, 2
"""Normalisations, by the core's numbers."""


class Finishing(NamedTuple):
    """ReLU and dropout behind rows, as the core is told."""

    activation: int = 0
    """0: none, and nothing is dropped; 1: ReLU."""
    drop: float = 0.0
    """Share that is dropped."""
    seed: int = 0
    """That what is dropped follows from, below 2^62."""


NOTHING = Finishing()


@dataclass(frozen=True, kw_only=True)
class Normaliser:
    """What rows are normalised by, and with."""

    kind: int
    """:data:`RMS`, :data:`LAYER` or :data:`BATCH`."""
    eps: float = 0.0
    """Added to the mean square; not of a batch."""
    weight: Tensor | None = None
    """float32 [D]; None: 1. Of a batch multiplied by its factors."""
    bias: Tensor | None = None
    """float32 [D]; None: 0."""
    mean: Tensor | None = None
    """float32 [D] of a batch."""
    behind: Finishing = NOTHING
    """What stands behind it."""


class Given(NamedTuple):
    """What backward is given."""

    x: Tensor
    """The rows [R, D]."""
    by: Normaliser
    """What they were normalised by."""
    kept: Tensor | None
    """What forward kept."""
    gradients: Tensor
    """[R, D] of what forward gave."""


@dataclass(frozen=True)
class ColumnSums:
    """Sums over rows of each column."""

    values: Tensor
    """Of the values, float32 [D]."""
    squares_over: Callable[[Tensor], Tensor]
    """Of the squares of what they are over a mean [D], float32 [D]."""


class Normalising(Protocol):
    """Kernels that normalise rows [R, D]. All that they compute with and add up is float32 or wider."""

    finishes: bool
    """Whether what stands behind a normalisation is taken in its pass; else it has to follow."""
    keeps_bits: bool
    """Whether backward is told what ReLU and dropout let through; else it finds that anew, with the bias."""

    def forward(self, x: Tensor, by: Normaliser, skip: Tensor | None, *, keeps: bool) -> tuple[Tensor, Tensor | None]:
        """Normalise rows.

        Args:
            x: [R, D].
            by: what they are normalised by.
            skip: [R, D] in the type of x, added last; None: nothing.
            keeps: whether backward will ask for what was let through.

        Returns:
            Rows [R, D] in the type of x, and what backward is told, if anything.
        """

    def backward(self, given: Given, of_x: Tensor, of_weight: Tensor | None, of_bias: Tensor | None) -> None:
        """Write what x, weight and bias get of gradients; not of a batch.

        Args:
            given: rows and gradients.
            of_x: [R, D], written; it may be x.
            of_weight, of_bias: float32 [D], written; None: it is not wanted.
        """

    def column_sums(self, x: Tensor) -> ColumnSums:
        """Sum columns of rows."""

    def batch_sums_backward(self, given: Given) -> Tensor:
        """Sum columns: of gradients that were let through, times x - mean, and of these alone; float32 [2, D]."""

    def batch_backward(self, given: Given, shift: Tensor, slope: Tensor, of_x: Tensor) -> None:
        """``of_x = weight * (gradients that were let through - shift - (x - mean) * slope)``, which may be x.

        ``shift`` and ``slope`` are float32 [D].
        """


def threshold(drop: float) -> int:
    """Return below which number the upper 31 bits of a value's hash drop it, where it is computed in float32."""
    return min(int(float(np.float32(drop)) * 2**32), 2**32 - 1) >> 1


def scale_of(drop: float) -> float:
    """Return what values that are left are multiplied by, as the core takes it in float32."""
    return float(np.float32(1) / (np.float32(1) - np.float32(drop))) if drop < 1 else 0.0


def column(values: Tensor | None) -> Tensor | None:
    """A number for each column, one behind the other, outside of autograd."""
    return None if values is None else values.detach().contiguous()


def sums_like(x: Tensor, *shape: int) -> Tensor:
    """Room for sums of rows like ``x``, float32."""
    return x.new_empty(shape, dtype=torch.float32)
