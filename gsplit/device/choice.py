"""How many trainers there are, where they compute, and with how many threads."""

from __future__ import annotations

import functools
import logging
import os
import re

import torch

from gsplit.device import accelerator
from gsplit.device.failures import refused_by_device
from gsplit.device.unusable import why_none, without_kernels
from gsplit.errors import InputError

logger = logging.getLogger(__name__)

MAX_TRAINERS = 64
"""Number of trainers that a host of any size is let start."""


def trainers_of(asked: int | None, parts: int, hosts: int = 1) -> int:
    """Number of trainers of a run.

    Args:
        asked: those asked for, or None for one a part.
        parts: of the layout.
        hosts: that they are on.

    Raises:
        InputError: for so many that starting them would bring the host down.
    """
    cores = len(os.sched_getaffinity(0))
    most = hosts * max(MAX_TRAINERS, 4 * cores)
    if asked is not None and asked > most:
        raise InputError(f"--gpus is {asked}, but there are {cores} cores; use at most {most}")
    return asked or parts


def choose_device(device: str, trainers: int) -> str:
    """The type of device that so many trainers compute on: ``cpu``, or that of the accelerators.

    A warning says why ``auto`` takes the CPU where there is a GPU, or a build of PyTorch for one.

    Args:
        device: ``auto`` or a type, as asked for.
        trainers: of the run.

    Raises:
        InputError: where there are too few accelerators, or PyTorch cannot compute on them.
    """
    kind, count = accelerator.find(device)
    why = why_not(kind, min(count, trainers))
    if device.lower() == "auto" and (count == 0 or why is not None):
        if why is not None:
            _warn(f"trainers compute on the CPU: {why}; or say --device cpu")
        return accelerator.HOST
    if kind == accelerator.HOST:
        return kind
    if count == 0:
        reason = ";" if why is None else f": {why}; or"
        raise InputError(f"--device {kind}, but PyTorch finds no GPU of that kind{reason} use --device cpu")
    if why is not None:
        raise InputError(f"--device {kind}, but {why}; or use --device cpu")
    if count < trainers and os.environ.get("GSPLIT_SHARE_GPU") != "1":
        name = accelerator.name_of(torch.device(kind, 0))
        of_one = f" ({name}: CUDA shows a process one instance of MIG alone)" if re.search(r"\bMIG\b", name) else ""
        raise InputError(
            f"{trainers} trainers need {trainers} GPUs and there {'is' if count == 1 else 'are'} {count}{of_one}; "
            f"say --gpus {count}, or use --device cpu"
        )
    return kind


def why_not(kind: str, count: int) -> str | None:
    """Why so many devices cannot be computed on; None where they can, or where there is nothing to wonder about."""
    try:
        return without_kernels(kind, count) if count else why_none(kind)
    except (RuntimeError, AssertionError) as error:  # the driver is asked here for the first time
        if (line := refused_by_device(error)) is None:
            raise
        return line


@functools.cache
def _warn(line: str) -> None:
    """Say something once: a run looks for its device in several places."""
    logger.warning(line)


def threads_of(asked: int, trainers: int) -> int:
    """CPU threads of each trainer: those asked for, or, with 0, its share of the cores."""
    return asked or max(1, len(os.sched_getaffinity(0)) // trainers)
