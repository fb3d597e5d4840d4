"""Memory of an accelerator that other processes of the host read: its owner allocates it, each reader opens it.

A reader opens it while its *own* device is current. So it lies in the reader's context, whose kernels read it over
NVLink or the bus on the reader's streams, as they read memory of the host. PyTorch's way of sending tensors opens it
with the owner's device current: each reader would have a context there, of half a GiB, and launch kernels there that
take turns with those of the owner.

The memory is the runtime's (:mod:`gsplit.device.runtime`) and not that of PyTorch's allocator: a handle stands for a
whole allocation, while a block of PyTorch's may be a part of one, or of segments that have no handle
(``expandable_segments``).

A tensor at an address is made by a private function of PyTorch's (tried with 2.13).
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from gsplit.device import runtime

LAZY_PEER_ACCESS = 1
"""Flag cudaIpcMemLazyEnablePeerAccess, and ROCm's: the current device is given access to the owner's."""


WHOLE_BYTES = 2 << 20
"""An allocation of a multiple of it shares its block with no other: a handle stands for a block, and is opened where
that begins (CUDA C++ Programming Guide, "Interprocess Communication")."""


class PeerHandle(ctypes.Structure):
    """A handle of an allocation for other processes: cudaIpcMemHandle_t, or hipIpcMemHandle_t."""

    _fields_ = (("reserved", ctypes.c_ubyte * 64),)


class PeerMemory:
    """Memory of a device that processes share; :meth:`allocated` makes it, :meth:`opened` maps another process's.

    Args:
        address: where it begins.
        num_bytes: of it.
        device: whose kernels read it: of the process, also where another device has the memory.
        release: the runtime's function that lets go of it.
    """

    def __init__(self, address: int, num_bytes: int, device: torch.device, release: str) -> None:
        self._address, self._device, self._release = address, device, release
        self.bytes = tensor_at(address, num_bytes, device)
        """The memory as a tensor, uint8 [bytes]; not to be used after :meth:`close`."""

    @classmethod
    def allocated(cls, num_bytes: int, device: torch.device) -> PeerMemory:
        """New memory of a device.

        Raises:
            RuntimeError: where the device has no room.
        """
        address = ctypes.c_void_p()
        torch.get_device_module(device).empty_cache()  # of what PyTorch keeps for itself
        whole = -(-num_bytes // WHOLE_BYTES) * WHOLE_BYTES
        runtime.call(device, "Malloc", ctypes.byref(address), ctypes.c_size_t(whole))
        return cls(address.value or 0, num_bytes, device, "Free")

    @classmethod
    def opened(cls, handle: bytes, num_bytes: int, device: torch.device) -> PeerMemory:
        """The memory of another process, for the kernels of a device of this one.

        Args:
            handle: of :attr:`handle`, from its owner.
            num_bytes: of it.
            device: of this process, which can access the owner's (:func:`reaches`).

        Raises:
            RuntimeError: where it cannot be opened.
        """
        address = ctypes.c_void_p()
        given = PeerHandle.from_buffer_copy(handle)
        runtime.call(device, "IpcOpenMemHandle", ctypes.byref(address), given, ctypes.c_uint(LAZY_PEER_ACCESS))
        return cls(address.value or 0, num_bytes, device, "IpcCloseMemHandle")

    @property
    def handle(self) -> bytes:
        """The handle with which another process opens the memory.

        Raises:
            RuntimeError: where the driver shares none.
        """
        handle = PeerHandle()
        runtime.call(self._device, "IpcGetMemHandle", ctypes.byref(handle), ctypes.c_void_p(self._address))
        return bytes(handle)

    def close(self) -> None:
        """Let go of the memory. Readers do so before the owner does, and when nothing reads it any more."""
        runtime.call(self._device, self._release, ctypes.c_void_p(self._address))


def can_be_opened(kind: str) -> bool:
    """Return whether processes can open each other's memory of a type of accelerator."""
    return runtime.of(kind) is not None


def reaches(device: torch.device, owner: torch.device) -> bool:
    """Return whether kernels of a device can read the memory of another, or of the same."""
    module = torch.get_device_module(device)
    return device == owner or bool(module.can_device_access_peer(device, owner))


def tensor_at(address: int, num_bytes: int, device: torch.device) -> Tensor:
    """Memory as a tensor uint8 [bytes] of a device, which lets go of nothing."""
    storage = torch._C._construct_storage_from_data_pointer(address, device, num_bytes)
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage, 0, (num_bytes,), (1,))
