"""The library of CUDA's runtime, wherever PyTorch has loaded it, and what it says of a device."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest
import torch

from gsplit.device import peer_memory, runtime
from gsplit.device.runtime import FUNCTIONS


def test_the_runtime_is_the_one_that_pytorch_has_loaded(monkeypatch):
    """It is looked for among all that is loaded, and then in its own library, where others do not see it."""
    loaded = SimpleNamespace(**{f"hip{name}": None for name in FUNCTIONS})
    maps = "7f00-7f01 r-xp 0000 fe:01 42   /opt/torch lib/libamdhip64.so.6\n7f02-7f03 rw-p 0000 00:00 0\n"
    monkeypatch.setattr(runtime.Path, "read_text", lambda _: maps)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace(cudart=None))
    asked = []
    monkeypatch.setattr(
        ctypes, "CDLL", lambda path: asked.append(path) or (SimpleNamespace() if path is None else loaded)
    )
    assert runtime.of("cuda") == (loaded, "hip")
    assert asked == [None, "/opt/torch lib/libamdhip64.so.6"]
    maps = ""
    assert not peer_memory.can_be_opened("cuda")


def test_a_kind_without_such_a_runtime_has_none(monkeypatch):
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace())
    assert not peer_memory.can_be_opened("xpu")


@pytest.mark.parametrize(("code", "found"), [(0, "0000:c1:00.0"), (101, None)])
def test_a_device_s_place_on_the_bus_is_that_of_sys(monkeypatch, code, found):
    def place(address, num_bytes, device):
        assert (num_bytes.value, device) == (32, 3)
        address.value = b"0000:C1:00.0"
        return code

    library = SimpleNamespace(cudaDeviceGetPCIBusId=place, cudaGetLastError=lambda: 0)
    monkeypatch.setattr(runtime, "of", lambda _: (library, "cuda"))
    assert runtime.pci_address(torch.device("cuda", 3)) == found
