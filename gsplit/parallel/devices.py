"""Where trainers compute, and with how many threads."""

from __future__ import annotations

import os
from typing import Literal

import torch

from gsplit.errors import InputError


def choose_device(device: str, trainers: int) -> Literal["cpu", "cuda"]:
    """The type of device that so many trainers compute on: ``cpu`` or ``cuda``.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``, as asked for.
        trainers: of the run.

    Raises:
        InputError: where there are too few GPUs.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cpu" or (device == "auto" and count == 0):
        return "cpu"
    if count == 0:
        raise InputError("--device cuda, but PyTorch finds no GPU; use --device cpu")
    if count < trainers and os.environ.get("GSPLIT_SHARE_GPU") != "1":
        raise InputError(
            f"{trainers} trainers need {trainers} GPUs and there {'is' if count == 1 else 'are'} {count}; "
            f"make a layout with --parts {max(1, count)}, or use --device cpu"
        )
    return "cuda"


def threads_of(asked: int, trainers: int) -> int:
    """CPU threads of each trainer: those asked for, or, with 0, its share of the cores."""
    return asked or max(1, len(os.sched_getaffinity(0)) // trainers)
