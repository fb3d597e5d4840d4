"""Runs in the pool that may fail: in process groups of their own, so that what breaks there harms no other test."""

from __future__ import annotations

import gc
import threading
import time
from dataclasses import dataclass, replace
from datetime import timedelta

import torch.distributed as dist

from support.pool import SIZE

LIMIT_S = 60.0
"""After which a collective gives up: many times what a run takes that ends as it should."""

THREAD_S = 10.0
"""Seconds that a thread which loads ahead may take for the mini-batch at work."""


@dataclass
class Outcome:
    """Of one trainer."""

    result: object
    error: Exception | None
    seconds: float


def run_apart(pool, world, function, *arguments, size=None):
    """As ``pool.run``, but gives the Outcome of each trainer; ``size``: of the split groups, by default all."""
    return pool.run(SIZE, _apart, world, size or world, function, arguments)[:world]


def loads(thread) -> bool:
    """Whether that is the thread of a feed."""
    return thread.name.startswith("gsplit-feed")


def _apart(member, world, size, function, arguments):
    sets = sorted({tuple(range(world)), *(tuple(range(a, a + size)) for a in range(0, world, size))})
    groups = {ranks: dist.new_group(list(ranks), timeout=timedelta(seconds=LIMIT_S)) for ranks in sets}
    if member.rank >= world:
        return None
    groups = {ranks: group for ranks, group in groups.items() if member.rank in ranks}
    before = set(threading.enumerate())
    start_s = time.monotonic()
    result = error = None
    try:
        inside = replace(member, world=world, group=groups[tuple(range(world))], made=groups)
        result = function(inside, *arguments)
    except Exception as raised:
        error = type(raised)(str(raised))  # without the frames, which hold the connections
    seconds = time.monotonic() - start_s
    # As when the process ends: whoever waits for this trainer finds its connections closed.
    inside = None
    # A thread that loads ahead at this moment holds its trainer, and waits for it to be collected when it is done. It
    # may end at any moment, so what it held is collected after each look, the last one too.
    deadline_s = time.monotonic() + THREAD_S
    while True:
        loading = set(filter(loads, threading.enumerate())) - before
        gc.collect()
        if not loading or time.monotonic() > deadline_s:
            break
        loading.pop().join(0.05)
    while groups:
        dist.destroy_process_group(groups.popitem()[1])
    return Outcome(result, error, seconds)
