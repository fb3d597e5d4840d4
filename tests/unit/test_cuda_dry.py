"""The dry run for PyTorch's CUDA build: its parts that do not need that build. ``tools/cuda_dry.sh`` runs all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.torch_version import TorchVersion

from gsplit.config.parallel import SAMPLED
from tools.cuda_dry.fakes import OneDevice, gathered, read_rows
from tools.cuda_dry.operators import without_kernel
from tools.cuda_dry.steps import CASES

ROOT = Path(__file__).parents[2]


def test_operators_without_a_kernel_are_found(tmp_path):
    for header in ("add_cuda", "linear_compositeimplicitautograd", "only_cpu_cpu", "copy_compositeexplicitautograd"):
        (tmp_path / f"{header}_dispatch.h").touch()
    names = ["aten::add.Tensor", "aten::add_.Tensor", "aten::linear", "aten::copy_", "c10d::allreduce_"]
    assert without_kernel(names, tmp_path) == []
    assert without_kernel([*names, "aten::only_cpu", "aten::nowhere.out"], tmp_path) == ["nowhere", "only_cpu"]


@pytest.mark.skipif(
    not torch.backends.cuda.is_built() or TorchVersion(torch.__version__) < "2.13",
    reason="needs PyTorch's CUDA build, 2.13 or newer, which wants no driver for this; tools/cuda_dry.sh runs it",
)
def test_the_host_computes_and_the_device_has_no_values():
    used: set[str] = set()
    with FakeTensorMode(allow_non_fake_inputs=True), OneDevice(used):
        here = torch.arange(6.0).view(2, 3).pin_memory()
        assert here.sum().item() == 15
        there = here.to("cuda")
        assert isinstance(there, FakeTensor)
        assert there.device.type == "cuda"
        assert (there @ torch.empty(3, 5, device="cuda")).shape == (2, 5)
        room = torch.empty_like(there, device="cpu")
        assert room.numpy().shape == (2, 3)
        with pytest.raises(Exception, match="same device"):
            there + here
    assert {"aten::_to_copy", "aten::mm"} <= used
    assert not any(name.startswith("aten::sum") for name in used)


def test_every_strategy_and_loader_is_among_the_cases():
    flags = [case.flags for case in CASES]
    assert {each.get("strategy", "split") for each in flags} == {*SAMPLED, "full"}
    assert {each["loader"] for each in flags if "loader" in each} == {"gather", "zero-copy"}
    assert {each["cache"] for each in flags if "cache" in each} == {"none", "partitioned", "replicated"}
    assert {each.get("model", "sage") for each in flags} >= {"sage", "gat", "gcn"}


def test_two_trainers_send_each_other_what_they_send():
    assert gathered({"a": 1}, None) == [{"a": 1}]
    assert gathered([None, "mine"], object()) == [[None, "mine"], ["mine", None]]


@pytest.mark.parametrize("wrong", ["width", "type", "number"])
def test_what_the_kernel_is_given_is_checked(wrong):
    host, ids, out = torch.empty(5, 3), torch.arange(2), torch.empty(2, 3)
    read_rows(host, ids, None, out)
    changed = {
        "width": (host, ids, None, torch.empty(2, 4)),
        "type": (host, ids.int(), None, out),
        "number": (host, ids, torch.arange(3), out),
    }
    with pytest.raises(AssertionError):
        read_rows(*changed[wrong])


def test_the_device_that_does_nothing_compiles(tmp_path):
    words = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", tmp_path / "lib.so"]
    source = ROOT / "tools" / "cuda_dry" / "one_device.c"
    subprocess.run([os.environ.get("CC", "cc"), *words, source], check=True)


def test_a_folder_must_be_named():
    done = subprocess.run([ROOT / "tools" / "cuda_dry.sh"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "say where the environment may be made" in done.stderr
