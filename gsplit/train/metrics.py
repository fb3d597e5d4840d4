"""Where the time and the bytes went, and the files that say so."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from gsplit.files import replace_file

MAIN_STAGES = ("wait", "forward", "backward", "reduce", "step")
"""What a trainer's time is made of; ``wait`` is for the next mini-batch to be sampled and loaded."""
AHEAD_STAGES = ("sample", "load")
"""What happens to a mini-batch before: in a sampler, and ahead of training in each trainer."""
STAGES = (*AHEAD_STAGES, *MAIN_STAGES)
TRAFFIC = (
    "sampled_edges",
    "computed_edges",
    "computed_vertices",
    "loaded_rows",
    "host_to_device_bytes",
    "exchange_forward_bytes",
    "exchange_backward_bytes",
    "exchange_messages",
    "all_reduce_bytes",
)
"""What is counted; summed over all trainers. ``sampled_edges`` counts each mini-batch once."""


class StageClock:
    """Seconds of each stage. On CUDA by events, read once an epoch, so that measuring never waits."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start_s = time.perf_counter()
        if self._cuda and stage != "wait":  # the host waits, not the device
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            yield
            end.record()
            self._events.append((stage, start, end))
        else:
            yield
            self._seconds[stage] += time.perf_counter() - start_s

    def take(self) -> dict[str, float]:
        """Seconds since the last call."""
        if self._events:
            torch.cuda.synchronize()
            for stage, start, end in self._events:
                self._seconds[stage] += start.elapsed_time(end) / 1000
            self._events.clear()
        taken, self._seconds = self._seconds, dict.fromkeys(STAGES, 0.0)
        return taken


class RunLog:
    """``metrics.jsonl`` of a run: one JSON object a line, one line an epoch.

    Args:
        run: the folder.
        records: the lines so far. A checkpoint holds them too, so what the file lost or has too much is mended.
    """

    def __init__(self, run: Path, records: list[dict[str, Any]]) -> None:
        self._path = run / "metrics.jsonl"
        self.records = records

    def append(self, record: dict[str, Any]) -> None:
        self.records.append(record)
        with self._path.open("a") as file:
            file.write(_json_line(record))

    def rewrite(self) -> None:
        replace_file(self._path, "".join(map(_json_line, self.records)).encode())


def _json_line(record: dict[str, Any]) -> str:
    return json.dumps(record, allow_nan=False) + "\n"


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
    replace_file(run / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())


def totals(records: list[dict[str, Any]], key: str) -> dict[str, float]:
    """Sum of ``records[i][key]``, a dictionary of numbers."""
    names = records[0][key] if records else {}
    return {name: sum(record[key][name] for record in records) for name in names}
