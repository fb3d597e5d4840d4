"""Accelerators, as PyTorch finds them: the one module that knows what is particular to each kind.

The type of a device is ``cpu``, or that of an accelerator: ``cuda`` (NVIDIA's, and AMD's by the same name), ``xpu``
(Intel's), or another that is registered with PyTorch. What all of them have comes from PyTorch's module for the type,
such as ``torch.cuda``. What only CUDA's module has is asked of that module too, and not by the type's name: another
may offer the same. Where it does not, something else is done:

| | a module that has | otherwise |
|---|---|---|
| host memory that was allocated without PyTorch | ``cudart``: registered where it lies | copies from it wait |
| a kernel that reads rows there | ``read_rows``, or ``cudart`` and Triton | the CPU copies rows |
| caches of peers | ``cudart``, or ``runtime_library``: read in their memory (``peer_memory.py``) | refused |

It has run on one NVIDIA GPU (docs/results/gpu.md), and on no other kind.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.profiler import ProfilerActivity

from gsplit.errors import InputError

# A driver that is too old is told of once, by gsplit.device.unusable, and not by every process that looks for a GPU.
warnings.filterwarnings("ignore", "CUDA initialization", UserWarning)

HOST = "cpu"
"""The type of device that is no accelerator."""
FOR_ALL_AND_KERNELS = 1 | 2
"""Flags cudaHostRegisterPortable and cudaHostRegisterMapped: for all devices, and for kernels as for copies."""
NOT_SUPPORTED = 801
"""CUDA's error of that name, in place of what a kind of device has not."""


def find(asked: str) -> tuple[str, int]:
    """The type of device to compute on, and how many accelerators of it there are.

    Args:
        asked: a type, or ``auto`` for that of the accelerators that there are.

    Returns:
        ``("cpu", 0)`` where the CPU was asked for, or where ``auto`` finds no accelerator.

    Raises:
        InputError: for a type that PyTorch has not, or whose devices do not work through streams, as Apple's.
    """
    asked = asked.lower()
    kind = there() if asked == "auto" else asked
    if kind == HOST:
        return HOST, 0
    devices = _module_of(kind)
    if devices is None:
        plain, _, number = kind.partition(":")
        if number.isdecimal() and (plain == HOST or _module_of(plain) is not None):
            which = "; CUDA_VISIBLE_DEVICES says which" if plain == "cuda" else ""
            raise InputError(
                f"--device {kind} names one device; name the type, --device {find(plain)[0]}, and say how many with "
                f"--gpus{which}"
            )
        raise InputError(
            f"--device {kind or repr(kind)}: PyTorch has no such devices; use auto, cpu, cuda, xpu, or another "
            "type that is registered with it"
        )
    if not all(hasattr(devices, name) for name in ("Stream", "Event", "mem_get_info")):
        if asked == "auto":
            return HOST, 0
        raise InputError(f"--device {kind}: PyTorch has no streams for it, which trainers need; use --device cpu")
    return kind, devices.device_count() if devices.is_available() else 0


def there() -> str:
    """The type of the accelerators that PyTorch works with; ``cpu`` where it finds none."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return HOST if found is None else found.type


def _module_of(kind: str) -> Any:
    """PyTorch's module for a type of device; None for a word that is no type, or one that nobody registered."""
    if not kind.isidentifier():  # cuda:1 is a device, not a type
        return None
    try:
        return torch.get_device_module(kind)
    except RuntimeError:
        return None


def is_one(device: torch.device) -> bool:
    """Return whether a device is an accelerator, with memory and streams of its own; ``meta`` has neither."""
    return device.type not in (HOST, "meta")


def count(kind: str) -> int:
    """Return how many accelerators of a type there are."""
    return int(torch.get_device_module(kind).device_count())


def work_on(device: torch.device) -> None:
    """Make a device that of this thread; a new thread begins on the first."""
    torch.get_device_module(device).set_device(device)


def seed(device: torch.device, number: int) -> None:
    """Seed what is drawn by computing on a device: on the CPU its generator, on an accelerator that and those of all.

    ``torch.manual_seed`` would do for both, but it keeps the stack of calls for each kind of accelerator that is not
    there: 0.3 ms a mini-batch.
    """
    (torch.default_generator if device.type == HOST else torch).manual_seed(number)


def random_states(device: torch.device) -> list[Tensor]:
    """Where the random numbers of the host and, if it is another, of this device stand."""
    of_host = torch.default_generator.get_state()
    return [of_host] if device.type == HOST else [of_host, _module_of(device.type).get_rng_state(device)]


def set_random_states(device: torch.device, states: list[Tensor]) -> None:
    """Have random numbers go on from where :func:`random_states` found them."""
    torch.default_generator.set_state(states[0])
    if device.type != HOST:
        _module_of(device.type).set_rng_state(states[1], device)


def new_stream(device: torch.device) -> Any:
    """A stream of a device, or None on the CPU."""
    return torch.get_device_module(device).Stream(device) if is_one(device) else None


def on_stream(stream: Any) -> AbstractContextManager[Any]:
    """The block's work goes to a stream; None changes nothing."""
    return contextlib.nullcontext() if stream is None else torch.get_device_module(stream.device).stream(stream)


