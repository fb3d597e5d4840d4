"""``--precision auto``: what products take in float32 and in bfloat16 on the device that trains, measured once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from gsplit.config.model import PrecisionName
from gsplit.device import accelerator
from gsplit.device.precision import BFLOAT16, DEFAULT
from gsplit.nn.rowwise.products import Term, multiplied

ROWS, WIDTH = 8192, 128
"""Size of the product that is measured, as of a hidden layer."""
TIMES = 5
"""The fastest of so many counts: some tens of milliseconds altogether."""
WORTH_IT = 1.5
"""Times as fast products must be in bfloat16: they are most of a step, and rows have to be rounded."""

logger = logging.getLogger(__name__)


def fastest_precision(device: torch.device) -> PrecisionName:
    """The name of the precision whose products are fastest on a device, ``32`` or ``bf16-mixed``; said in a line."""
    times = products_s(torch.float32, device) / products_s(torch.bfloat16, device)
    name: PrecisionName = BFLOAT16 if times >= WORTH_IT else DEFAULT
    logger.info("--precision auto is %s: products in bfloat16 are %.1f times as fast here as in float32", name, times)
    return name


def products_s(dtype: torch.dtype, device: torch.device) -> float:
    """Seconds that a product of rows in a type takes, by weights in float32."""
    x, weight = torch.ones(ROWS, WIDTH, device=device).to(dtype), torch.ones(WIDTH, WIDTH, device=device)
    if dtype == torch.float32:
        return _least_s(lambda: F.linear(x, weight), device)
    return _least_s(lambda: multiplied([Term(x, weight)], None, dtype), device)


def _least_s(work: Callable[[], Any], device: torch.device) -> float:
    def once() -> float:
        begun = time.perf_counter()
        work()
        accelerator.synchronize(device)
        return time.perf_counter() - begun

    once()
    return min(once() for _ in range(TIMES))
