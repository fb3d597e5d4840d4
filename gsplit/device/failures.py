"""What an accelerator refuses, in one line: CUDA, its libraries, NCCL and Triton each say it in words of their own.

Found by the words alone, since none of them has a type for it: PyTorch raises a RuntimeError, or a class that derives
from it, which another version calls otherwise.
"""

from __future__ import annotations

import re

import torch

from gsplit.device.accelerator import built_for

OUT_OF_MEMORY = re.compile(
    r"out of memory"  # the allocator, CUDA's own calls for pinned memory, NCCL ("Cuda failure 2"), Triton, HIP
    r"|_STATUS_(ALLOC_FAILED|INSUFFICIENT_RESOURCES)"  # handles and workspaces of cuBLAS, cuSPARSE, cuDNN, hipBLAS
    r"|Failed to (CUDA|CUDA host) \w*alloc"  # NCCL's buffers
    r"|(OUT_OF_DEVICE|OUT_OF_HOST)_MEMORY",  # XPU
    re.IGNORECASE,
)
"""How libraries say that there is no memory left."""
BROKEN = re.compile(
    r"illegal memory access|illegal instruction|misaligned address|device-side assert"
    r"|launch timed out|launch failure|uncorrectable|hardware stack error|memory access fault",
    re.IGNORECASE,
)
"""How a device says that a kernel broke it: from then on, at each launch (CUDA Runtime API, errors 700 to 719)."""
TAKEN = "another process has it for itself, or it failed; nvidia-smi says which"
DRIVER = "the driver is older than this build needs; install a newer driver, or an older build"
KERNELS = "this build has no kernels for that GPU; install a build that has"
UNSEEN = "no GPU is let be seen; look at CUDA_VISIBLE_DEVICES and nvidia-smi"
NOT_STARTED = "the driver did not start; load it again (nvidia-smi, modprobe nvidia-uvm), or restart"
MPS = "the Multi-Process Service does not take more clients; start its daemon again, or do without"
REFUSALS = {
    "busy or unavailable": TAKEN,  # "all CUDA-capable devices are", and, since CUDA 11, "device(s) is/are"
    "device unavailable": TAKEN,
    "DEVICE_LOST": TAKEN,
    "no kernel image is available": KERNELS,
    "invalid device function": KERNELS,
    "device kernel image is invalid": KERNELS,
    "PTX was compiled with an unsupported toolchain": DRIVER,
    "driver version is insufficient": DRIVER,
    "driver on your system is too old": DRIVER,
    "forward compatibility was attempted on non supported": DRIVER,
    "No CUDA GPUs are available": UNSEEN,
    "No HIP GPUs are available": UNSEEN,
    "No XPU devices are available": UNSEEN,
    "no CUDA-capable device": UNSEEN,
    "invalid device ordinal": "a GPU has gone, or is not let be seen; look at nvidia-smi and CUDA_VISIBLE_DEVICES",
    "Found no NVIDIA driver": "no driver is here; install one, or use --device cpu",
    "system not yet initialized": "the service that joins the GPUs does not run; start nvidia-fabricmanager",
    "CUDA unknown error": NOT_STARTED,
    "initialization error": NOT_STARTED,
    "driver initialization failed": NOT_STARTED,
    "unsupported display driver": "the driver was updated, and its older half still runs; "
    "restart, or install the libraries of one version",
    "MPS client": MPS,
    "MPS server": MPS,
    "CUBLAS_STATUS_NOT_INITIALIZED": "most often the GPU's memory is full; nvidia-smi says who has it",
    "nvmlInit": "the GPU's memory is short, and the driver's library that says so does not answer; use a smaller "
    "--batch-size or --cache-size, or install libnvidia-ml of the driver's version",
    "peer mapping resources exhausted": "a GPU opens memory of eight others at most; use --cache replicated, or "
    "fewer --gpus",
    "OS call failed or operation not supported on this OS": "the system, or the container, does not let memory be "
    "shared between processes on GPUs; use --cache replicated",
    "uncorrectable ECC error": "memory of the GPU failed; nvidia-smi -q -d ECC says which, a reset may mend it",
    "uncorrectable NVLink error": "a link between GPUs failed; nvidia-smi nvlink -s says which",
    "device kernel image is corrupt": "PyTorch's files are damaged; install it again",
    "creating shared memory segment": "NCCL finds no room in /dev/shm; make it larger (docker: --shm-size=1g)",
    "no socket interface found": "NCCL knows no such network; unset NCCL_SOCKET_IFNAME",
    "ncclRemoteError": "another trainer ended before; what it printed is the cause",
    "unhandled system error": "NCCL cannot use what the host gives it; NCCL_DEBUG=WARN says what",
    "Duplicate GPU detected": "each trainer needs a GPU of its own; use fewer --gpus",
    "Torch not compiled with CUDA enabled": "PyTorch is built without CUDA; install a build with it",
}
"""What to do about what else a device refuses at the start, by words of the error."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that an accelerator, or the host's memory that it reads, has no room left."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error)) is not None


def is_of_a_broken_device(error: BaseException) -> bool:
    """Return whether an error says that a device is broken, by this launch or by any before it."""
    return isinstance(error, RuntimeError) and BROKEN.search(str(error)) is not None


def refused_by_device(error: BaseException) -> str | None:
    """One line for what an accelerator, its driver or NCCL refused, with what to do; None for any other exception.

    Not for what a program may have done to it, such as an illegal access: that keeps its traceback.
    """
    if not isinstance(error, (RuntimeError, AssertionError)):
        return None
    lines = str(error).splitlines() or [""]
    if is_out_of_memory(error):
        line = next((line for line in lines if OUT_OF_MEMORY.search(line)), lines[0] or "no memory is left")
        return f"{line.rstrip('. ')}; use a smaller --batch-size or --cache-size, or more --gpus"
    for words, advice in REFUSALS.items():
        for line in lines:
            if words.lower() in line.lower():
                return f"{line.rstrip('. ')}; {advice} (PyTorch {torch.__version__}, for {built_for()})"
    return None
