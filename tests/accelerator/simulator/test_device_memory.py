"""Memory of the simulated accelerator: nobody else touches it, what is free is poisoned, a stream reuses its own."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from support.messages import line_with

pytestmark = pytest.mark.accelerator

N = 4096
MIB = 1 << 20


def device():
    return torch.device("sim", 0)


def pass_all():
    torch.accelerator.synchronize(device())


@pytest.mark.parametrize(
    "touch",
    [
        lambda address: ctypes.string_at(address, 4),
        lambda address: ctypes.memset(address, 0, 4),
        lambda address: np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (8,)).sum(),
    ],
    ids=["read", "write", "numpy"],
)
def test_a_host_that_touches_a_device_s_memory_dies(sim, touch):
    x = torch.ones(8, device=device())
    assert x.sum().item() == 8
    child = os.fork()
    if child == 0:
        faulthandler.disable()  # it would tell of what is meant to be
        touch(x.data_ptr())
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV


def test_fresh_memory_is_poison(scheduled):
    torch.accelerator.empty_cache()
    assert torch.empty(N, device=device()).cpu().isnan().all()
    assert (torch.empty(N, dtype=torch.int64, device=device()).cpu() == -1).all()


def test_freed_memory_is_poison_for_whoever_still_reads_it(scheduled):
    x = torch.ones(N, device=device())
    y = x[:]
    kept = torch.empty(0, device=device()).set_(torch.ones(N, device=device()).untyped_storage())
    assert (y + kept).sum().item() == 2 * N
    handle = scheduled.export_memory(x)
    there = scheduled.import_memory(handle).view(torch.float32)  # the same memory, as of another process
    assert there.sum().item() == N
    del x, y
    pass_all()
    assert there.cpu().isnan().all()


def test_a_stream_uses_its_memory_again_and_no_other_s(scheduled):
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()  # of blocks that fit as well
    side = torch.Stream(device())
    x = torch.ones(N, device=device())
    address = x.data_ptr()
    del x
    with side:
        assert torch.ones(N, device=device()).data_ptr() != address
    assert torch.ones(N, device=device()).data_ptr() == address


def used_by_another_stream(recorded):
    """Sum by a side stream of memory that its own stream has let go and uses again."""
    main, side = torch.accelerator.current_stream(device()), torch.Stream(device())
    x = torch.ones(N, device=device())
    side.wait_event(main.record_event())
    with side:
        late = torch.ones(300, 300, device=device())
        for _ in range(10):
            late = late @ late / 300
        total = x.sum()
    if recorded:
        x.record_stream(side)
    del x
    torch.full((N,), 5.0, device=device())
    main.synchronize()
    side.synchronize()
    with side:
        return total.item()


def test_recorded_streams_keep_memory(scheduled):
    for _ in range(3):
        assert used_by_another_stream(recorded=True) == N


@pytest.mark.parametrize("schedule", ["eager", "lazy:3000"])
def test_a_missing_record_stream_shows(sim, schedule):
    sim.set_schedule(schedule)
    found = [used_by_another_stream(recorded=False) for _ in range(5)]
    assert any(total != N for total in found)


def test_memory_that_waits_for_a_stream_is_reserved_and_not_allocated(sim):
    torch.accelerator.empty_cache()
    side = torch.Stream(device())
    x = torch.ones(MIB, device=device())
    allocated, reserved = torch.accelerator.memory_allocated(device()), torch.accelerator.memory_reserved(device())
    with side:
        y = torch.zeros(1, device=device())
        y += 1
    x.record_stream(side)
    del x
    assert torch.accelerator.memory_allocated(device()) == allocated - 4 * MIB + 512
    again = torch.ones(MIB, device=device())  # beside the block that waits
    assert torch.accelerator.memory_reserved(device()) >= reserved + 4 * MIB
    side.synchronize()
    del again
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved(device()) < reserved


def test_memory_that_is_given_back_is_the_host_s_and_peaks_are_kept(sim):
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats(device())
    before = torch.accelerator.memory_reserved(device())
    x = torch.ones(8 * MIB, device=device())
    half = x[: 4 * MIB].clone()
    del x
    assert torch.accelerator.memory_allocated(device()) < torch.accelerator.max_memory_allocated(device())
    assert torch.accelerator.max_memory_reserved(device()) - before == 48 * MIB
    assert half.sum().item() == 4 * MIB
    torch.accelerator.empty_cache()
    free, total = torch.accelerator.get_memory_info(device())
    assert total - free == torch.accelerator.memory_reserved(device())


def test_a_device_is_out_of_memory_at_its_limit(scheduled):
    torch.accelerator.empty_cache()
    taken = torch.accelerator.memory_reserved(device())
    scheduled.set_limit(0, taken + 9 * MIB)
    try:
        x = torch.ones(MIB, device=device())
        with pytest.raises(torch.OutOfMemoryError, match=line_with("sim:0, 8388608")):
            torch.ones(2 * MIB, device=device())
        del x
        x = torch.ones(2 * MIB, device=device())  # what was kept is given back for it
        assert x.sum().item() == 2 * MIB
        assert torch.accelerator.get_memory_info(device())[0] <= MIB
    finally:
        scheduled.set_limit(0, torch.accelerator.get_memory_info(device())[1])


def test_another_process_opens_memory_and_writes_it(sim):
    x = torch.arange(N, device=device())[5:]
    pass_all()
    program = f"""
