"""A kernel that reads feature rows where they lie on the host, over the bus, without a copy in between.

Imported only where rows are read that way: Triton comes with PyTorch for GPUs, not with PyTorch for the CPU. It
compiles the kernel when it is first used, and wants a C compiler for the call; :func:`prepare` finds out.

The bus carries requests of at most 128 bytes (``SPAN_BYTES``), aligned to their size; a warp that reads half of one
and half of the next pays for two. So each program takes one row, and begins not at the row's first value but at the
boundary before it: what is outside the row is masked out, and every span of 128 bytes is asked for once (Min et al.,
"Large Graph Convolutional Network Training with GPU-Oriented Data Communication Architecture", VLDB 2021). D is a
constant of the kernel, so the compiler sees how many values are aligned together and reads up to 16 bytes in a lane.
Ids come sorted, so that rows side by side are read at about the same time, and spans they share come from the GPU's
own cache.

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
LANE_BYTES = 16
WARP_LANES = 32
MAX_WARPS = 4
MAX_BLOCK = 1024
"""Values that a program reads at once; a longer row takes several rounds."""


# Without annotations but for the constants: Triton compiles them along.
@triton.jit
def _read_rows(  # type: ignore[no-untyped-def]
    host_rows, ids, positions, out, D: tl.constexpr, SPAN: tl.constexpr, ROUNDS: tl.constexpr, BLOCK: tl.constexpr
):
    """Program i does ``out[positions[i]] = host_rows[ids[i]]``, in the type of out. Offsets are int64, as ids are."""
    i = tl.program_id(0)
    first = tl.load(ids + i) * D
    to = tl.load(positions + i) * D
    boundary = first // SPAN * SPAN
    shift = first - boundary
    for block in range(ROUNDS):
        in_block = block * BLOCK + tl.arange(0, BLOCK)
        column = in_block - shift
        inside = (column >= 0) & (column < D)
        values = tl.load(host_rows + boundary + in_block, mask=inside)
        tl.store(out + to + column, values.to(out.dtype.element_ty), mask=inside)


def prepare(host_rows: Tensor, device: torch.device, dtype: torch.dtype) -> None:
    """Compile the kernel for these rows and read one row, so that nothing is left to fail, or to wait for, later.

    Args:
        host_rows: [N, D], N > 0; registered, so that kernels can read them.
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
        host_rows: [N, D] of any floating type; registered.
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
    in_lane = math.gcd(width, LANE_BYTES // item_bytes)
    with accelerator.as_current(out.device):
        _read_rows[(len(ids),)](
            host_rows,
            sorted_ids,
            order if positions is None else positions[order],
            out,
            D=width,
            SPAN=span,
            ROUNDS=-(-(width + largest_shift) // block),
            BLOCK=block,
            num_warps=min(MAX_WARPS, max(1, block // (WARP_LANES * in_lane))),
        )
