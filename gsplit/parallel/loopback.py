"""What messages take between trainers of one host that send by gloo over loopback: measured, before any is there."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch
import torch.distributed as dist

from gsplit.parallel.collectives import all_to_all_halves
from gsplit.parallel.meeting import LOOPBACK_INTERFACE

LIMIT = timedelta(seconds=5)
"""How long one waits for the other."""
TIMES = 20
"""Exchanges of each size, of which the quicker quarter counts: others may use the machine."""


def seconds_of_exchanges(numbers: Sequence[int]) -> list[float]:
    """Seconds of an exchange in which two send each other so many float32 at once, for each of the sizes.

    Two threads of this process are the two; what they exchange goes the way that it goes between processes.

    Raises:
        RuntimeError: where this host cannot be reached over loopback, or takes too long.
    """
    store, named = dist.HashStore(), "GLOO_SOCKET_IFNAME"
    before = os.environ.get(named)
    os.environ[named] = before or LOOPBACK_INTERFACE

    def member(rank: int) -> list[float]:
        backend = dist.ProcessGroupGloo(store, rank, 2, LIMIT)
        return [_quick_quarter(backend, number) for number in numbers]

    try:
        with ThreadPoolExecutor(2) as threads:
            return [max(both) for both in zip(*threads.map(member, range(2)), strict=True)]
    finally:
        if before is None:
            del os.environ[named]


def _quick_quarter(backend: dist.ProcessGroupGloo, number: int) -> float:
    sent, seconds = torch.zeros(2 * number), []
    out = torch.empty_like(sent)
    for _ in range(TIMES):
        start_s = time.perf_counter()
        all_to_all_halves(out, sent, backend)
        seconds.append(time.perf_counter() - start_s)
    return sorted(seconds)[TIMES // 4]
