"""A kernel that sums the rows at the ends of edges, row by row of the result, for GPUs.

Imported only where a GPU sums: Triton comes with PyTorch for GPUs, not with PyTorch for the CPU.

A program makes one row of the result, or COLUMNS columns of it, and nobody else writes these: nothing is added by
atomic operations, and a sum has one order, so results are the same every time. The program reads the sources of EDGES
edges at once, a tile of EDGES x COLUMNS values, adds tile to tile, and adds up the rows of the last one. After TILES
tiles it begins anew, and adds what it has to the sums before, with what rounding took from those (Kahan's compensated
sum): a sum over millions of edges is as exact as one over a few. Nothing is sorted: backward is the same sum over the
transposed edges. Own rows and received rows are read where they lie.

How many edges a tile has goes by the width of rows, and so does the order of a sum; a slice of their columns is
summed in the order of all of them (``Sums.width``). Rows of a tile are added up in pairs, or how they lie in lanes
would decide.

Widths and strides of rows are constants of the kernel, so the compiler sees how many values are aligned together: up
to 16 bytes are read in a lane where row widths and strides are multiples of that. Rows of an odd width are read value
by value.

A row with many edges is summed by one program alone, as by PyTorch's ``embedding_bag``. The sizes below were the
fastest on an H100, of 2 to 16 edges and 1 to 4 warps (docs/results/gpu.md).

Legend: R rows of the result, S sources, E edges, D features, H heads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from gsplit.device import accelerator
from gsplit.kernels.sums import Sums, whole_rows

LANE_BYTES = 16
WARP_LANES = 32
MAX_COLUMNS = 256
"""Columns of a tile; wider rows are left to several programs."""
MIN_EDGES = 2
MAX_EDGES = 8
"""Edges of a tile: most rows of a sampled block have no more than two such."""
TILES = 32
"""Tiles that are added to one another in the type of the sum."""

_SCALARS = ["indptr", "indices", "order", "factor", "weight", "degrees", "scale", "start_scale"]
"""Arrays that are read a value at a time: no compiled code of its own for those that begin at multiples of 16."""


# Without annotations but for the constants: Triton compiles them along.
@triton.jit(do_not_specialize=["num_own", "num_start"], do_not_specialize_on_alignment=_SCALARS)
def _sum_rows(  # type: ignore[no-untyped-def]
    indptr, indices, order, own, received, num_own, out, start, num_start, factor, weight, degrees, scale,
    start_scale, D: tl.constexpr, HEADS: tl.constexpr, OWN: tl.constexpr, RECEIVED: tl.constexpr, OUT: tl.constexpr,
    START: tl.constexpr, WEIGHT: tl.constexpr, EDGES: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
    SUM: tl.constexpr,
):  # fmt: skip
    """Program (r, c) makes columns ``c * COLUMNS ..`` of row r; OWN, RECEIVED, OUT, START, WEIGHT are strides."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < D
    begin, end = tl.load(indptr + row), tl.load(indptr + row + 1)
    result = tl.zeros([COLUMNS], SUM)
    lost = tl.zeros([COLUMNS], SUM)
    for block in range(begin, end, BLOCK):
        stop = block + tl.minimum(end - block, BLOCK)
        total = tl.zeros([EDGES, COLUMNS], SUM)
        for first in range(block, stop, EDGES):
            edge = first + tl.arange(0, EDGES)
            there = edge < stop
            source = tl.load(indices + edge, mask=there, other=0).to(tl.int64)
            wanted = there[:, None] & inside[None, :]
            if received is None:
                values = tl.load(own + source[:, None] * OWN + column[None, :], mask=wanted, other=0).to(SUM)
            else:
                is_own = (source < num_own)[:, None]
                here = own + source[:, None] * OWN + column[None, :]
                values = tl.load(here, mask=wanted & is_own, other=0).to(SUM)
                arrived = received + (source - num_own)[:, None] * RECEIVED + column[None, :]
                values += tl.load(arrived, mask=wanted & (source >= num_own)[:, None], other=0).to(SUM)
            if factor is not None:
                values *= tl.load(factor + source, mask=there, other=0).to(SUM)[:, None]
            if weight is not None:
                at = edge.to(tl.int64)
                if order is not None:
                    at = tl.load(order + edge, mask=there, other=0).to(tl.int64)
                if HEADS == 1:
                    values *= tl.load(weight + at * WEIGHT, mask=there, other=0).to(SUM)[:, None]
                else:
                    head = column // (D // HEADS)
                    values *= tl.load(weight + at[:, None] * WEIGHT + head[None, :], mask=wanted, other=0).to(SUM)
            total += values
        if EDGES == 8:
            total = tl.sum(tl.reshape(total, [2, 4, COLUMNS]), axis=0)
        if EDGES >= 4:
            total = tl.sum(tl.reshape(total, [2, 2, COLUMNS]), axis=0)
        more = tl.sum(total, axis=0) - lost
        after = result + more
        lost = (after - result) - more
        lost = tl.where(lost == lost, lost, 0)  # of infinity, which stays what it is
        result = after
    if degrees is not None:
        result /= tl.maximum(tl.load(degrees + row), 1).to(SUM)
    if scale is not None:
        result *= tl.load(scale + row).to(SUM)
    if start is not None:
        begun = column < tl.where(row < num_start, D, 0)
        begins = tl.load(start + row * START + column, mask=begun, other=0).to(SUM)
        if start_scale is not None:
            begins *= tl.load(start_scale + row, mask=row < num_start, other=0).to(SUM)
        result += begins
    tl.store(out + row * OUT + column, result.to(out.dtype.element_ty), mask=inside)


