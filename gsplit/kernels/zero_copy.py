"""A kernel that reads feature rows where they lie on the host, over the bus, without a copy in between.

Rows in the memory of another device, opened for this one (:mod:`gsplit.device.peer_memory`), it reads alike.

Imported only where rows are read that way: Triton comes with PyTorch for GPUs, not with PyTorch for the CPU. It
compiles the kernel when it is first used, and wants a C compiler for the call; :func:`prepare` finds out.

The bus carries requests of at most 128 bytes (``SPAN_BYTES``), aligned to their size; a warp that reads half of one
and half of the next pays for two. So a row is read not from its first value but from the boundary before it: what is
outside the row is masked out, and every span of 128 bytes is asked for once (Min et al., "Large Graph Convolutional
Network Training with GPU-Oriented Data Communication Architecture", VLDB 2021). D is a constant of the kernel, so the
compiler sees how many values are aligned together and reads up to 16 bytes in a lane. Ids come sorted, so that rows
side by side are read at about the same time, and spans they share come from the GPU's own cache.

The bus is full with few requests on their way. More of them are no faster, and wait in the memory system of the GPU,
where every other kernel's requests wait behind them: with one program a row, whatever computed meanwhile took as long
as the loading. So PROGRAMS programs, a multiprocessor each, read tiles of TILE_BYTES one after the other; an H100's
bus is as full, and other kernels take as long as alone but for the multiprocessors (docs/results/gpu.md).

Legend: N vertices, D features, n rows that are read.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from gsplit.device import accelerator

SPAN_BYTES = 128
PROGRAMS = 16
"""Programs of a launch at most."""
TILE_BYTES = 16 << 10
"""Bytes of host memory that a program asks for at once."""
WARPS = 8
"""Warps of a program: with 32 lanes of 16 bytes each, four loads of a lane are on their way."""
MAX_BLOCK = 1024
"""Values of a row that a program reads at once; a longer row takes several rounds."""


# Without annotations but for the constants: Triton compiles them along.
@triton.jit(do_not_specialize=["n"])
def _read_rows(  # type: ignore[no-untyped-def]
    host_rows, ids, positions, out, n, D: tl.constexpr, SPAN: tl.constexpr, ROUNDS: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """``out[positions[i]] = host_rows[ids[i]]`` for i < n, in the type of out. Offsets are int64, as ids are."""
    for tile in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        i = tile * ROWS + tl.arange(0, ROWS)
        first = tl.load(ids + i, mask=i < n, other=0) * D
        to = tl.load(positions + i, mask=i < n, other=0) * D
        boundary = first // SPAN * SPAN
        shift = first - boundary
        for block in range(ROUNDS):
            in_block = block * BLOCK + tl.arange(0, BLOCK)
            column = in_block[None, :] - shift[:, None]
            inside = (column >= 0) & (column < D) & (i < n)[:, None]
            values = tl.load(host_rows + boundary[:, None] + in_block[None, :], mask=inside)
            tl.store(out + to[:, None] + column, values.to(out.dtype.element_ty), mask=inside)


def prepare(host_rows: Tensor, device: torch.device, dtype: torch.dtype) -> None:
    """Compile the kernel for these rows and read one row, so that nothing is left to fail, or to wait for, later.

    Args:
        host_rows: [N, D], N > 0; registered, so that kernels can read them, or memory of a peer.
        device: that reads them.
        dtype: in which they arrive.

    Raises:
        Exception: of whatever kind Triton gives.
    """
    out = torch.empty((1, host_rows.shape[1]), dtype=dtype, device=device)
    read_rows(host_rows, torch.zeros(1, dtype=torch.int64, device=device), None, out)
    accelerator.synchronize(device)


def read_rows(host_rows: Tensor, ids: Tensor, positions: Tensor | None, out: Tensor) -> None:
    """``out[positions] = host_rows[ids]``, or ``out[:] = ...`` where there are no positions, on the current stream.

    Args:
        host_rows: [N, D] of any floating type; registered, or memory of a peer.
        ids: int64 [n] rows, on the device; they must exist, the kernel does not look.
        positions: int64 [n] rows of ``out``, all different, on the device; or None.
        out: [at least n, D] in the type to compute in, on the device.
    """
    width, item_bytes = host_rows.shape[1], host_rows.element_size()
    if not (len(ids) and width):
        return
    sorted_ids, order = ids.sort()
    span = SPAN_BYTES // item_bytes
    largest_shift = span - math.gcd(width, span)
    block = min(MAX_BLOCK, triton.next_power_of_2(width + largest_shift))
    rows = max(1, TILE_BYTES // (block * item_bytes))
    with accelerator.as_current(out.device):
        _read_rows[(min(PROGRAMS, triton.cdiv(len(ids), rows)),)](
            host_rows,
            sorted_ids,
            order if positions is None else positions[order],
            out,
            len(ids),
            D=width,
            SPAN=span,
            ROUNDS=-(-(width + largest_shift) // block),
            ROWS=rows,
            BLOCK=block,
            num_warps=WARPS,
            enable_fp_fusion=True,  # which Triton leaves off from 3.10 on
        )