import torch
y = torch.ops.sim.import_memory({sim.export_memory(x)}).view(torch.int64)
assert y.device == torch.device("sim", 0)
assert torch.equal(y.cpu(), torch.arange(5, {N}))
y += 1
torch.accelerator.synchronize()
del y
assert torch.accelerator.memory_allocated() == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert torch.equal(x.cpu(), torch.arange(6, N + 1))


INVALID, ALREADY, NOT = 1, 712, 713


def test_host_memory_is_registered_once_and_files_are_refused(sim, tmp_path):
    memory = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    array = np.frombuffer(memory, np.uint8)
    address, num_bytes = array.ctypes.data, array.nbytes
    torch.zeros(1, device="sim")  # before that PyTorch says of no memory that it is pinned
    assert not torch.from_numpy(array).is_pinned()
    assert sim.unregister_host(address) == NOT
    assert sim.register_host(address, num_bytes) == 0
    assert sim.registered_bytes() == num_bytes
    assert torch.from_numpy(array).is_pinned()
    assert sim.register_host(address, num_bytes) == ALREADY
    assert sim.register_host(address + 100, 10) == ALREADY
    assert sim.register_host(address - 100, 200) == ALREADY
    assert sim.unregister_host(address + 1) == NOT
    assert sim.unregister_host(address) == 0
    assert not torch.from_numpy(array).is_pinned()
    assert sim.register_host(0, 10) == INVALID
    assert sim.register_host(address, 0) == INVALID
    (tmp_path / "file").write_bytes(bytes(mmap.PAGESIZE))
    mapped = np.memmap(tmp_path / "file", np.uint8, "r+")
    assert sim.register_host(mapped.ctypes.data, mapped.nbytes) == INVALID
    fd = os.memfd_create("test")
    os.ftruncate(fd, mmap.PAGESIZE)
    shared = np.frombuffer(mmap.mmap(fd, mmap.PAGESIZE), np.uint8)
    assert sim.register_host(shared.ctypes.data, shared.nbytes) == 0
    assert sim.unregister_host(shared.ctypes.data) == 0
    os.close(fd)
    assert sim.registered_bytes() == 0


def test_memory_that_is_unmapped_while_it_is_registered_is_told_of_once(sim):
    def mapped(num_bytes):
        fd = os.memfd_create("test")
        os.ftruncate(fd, num_bytes)
        memory = mmap.mmap(fd, num_bytes)
        os.close(fd)
        address = np.frombuffer(memory, np.uint8).ctypes.data
        assert sim.register_host(address, num_bytes) == 0
        return memory, address

    memory, address = mapped(1 << 20)
    assert sim.unmapped_while_registered() == []
    memory.close()
    assert sim.unmapped_while_registered() == [address]
    assert sim.registered_bytes() == 0
    memory, address = mapped(1 << 20)
    memory.close()
    fd = os.memfd_create("test")
    os.ftruncate(fd, 1 << 20)
    other = mmap.mmap(fd, 1 << 20)  # most often at the same address
    assert sim.unregister_host(address) == 0  # too late
    assert sim.unmapped_while_registered() == [address]
    assert sim.unmapped_while_registered() == []
    other.close()
    os.close(fd)


def test_memory_that_is_let_go_of_while_the_device_is_broken_is_poison_afterwards(sim):
    x = torch.zeros(3, dtype=torch.int64, device="sim")
    torch.accelerator.synchronize("sim:0")
    sim.fail_after(0, 0)
    x.add_(1)
    with pytest.raises(RuntimeError, match="told to fail"):
        torch.accelerator.synchronize("sim:0")
    del x
    sim.clear_errors()
    assert torch.empty(3, dtype=torch.int64, device="sim").tolist() == [-1, -1, -1]
