"""The machine and the versions that a table of results is of."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import psutil
import torch

import gsplit
from gsplit.device import accelerator
from tools.gpu_check.place import ROOT


def machine(device: str) -> Iterator[tuple[str, str]]:
    """What is told of a machine: names and values.

    Args:
        device: type of the device.
    """
    yield "date", datetime.date.today().isoformat()
    yield "GPUs", gpus(device)
    if driver := said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"):
        yield "driver", driver.splitlines()[0]
    runtimes = {"CUDA": torch.version.cuda, "HIP": torch.version.hip}
    yield (
        "PyTorch",
        ", ".join([torch.__version__, *(f"{name} {version}" for name, version in runtimes.items() if version)]),
    )
    with contextlib.suppress(metadata.PackageNotFoundError):
        yield "Triton", metadata.version("triton")
    yield "GSplit", f"{gsplit.__version__} {said('git', '-C', str(ROOT), 'describe', '--always', '--dirty')}".strip()
    yield "Python, Linux", f"{platform.python_version()}, {platform.release()}"
    yield "CPU", f"{cpu()}, {len(os.sched_getaffinity(0))} cores, {psutil.virtual_memory().total >> 30} GiB"


def gpus(device: str) -> str:
    """Names and memory of the devices of a type."""
    if device == accelerator.HOST:
        return "none: a rehearsal on the CPU"
    module, names = torch.get_device_module(device), []
    for i in range(accelerator.count(device)):
        properties = module.get_device_properties(i)
        names.append(f"{getattr(properties, 'name', device)}, {properties.total_memory / 2**30:.0f} GiB")
    return "; ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def cpu() -> str:
    """The name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def said(*command: str) -> str:
    """What a command says; nothing where there is no such command, or it fails."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip()
    return ""
