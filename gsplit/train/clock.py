"""Where a trainer's time goes: the stages of each mini-batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from gsplit.device import accelerator


@dataclass
class Lap:
    """The stages of one mini-batch on one trainer."""

    _seconds: dict[str, float] = field(default_factory=dict)
    _events: list[tuple[str, Any, Any]] = field(default_factory=list)

    def seconds(self) -> dict[str, float]:
        """Seconds of each stage. An accelerator must have come that far: synchronise before."""
        for stage, start, end in self._events:
            self._seconds[stage] = start.elapsed_time(end) / 1000
        self._events.clear()
        return self._seconds


class StageClock:
    """Takes the time of each stage: on a GPU by events, read once an epoch, so that measuring never waits."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._lap = Lap()

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Take the time of the block as that of a stage."""
        with torch.profiler.record_function(stage):
            yield from self._timed(stage)

    def _timed(self, stage: str) -> Iterator[None]:
        start_s = time.perf_counter()
        if accelerator.is_one(self._device) and stage != "wait":  # the host waits, not the device
            start, end = (accelerator.timed_event(self._device) for _ in range(2))
            start.record()
            yield
            end.record()
            self._lap._events.append((stage, start, end))
        else:
            yield
            self._lap._seconds[stage] = time.perf_counter() - start_s

    def lap(self) -> Lap:
        """The stages since the last call."""
        lap, self._lap = self._lap, Lap()
        return lap
