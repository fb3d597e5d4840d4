"""GPUs that the host has and PyTorch cannot use: which driver, which build, and what to install.

PyTorch says no more than that it finds none, and training would go on, on the CPU, in a hundred times the time.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

from gsplit.device import accelerator

DRIVER = Path("/proc/driver/nvidia/version")
"""What NVIDIA's driver says of itself, where it is loaded."""
NODES = (Path("/dev/nvidia0"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Files of NVIDIA's GPUs, in a container also where the driver's own file is not; the last is that of WSL."""
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
"""The oldest driver for each major version of CUDA, of any minor one (NVIDIA, CUDA Compatibility, "Minor Version
Compatibility")."""
NEWEST = max(OLDEST_DRIVER.values())
"""The driver that the newest builds want."""
HIDDEN = {"CUDA_VISIBLE_DEVICES": ("", "-1", "NoDevFiles"), "NVIDIA_VISIBLE_DEVICES": ("none", "void")}
"""Variables by which a user says that no GPU is to be seen, with the values that do."""
INSTALL = "pip install --force-reinstall torch"
"""What puts the newest build of PyTorch in the place of the one that is there."""
OLDER = f"{INSTALL} --index-url https://download.pytorch.org/whl/cu126"
"""What puts a build for CUDA 12.6 there, for drivers before 580 and GPUs before Turing."""


def why_none(kind: str) -> str | None:
    """Why PyTorch finds no GPU, with what to do, where something says that there is to be one; else None.

    A driver says so, the file of a GPU, a build of PyTorch for GPUs, or who asks for one by its type.

    Args:
        kind: the type of device that was looked for; ``cpu`` where any would have done.
    """
    if kind not in (accelerator.HOST, "cuda"):
        return None
    is_asked = kind == "cuda"
    for name, values in HIDDEN.items():
        if os.environ.get(name) in values:
            return f"{name}={os.environ[name]!r} hides all GPUs; unset it" if is_asked else None
    driver, built = _driver(), torch.version.cuda
    has_gpu = driver is not None or any(node.exists() for node in NODES)
    if built is None and (torch.version.hip or getattr(torch.version, "xpu", None) or not (has_gpu or is_asked)):
        return None
    host = f"NVIDIA's driver {driver}" if driver else "an NVIDIA driver or GPU" if has_gpu else "no NVIDIA driver"
    seen = f"PyTorch {torch.__version__} is built for {accelerator.built_for()}, and this host has {host}"
    version = int(driver.split(".")[0]) if driver else 0
    if built is None and not has_gpu:
        return f"{seen}; install one where there is a GPU, and a build for CUDA"
    if built is None and not driver:
        return f"{seen}; install a build for CUDA: {INSTALL}, or with a driver before {NEWEST} (nvidia-smi): {OLDER}"
    if built is None:
        update = f"update the driver to {OLDEST_DRIVER[12]} or newer, then " if version < OLDEST_DRIVER[12] else ""
        return f"{seen}; {update}install a build for CUDA: {INSTALL if version >= NEWEST else OLDER}"
    oldest = OLDEST_DRIVER.get(int(built.split(".")[0]), 0)
    if not has_gpu:
        return f"{seen}; install one, {oldest} or newer"
    if 0 < version < oldest:
        other = f", or install another build: {OLDER}" if OLDEST_DRIVER[12] <= version else ""
        return f"{seen}, older than the {oldest} that CUDA {built} wants; update it{other}"
    return f"{seen}, but lets it see no GPU; look at nvidia-smi, CUDA_VISIBLE_DEVICES and the container's flags"


def without_kernels(kind: str, number: int) -> str | None:
    """Return which GPU this build of PyTorch has no kernels for, with what to do; None where it has kernels for all.

    A kernel runs on its own and on later minor versions of its architecture; PTX (``compute_90``) on all later ones.

    Args:
        kind: the type of device.
        number: of devices, from the first on, that are looked at.
    """
    devices = torch.get_device_module(kind)
    if kind != "cuda" or not hasattr(devices, "get_arch_list") or not (built := devices.get_arch_list()):
        return None
    if not all(re.fullmatch(r"(sm|compute)_\d+[a-z]?", name) for name in built):  # AMD's, which PyTorch knows better
        return None
    for index in range(min(number, devices.device_count())):
        device = devices.get_device_capability(index)
        if not any(_runs(name, device) for name in built):
            is_older = all(device < _capability(name) for name in built)
            name = accelerator.name_of(torch.device(kind, index))
            return (
                f"PyTorch {torch.__version__}, for {accelerator.built_for()}, has no kernels for {kind}:{index} "
                f"({name}, compute capability {device[0]}.{device[1]}), only for {', '.join(built)}; install a build "
                f"that has them, {OLDER if is_older else INSTALL}, or leave it out by CUDA_VISIBLE_DEVICES"
            )
    return None


def _runs(built: str, device: tuple[int, int]) -> bool:
    """Return whether code for an architecture runs on a device of this compute capability."""
    its = _capability(built)
    if built[-1].isalpha():  # sm_90a and the like run there alone
        return its == device
    if built.startswith("compute"):
        return its <= device
    return its[0] == device[0] and its[1] <= device[1]


def _capability(built: str) -> tuple[int, int]:
    """The compute capability that an architecture is named for: (9, 0) for ``sm_90a``."""
    number = built.rstrip("af").partition("_")[2]
    return int(number[:-1]), int(number[-1])


def _driver() -> str | None:
    """The driver's version; empty where there is one that does not say, None where there is none."""
    try:
        found = re.search(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", DRIVER.read_text())
    except OSError:
        return None
    return found[1] if found else ""
