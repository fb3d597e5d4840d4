"""``python -m tools.gpu_check.registering``: whether, and how fast, host memory is registered with the driver."""

from __future__ import annotations

import time

import numpy as np

from gsplit.features import HostRows
from gsplit.host import SharedBuffer
from tools.gpu_check.measured import Measured, print_measured


def measure(kind: str, _: int, mib: int) -> Measured:
    """Rows in memory that trainers share, as feature rows that GPUs read where they lie."""
    memory = SharedBuffer("rows")
    memory.grow(mib << 20)
    values = memory.view((mib << 10, 256), np.float32)
    values[:] = 1.0
    rows = HostRows(values)
    start_s = time.perf_counter()
    registered = rows.pin()
    rate = (mib << 20) / (time.perf_counter() - start_s) / 1e9
    memory.close()
    if not registered:
        return Measured(
            wrong=f"{mib} MiB of the host's memory could not be registered for {kind}, so that the CPU copies all "
            "feature rows; look at the warning in registering/stderr, at ulimit -l, and at the container's limits"
        )
    return Measured(line=f"{mib} MiB at {rate:.1f} GB/s")


if __name__ == "__main__":
    print_measured(measure)
