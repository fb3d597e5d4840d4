"""``python -m tools.gpu_check.copies --device KIND``: how fast copies between GPUs are."""

from __future__ import annotations

import statistics
import sys
import time

import torch

from gsplit.device import accelerator

COPIED_BYTES = 256 << 20
ROUNDS = 9


def seconds_of(source: torch.Tensor, target: torch.Tensor) -> float:
    """Seconds of a copy, by the clock of the host, which waits before and after."""
    for each in (source, target):
        accelerator.synchronize(each.device)
    start_s = time.perf_counter()
    target.copy_(source)
    for each in (source, target):
        accelerator.synchronize(each.device)
    return time.perf_counter() - start_s


def main(kind: str) -> None:
    """Print a line."""
    if kind == accelerator.HOST:
        first = second = torch.device(kind)
    else:
        first, second = torch.device(kind, 0), torch.device(kind, 1)
    reach = getattr(torch.get_device_module(kind), "can_device_access_peer", None)
    told = "nothing tells whether they reach each other" if reach is None else f"reach each other: {reach(0, 1)}"
    source = torch.full((COPIED_BYTES // 4,), 7.0, device=first)
    target = torch.zeros_like(source, device=second)
    seconds = [seconds_of(source, target) for _ in range(ROUNDS)][1:]
    assert (target == 7).all(), "a copy between devices is wrong"
    print(f"{told}; {COPIED_BYTES / statistics.median(seconds) / 1e9:.1f} GB/s from {first} to {second}")


if __name__ == "__main__":
    main(sys.argv[sys.argv.index("--device") + 1])
