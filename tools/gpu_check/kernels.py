"""``python -m tools.gpu_check.kernels``: whether sums over edges are compiled for the devices, and right there."""

from __future__ import annotations

import logging

import torch

from gsplit.kernels.compiled import Compiled
from tools.gpu_check.measured import Measured, devices_of, print_measured


class _Warnings(logging.Handler):
    """Keeps what is warned of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def measure(kind: str, gpus: int, _: int) -> Measured:
    """The first sum on each, which is held against PyTorch's."""
    warnings = _Warnings()
    logging.getLogger("gsplit.kernels").addHandler(warnings)
    taken = [Compiled().takes(torch.zeros(1, 1, device=device)) for device in devices_of(kind, gpus)]
    if warnings.said:
        return Measured(
            wrong=f"{' '.join(warnings.said[0].split())}; Triton wants a C compiler, Python.h (python3-dev) and a "
            "folder that it may write to"
        )
    if not any(taken):
        return Measured(line="Triton drives no such device: sums over edges are PyTorch's")
    return Measured(line="sums over edges are compiled, and equal PyTorch's")


if __name__ == "__main__":
    print_measured(measure)
