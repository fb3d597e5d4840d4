"""Caches on the CPU with all trainers in one process, and what they should count."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import torch

from gsplit.features import HostRows, PeerCaches
from gsplit.host import SharedBuffer
from support.steps import CPU

STORAGE = [torch.float32, torch.float16, torch.bfloat16]
PATIENCE_S = 60.0


def host_rows(n, width, dtype, *, seed=0):
    """Random rows [n, width] of any type, and the same as a tensor."""
    values = torch.randn(n, width, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return HostRows(values.view(torch.uint8).numpy(), dtype), values


def together(world, function):
    """function(rank, barrier) for each rank, each in a thread; the results by rank."""
    barrier = Barrier(world)
    with ThreadPoolExecutor(world) as pool:
        calls = [pool.submit(function, rank, lambda: barrier.wait(PATIENCE_S)) for rank in range(world)]
        return [call.result(PATIENCE_S) for call in calls]


def peer_caches(host, prefixes, *, threads=1):
    """Of every trainer."""
    buffers = [SharedBuffer("test") for _ in range(prefixes.holders)]
    caches = together(
        prefixes.holders,
        lambda rank, barrier: PeerCaches.in_buffers(
            host, prefixes, rank, buffers=buffers, barrier=barrier, threads=threads
        ),
    )
    for buffer in buffers:
        buffer.close()  # what is mapped stays
    return caches


def owners(ids, offsets, cache_rows, holders):
    """[n] the trainer that caches each vertex, or -1; vertex by vertex."""
    parts = len(offsets) - 1
    table = np.full(offsets[-1], -1)
    for part in range(parts):
        for vertex in range(offsets[part], offsets[part] + cache_rows[part]):
            table[vertex] = sum(holder * parts // holders <= part for holder in range(1, holders))
    return table[ids]


__all__ = ["CPU", "STORAGE", "host_rows", "owners", "peer_caches", "together"]
