"""Kernels that normalise rows, with ReLU and dropout behind and a skip added, in one pass each way, for GPUs.

Imported only where a GPU normalises: Triton comes with PyTorch for GPUs, not with PyTorch for the CPU. What is
computed is told in :mod:`gsplit.kernels.normalising`; :mod:`gsplit.kernels.norm_passes` launches them.

A program has whole rows, ROWS of them at a time, so that what a row needs of itself is in its registers, and each row
is read once and written once. Nothing is kept for backward but the rows that were normalised: what ReLU and dropout
let through is computed again of these, for what is dropped follows from seed, row and column, by the numbers of the
core (``csrc/activation_rows.hpp``). No product is fused with a sum, so both ways find the same values above 0.

Sums of columns: each of at most PROGRAMS programs adds up its rows in order, in float64, and another kernel adds up
what they have, in order too. Nothing is added by atomic operations, and neither number depends on the GPU: results
are the same every time. The mean of a row is its first value, and the mean of what the others are over it, so equal
values leave nothing. A batch's rows are read once for both of its statistics: sums of what they are over the first
row, and of the squares of that, of which the squares over their own mean follow.

Widths and strides of rows are constants of a kernel, as in :mod:`gsplit.kernels.segment_sums`.

Legend: R rows, D columns, P programs.
"""

from __future__ import annotations

import triton
import triton.language as tl

_RMS, _LAYER, _BATCH = (tl.constexpr(kind) for kind in (0, 1, 2))
_NAMES = ["n", "eps", "seed", "below", "scale"]
"""Numbers that no compiled code is made for."""
_COLUMNS = ["weight", "bias", "mean", "shift", "slope", "sums", "partial", "first", "second"]
"""Arrays of columns: no compiled code of its own for those that begin at multiples of 16."""


# Without annotations but for the constants: Triton compiles them along.
@triton.jit
def _mixed(hash):  # type: ignore[no-untyped-def]
    """The end of MurmurHash3, of numbers without a sign."""
    hash = (hash ^ (hash >> 16)) * 0x85EBCA6B
    hash = (hash ^ (hash >> 13)) * 0xC2B2AE35
    return hash ^ (hash >> 16)


@triton.jit
def _kept(row, column, seed, below):  # type: ignore[no-untyped-def]
    """Which values of rows and columns dropout leaves (:mod:`gsplit.kernels.masks`)."""
    of_row = seed.to(tl.uint64) + (row + 1).to(tl.uint64) * 0x9E3779B97F4A7C15
    of_row = (of_row ^ (of_row >> 30)) * 0xBF58476D1CE4E5B9
    of_row = (of_row ^ (of_row >> 27)) * 0x94D049BB133111EB
    of_row = of_row ^ (of_row >> 31)
    hash = column.to(tl.uint32)[None, :] * 0x9E3779B1 + of_row.to(tl.uint32)[:, None]
    hash = _mixed(_mixed(hash) ^ (of_row >> 32).to(tl.uint32)[:, None])
    return (hash >> 1).to(tl.int32) >= below


