"""Passes over rows that are normalised, on GPUs: launches of the kernels in :mod:`gsplit.kernels.norm_rows`.

Forward is one launch. Backward is one, and one more that adds up what programs have of sums of columns; of a batch
one more than that, for trainers add up these sums before. The statistics of a batch are two.

Legend: R rows, D columns, P programs.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from gsplit.device import accelerator
from gsplit.kernels import norm_rows
from gsplit.kernels.normalising import Normaliser, column, scale_of, sums_like, threshold
from gsplit.kernels.sums import whole_rows

MAX_COLUMNS = 4096
"""Columns of a row that a program has in its registers at most."""
TILE_VALUES = 1024
"""Values of the rows that a program has at once, where a row has no more."""
LANE_VALUES = 8
"""Values that a lane of 32 has of these, as far as MAX_WARPS goes."""
MAX_WARPS = 16
PROGRAMS = 512
"""Programs that share the rows of a sum, at most."""
SUMMED_COLUMNS, SUMMED_PROGRAMS = 16, 64
"""Columns of what programs have that another adds up, and of how many programs it reads them at once."""


def tile(width: int) -> dict[str, int]:
    """Rows and columns that a program has at once, and its warps."""
    columns = triton.next_power_of_2(width)
    rows = max(1, TILE_VALUES // columns)
    warps = min(MAX_WARPS, max(1, rows * columns // (32 * LANE_VALUES)))
    return {"ROWS": rows, "COLUMNS": columns, "num_warps": warps, "enable_fp_fusion": False}


def normalise(x: Tensor, by: Normaliser, skip: Tensor | None, out: Tensor) -> None:
    """Write ``finish(normalised x) + skip`` to ``out``, on the current stream of its device.

    Args:
        x: [R, D], in float32 or a shorter type; D at most :data:`MAX_COLUMNS`.
        by: the normalisation, and what stands behind it.
        skip: [R, D]; None: nothing is added.
        out: [R, D], contiguous.
    """
    if not x.numel():
        return
    x, (n, width), added = whole_rows(x), x.shape, None if skip is None else whole_rows(skip)
    shape = tile(width)
    with accelerator.as_current(out.device):
        norm_rows._forward[(triton.cdiv(n, shape["ROWS"]),)](
            *(x, column(by.weight), column(by.bias), by.mean, added, out, n, by.eps, *_dropped(by)),
            D=width,
            X=x.stride(0),
            SKIP=0 if added is None else added.stride(0),
            KIND=by.kind,
            **_finish(by),
            **shape,
        )


def normalise_backward(
    x: Tensor, by: Normaliser, gradients: Tensor, of_x: Tensor, of_weight: Tensor | None, of_bias: Tensor | None
) -> None:
    """Write what x, weight and bias get of gradients, as :meth:`gsplit.kernels.normalising.Normalising.backward`.

    Args:
        x, by: see :func:`normalise`.
        gradients: [R, D].
        of_x: [R, D], contiguous; it may be x.
        of_weight, of_bias: float32 [D]; None: it is not wanted.
    """
    x, gradients, (n, width) = whole_rows(x), whole_rows(gradients), x.shape
    shape, sums = tile(width), of_weight is not None or of_bias is not None
    if not n:
        return _zero(of_weight, of_bias)
    tiles = triton.cdiv(n, shape["ROWS"])
    programs = min(PROGRAMS, tiles) if sums else tiles
    partial = _partial(x, programs) if sums else None
    with accelerator.as_current(x.device):
        norm_rows._backward[(programs,)](
            *(x, column(by.weight), column(by.bias), gradients, of_x, partial, n, by.eps, *_dropped(by)),
            D=width,
            X=x.stride(0),
            GRADIENTS=gradients.stride(0),
            KIND=by.kind,
            **_finish(by),
            **shape,
        )
        if partial is not None:
            _add(partial, of_weight, of_bias)


def column_sums(x: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of columns of x [R, D], and of the squares of what they are over their mean, float32 [D] each."""
    x, (n, width), (sums, squares) = whole_rows(x), x.shape, sums_like(x, 2, x.shape[1])
    if not n:
        return sums.zero_(), squares.zero_()
    shape = tile(width)
    programs = min(PROGRAMS, triton.cdiv(n, shape["ROWS"]))
    partial = _partial(x, programs)
    with accelerator.as_current(x.device):
        norm_rows._column_sums[(programs,)](x, partial, n, D=width, X=x.stride(0), **shape)
        _add(partial, sums, squares, over=x[0], n=n)
    return sums, squares


def batch_sums_backward(x: Tensor, by: Normaliser, gradients: Tensor) -> Tensor:
    """Sums of gradients that were let through, times x - mean, and of these alone, float32 [2, D]."""
    x, gradients, (n, width), out = whole_rows(x), whole_rows(gradients), x.shape, sums_like(x, 2, x.shape[1])
    if not n:
        return out.zero_()
    shape = tile(width)
    programs = min(PROGRAMS, triton.cdiv(n, shape["ROWS"]))
    partial = _partial(x, programs)
    with accelerator.as_current(x.device):
        norm_rows._batch_sums_backward[(programs,)](
            *(x, column(by.weight), column(by.bias), by.mean, gradients, partial, n, *_dropped(by)),
            D=width,
            X=x.stride(0),
            GRADIENTS=gradients.stride(0),
            **_finish(by),
            **shape,
        )
        _add(partial, out[0], out[1])
    return out


def batch_backward(x: Tensor, by: Normaliser, gradients: Tensor, shift: Tensor, slope: Tensor, of_x: Tensor) -> None:
    """Write what x gets, as :meth:`gsplit.kernels.normalising.Normalising.batch_backward`."""
    if not x.numel():
        return
    x, gradients, (n, width) = whole_rows(x), whole_rows(gradients), x.shape
    shape = tile(width)
    with accelerator.as_current(x.device):
        norm_rows._batch_backward[(triton.cdiv(n, shape["ROWS"]),)](
            *(x, column(by.weight), column(by.bias), by.mean, shift, slope, gradients, of_x, n, *_dropped(by)),
            D=width,
            X=x.stride(0),
            GRADIENTS=gradients.stride(0),
            **_finish(by),
            **shape,
        )


def _dropped(by: Normaliser) -> tuple[int, int, float]:
    """Seed, threshold and scale of dropout."""
    return by.behind.seed, threshold(by.behind.drop), scale_of(by.behind.drop)


def _finish(by: Normaliser) -> dict[str, Any]:
    return {"FINISHES": by.behind.activation > 0, "DROPS": by.behind.drop > 0}


def _partial(x: Tensor, programs: int) -> Tensor:
    """Room for two sums of columns by each program, float64 [P, 2, D]."""
    return x.new_empty((programs, 2, x.shape[1]), dtype=torch.float64)


def _add(
    partial: Tensor, first: Tensor | None, second: Tensor | None, *, over: Tensor | None = None, n: int = 0
) -> None:
    programs, _, width = partial.shape
    columns = min(SUMMED_COLUMNS, triton.next_power_of_2(width))
    norm_rows._add_up[(triton.cdiv(width, columns),)](
        *(partial, over, first, second, programs, n),
        D=width,
        CENTRES=over is not None,
        PROGRAMS=SUMMED_PROGRAMS,
        COLUMNS=columns,
        enable_fp_fusion=False,
    )


def _zero(*sums: Tensor | None) -> None:
    for each in sums:
        if each is not None:
            each.zero_()
