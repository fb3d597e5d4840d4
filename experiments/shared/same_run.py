"""Whether two finished runs are the same bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.shared.results import records

SAME_KEYS = ("best_epoch", "loss", "traffic")
"""Keys of ``summary.json`` that must agree, beside the scores."""


def difference(run: Path, wanted: Path) -> str:
    """What two finished runs differ in: weights, optimizer, best model or counts; empty where they are the same."""
    from gsplit.runs import checkpoint

    states = [checkpoint.load_state(folder, checkpoint.CHECKPOINT) for folder in (run, wanted)]
    for part in ("model", "optimizer", "best"):
        if not same(states[0][part], states[1][part]):
            return f"{part} of the checkpoint"
    models = [checkpoint.load_state(folder, checkpoint.MODEL) for folder in (run, wanted)]
    if not same(*models):
        return "the saved model"
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (run, wanted)]
    scores = (f"{part}_{name}" for part in ("test", "valid") for name in summaries[0]["metrics"])
    for key in (*scores, *SAME_KEYS):
        if summaries[0][key] != summaries[1][key]:
            return f"{key} of the summary"
    return "" if counted(run) == counted(wanted) else "the counts of mini-batches"


def counted(run: Path) -> list[dict[str, Any]]:
    """The mini-batches of ``metrics.jsonl`` by epoch, batch and trainer, without times."""
    found = [{**line, "stages": None} for line in records(run, "mini-batch")]
    return sorted(found, key=lambda line: (line["epoch"], line["batch"], line["trainer"]))


def same(first: Any, second: Any) -> bool:
    """Whether two states are equal bit for bit, tensor by tensor."""
    import torch

    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)
