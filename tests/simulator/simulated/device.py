"""``torch.sim``: what ``torch.cuda`` offers and GSplit uses, for the simulated accelerator.

The controls that only tests need are operators (``torch.ops.sim``, in csrc/controls.cpp).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simulated import extension

Stream = torch.Stream
_pid = os.getpid()


@dataclass(frozen=True)
class Properties:
    """What is known of a device."""

    name: str
    total_memory: int
    """Bytes."""


class Runtime:
    """The functions of CUDA's runtime that registers memory of the host, by their names there."""

    @staticmethod
    def cudaHostRegister(address: int, num_bytes: int, flags: int) -> int:
        """Register memory; 0, or the number of CUDA's error."""
        del flags  # all of them are as for all devices and kernels
        return int(torch.ops.sim.register_host(address, num_bytes))

    @staticmethod
    def cudaHostUnregister(address: int) -> int:
        """Take it back; 0, or the number of CUDA's error."""
        return int(torch.ops.sim.unregister_host(address))


def is_available() -> bool:
    """Whether there are devices."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether the devices are in use."""
    return True


def device_count() -> int:
    """How many devices there are."""
    return int(torch.ops.sim.device_count())


def device(device: torch.device | int) -> contextlib.AbstractContextManager[Any]:
    """The block's work goes to a device."""
    index: contextlib.AbstractContextManager[Any] = torch.accelerator.device_index(_index(device))
    return index


def current_device() -> int:
    """The number of this thread's device."""
    return int(torch.ops.sim.current_device())


def set_device(device: torch.device | int) -> None:
    """Make a device that of this thread."""
    torch.ops.sim.set_device(_index(device))


def current_stream(device: Any = None) -> torch.Stream:
    """The stream that this thread's work on a device goes to."""
    return torch.accelerator.current_stream(_index(device))


@contextlib.contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    """The block's work goes to a stream; None changes nothing. Like CUDA's, it ends on the device it began on."""
    if stream is None:
        yield
        return
    device, before = current_device(), current_stream(stream.device)
    torch.accelerator.set_stream(stream)
    try:
        yield
    finally:
        torch.accelerator.set_stream(before)
        set_device(device)


def Event(enable_timing: bool = False) -> torch.Event:
    """An event."""
    return torch.Event("sim", enable_timing=enable_timing)


def synchronize(device: Any = None) -> None:
    """Wait for all that a device was given to do."""
    torch.ops.sim.synchronize(_index(device))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are free, and all."""
    free, total = torch.ops.sim.memory_info(_index(device))
    return free, total


def get_device_properties(device: Any = None) -> Properties:
    """What is known of a device."""
    return Properties(name=f"simulated accelerator {_index(device)}", total_memory=torch.ops.sim.device_bytes())


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors."""
    return int(torch.ops.sim.memory_stats(_index(device))["allocated"])


def memory_reserved(device: Any = None) -> int:
    """Bytes of tensors and of blocks that are kept."""
    return int(torch.ops.sim.memory_stats(_index(device))["reserved"])


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of tensors at a time."""
    return int(torch.ops.sim.memory_stats(_index(device))["allocated_peak"])


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes of tensors and of blocks that are kept."""
    return int(torch.ops.sim.memory_stats(_index(device))["reserved_peak"])


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin to look for the most bytes anew."""
    torch.ops.sim.reset_peaks(_index(device))


def empty_cache() -> None:
    """Give blocks that are free back."""
    for device in range(device_count()):
        torch.ops.sim.empty_cache(device)


def manual_seed(seed: int) -> None:
    """Seed the random draws of this thread's device."""
    torch.ops.sim.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the random draws of all devices, which share a generator; torch.manual_seed asks for it."""
    torch.ops.sim.manual_seed(seed)


def get_rng_state(device: Any = None) -> Tensor:
    """The state of a device's generator, uint8 on the host."""
    state: Tensor = torch.ops.sim.random_state(_index(device))
    return state


def set_rng_state(new_state: Tensor, device: Any = None) -> None:
    """Give a device's generator a state."""
    torch.ops.sim.set_random_state(_index(device), new_state)


def cudart() -> type[Runtime]:
    """What registers memory of the host."""
    torch.ops.sim.init()
    return Runtime


def read_rows(host_rows: Tensor, ids: Tensor, positions: Tensor | None, out: Tensor) -> None:
    """``out[positions] = host_rows[ids]`` out of registered memory: what Triton's kernel does on a GPU."""
    torch.ops.sim.read_rows(host_rows, ids, positions, out)


def runtime_library() -> tuple[str, str]:
    """Where the functions of CUDA's runtime are that PyTorch does not offer, and how their names begin."""
    return extension.load().__file__ or "", "sim"


def can_device_access_peer(device: Any, peer: Any) -> bool:
    """Whether a device can read another's memory."""
    can = ctypes.c_int()
    ctypes.CDLL(runtime_library()[0]).simDeviceCanAccessPeer(ctypes.byref(can), _index(device), _index(peer))
    return bool(can.value)


def _index(device: Any) -> int:
    if device is None:
        return current_device()
    index = device if isinstance(device, int) else torch.device(device).index
    return current_device() if index is None else index


def _lazy_init() -> None:
    torch.ops.sim.init()


def _is_in_bad_fork() -> bool:
    return os.getpid() != _pid


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types of autocast."""
    return [torch.bfloat16, torch.float16]


atexit.register(lambda: torch.ops.sim.drain())
