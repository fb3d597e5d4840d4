"""Accelerators that tests do without, or pretend that there are."""

from __future__ import annotations

import pytest
import torch

HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ZE_AFFINITY_MASK": "none"}
"""Environment of a process that is to find no accelerator."""


def fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's build fits this host's drivers and GPUs, whichever is installed here."""
    for module in ("gsplit.device.choice", "gsplit.doctor.diagnosis"):
        for name in ("why_none", "without_kernels"):
            monkeypatch.setattr(f"{module}.{name}", lambda *_: None)


def hide(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process finds no accelerator from here on."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    for devices in (torch.cuda, torch.xpu):
        monkeypatch.setattr(devices, "is_available", lambda: False)
