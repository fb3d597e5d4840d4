"""Devices that hang, or exchange other bytes, end a run within its limit, and are named."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest
import torch.distributed as dist
from support.accelerators import keep_busy
from support.commands import children_here
from support.messages import line_with, says
from support.runs import config_for

import gsplit
from gsplit.errors import InputError, ProcessDied
from gsplit.parallel import first_exchange, rendezvous
from gsplit.parallel.connecting import DEVICE
from gsplit.parallel.join import joined
from gsplit.processes import start

pytestmark = pytest.mark.accelerator
LIMIT_S = 8.0
"""A quarter of it is for the first exchanges."""
START_S = 30.0
"""Seconds that processes may take to start here, and to end."""


def joins(rank, world, port, patience_s):
    with joined(rank, world, port, "sim", threads=1, patience=timedelta(seconds=patience_s)) as member:
        return str(member.device)


def together(world, patience_s):
    with rendezvous(world) as port:
        return start(joins, world, world, port, patience_s).join()


@pytest.mark.parametrize("world", [1, 3])
def test_devices_that_exchange_what_they_should(controls, world):
    assert together(world, 60.0) == [f"sim:{rank}" for rank in range(world)]


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("world", "fault", "pair"),
    [(2, "hang:0-1@0", (0, 1)), (3, "hang:1-2@0", (1, 2)), (3, "hang:2-0@0", (0, 2)), (3, "wrong:0-1@0", (0, 1))],
)
def test_devices_that_do_not_are_named(controls, monkeypatch, world, fault, pair):
    monkeypatch.setenv("GSPLIT_SIM_FAULT", fault)
    others, began_s = children_here(), time.monotonic()
    devices = [f"trainer {rank} (sim:{rank}" for rank in pair]
    said = "2 s" if fault.startswith("hang") else "other bytes"
    with pytest.raises(InputError, match=line_with(*devices, said, "NCCL_P2P_DISABLE=1")):
        together(world, LIMIT_S if fault.startswith("hang") else 240.0)
    assert time.monotonic() - began_s < START_S + LIMIT_S
    assert children_here() <= others


def test_an_exchange_that_hangs_later_ends_the_run_within_its_limit(controls, monkeypatch, layouts, tmp_path):
    monkeypatch.setenv("GSPLIT_SIM_FAULT", "hang:0-1@4")
    others, began_s = children_here(), time.monotonic()
    config = config_for(layouts(2).path, tmp_path / "run", device="sim", timeout=LIMIT_S / 60, epochs=3)
    with pytest.raises(ProcessDied, match=line_with("trainer #, SIGABRT, --timeout")):
        gsplit.train(config=config)
    assert time.monotonic() - began_s < START_S + LIMIT_S
    assert children_here() <= others


@pytest.mark.parametrize("world", range(2, 10))
def test_every_pair_meets_once(world):
    met = [list(first_exchange.partners(rank, world)) for rank in range(world)]
    pairs = [frozenset((rank, partner)) for rank in range(world) for partner in met[rank] if partner is not None]
    assert all(met[partner][turn] == rank for rank in range(world) for turn, partner in enumerate(met[rank])
               if partner is not None)  # fmt: skip
    assert len(set(pairs)) == world * (world - 1) / 2 == len(pairs) / 2


def handed_over():
    return RuntimeError("NCCL error: remote process exited or there was a network error\nmore of it")


def lost():
    raise TypeError("Unable to convert function return value to a Python type! The signature was\n\t...")


class Failed:
    """What NCCL makes of an exchange that failed: completed, and nothing is raised by waiting for it."""

    def __init__(self, exception):
        self.exception = exception

    def is_completed(self):
        return True

    def wait(self):
        return True


@pytest.mark.parametrize(("exception", "text"), [(handed_over, "NCCL error"), (lost, "PyTorch says above why")])
def test_an_exchange_that_failed_is_an_error_with_its_text(controls, device, monkeypatch, exception, text):
    """PyTorch up to 2.12 raises a TypeError of its own in place of the error."""
    monkeypatch.setattr(dist, "all_to_all_single", lambda *_, **__: Failed(exception))
    member = SimpleNamespace(rank=0, world=2, device=device, group=object())
    store = dist.HashStore()
    store.set(DEVICE.format(0), "sim:0")
    store.set(DEVICE.format(1), "sim:1")
    began_s = time.monotonic()
    keep_busy(device)
    with pytest.raises(InputError) as error:
        first_exchange.check_exchange(member, store, 20.0)
    says(error.value, f"trainer 0, sim:0, trainer 1, sim:1, {text}, NCCL_P2P_DISABLE=1")
    assert time.monotonic() - began_s < 10


def never_connects(rank, world, port, stops):
    """Trainer 1 waits for ever, or stands still as a whole."""
    if rank == 1:
        stay = partial(os.kill, os.getpid(), signal.SIGSTOP) if stops else partial(time.sleep, 600)
        dist.init_process_group = lambda *_, **__: stay()
    return joins(rank, world, port, 4.0)


@pytest.mark.slow
@pytest.mark.parametrize("stops", [False, True])
def test_a_device_that_never_connects_ends_the_start_and_is_named(controls, stops):
    others, began_s = children_here(), time.monotonic()
    with pytest.raises(InputError) as error, rendezvous(2) as port:
        start(never_connects, 2, 2, port, stops).join()
    says(error.value, "trainer 0, sim:0, trainer 1, sim:1, 4 s, NCCL_P2P_DISABLE=1")
    assert time.monotonic() - began_s < START_S + 4.0
    assert children_here() <= others