def as_current(device: torch.device) -> AbstractContextManager[Any]:
    """The block's launches go to a device, whichever is that of this thread; the CPU changes nothing."""
    return torch.get_device_module(device).device(device) if is_one(device) else contextlib.nullcontext()


def current_stream(device: torch.device) -> Any:
    """The stream that this thread's work on a device goes to."""
    return torch.get_device_module(device).current_stream(device)


def timed_event(device: torch.device) -> Any:
    """An event of a device that takes the time."""
    return torch.get_device_module(device).Event(enable_timing=True)


def event(device: torch.device) -> Any:
    """An event that is over once this thread's stream of a device has done what it was given so far."""
    recorded = torch.get_device_module(device).Event()
    recorded.record(current_stream(device))
    return recorded


def moved(x: Tensor | NDArray[Any], device: torch.device) -> Tensor:
    """Values of the host on a device; to an accelerator by pinned memory, so that nobody waits for the copy."""
    x = torch.as_tensor(x)
    return (x.pin_memory() if is_one(device) else x).to(device, non_blocking=True)


def synchronize(device: torch.device) -> None:
    """Wait for all that a device was given to do; the CPU is never behind."""
    if is_one(device):
        torch.get_device_module(device).synchronize(device)


def free_and_total(device: torch.device) -> tuple[int, int]:
    """Bytes of an accelerator's memory: those that are free, and all."""
    free, total = torch.get_device_module(device).mem_get_info(device)
    return int(free), int(total)


def warm_up(device: torch.device) -> None:
    """Have libraries take the memory that they keep: handles and workspaces, in both threads of a step."""
    x = torch.ones(64, 64, device=device, requires_grad=True)
    (x @ x).sum().backward()
    synchronize(device)


def smallest_bytes(kind: str) -> int:
    """Bytes of memory of the smallest accelerator of a type. What is free is not asked for: asking takes memory."""
    devices = torch.get_device_module(kind)
    return min(int(devices.get_device_properties(i).total_memory) for i in range(devices.device_count()))


def activity(device: torch.device) -> ProfilerActivity | None:
    """Return what PyTorch's profiler records of an accelerator; None on the CPU, and where it cannot."""
    return ProfilerActivity.__members__.get(device.type.upper()) if is_one(device) else None


def reads_host_memory(kind: str) -> bool:
    """Return whether kernels can read host memory that was registered."""
    return hasattr(torch.get_device_module(kind), "cudart")


def has_fused_steps(device: torch.device) -> bool:
    """Return whether one kernel of PyTorch's makes the step of an optimizer for all weights on such a device.

    What it gives differs from the separate steps in its last bits, so the CPU goes without.
    """
    return device.type == "cuda"


def reader_of_rows(device: torch.device) -> Callable[[Tensor, Tensor, Tensor | None, Tensor], None] | None:
    """Return what the module of a device reads registered host rows with; None where Triton's kernel does that.

    It takes what :func:`gsplit.kernels.zero_copy.read_rows` takes.
    """
    reader: Callable[[Tensor, Tensor, Tensor | None, Tensor], None] | None
    reader = getattr(torch.get_device_module(device), "read_rows", None)
    return reader


def register(memory: NDArray[np.uint8], flags: int = 0) -> int:
    """Register host memory, so that copies from it run beside the host; 0, or the number of CUDA's error.

    It is registered until :func:`unregister`, or until nothing refers to it any more: what is unmapped before it is
    taken back stays registered, and so does whatever is mapped at its address next.

    Args:
        memory: uint8 [bytes], which must stay where it is meanwhile.
        flags: 0 for copies by the device of this thread, or :data:`FOR_ALL_AND_KERNELS`.
    """
    kind = there()
    if not reads_host_memory(kind):
        return NOT_SUPPORTED
    code = int(torch.get_device_module(kind).cudart().cudaHostRegister(memory.ctypes.data, memory.nbytes, flags))
    if code:
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device=kind).add_(1)  # it would be reported at the next launch of any kernel
    else:
        first = memory
        while isinstance(first.base, np.ndarray):  # to the array that every view refers to, and that has the mapping
            first = first.base
        _registered[memory.ctypes.data] = weakref.finalize(first, _take_back, kind, memory.ctypes.data)
    return code


def unregister(address: int) -> None:
    """Take back what :func:`register` did with memory that begins at an address; nothing where that is done."""
    if take_back := _registered.get(address):
        take_back()


_registered: dict[int, weakref.finalize] = {}
"""What takes memory back that is registered, by its address."""


def _take_back(kind: str, address: int) -> None:
    del _registered[address]
    torch.get_device_module(kind).cudart().cudaHostUnregister(address)


def name_of(device: torch.device) -> str:
    """Return what the driver calls a device; its type where that says nothing."""
    if not is_one(device):
        return device.type
    properties = torch.get_device_module(device).get_device_properties(device.index or 0)
    return str(getattr(properties, "name", device.type))


def built_for() -> str:
    """Return what PyTorch was built for, beside the CPU."""
    names = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}
    versions = {label: getattr(torch.version, name, None) for name, label in names.items()}
    return ", ".join(f"{label} {version}" for label, version in versions.items() if version) or "the CPU alone"
