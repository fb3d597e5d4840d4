"""``python -m tools.gpu_check.devices``: each device takes a copy of pinned memory and gives a right product."""

from __future__ import annotations

import torch

from gsplit.device import accelerator
from gsplit.errors import InputError
from tools.gpu_check.measured import Measured, devices_of, print_measured

SIZE = 512


def measure(kind: str, gpus: int, _: int) -> Measured:
    """Whole numbers, whose sums have no rounding."""
    here = torch.arange(SIZE * SIZE, dtype=torch.float32).remainder_(7).view(SIZE, SIZE)
    wanted = here @ here
    for device in devices_of(kind, gpus):
        try:
            if accelerator.is_one(device):
                accelerator.work_on(device)
            there = accelerator.moved(here, device)
            right = torch.equal((there @ there).cpu(), wanted)
        except RuntimeError as error:
            raise RuntimeError(f"{device}: {error}") from error
        if not right:
            raise InputError(f"{device} gives a wrong product of whole numbers; look for its errors in nvidia-smi -q")
    return Measured(line=f"{gpus} take what is copied to them and give right products")


if __name__ == "__main__":
    print_measured(measure)
