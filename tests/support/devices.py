"""Accelerators that tests do without, or pretend that there are."""

from __future__ import annotations

import pytest
import torch

HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ZE_AFFINITY_MASK": "none"}
"""Environment of a process that is to find no accelerator."""


def hide(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process finds no accelerator from here on."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    for devices in (torch.cuda, torch.xpu):
        monkeypatch.setattr(devices, "is_available", lambda: False)
