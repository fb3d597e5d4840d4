"""The faults of ``GSPLIT_SIM_FAULT`` that are Python's part (csrc/faults.hpp has them all)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

DRIVER = "/proc/driver/nvidia/version"
OLD = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82.01  Wed Oct 27 21:21:55 UTC 2021\n"
CUDA = "13.0"
NCCL = """NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details)
ncclUnhandledCudaError: Call to CUDA function failed.
Last error:
Failed to CUDA calloc async 4194304 bytes"""


def has(kind: str, where: str = "") -> bool:
    """Whether the fault of this process is of a kind, and at a place."""
    return bool(torch.ops.sim.fault()[:2] == (kind, where))


def register() -> None:
    """Make the host a sick one, where the fault is the host's."""
    if has("driver"):
        _have_an_old_driver()
    elif has("header"):
        _have_no_python_h()


def join() -> None:
    """What NCCL says where a device has no room for its buffers.

    Raises:
        DistBackendError: with this fault.
    """
    if has("full", "joining"):
        raise dist.DistBackendError(NCCL)


def _have_an_old_driver() -> None:
    """The driver is older than the CUDA that PyTorch says it is built for."""
    torch.version.cuda = CUDA
    read = Path.read_text

    def read_text(path: Path, *arguments: Any, **named: Any) -> str:
        return OLD if str(path) == DRIVER else read(path, *arguments, **named)

    Path.read_text = read_text  # type: ignore[method-assign, assignment]


def _have_no_python_h() -> None:
    """Triton compiles a module of Python's when it is first asked for the device, and cannot."""
    from triton.runtime import driver

    def active(_: Any) -> None:
        raise subprocess.CalledProcessError(1, ["gcc", "main.c", "-O3", "-shared", "-fPIC", "-lcuda"])

    type(driver).active = property(active)