def tile(width: int, item_bytes: int) -> tuple[int, int]:
    """Edges and columns of a tile, which a warp reads: one load of its lanes, or one for each of the fewest edges.

    Args:
        width: D.
        item_bytes: of a value.
    """
    columns = min(MAX_COLUMNS, triton.next_power_of_2(width))
    at_once = WARP_LANES * LANE_BYTES // item_bytes
    return min(MAX_EDGES, max(MIN_EDGES, at_once // columns)), columns


def sum_rows(sums: Sums) -> None:
    """Sums as :meth:`gsplit.kernels.Kernels.sum` says, on the current stream of the device of ``out``.

    They are taken in float64 where rows are float64, else in float32, and rounded to the type of ``out`` once. Rows,
    ids and positions must exist; the kernel does not look.
    """
    edges, out, width = sums.edges, sums.out, sums.own.shape[1]
    if not (edges.num_rows and width):
        return
    assert out.stride(1) == 1 or width == 1
    own = whole_rows(sums.own)
    received = None if sums.received is None or not len(sums.received) else whole_rows(sums.received)
    start = None if sums.start is None or not len(sums.start) else whole_rows(sums.start)
    weight = None if sums.weight is None else whole_rows(sums.weight)
    factor, scale, start_scale = sums.factor, sums.scale, sums.start_scale
    at_once, _ = tile(sums.width or width, own.element_size())
    columns = min(MAX_COLUMNS, triton.next_power_of_2(width))
    with accelerator.as_current(out.device):
        _sum_rows[(edges.num_rows, triton.cdiv(width, columns))](
            edges.indptr,
            edges.indices,
            None if weight is None else edges.order,
            own,
            received,
            len(own),
            out,
            start,
            0 if start is None else len(start),
            None if factor is None else factor.detach().contiguous(),
            weight,
            sums.degrees,
            None if scale is None else scale.detach().contiguous(),
            None if start is None or start_scale is None else start_scale.detach().contiguous(),
            D=width,
            HEADS=1 if weight is None else weight.shape[1],
            OWN=own.stride(0),
            RECEIVED=0 if received is None else received.stride(0),
            OUT=out.stride(0),
            START=0 if start is None else start.stride(0),
            WEIGHT=0 if weight is None else weight.stride(0),
            EDGES=at_once,
            COLUMNS=columns,
            BLOCK=at_once * TILES,
            SUM=tl.float64 if own.dtype == torch.float64 else tl.float32,
            num_warps=1,
            enable_fp_fusion=True,  # which Triton leaves off from 3.10 on
        )
