"""What weights give: edge skew, local edges and cache hit rates of layouts by uniform, degree and pre-sampled weights.

    python -m experiments.paper.weights "synthetic:products?scale=0.1" "synthetic:papers?scale=0.02" "synthetic:amazon?scale=0.2"
    python -m experiments.paper.weights STORE --fan-out 20,20,20 --batch-size 1024 --methods metis kaminpar --json weights.json

Each graph is partitioned by each method with each kind of weights, for one training; then an epoch of that training is
sampled, with other draws than those that were counted (``python -m gsplit.partition report`` says how). Calibrated
presets bring the fan-out and batch size of their training. ``--json`` writes a list, ``rows``: ``dataset``, ``method``,
``weights``, and ``report``, as docs/formats.md describes it.
"""  # noqa: E501

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from experiments.shared.datasets import PREFIX, write_store_of
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Count, FanOut, Imbalance, Positive, Seed
from experiments.shared.results import printed
from experiments.shared.rounds import cores
from gsplit import cli
from gsplit.config.flags import Positional
from gsplit.config.partition import Method
from gsplit.data import open_layout
from gsplit.data.synthetic import Calibrated, choose
from gsplit.partition import PartitionConfig, partition, report
from gsplit.partition.presample import Training
from gsplit.partition.weights import Weights


@dataclass(frozen=True, kw_only=True)
class WeightsConfig(Flags):
    """Edge skew, local edges and cache hit rates by uniform, degree and pre-sampled weights."""

    datasets: Annotated[tuple[str, ...], Positional]
    """Graph stores, or synthetic:PRESET, made for as long as it takes."""
    methods: tuple[Method, ...] = ("kaminpar",)
    """Partitioners to compare."""
    weights: tuple[Weights, ...] = ("uniform", "degree", "presample")
    """Weights to compare."""
    parts: Positive = 4
    """Parts of the layouts."""
    fan_out: FanOut | None = None
    """Fan-out of the training; by default that of a calibrated preset, else 20,20,20."""
    batch_size: Positive | None = None
    """Batch size of the training; by default that of a calibrated preset, else 4096."""
    imbalance: Imbalance = 0.03
    """How much more than the mean a part may hold of what is balanced."""
    cuts: Count = 0
    """Cuts of metis and kaminpar with pre-sampled weights, as in python -m gsplit.partition."""
    presample_epochs: Positive = 3
    """Epochs that pre-sampled weights are counted over."""
    epochs: Positive = 3
    """Epochs that are sampled to measure."""
    seed: Seed = 0
    """Seed of the generator, the partitioner and the draws."""
    work: Path = Path("work")
    """Folder of stores and layouts, for as long as it takes."""


def measure(config: WeightsConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    trainings = {dataset: training_of(dataset, config) for dataset in config.datasets}
    rows = []
    for dataset, training in trainings.items():
        config.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=config.work) as folder:
            store = Path(dataset)
            if dataset.startswith(PREFIX):
                store = Path(folder) / "store"
                write_store_of(choose(dataset.removeprefix(PREFIX)), config.seed, store, dataset)
            for method in config.methods:
                for weights in config.weights:
                    found = report_of(store, Path(folder) / "layout", method, weights, training, config)
                    row = {"dataset": dataset, "method": method, "weights": weights, "report": found}
                    rows.append(printed(row))
    return {"rows": rows}


def training_of(dataset: str, config: WeightsConfig) -> Training:
    fan_out: tuple[int, ...] = (20, 20, 20)
    batch_size = 4096
    if dataset.startswith(PREFIX):
        preset = choose(dataset.removeprefix(PREFIX)).preset
        if isinstance(preset, Calibrated):
            fan_out, batch_size = preset.fan_out, preset.batch_size
    return Training(fan_out=tuple(config.fan_out or fan_out), batch_size=config.batch_size or batch_size)


def report_of(
    store: Path, out: Path, method: Method, weights: Weights, training: Training, config: WeightsConfig
) -> dict[str, Any]:
    partition(
        PartitionConfig(
            store=store,
            out=out,
            parts=config.parts,
            method=method,
            weights=weights,
            hotness="presample",
            fan_out=training.fan_out,
            batch_size=training.batch_size,
            presample_epochs=config.presample_epochs,
            imbalance=config.imbalance,
            cuts=config.cuts if weights == "presample" else 0,
            seed=config.seed,
            overwrite=True,
        )
    )
    return report.measure(open_layout(out), training, epochs=config.epochs, seed=config.seed, threads=cores())


command = Experiment("paper.weights", WeightsConfig, measure)

if __name__ == "__main__":
    cli.main(command)
