"""Where the time and the bytes went, and the files that say so."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gsplit.errors import InputError
from gsplit.files import append_to_file, replace_file

MAIN_STAGES = ("wait", "forward", "backward", "reduce", "step")
"""What a trainer's time is made of; ``wait`` is for the next mini-batch to be sampled and loaded."""
AHEAD_STAGES = ("sample", "load")
"""What happens to a mini-batch before: in a sampler, and ahead of training in each trainer."""
STAGES = (*AHEAD_STAGES, *MAIN_STAGES)
TRAFFIC = (
    "sampled_edges",
    "computed_edges",
    "computed_vertices",
    "cache_hits",
    "peer_rows",
    "host_rows",
    "host_to_device_bytes",
    "device_to_device_bytes",
    "segment_bytes",
    "exchange_forward_bytes",
    "exchange_backward_bytes",
    "exchange_forward_messages",
    "exchange_backward_messages",
    "all_reduce_bytes",
)
"""What is counted of every mini-batch on every trainer, beside the vertices of each level (docs/formats.md)."""

SUMMARY = "summary.json"

logger = logging.getLogger(__name__)


def traffic_names(layers: int) -> tuple[str, ...]:
    """The keys of ``traffic`` in a run with that many layers."""
    return (*TRAFFIC, *(level_name(level) for level in range(layers + 1)))


def level_name(level: int) -> str:
    return f"level_{level}_vertices"


@dataclass
class Lap:
    """The stages of one mini-batch on one trainer."""

    _seconds: dict[str, float] = field(default_factory=dict)
    _events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = field(default_factory=list)

    def seconds(self) -> dict[str, float]:
        """Of each stage. On CUDA the device must have come that far: synchronise before."""
        for stage, start, end in self._events:
            self._seconds[stage] = start.elapsed_time(end) / 1000
        self._events.clear()
        return self._seconds


class StageClock:
    """Takes the time of each stage. On CUDA by events, read once an epoch, so that measuring never waits."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._lap = Lap()

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        with torch.profiler.record_function(stage):
            yield from self._timed(stage)

    def _timed(self, stage: str) -> Iterator[None]:
        start_s = time.perf_counter()
        if self._cuda and stage != "wait":  # the host waits, not the device
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
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


class RunLog:
    """``metrics.jsonl`` of a run: one JSON object a line, one for each mini-batch and trainer, and one an epoch.

    A checkpoint remembers the records of epochs, and how the file looked then (:meth:`state`). When the run goes on,
    what the file has too much is cut off; where it has lost something, the records of epochs are written again.
    """

    def __init__(self, run: Path, state: dict[str, Any] | None = None) -> None:
        self._path = run / "metrics.jsonl"
        state = state or {"epochs": [], "num_bytes": 0}
        self.epochs: list[dict[str, Any]] = state["epochs"]
        self._num_bytes: int = state["num_bytes"]
        self._digest = hashlib.sha256()

    def append(self, records: Sequence[dict[str, Any]]) -> None:
        """Add lines; those of epochs are remembered."""
        self.epochs += [record for record in records if record["kind"] == "epoch"]
        lines = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records).encode()
        append_to_file(self._path, lines)
        self._num_bytes += len(lines)
        self._digest.update(lines)

    def state(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "num_bytes": self._num_bytes, "sha256": self._digest.hexdigest()}

    def mend(self, state: dict[str, Any]) -> None:
        """Make the file what it was when ``state`` was taken.

        Raises:
            InputError: where a folder has its name.
        """
        if self._path.is_dir():
            raise InputError(f"{self._path} is a folder; move it away")
        lines = self._path.read_bytes()[: state["num_bytes"]] if self._path.is_file() else b""
        if hashlib.sha256(lines).hexdigest() == state["sha256"]:
            replace_file(self._path, lines)
            self._digest = hashlib.sha256(lines)
            return
        logger.warning(
            "%s has lost or changed lines; those of epochs are written again, those of mini-batches are lost",
            self._path,
        )
        replace_file(self._path, b"")
        self.epochs, epochs = [], self.epochs
        self._num_bytes = 0
        self.append(epochs)


def finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None


def say(line: str) -> None:
    """Print a line; a reader that went away, as ``head`` does, must not end a training run."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - stays open, for the lines to come


def write_summary(run: Path, summary: dict[str, Any]) -> None:
    replace_file(run / SUMMARY, (json.dumps(summary, indent=2) + "\n").encode())


def totals(records: list[dict[str, Any]], key: str) -> dict[str, float]:
    """Sum of ``records[i][key]``, a dictionary of numbers."""
    names = records[0][key] if records else {}
    return {name: sum(record[key][name] for record in records) for name in names}