@triton.jit
def _tile(tile, n, column, D: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Numbers of a tile's rows, which of them there are, and which of its values."""
    row = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    there = row < n
    return row, there, there[:, None] & (column < D)[None, :]


@triton.jit
def _read(x, row, column, inside, STRIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rows in float32."""
    return tl.load(x + row[:, None] * STRIDE + column[None, :], mask=inside, other=0).to(tl.float32)


@triton.jit
def _normal(  # type: ignore[no-untyped-def]
    x, mean, row, column, there, inside, eps, D: tl.constexpr, X: tl.constexpr, KIND: tl.constexpr
):  # fmt: skip
    """Rows over their mean, times their factor, and these factors; of a batch without factors."""
    values = _read(x, row, column, inside, X)
    if KIND == _BATCH:
        values -= tl.load(mean + column, mask=column < D, other=0)[None, :]
        return tl.where(inside, values, 0), tl.full([row.shape[0]], 1, tl.float32)
    if KIND == _LAYER:
        first = tl.load(x + row * X, mask=there, other=0).to(tl.float32)
        values = tl.where(inside, values - first[:, None], 0)
        values = tl.where(inside, values - (tl.sum(values, axis=1) / D)[:, None], 0)
    factor = 1 / tl.sqrt(tl.sum(values * values, axis=1) / D + eps)
    return values * factor[:, None], factor


@triton.jit
def _scaled(normal, weight, bias, column, D: tl.constexpr):  # type: ignore[no-untyped-def]
    """What weight and bias, or one of them, or none, make of normalised rows."""
    if weight is not None:
        normal *= tl.load(weight + column, mask=column < D, other=0)[None, :]
    if bias is not None:
        normal += tl.load(bias + column, mask=column < D, other=0)[None, :]
    return normal


@triton.jit
def _let_through(  # type: ignore[no-untyped-def]
    gradients, normal, weight, bias, row, column, inside, seed, below, scale, D: tl.constexpr,
    GRADIENTS: tl.constexpr, FINISHES: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Gradients that ReLU and dropout let through, times what dropout left them."""
    given = _read(gradients, row, column, inside, GRADIENTS)
    if FINISHES:
        given = tl.where(_scaled(normal, weight, bias, column, D) <= 0, 0, given)
    if DROPS:
        given *= tl.where(_kept(row, column, seed, below), scale, 0)
    return given


@triton.jit(do_not_specialize=_NAMES, do_not_specialize_on_alignment=_COLUMNS)
def _forward(  # type: ignore[no-untyped-def]
    x, weight, bias, mean, skip, out, n, eps, seed, below, scale, D: tl.constexpr, X: tl.constexpr,
    SKIP: tl.constexpr, KIND: tl.constexpr, FINISHES: tl.constexpr, DROPS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Program p normalises rows ``p * ROWS ..``; X and SKIP are strides."""
    column = tl.arange(0, COLUMNS)
    row, there, inside = _tile(tl.program_id(0), n, column, D, ROWS)
    normal, _ = _normal(x, mean, row, column, there, inside, eps, D, X, KIND)
    result = _scaled(normal, weight, bias, column, D)
    if FINISHES:
        result = tl.where(result <= 0, 0, result)  # what is no number stays
    if DROPS:
        result *= tl.where(_kept(row, column, seed, below), scale, 0)
    if skip is not None:
        result += _read(skip, row, column, inside, SKIP)
    tl.store(out + row[:, None] * D + column[None, :], result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _write_sums(partial, first, second, column, D: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write what a program has of two sums of columns to ``partial[p]`` [2, D]."""
    place = partial + tl.program_id(0).to(tl.int64) * 2 * D + column
    tl.store(place, tl.sum(first, axis=0), mask=column < D)
    tl.store(place + D, tl.sum(second, axis=0), mask=column < D)


@triton.jit(do_not_specialize=_NAMES, do_not_specialize_on_alignment=_COLUMNS)
def _backward(  # type: ignore[no-untyped-def]
    x, weight, bias, gradients, of_x, partial, n, eps, seed, below, scale, D: tl.constexpr, X: tl.constexpr,
    GRADIENTS: tl.constexpr, KIND: tl.constexpr, FINISHES: tl.constexpr, DROPS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Of RMSNorm and LayerNorm: program p has tiles p, p + programs, ... of ROWS rows, and sums of all of these."""
    column = tl.arange(0, COLUMNS)
    of_weight = tl.zeros([ROWS, COLUMNS], tl.float64)
    of_bias = tl.zeros([ROWS, COLUMNS], tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        row, there, inside = _tile(tile, n, column, D, ROWS)
        normal, factor = _normal(x, None, row, column, there, inside, eps, D, X, KIND)
        given = _let_through(
            gradients, normal, weight, bias, row, column, inside, seed, below, scale, D, GRADIENTS, FINISHES, DROPS
        )
        if partial is not None:
            of_weight += (given * normal).to(tl.float64)
            of_bias += given.to(tl.float64)
        weighted = _scaled(given, weight, None, column, D)
        result = weighted - normal * (tl.sum(weighted * normal, axis=1) / D)[:, None]
        if KIND == _LAYER:
            result -= (tl.sum(weighted, axis=1) / D)[:, None]
        to = of_x + row[:, None] * D + column[None, :]
        tl.store(to, (result * factor[:, None]).to(of_x.dtype.element_ty), mask=inside)
    if partial is not None:
        _write_sums(partial, of_weight, of_bias, column, D)


@triton.jit(do_not_specialize=_NAMES, do_not_specialize_on_alignment=_COLUMNS)
def _column_sums(  # type: ignore[no-untyped-def]
    x, partial, n, D: tl.constexpr, X: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Sums of what rows are over the first one, and of its squares; programs share tiles as in backward."""
    column = tl.arange(0, COLUMNS)
    over = tl.load(x + column, mask=column < D, other=0).to(tl.float32)
    sums = tl.zeros([ROWS, COLUMNS], tl.float64)
    squares = tl.zeros([ROWS, COLUMNS], tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        row, _, inside = _tile(tile, n, column, D, ROWS)
        values = _read(x, row, column, inside, X) - over[None, :]
        values = tl.where(inside, values, 0).to(tl.float64)
        sums += values
        squares += values * values
    _write_sums(partial, sums, squares, column, D)


@triton.jit(do_not_specialize=_NAMES, do_not_specialize_on_alignment=_COLUMNS)
def _batch_sums_backward(  # type: ignore[no-untyped-def]
    x, weight, bias, mean, gradients, partial, n, seed, below, scale, D: tl.constexpr, X: tl.constexpr,
    GRADIENTS: tl.constexpr, FINISHES: tl.constexpr, DROPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums of gradients times what rows are over their mean, and of gradients."""
    column = tl.arange(0, COLUMNS)
    products = tl.zeros([ROWS, COLUMNS], tl.float64)
    sums = tl.zeros([ROWS, COLUMNS], tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        row, there, inside = _tile(tile, n, column, D, ROWS)
        centred, _ = _normal(x, mean, row, column, there, inside, 0, D, X, _BATCH)
        given = _let_through(
            gradients, centred, weight, bias, row, column, inside, seed, below, scale, D, GRADIENTS, FINISHES, DROPS
        )  # fmt: skip
        products += (given * centred).to(tl.float64)
        sums += given.to(tl.float64)
    _write_sums(partial, products, sums, column, D)


@triton.jit(do_not_specialize=_NAMES, do_not_specialize_on_alignment=_COLUMNS)
def _batch_backward(  # type: ignore[no-untyped-def]
    x, weight, bias, mean, shift, slope, gradients, of_x, n, seed, below, scale, D: tl.constexpr, X: tl.constexpr,
    GRADIENTS: tl.constexpr, FINISHES: tl.constexpr, DROPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """What rows of a batch get, once the sums over all of them are known; program p has rows ``p * ROWS ..``."""
    column = tl.arange(0, COLUMNS)
    row, there, inside = _tile(tl.program_id(0), n, column, D, ROWS)
    centred, _ = _normal(x, mean, row, column, there, inside, 0, D, X, _BATCH)
    given = _let_through(
        gradients, centred, weight, bias, row, column, inside, seed, below, scale, D, GRADIENTS, FINISHES, DROPS
    )  # fmt: skip
    result = given - tl.load(shift + column, mask=column < D, other=0)[None, :]
    result -= centred * tl.load(slope + column, mask=column < D, other=0)[None, :]
    result = _scaled(result, weight, None, column, D)
    tl.store(of_x + row[:, None] * D + column[None, :], result.to(of_x.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["programs", "n"], do_not_specialize_on_alignment=_COLUMNS)
def _add_up(  # type: ignore[no-untyped-def]
    partial, over, first, second, programs, n, D: tl.constexpr, CENTRES: tl.constexpr, PROGRAMS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add up what programs have of columns ``p * COLUMNS ..``, in order, and write both sums, or the one wanted.

    Where it CENTRES, the sums are over a first row, and of squares over that: written are sums, and squares over the
    mean.
    """
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    one = tl.zeros([PROGRAMS, COLUMNS], tl.float64)
    other = tl.zeros([PROGRAMS, COLUMNS], tl.float64)
    for begin in range(0, programs, PROGRAMS):
        program = begin + tl.arange(0, PROGRAMS)
        wanted = (program < programs)[:, None] & (column < D)[None, :]
        place = partial + program[:, None] * 2 * D + column[None, :]
        one += tl.load(place, mask=wanted, other=0)
        other += tl.load(place + D, mask=wanted, other=0)
    of_one, of_other = tl.sum(one, axis=0), tl.sum(other, axis=0)
    if CENTRES:
        count = n.to(tl.float64)
        of_other = tl.maximum(of_other - of_one * of_one / count, 0)
        of_one += count * tl.load(over + column, mask=column < D, other=0).to(tl.float64)
    if first is not None:
        tl.store(first + column, of_one.to(tl.float32), mask=column < D)
    if second is not None:
        tl.store(second + column, of_other.to(tl.float32), mask=column < D)
