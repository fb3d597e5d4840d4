"""Memory that processes share: what the runtime is asked, with which device current, and what its errors become."""

from __future__ import annotations

import contextlib
import ctypes
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from gsplit.device import peer_memory
from gsplit.device import runtime as runtime_module
from gsplit.device.failures import is_out_of_memory
from gsplit.device.peer_memory import PeerMemory
from gsplit.device.runtime import FUNCTIONS

CPU = torch.device("cpu")
"""It stands for the reader's device: a tensor at an address of the host."""


class Runtime:
    """Functions of the runtime's names that only note what they are asked, and by which device."""

    def __init__(self, room: ctypes.Array, failing: str = "") -> None:
        self.asked: list[tuple[str, object]] = []
        for name in FUNCTIONS:
            setattr(self, f"cuda{name}", self._function(name, ctypes.addressof(room), 2 if name == failing else 0))

    def _function(self, name, address, code):
        def call(*arguments):
            self.asked.append((name, self.current))
            if name == "GetErrorString":
                return b"out of memory"
            if name == "Malloc":
                assert arguments[1].value == peer_memory.WHOLE_BYTES  # or the handle would stand for others, too
            if name in ("Malloc", "IpcOpenMemHandle") and not code:
                arguments[0]._obj.value = address
            if name == "IpcGetMemHandle":
                arguments[0]._obj.reserved[63] = 7
            if name == "IpcOpenMemHandle":
                assert bytes(arguments[1])[63] == 7
                assert arguments[2].value == 1
            return code

        return call

    current: torch.device | None = None


@pytest.fixture
def runtime(monkeypatch):
    """runtime(room, failing): the runtime, where memory begins at the address of ``room``."""

    def there(room, failing=""):
        made = Runtime(room, failing)
        module = SimpleNamespace(cudart=None, empty_cache=lambda: made.asked.append(("empty_cache", None)))

        @contextlib.contextmanager
        def as_current(device):
            made.current = device
            yield
            made.current = None

        monkeypatch.setattr(torch, "get_device_module", lambda _: module)
        monkeypatch.setattr(runtime_module.accelerator, "as_current", as_current)
        monkeypatch.setattr(ctypes, "CDLL", lambda path: made if path is None else SimpleNamespace())
        return made

    return there


def test_memory_is_allocated_sent_and_opened_by_the_device_that_reads_it(runtime):
    room = (ctypes.c_ubyte * 4)(1, 2, 3, 4)
    there = runtime(room)
    own = PeerMemory.allocated(4, CPU)
    opened = PeerMemory.opened(own.handle, 4, CPU)
    assert isinstance(opened.bytes, Tensor)
    assert opened.bytes.tolist() == [1, 2, 3, 4]
    opened.close()
    own.close()
    calls = ("Malloc", "IpcGetMemHandle", "IpcOpenMemHandle", "IpcCloseMemHandle", "Free")
    assert there.asked == [("empty_cache", None), *((name, CPU) for name in calls)]


def test_an_error_has_the_runtime_s_words_and_is_not_left_for_the_next_launch(runtime):
    there = runtime((ctypes.c_ubyte * 4)(), failing="Malloc")
    with pytest.raises(RuntimeError, match=r"^cudaMalloc: out of memory$") as raised:
        PeerMemory.allocated(4, CPU)
    assert is_out_of_memory(raised.value)
    assert [name for name, _ in there.asked] == ["empty_cache", "Malloc", "GetLastError", "GetErrorString"]


def test_a_device_reaches_itself_and_whatever_it_has_access_to(monkeypatch):
    module = SimpleNamespace(can_device_access_peer=lambda one, other: (one.index, other.index) == (0, 2))
    monkeypatch.setattr(torch, "get_device_module", lambda _: module)
    found = [peer_memory.reaches(torch.device("cuda", 0), torch.device("cuda", peer)) for peer in range(3)]
    assert found == [True, False, True]
