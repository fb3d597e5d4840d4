"""Runs in the pool that may fail: in process groups of their own, so that what breaks there harms no other test."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import time
from dataclasses import dataclass, replace
from datetime import timedelta

import torch.distributed as dist

from support.pool import SIZE

LIMIT_S = 60.0
"""After which a collective gives up: many times what a run takes that ends as it should."""

KEPT: list[object] = []
"""Groups that were used, which are never taken down; each has a thread that looks around a hundred times a second."""


@dataclass
class Outcome:
    """Of one trainer."""

    result: object
    error: Exception | None
    seconds: float
    ended_s: float
    """By the clock that all processes of the host share."""


def run_apart(pool, world, function, *arguments, size=None):
    """As ``pool.run``, but gives the Outcome of each trainer; ``size``: of the split groups, by default all."""
    return pool.run(SIZE, _apart, world, size or world, function, arguments)[:world]


def _apart(member, world, size, function, arguments):
    sets = sorted({tuple(range(world)), *(tuple(range(a, a + size)) for a in range(0, world, size))})
    before = _sockets()
    groups = {ranks: dist.new_group(list(ranks), timeout=timedelta(seconds=LIMIT_S)) for ranks in sets}
    if member.rank >= world:
        return None
    groups = {ranks: group for ranks, group in groups.items() if member.rank in ranks}
    opened = _sockets() - before
    start_s = time.monotonic()
    result = error = None
    try:
        inside = replace(member, world=world, group=groups[tuple(range(world))], made=groups)
        result = function(inside, *arguments)
    except Exception as raised:
        error = type(raised)(str(raised))  # without the frames, and the tensors in them
    ended_s = time.monotonic()
    _hang_up(opened)
    gc.collect()  # a trainer that broke, with its memory
    KEPT.append(groups)
    return Outcome(result, error, ended_s - start_s, ended_s)


def _sockets() -> set[int]:
    """Descriptors of this process that are sockets."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                found.add(int(name))
    return found


def _hang_up(sockets: set[int]) -> None:
    """Close connections as the end of the process does: whoever waits for this trainer finds them closed.

    Taking the groups down would do that as well, but waits, holding Python's lock, for threads that may want it.
    """
    for descriptor in sockets & _sockets():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as one:
            if not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):  # gloo looks after the one that listens
                one.shutdown(socket.SHUT_RDWR)
