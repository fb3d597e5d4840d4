"""What dropout keeps, by a counter: of seed, row and column alone, and the same bits on every device.

PyTorch's own dropout on a GPU spreads its numbers by the number of multiprocessors, and on the CPU draws others.
These numbers are the core's (``csrc/activation_rows.hpp``), made by PyTorch's operations: SplitMix64 of seed and row,
of which the halves are mixed with the column by the end of MurmurHash3. Whole numbers overflow on purpose; PyTorch's
shifts keep the sign, which is masked off.

Legend: R rows, D columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15


def kept(x: Tensor, share: float, seed: int) -> Tensor:
    """Return which values are left after a share was dropped, bool [R, D] on the device of the rows.

    Args:
        x: [R, D].
        share: that is dropped, 0 .. 1.
        seed: below 2^64.
    """
    (rows, width), device = x.shape, x.device
    row_R = _mixed64(torch.arange(1, rows + 1, device=device) * _signed(GOLDEN, 64) + _signed(seed, 64)).unsqueeze(1)
    column_D = torch.arange(width, dtype=torch.int32, device=device) * _signed(0x9E3779B1, 32)
    hash_RD = _mix32(column_D + row_R.to(torch.int32))
    hash_RD = _mix32(hash_RD.bitwise_xor_(torch.bitwise_right_shift(row_R, 32).to(torch.int32)))
    # The core takes the share in the type of the rows.
    exact = share if x.dtype == torch.float64 else float(torch.tensor(share, dtype=torch.float32))
    below = min(int(exact * 2**32), 2**32 - 1)
    return _shifted(hash_RD, 1, 32) >= below >> 1


def _mixed64(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64."""
    x = (x ^ _shifted(x, 30, 64)) * _signed(0xBF58476D1CE4E5B9, 64)
    x = (x ^ _shifted(x, 27, 64)) * _signed(0x94D049BB133111EB, 64)
    return x ^ _shifted(x, 31, 64)


def _mix32(x: Tensor) -> Tensor:
    """The end of MurmurHash3, in place."""
    x.bitwise_xor_(_shifted(x, 16, 32)).mul_(_signed(0x85EBCA6B, 32))
    x.bitwise_xor_(_shifted(x, 13, 32)).mul_(_signed(0xC2B2AE35, 32))
    return x.bitwise_xor_(_shifted(x, 16, 32))


def _shifted(x: Tensor, by: int, bits: int) -> Tensor:
    """``x >> by`` of numbers without a sign."""
    return torch.bitwise_right_shift(x, by).bitwise_and_((1 << (bits - by)) - 1)


def _signed(number: int, bits: int) -> int:
    """The number with a sign that has the same bits."""
    return number - (1 << bits) if number >= 1 << (bits - 1) else number
