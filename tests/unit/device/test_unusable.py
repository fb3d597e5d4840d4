"""GPUs that the host has and PyTorch cannot use are told of, with both versions and what to install."""

from __future__ import annotations

import logging

import pytest
import torch
from support.messages import line_with, says

from gsplit.device import choice, unusable
from gsplit.device.choice import choose_device
from gsplit.errors import InputError

LOADED = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Tue Sep 17 17:36:09 UTC 2026
GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)
"""
OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U22-I3)
GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)
"""
V100, H100, B200 = (7, 0), (9, 0), (10, 0)
OF_13 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]


@pytest.fixture
def host(monkeypatch, tmp_path):
    """host(driver, cuda, node): one that has this driver and file of a GPU, with PyTorch of this build."""

    def make(driver=None, cuda=None, node=False, open_module=False):
        file = tmp_path / "version"
        if driver is not None:
            file.write_text((OPEN if open_module else LOADED).format(driver))
        monkeypatch.setattr(unusable, "DRIVER", file)
        monkeypatch.setattr(unusable, "NODES", (tmp_path,) if node else ())
        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setattr(
            torch, "__version__", "2.13.0" + ("+cpu" if cuda is None else f"+cu{cuda.replace('.', '')}")
        )
        for name in unusable.HIDDEN:
            monkeypatch.delenv(name, raising=False)
        choice._warn.cache_clear()

    return make


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"driver": "580.95.05"}, "2.13.0+cpu, 580.95.05, pip install --force-reinstall torch"),
        ({"driver": "550.54.14"}, "550.54.14, pip install --force-reinstall torch, cu126"),
        ({"driver": "550.54.14", "open_module": True}, "550.54.14, pip install --force-reinstall torch"),
        ({"driver": "580.95.05", "open_module": True, "cuda": "13.0"}, "580.95.05, nvidia-smi"),
        ({"driver": "", "cuda": "13.0"}, "NVIDIA, nvidia-smi"),
        ({"driver": "470.82.01"}, "470.82.01, 525, pip install --force-reinstall torch, cu126"),
        ({"node": True}, "NVIDIA, pip install --force-reinstall torch, 580, cu126"),
        ({"driver": "550.54.14", "cuda": "13.0"}, "CUDA 13.0, 550.54.14, 580, cu126"),
        ({"driver": "470.82.01", "cuda": "12.6"}, "470.82.01, 525, CUDA 12.6"),
        ({"cuda": "13.0"}, "CUDA 13.0, NVIDIA, 580"),
        ({"driver": "580.95.05", "cuda": "13.0"}, "nvidia-smi, CUDA_VISIBLE_DEVICES"),
        ({"node": True, "cuda": "12.6"}, "NVIDIA, nvidia-smi"),
    ],
)
def test_what_is_there_and_what_to_install(host, there, said, caplog):
    host(**there)
    for _ in range(2):  # a run looks for its device several times
        assert choose_device("auto", 2) == "cpu"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    first, _, why = record.getMessage().removesuffix("; or say --device cpu").partition(": ")
    says(first, "CPU")
    says(why, "PyTorch 2.13.0*")
    says(why, said)
    with pytest.raises(InputError) as refused:
        choose_device("cuda", 2)
    says(refused.value, "--device cuda, --device cpu")
    assert why in str(refused.value)
    assert choose_device("cpu", 2) == "cpu"
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("name", "value"), [("CUDA_VISIBLE_DEVICES", ""), ("NVIDIA_VISIBLE_DEVICES", "void")])
def test_who_hides_gpus_is_not_told(host, monkeypatch, caplog, name, value):
    host(driver="580.95.05", cuda="13.0", node=True)
    monkeypatch.setenv(name, value)
    assert choose_device("auto", 2) == "cpu"
    assert not caplog.records
    with pytest.raises(InputError, match=rf"--device cuda, .*: {name}='{value}' hides all GPUs; unset it; or use"):
        choose_device("cuda", 2)


def test_without_a_sign_of_a_gpu_nothing_is_said_to_who_asks_for_none(host, caplog):
    host()
    assert choose_device("auto", 2) == "cpu"
    assert not caplog.records
    with pytest.raises(InputError, match=r"--device cuda, .* built for the CPU alone, and this host has no NVIDIA"):
        choose_device("cuda", 2)


@pytest.fixture
def gpus(host, monkeypatch):
    """gpus(capability, ...): such GPUs; PyTorch has kernels for ``built``."""

    def make(*capabilities, built):
        host(driver="580.95.05", cuda="13.0")
        for module in (torch.cuda, torch.accelerator):
            monkeypatch.setattr(module, "is_available", lambda: True)
            monkeypatch.setattr(module, "device_count", lambda: len(capabilities))
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: built)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capabilities[index])
        monkeypatch.setattr(unusable.accelerator, "name_of", lambda device: f"GPU {device.index}")

    return make


@pytest.mark.parametrize(
    ("capabilities", "built"),
    [
        ((V100,), OF_13),  # the paper's hosts, and the wheels of CUDA 13
        ((H100, V100), OF_13),
        ((B200,), ["sm_80", "sm_90"]),  # another major version
        ((B200,), ["sm_90a"]),  # for that architecture alone
        ((H100,), ["sm_80", "compute_100"]),  # PTX for later ones
    ],
)
def test_gpus_without_kernels_are_told_before_anything_starts(gpus, caplog, capabilities, built):
    gpus(*capabilities, built=built)
    which = len(capabilities) - 1
    said = f"cuda:{which}, GPU {which}, {capabilities[-1][0]}.0, sm_*, CUDA_VISIBLE_DEVICES"
    assert choose_device("auto", 2) == "cpu"
    (record,) = caplog.records
    says(record.getMessage(), "CPU, PyTorch 2.13.0")
    with pytest.raises(InputError, match=line_with(said)) as refused:
        choose_device("cuda", 2)
    is_older = capabilities[-1] == V100
    assert ("cu126" in str(refused.value)) == is_older  # a newer one wants a newer build


def test_a_gpu_that_nobody_asked_for_decides_nothing(gpus, caplog):
    gpus(H100, V100, built=OF_13)
    assert choose_device("auto", 1) == choose_device("cuda", 1) == "cuda"
    assert not caplog.records


@pytest.mark.parametrize(
    ("capability", "built"),
    [
        (H100, OF_13),
        ((8, 9), ["sm_80", "sm_90"]),  # an earlier minor version
        ((12, 1), ["sm_80", "compute_90"]),  # PTX of an earlier one
        (H100, ["sm_90a"]),
        (H100, []),  # not told
        (H100, ["gfx90a", "gfx942"]),  # AMD's
    ],
)
def test_gpus_with_kernels_are_taken(gpus, caplog, capability, built):
    gpus(capability, built=built)
    assert choose_device("auto", 1) == choose_device("cuda", 1) == "cuda"
    assert not caplog.records
