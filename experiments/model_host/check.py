"""What the model predicts for this machine, beside what training on it takes.

Runs are those of gsplit.train on the CPU: float32, no dropout, no validation, one process a trainer. The first epoch
warms up; of the others the median counts. A ratio of prediction to measurement below 1 says that the model leaves
something out: it is a floor, and what lies between is copies, fresh memory and Python.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from experiments.model_host.model import Prediction
from experiments.shared.results import records
from gsplit.config.train import TrainConfig

STRATEGIES = {"GSplit": "split", "DGL": "data"}
"""Strategies that are checked, with the engine's name for each."""
STAGES = {
    "sample": ("sample",),
    "load": ("load",),
    "compute and exchange": ("forward", "backward"),
    "reduce": ("reduce",),
}
"""Stages of the model, with those of a run (docs/formats.md) that make up each."""


def measured_epoch(config: TrainConfig) -> dict[str, float]:
    """Seconds of an epoch of a run and of its stages, medians of the epochs after the first."""
    from gsplit.train.api import train

    with tempfile.TemporaryDirectory(prefix="gsplit-model-host-") as folder:
        out = Path(folder) / "run"
        train(config=TrainConfig(**{**vars(config), "out": out}))
        epochs = records(out)[1:]
    found = {"epoch": median(epoch["seconds"] for epoch in epochs)}
    for stage, parts in STAGES.items():
        found[stage] = median(sum(epoch["stages"][part] for part in parts) for epoch in epochs)
    return found


def predicted_stages(prediction: Prediction) -> dict[str, float]:
    """The same stages of a prediction."""
    return {
        "epoch": prediction.epoch_s,
        "sample": prediction.sample_s,
        "load": prediction.load_s,
        "compute and exchange": prediction.compute_s + prediction.exchange_s,
        "reduce": prediction.reduce_s,
    }


def compared(name: str, prediction: Prediction, measured: dict[str, float]) -> list[dict[str, Any]]:
    """``check`` of ``--json``: a row for the epoch and for each stage."""
    return [
        {
            "strategy": name,
            "stage": stage,
            "predicted_s": predicted_s,
            "measured_s": measured[stage],
            "ratio": predicted_s / measured[stage] if measured[stage] else None,
        }
        for stage, predicted_s in predicted_stages(prediction).items()
    ]
