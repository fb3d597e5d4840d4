"""What accelerators of each kind have, with modules of PyTorch's that only pretend; real ones do more."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.graphs import lay_out, random_graph
from support.messages import line_with

from gsplit.config.resolved import Placed
from gsplit.config.train import TrainConfig
from gsplit.device import accelerator
from gsplit.device.seen import seen
from gsplit.engine.sampled import Sampled
from gsplit.errors import InputError
from gsplit.host import SharedBuffer
from gsplit.parallel.join import backend_for

PACKAGE = Path(accelerator.__file__).parent.parent
NAMED = {
    "device/accelerator.py": "what this is about",
    "device/runtime.py": "the runtime of a kind, by the names of its functions",
    "device/unusable.py": "what a driver and a build of PyTorch say of each other",
    "device/left_behind.py": "names of files that a library of theirs gives",
    "config/parallel.py": "the values of --device",
}
"""Files that may name a kind of device, and why."""
SLOT = np.zeros(64, np.uint8)


@pytest.fixture
def pretend(monkeypatch):
    """pretend(kind, module): PyTorch has accelerators of a kind, with that as its module for them."""

    def there(kind, **has):
        module = SimpleNamespace(Stream=None, Event=None, mem_get_info=lambda _: (3, 4), **has)
        monkeypatch.setattr(torch, "get_device_module", lambda _: module)
        found = None if kind is None else torch.device(kind)
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: found is not None)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: found)
        return module

    return there


def test_devices_are_named_where_that_is_said():
    naming = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\b(cuda|xpu|nccl|cudart)\b", path.read_text())
    }
    assert naming == set(NAMED)


@pytest.mark.parametrize(
    ("asked", "there", "working", "found"),
    [
        ("auto", None, 0, ("cpu", 0)),
        ("auto", "xpu", 3, ("xpu", 3)),
        ("xpu", "xpu", 3, ("xpu", 3)),
        ("xpu", None, 0, ("xpu", 0)),
        ("cpu", "cuda", 2, ("cpu", 0)),
    ],
)
def test_what_there_is_is_found(pretend, asked, there, working, found):
    pretend(there, is_available=lambda: working > 0, device_count=lambda: working)
    assert accelerator.find(asked) == found


def test_devices_without_streams_are_none(pretend):
    module = pretend("mps")
    del module.Stream
    assert accelerator.find("auto") == ("cpu", 0)
    with pytest.raises(InputError, match=line_with("--device mps, --device cpu")):
        accelerator.find("mps")


@pytest.mark.parametrize("asked", ["gpu", "hpu", "meta", "privateuseone", "gpu:0", "cuda:", "cpu:x", "version", ""])
def test_words_that_are_no_registered_type_are_refused(asked):
    said = asked or "''"
    with pytest.raises(InputError, match=line_with(f"--device {said}, auto, cpu, cuda, xpu")):
        accelerator.find(asked)


def test_types_are_known_in_capitals_and_devices_by_number_are_not(pretend):
    pretend("xpu", is_available=lambda: True, device_count=lambda: 3)
    assert [accelerator.find(asked) for asked in ("CPU", "Xpu", "AUTO")] == [("cpu", 0), ("xpu", 3), ("xpu", 3)]
    for asked, plain in (("cuda:1", "cuda"), ("cpu:0", "cpu"), ("XPU:0", "xpu")):
        with pytest.raises(InputError, match=line_with(f"--device {asked.lower()}, --device {plain}, --gpus")):
            accelerator.find(asked)


@pytest.mark.parametrize(
    ("device", "backend", "activity"),
    [("cpu", "gloo", None), ("cuda:1", "cpu:gloo,cuda:nccl", "CUDA"), ("xpu:0", "cpu:gloo,xpu:xccl", "XPU")],
)
def test_each_kind_has_its_collectives_and_its_profiles(device, backend, activity):
    recorded = accelerator.activity(torch.device(device))
    assert (backend_for(torch.device(device)), recorded and recorded.name) == (backend, activity)


def test_the_cpu_has_no_streams_and_is_never_behind():
    cpu = torch.device("cpu")
    assert accelerator.new_stream(cpu) is None
    with accelerator.on_stream(None):
        accelerator.synchronize(cpu)
    assert not accelerator.is_one(cpu)


def test_memory_is_asked_of_the_device(pretend):
    sizes = (8, 5, 9)
    pretend("xpu", device_count=lambda: 3, get_device_properties=lambda i: SimpleNamespace(total_memory=sizes[i]))
    assert accelerator.free_and_total(torch.device("xpu", 0)) == (3, 4)
    assert accelerator.smallest_bytes("xpu") == 5


@pytest.mark.parametrize("code", [0, 712])
def test_memory_is_registered_where_there_is_a_way(pretend, monkeypatch, code):
    asked, cleared = [], []
    cudart = SimpleNamespace(
        cudaHostRegister=lambda *what: asked.append(what) or code, cudaHostUnregister=asked.append
    )
    pretend("cuda", cudart=lambda: cudart)
    monkeypatch.setattr(torch, "zeros", lambda *_, device: cleared.append(device) or torch.ones(1))
    assert accelerator.register(SLOT, accelerator.FOR_ALL_AND_KERNELS) == code
    assert asked == [(SLOT.ctypes.data, 64, 3)]
    assert cleared == ([] if code == 0 else ["cuda"])  # or the next launch would report the error
    for _ in range(2):
        accelerator.unregister(SLOT.ctypes.data)
    assert asked[1:] == ([SLOT.ctypes.data] if code == 0 else [])


@pytest.mark.parametrize("kept", [slice(0, 0), slice(3, 5)])
def test_registered_memory_is_taken_back_when_its_last_view_goes(pretend, kept):
    """Before it is unmapped."""
    mapped = []

    def take_back(address):
        mapped.append(f"{address:x}-" in Path("/proc/self/maps").read_text())

    pretend("cuda", cudart=lambda: SimpleNamespace(cudaHostRegister=lambda *_: 0, cudaHostUnregister=take_back))
    slot = SharedBuffer("test")
    slot.grow(1 << 16)
    memory = slot.view((1 << 8, 1 << 8), np.uint8)
    accelerator.register(memory)
    view = torch.from_numpy(memory[kept])
    del memory
    assert mapped == []
    del view
    assert mapped == [True]
    slot.close()


def test_what_another_kind_has_not_is_left_out(pretend):
    pretend("xpu")
    assert accelerator.register(SLOT) == accelerator.NOT_SUPPORTED
    assert not accelerator.reads_host_memory("xpu")


def test_a_module_of_its_own_reads_rows(pretend):
    pretend("xpu", read_rows=len)
    assert accelerator.reader_of_rows(torch.device("xpu", 0)) is len
    pretend("cuda")
    assert accelerator.reader_of_rows(torch.device("cuda", 0)) is None


def test_caches_of_peers_are_refused_where_their_memory_cannot_be_opened(pretend, tmp_path):
    pretend("xpu", device_count=lambda: 2)
    layout = lay_out(random_graph(60, 5, seed=1), tmp_path, parts=2)
    asked = TrainConfig(layout=layout.path, strategy="data", cache="partitioned", cache_size="10%")
    with pytest.raises(InputError, match=line_with("--device xpu, --cache replicated")):
        Sampled().resolve(Placed.of(asked, 2, "xpu"), layout)


def test_what_pytorch_was_built_for_is_said(monkeypatch):
    for name, value in {"cuda": None, "hip": "6.4", "xpu": "2025.1"}.items():
        monkeypatch.setattr(torch.version, name, value, raising=False)
    assert accelerator.built_for() == "ROCm 6.4, XPU 2025.1"
    for name in ("hip", "xpu"):
        monkeypatch.setattr(torch.version, name, None)
    assert accelerator.built_for() == "the CPU alone"


def test_without_accelerators_none_is_seen(pretend):
    pretend(None)
    assert seen() == []


def test_the_cpu_is_seeded_as_pytorch_seeds_it_and_accelerators_with_it(monkeypatch):
    torch.manual_seed(5)
    drawn = torch.rand(3)
    accelerator.seed(torch.device("cpu"), 5)
    assert torch.rand(3).equal(drawn)
    of_all = []
    monkeypatch.setattr(torch, "manual_seed", of_all.append)
    accelerator.seed(torch.device("cuda", 1), 6)
    assert of_all == [6]
