"""Functions of CUDA's runtime that PyTorch does not offer, under ROCm the same with ``hip`` for ``cuda``.

They are called by ctypes, in the library that PyTorch has loaded; a module of PyTorch's may name a library of its own
and how its names begin (``runtime_library``).
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch

from gsplit.device import accelerator

FUNCTIONS = (
    *("Malloc", "Free", "IpcGetMemHandle", "IpcOpenMemHandle", "IpcCloseMemHandle"),
    *("DeviceGetPCIBusId", "GetLastError", "GetErrorString"),
)
"""What is called, after ``cuda`` or ``hip``."""
ADDRESS_BYTES = 32
"""Bytes of a PCI address as text, with room to spare."""


def pci_address(device: torch.device) -> str | None:
    """Return a device's address on the PCI bus, as /sys/bus/pci/devices has it; None where the runtime has none."""
    if (found := of(device.type)) is None:
        return None
    library, prefix = found
    address = ctypes.create_string_buffer(ADDRESS_BYTES)
    # The device does not become the current one, which would make a context there.
    code = getattr(library, f"{prefix}DeviceGetPCIBusId")(address, ctypes.c_int(ADDRESS_BYTES), device.index)
    if code:
        getattr(library, f"{prefix}GetLastError")()
        return None
    return address.value.decode().lower()


def call(device: torch.device, name: str, *arguments: Any) -> None:
    """Call a function of the runtime while a device is current.

    Raises:
        RuntimeError: with the runtime's words.
    """
    found = of(device.type)
    assert found is not None
    library, prefix = found
    with accelerator.as_current(device):
        code = getattr(library, prefix + name)(*arguments)
    if code:
        getattr(library, f"{prefix}GetLastError")()  # it would be reported at the next launch of any kernel
        words = getattr(library, f"{prefix}GetErrorString")
        words.restype = ctypes.c_char_p
        raise RuntimeError(f"{prefix}{name}: {words(code).decode()}")


def of(kind: str) -> tuple[Any, str] | None:
    """The library of the runtime and the beginning of its functions' names; None for a kind that has none."""
    module = torch.get_device_module(kind)
    if hasattr(module, "runtime_library"):
        path, prefix = module.runtime_library()
        return ctypes.CDLL(path), prefix
    if not hasattr(module, "cudart"):
        return None
    name, prefix = ("libamdhip64", "hip") if torch.version.hip else ("libcudart", "cuda")
    lines = Path("/proc/self/maps").read_text().splitlines()
    loaded = {line.split(maxsplit=5)[-1] for line in lines if name in line}
    for path in (None, *sorted(loaded)):  # PyTorch loads it for all to see; some builds do not
        library = ctypes.CDLL(path)
        if all(hasattr(library, prefix + name) for name in FUNCTIONS):
            return library, prefix
    return None
