"""How many trainers there are, where they compute, and with how many threads."""

from __future__ import annotations

import os

from gsplit.device import accelerator
from gsplit.errors import InputError

MAX_TRAINERS = 64
"""Number of trainers that a host of any size is let start."""


def trainers_of(asked: int | None, parts: int) -> int:
    """Number of trainers of a run.

    Args:
        asked: those asked for, or None for one a part.
        parts: of the layout.

    Raises:
        InputError: for so many that starting them would bring the host down.
    """
    cores = len(os.sched_getaffinity(0))
    most = max(MAX_TRAINERS, 4 * cores)
    if asked is not None and asked > most:
        raise InputError(f"--gpus is {asked}, but there are {cores} cores; use at most {most}")
    return asked or parts


def choose_device(device: str, trainers: int) -> str:
    """The type of device that so many trainers compute on: ``cpu``, or that of the accelerators.

    Args:
        device: ``auto`` or a type, as asked for.
        trainers: of the run.

    Raises:
        InputError: where there are too few accelerators.
    """
    kind, count = accelerator.find(device)
    if kind == accelerator.HOST:
        return kind
    if count == 0:
        raise InputError(f"--device {kind}, but PyTorch finds no GPU of that kind; use --device cpu")
    if count < trainers and os.environ.get("GSPLIT_SHARE_GPU") != "1":
        raise InputError(
            f"{trainers} trainers need {trainers} GPUs and there {'is' if count == 1 else 'are'} {count}; "
            f"say --gpus {max(1, count)}, or use --device cpu"
        )
    return kind


def threads_of(asked: int, trainers: int) -> int:
    """CPU threads of each trainer: those asked for, or, with 0, its share of the cores."""
    return asked or max(1, len(os.sched_getaffinity(0)) // trainers)
