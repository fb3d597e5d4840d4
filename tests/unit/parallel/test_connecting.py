"""Devices that do not connect end the start within its limit, and are named; failed exchanges are errors."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from support.messages import line_with

from gsplit.errors import InputError
from gsplit.parallel.connecting import connect, within

CPU = torch.device("cpu")
LIMIT_S = 0.5


def together(world, connects, open_s=20.0):
    """What each of some trainers is told, in threads of this process."""
    store = dist.HashStore()

    def life(rank):
        try:
            connect(store, rank, world, torch.device("cpu", rank), open_s, LIMIT_S, lambda: connects(rank))
        except InputError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(world) as trainers:
        return list(trainers.map(life, range(world)))


def test_trainers_that_connect_are_told_nothing():
    assert together(3, lambda rank: None) == [None] * 3


def test_who_does_not_connect_is_named_by_all_that_wait_for_it():
    over, began_s = threading.Event(), time.monotonic()
    said = together(3, lambda rank: None if rank == 0 else over.wait(20))
    over.set()
    line = "trainer 1 (cpu:1) and trainer 2 (cpu:2) did not connect within 0 s; NCCL_P2P_DISABLE=1"
    assert said[0] is None
    assert all(each.startswith(line) for each in said[1:])
    assert time.monotonic() - began_s < 10


def test_who_never_opens_its_device_is_named():
    store = dist.HashStore()
    with pytest.raises(InputError, match=line_with("trainers 0, 2, 0 s, nvidia-smi")):
        connect(store, 1, 3, CPU, 0.2, LIMIT_S, lambda: None)


def test_what_fails_in_time_is_an_error_of_its_own():
    with pytest.raises(ZeroDivisionError):
        within(10.0, CPU, lambda: 1 / 0)
    assert within(10.0, CPU, lambda: 3) == 3
    assert within(0.05, CPU, lambda: time.sleep(1)) is None
