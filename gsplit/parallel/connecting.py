"""How trainers on accelerators come to know each other: each opens its device, then all connect, within a limit.

A library that connects devices waits for each of them, in a call that nobody can take back: where one does not come,
the others would wait for ever. So the call is made in a thread of its own, and what all wait for is posted in the
store through which they find each other, which names the devices that did not come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from datetime import timedelta
from threading import Thread
from typing import TypeVar

import torch
import torch.distributed as dist

from gsplit.device import accelerator
from gsplit.errors import InputError

DEVICE, CONNECTED = "connecting: device of {}", "connecting: {} has connected"
"""Keys of the store: on which device a trainer is, once it is open; that a trainer has connected."""
TRY = "NCCL_P2P_DISABLE=1 sends through the host, NCCL_DEBUG=INFO says which way is taken (docs/guides/installing.md)"
"""What to try where devices do not reach each other."""

T = TypeVar("T")


def within(limit_s: float, device: torch.device, function: Callable[[], T]) -> T | None:
    """Return what a function returns that may never do so; None where it did not in time, and is left to itself.

    Args:
        limit_s: seconds to wait.
        device: that it works on.
        function: called in another thread.
    """
    result: Future[T] = Future()

    def call() -> None:
        try:
            if accelerator.is_one(device):
                accelerator.work_on(device)
            result.set_result(function())
        except BaseException as error:
            result.set_exception(error)

    Thread(target=call, daemon=True).start()
    wait([result], max(0.0, limit_s))
    return result.result() if result.done() else None


def connect(
    store: dist.Store,
    rank: int,
    world: int,
    device: torch.device,
    open_s: float,
    limit_s: float,
    by: Callable[[], None],
) -> None:
    """Connect with all other trainers, once each has opened its device.

    Args:
        store: through which they find each other.
        rank, world: of this trainer, and their number.
        device: of this trainer.
        open_s: seconds in which all trainers open their devices.
        limit_s: seconds in which they connect then.
        by: connects, and may never return.

    Raises:
        InputError: with the devices of those that did not connect.
    """
    store.set(DEVICE.format(rank), str(device))
    everyone = range(world)
    try:
        store.wait([DEVICE.format(peer) for peer in everyone], timedelta(seconds=open_s))
    except dist.DistError:
        missing = [peer for peer in everyone if not store.check([DEVICE.format(peer)])]
        raise InputError(
            f"{_named(missing)} did not open {'its device' if len(missing) == 1 else 'their devices'} within "
            f"{open_s:.0f} s; nvidia-smi says whether one hangs"
        ) from None

    def connects() -> bool:
        by()
        return True

    if within(limit_s, device, connects) is None:
        missing = [peer for peer in everyone if not store.check([CONNECTED.format(peer)])]
        raise InputError(f"{with_devices(store, missing or [rank])} did not connect within {limit_s:.0f} s; {TRY}")
    store.set(CONNECTED.format(rank), "")


def with_devices(store: dist.Store, ranks: Sequence[int]) -> str:
    """The names of trainers that have opened their devices, with these."""
    return " and ".join(f"trainer {rank} ({store.get(DEVICE.format(rank)).decode()})" for rank in sorted(ranks))


def _named(ranks: Sequence[int]) -> str:
    return f"trainer{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
