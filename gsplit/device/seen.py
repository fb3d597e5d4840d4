"""Accelerators as they are described to a user: which there are, what they have, and what a run computes on."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch

from gsplit.device import accelerator


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One accelerator, as it is seen from here."""

    kind: str
    """The type of the device."""
    index: int
    """The number among those of its kind."""
    name: str
    """What its maker calls it."""
    total_bytes: int
    """Memory in bytes."""
    free_bytes: int | None
    """Bytes of it that are free; None where the device does not say."""


def seen() -> list[Accelerator]:
    """The accelerators that PyTorch finds. Asking what is free takes memory of each, until this process ends."""
    kind = accelerator.there()
    if kind == accelerator.HOST:
        return []
    devices, found = torch.get_device_module(kind), []
    for index in range(devices.device_count()):
        properties, free = devices.get_device_properties(index), None
        with contextlib.suppress(RuntimeError, AttributeError):  # one that another process has for itself
            free = accelerator.free_and_total(torch.device(kind, index))[0]
        found.append(
            Accelerator(
                kind=kind,
                index=index,
                name=accelerator.name_of(torch.device(kind, index)),
                total_bytes=int(properties.total_memory),
                free_bytes=free,
            )
        )
    return found


def reaches(kind: str, index: int, peer: int) -> bool | None:
    """Return whether an accelerator reads the memory of another of its kind; None where PyTorch cannot tell."""
    ask = getattr(torch.get_device_module(kind), "can_device_access_peer", None)
    with contextlib.suppress(RuntimeError, AssertionError):
        return None if ask is None else bool(ask(index, peer))
    return None


def described(kind: str, number: int) -> str:
    """The first so many devices of a type, and the build of PyTorch, as ``xla:0,1 (Card), PyTorch 2.9``."""
    build = f"PyTorch {torch.__version__} for {accelerator.built_for()}"
    if kind == accelerator.HOST:
        return f"the CPU, {build}"
    used = range(min(number, accelerator.count(kind)))
    names = dict.fromkeys(accelerator.name_of(torch.device(kind, index)) for index in used)
    return f"{kind}:{','.join(map(str, used))} ({', '.join(names)}), {build}"
