"""Copies of the simulated accelerator: what waits, what is staged, what reads or writes the host's memory later."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.accelerator

N = 1000


def device(index=0):
    return torch.device("sim", index)


def pinned(value):
    return torch.full((N,), float(value)).pin_memory()


def test_pinned_memory_that_is_written_too_early_gives_wrong_numbers(sim):
    host = pinned(1)
    x = host.to(device(), non_blocking=True)
    host.fill_(2)
    assert (x.cpu() == 2).all()


def test_pinned_memory_that_is_waited_for_gives_right_ones(scheduled):
    host = pinned(1)
    x = host.to(device(), non_blocking=True)
    torch.accelerator.current_stream(device()).synchronize()
    host.fill_(2)
    assert (x.cpu() == 1).all()


def test_registered_memory_is_read_when_the_copy_runs(sim):
    array = np.ones(N, np.float32)
    assert sim.register_host(array.ctypes.data, array.nbytes) == 0
    x = torch.from_numpy(array).to(device(), non_blocking=True)
    array[:] = 2
    assert (x.cpu() == 2).all()
    assert sim.unregister_host(array.ctypes.data) == 0


def test_pageable_memory_is_staged_when_the_copy_is_called(scheduled):
    host = torch.ones(N)
    x = host.to(device(), non_blocking=True)
    host.fill_(2)
    assert (x.cpu() == 1).all()


@pytest.mark.parametrize(
    "source", [lambda host: host.double(), lambda host: host.view(10, -1).t(), lambda host: host[::2]]
)
def test_rows_that_are_converted_on_their_way_are_staged(sim, source):
    host = pinned(1)
    wanted = source(host).clone().to(torch.float32)
    x = torch.empty(wanted.shape, device=device())
    x.copy_(source(host), non_blocking=True)
    host.fill_(2)
    assert torch.equal(x.cpu(), wanted)


def test_a_copy_that_blocks_has_happened(scheduled):
    host = pinned(1)
    x = torch.empty(N, device=device())
    x.copy_(host)
    host.fill_(2)
    assert (x.cpu() == 1).all()
    host.copy_(x)
    assert (host == 1).all()
    pageable = torch.zeros(N).copy_(x, non_blocking=True)
    assert (pageable == 1).all()


def test_what_comes_to_pinned_memory_is_poison_until_it_is_waited_for(sim):
    x = torch.ones(N, device=device())
    host = x.to("cpu", non_blocking=True)
    assert host.is_pinned()
    assert host.isnan().all()
    torch.accelerator.synchronize(device())
    assert (host == 1).all()


def test_pinned_memory_that_is_freed_too_early_is_not_given_out_before_its_copy(scheduled):
    x = torch.zeros(4, N, device=device())
    for i in range(4):
        host = pinned(i)
        x[i].copy_(host, non_blocking=True)
        del host
    assert torch.equal(x.cpu(), torch.arange(4.0).unsqueeze(1).expand(4, N))


def test_pinned_memory_is_given_out_again_after_its_copy(sim):
    host = pinned(1)
    address = host.data_ptr()
    host.to(device(), non_blocking=True)
    del host
    later = pinned(2)
    assert later.data_ptr() != address
    torch.accelerator.synchronize(device())
    assert pinned(3).data_ptr() == address


def test_copies_between_devices_wait_for_both_streams(scheduled):
    x = torch.ones(N, device=device(0)) * 3
    y = torch.empty(N, device=device(1))
    y.fill_(0)
    y.copy_(x, non_blocking=True)
    z = y + 1
    x.fill_(9)  # after the copy, on the source's stream
    assert (z.cpu() == 4).all()
    assert (x.to(device(2)).cpu() == 9).all()
    with pytest.raises(RuntimeError, match=r"same device, but found .*sim:0 and sim:1"):
        x + y


def test_rows_of_registered_memory_are_read_where_they_lie(scheduled):
    rows = np.random.default_rng(0).standard_normal((50, 7)).astype(np.float32)
    ids, places = torch.tensor([4, 4, 49, 0]), torch.tensor([3, 0, 2, 1])
    host = torch.from_numpy(rows)
    out = torch.zeros(4, 7, dtype=torch.float64, device=device())
    with pytest.raises(RuntimeError, match="are not registered"):
        scheduled.read_rows(host, ids.to(device()), None, out)
    assert scheduled.register_host(rows.ctypes.data, rows.nbytes) == 0
    scheduled.read_rows(host, ids.to(device()), places.to(device()), out)
    assert torch.equal(out.cpu()[places], host[ids].double())
    scheduled.read_rows(host, ids.to(device()), None, out)
    assert torch.equal(out.cpu(), host[ids].double())
    assert scheduled.unregister_host(rows.ctypes.data) == 0
