"""What accelerators and their libraries refuse is one line with what to do, by the words that each of them uses."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from support.messages import line_with, says

from gsplit.device import accelerator, choice
from gsplit.device.choice import choose_device
from gsplit.device.failures import is_out_of_memory, refused_by_device
from gsplit.errors import InputError

NCCL = """NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details)
ncclUnhandledCudaError: Call to CUDA function failed.
Last error:
{}"""
FULL = {
    "allocator": torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total of 7.79 GiB"
    ),
    "nothing said": torch.OutOfMemoryError(),
    "pinned": RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    "cuBLAS": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "cuSPARSE": RuntimeError("CUDA error: CUSPARSE_STATUS_INSUFFICIENT_RESOURCES when calling `cusparseSpMM`"),
    "cuDNN": RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    "NCCL": dist.DistBackendError(NCCL.format("Cuda failure 2 'out of memory'")),
    "NCCL's buffers": dist.DistBackendError(NCCL.format("Failed to CUDA calloc async 4194304 bytes")),
    "NCCL's host": dist.DistBackendError(NCCL.format("Failed to CUDA host alloc 65536 bytes")),
    "Triton": RuntimeError("Triton Error [CUDA]: out of memory"),
    "HIP": RuntimeError("HIP out of memory. Tried to allocate 20.00 MiB"),
    "hipBLAS": RuntimeError("HIP error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate`"),
    "XPU": RuntimeError("level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
}
REFUSED = {
    "exclusive": ("CUDA error: all CUDA-capable devices are busy or unavailable", "nvidia-smi"),
    "exclusive, since CUDA 11": (
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable\nCUDA kernel errors might be asynchronously",
        "nvidia-smi",
    ),
    "Intel's, lost": ("level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)", "nvidia-smi"),
    "no function": ("HIP error: invalid device function\nHIP kernel errors might be", "no kernels"),
    "AMD's, hidden": ("No HIP GPUs are available", "CUDA_VISIBLE_DEVICES, nvidia-smi"),
    "Intel's, hidden": ("No XPU devices are available.", "CUDA_VISIBLE_DEVICES, nvidia-smi"),
    "renumbered": (
        "CUDA error: invalid device ordinal\nGPU device may be out of range",
        "nvidia-smi, CUDA_VISIBLE_DEVICES",
    ),
    "cuInit": (
        "CUDA driver initialization failed, you might not have a CUDA gpu.",
        "nvidia-smi, modprobe nvidia-uvm",
    ),
    "half updated": ("Error 803: system has unsupported display driver / cuda driver combination", "driver, restart"),
    "MPS": (
        "CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server",
        "Multi-Process Service, daemon",
    ),
    "MPS, full": (
        "CUDA error: the MPS server is not ready to accept new MPS client requests",
        "Multi-Process Service, do without",
    ),
    "cuBLAS, full": (
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "memory is full, nvidia-smi",
    ),
    "NVML": (
        "NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp",
        "--batch-size, --cache-size, libnvidia-ml",
    ),
    "nine peers": ("CUDA error: peer mapping resources exhausted", "--cache replicated, --gpus"),
    "no IPC": ("CUDA error: OS call failed or operation not supported on this OS", "--cache replicated"),
    "small /dev/shm": (
        "NCCL error in: ProcessGroupNCCL.cpp:94, unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n"
        "Last error:\nError while creating shared memory segment /dev/shm/nccl-KWfVyt (size 9637888)",
        "/dev/shm, --shm-size=1g",
    ),
    "no such network": (
        NCCL.format("Bootstrap : no socket interface found").replace("cuda error", "system error"),
        "unset NCCL_SOCKET_IFNAME",
    ),
    "a peer's end": (
        "NCCL error in: ProcessGroupNCCL.cpp:94, remote process exited or there was a network error\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "another trainer",
    ),
    "gone": ("CUDA error: device unavailable", "nvidia-smi"),
    "old wheel": ("CUDA error: no kernel image is available for execution on the device", "no kernels"),
    "PTX": ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", "newer driver, older build"),
    "old driver": ("The NVIDIA driver on your system is too old (found version 11040)", "newer driver, older build"),
    "too old": (
        "CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        "newer driver, older build",
    ),
    "compat": ("Error 804: forward compatibility was attempted on non supported HW", "newer driver, older build"),
    "no driver": ("Found no NVIDIA driver on your system. Please check", "no driver, --device cpu"),
    "hidden": ("No CUDA GPUs are available", "CUDA_VISIBLE_DEVICES, nvidia-smi"),
    "none": ("CUDA error: no CUDA-capable device is detected", "CUDA_VISIBLE_DEVICES, nvidia-smi"),
    "fabric": ("Error 802: system not yet initialized", "nvidia-fabricmanager"),
    "unknown": (
        "CUDA unknown error - this may be due to an incorrectly set up environment",
        "nvidia-smi, modprobe nvidia-uvm",
    ),
    "half loaded": ("CUDA error: initialization error", "nvidia-smi, modprobe nvidia-uvm"),
    "ECC": ("CUDA error: uncorrectable ECC error encountered", "nvidia-smi -q -d ECC"),
    "NVLink": ("CUDA error: uncorrectable NVLink error detected during the execution", "nvidia-smi nvlink -s"),
    "shared": (NCCL.format("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000"), "fewer --gpus"),
    "no /dev/shm": ("NCCL error, unhandled system error (run with NCCL_DEBUG=INFO for details)", "NCCL_DEBUG=WARN"),
    "CPU build": ("Torch not compiled with CUDA enabled", "without CUDA, install"),
}
OURS = {
    "illegal access": RuntimeError("CUDA error: an illegal memory access was encountered"),
    "assertion": RuntimeError("CUDA error: device-side assert triggered"),
    "launch": RuntimeError("CUDA error: unspecified launch failure"),
    "shapes": RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"),
    "value": ValueError("out of memory"),
    "interrupt": KeyboardInterrupt(),
}


@pytest.mark.parametrize("name", FULL)
def test_no_room_is_one_line(name):
    assert is_out_of_memory(FULL[name])
    line = refused_by_device(FULL[name])
    assert "\n" not in line
    says(line, "--batch-size, --cache-size, --gpus")
    assert len(line.partition(";")[0]) > 5


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", [RuntimeError, AssertionError, dist.DistBackendError])
def test_what_is_refused_is_one_line_with_what_to_do(name, kind):
    said, advice = REFUSED[name]
    line = refused_by_device(kind(said))
    assert "\n" not in line
    says(line, f"PyTorch {torch.__version__}", advice)
    assert not is_out_of_memory(kind(said))


@pytest.mark.parametrize("name", OURS)
def test_what_a_program_did_keeps_its_traceback(name):
    assert refused_by_device(OURS[name]) is None
    assert not is_out_of_memory(OURS[name])


def test_a_driver_that_does_not_start_is_told_before_anything_does(monkeypatch, caplog):
    def refuse(kind, number):
        raise RuntimeError(said)

    said = "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable"
    monkeypatch.setattr(choice, "without_kernels", refuse)
    monkeypatch.setattr(accelerator, "find", lambda asked: ("cuda", 2))
    choice._warn.cache_clear()
    assert choose_device("auto", 2) == "cpu"
    says(caplog.text, "CPU, CUDA unknown error")
    with pytest.raises(InputError, match=line_with("--device cuda, CUDA unknown error, driver")):
        choose_device("cuda", 2)
    said = "an error of ours"
    with pytest.raises(RuntimeError, match="an error of ours"):
        choose_device("auto", 2)
