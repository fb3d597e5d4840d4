"""Records of a run as it goes: ``metrics.jsonl`` and ``summary.json``, and the names of what is counted."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gsplit.errors import InputError
from gsplit.files import append_to_file, replace_file
from gsplit.runs.starts import writing

MAIN_STAGES = ("wait", "forward", "backward", "reduce", "step")
"""Parts of a trainer's time; ``wait`` is for the next mini-batch to be sampled and loaded."""
AHEAD_STAGES = ("sample", "load")
"""Work on a mini-batch before: in a sampler, and ahead of training in each trainer."""
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
"""Counters of every mini-batch on every trainer, beside the vertices of each level (docs/formats.md)."""

METRICS, SUMMARY = "metrics.jsonl", "summary.json"

logger = logging.getLogger(__name__)


def traffic_names(layers: int) -> tuple[str, ...]:
    """The keys of ``traffic`` in a run with that many layers."""
    return (*TRAFFIC, *(level_name(level) for level in range(layers + 1)))


def level_name(level: int) -> str:
    """The key of ``traffic`` that counts the vertices of a level."""
    return f"level_{level}_vertices"


class RunLog:
    """``metrics.jsonl`` of a run: one JSON object a line, one for each mini-batch and trainer, and one an epoch.

    A checkpoint remembers the records of epochs, and how the file looked then (:meth:`state`). When the run goes on,
    what the file has too much is cut off; where it has lost something, the records of epochs are written again.
    """

    def __init__(self, run: Path, state: dict[str, Any] | None = None) -> None:
        self._path = run / METRICS
        state = state or {"epochs": [], "num_bytes": 0}
        self.epochs: list[dict[str, Any]] = state["epochs"]
        self._num_bytes: int = state["num_bytes"]
        self._digest = hashlib.sha256()

    def append(self, records: Sequence[dict[str, Any]]) -> None:
        """Add lines; those of epochs are remembered."""
        self.epochs += [record for record in records if record["kind"] == "epoch"]
        lines = "".join(json.dumps(record, allow_nan=False) + "\n" for record in records).encode()
        with writing(self._path.parent):
            append_to_file(self._path, lines)
        self._num_bytes += len(lines)
        self._digest.update(lines)

    def state(self) -> dict[str, Any]:
        """Return the state of the file, for a checkpoint."""
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
            with writing(self._path.parent):
                replace_file(self._path, lines)
            self._digest = hashlib.sha256(lines)
            return
        logger.warning(
            "%s has lost or changed lines; those of epochs are written again, those of mini-batches are lost",
            self._path,
        )
        with writing(self._path.parent):
            replace_file(self._path, b"")
        self.epochs, epochs = [], self.epochs
        self._num_bytes = 0
        self.append(epochs)


def finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None


def write_summary(run: Path, summary: dict[str, Any]) -> None:
    """Write ``summary.json``, in one piece."""
    with writing(run):
        replace_file(run / SUMMARY, (json.dumps(summary, indent=2) + "\n").encode())


def remove_summary(run: Path) -> None:
    """Forget the summary of a run, of which something else is to be said."""
    with writing(run):
        (run / SUMMARY).unlink(missing_ok=True)


def totals(records: list[dict[str, Any]], key: str) -> dict[str, float]:
    """Sum of ``records[i][key]``, a dictionary of numbers."""
    names = dict.fromkeys(name for record in records for name in record[key])
    return {name: sum(record[key].get(name, 0) for record in records) for name in names}
