"""Test accuracy of GraphSAGE on the real graphs, with 4 trainers and with 1, over several seeds.

    python -m experiments.paper.accuracy --datasets cora coauthor_cs amazon_computers --json accuracy.json
    python -m experiments.paper.accuracy --datasets amazon_computers --trainers 4 \
        --strategies split groups dgl pagraph quiver
    python -m experiments.paper.accuracy --defaults --trainers 2
    python -m experiments.paper.accuracy --datasets cora amazon_computers --trainers 4 --seeds 0,1,2,3,4 \
        --exchange-dtypes model bfloat16

Each dataset goes the whole way, from its .npz through store and layout to a run for every seed. ``--json`` writes a
list: ``dataset``, ``trainers``, ``strategy``, ``exchange_dtype``, ``mean`` and ``stdev`` of test accuracy, its
``scores`` by seed, and ``minus_first``: how much higher than with the first type of the exchange, mean of the pairs
of one seed (null for the first itself). ``--quick`` trains for two epochs, to see whether all works.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, get_args

from experiments.shared import real_graphs
from experiments.shared.datasets import store_of
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import from_one_on, names_of
from experiments.shared.results import printed
from experiments.shared.rounds import scores as columns
from gsplit import cli
from gsplit.config.parallel import ExchangeDtype
from gsplit.config.train import TrainConfig
from gsplit.partition import PartitionConfig, partition
from gsplit.train.api import train

CONFIGS = {
    "cora": TrainConfig(
        fan_out=(10, 10),
        batch_size=140,
        hidden=64,
        epochs=60,
        lr=0.01,
        weight_decay=5e-4,
        dropout=0.5,
        input_dropout=0.5,
        normalize_features=True,
        device="cpu",
    ),
    "coauthor_cs": TrainConfig(
        fan_out=(10, 10),
        batch_size=2048,
        hidden=64,
        epochs=16,
        lr=0.003,
        weight_decay=1e-4,
        dropout=0.5,
        validate_every=2,
        device="cpu",
    ),
    "amazon_computers": TrainConfig(
        fan_out=(15, 10), batch_size=512, hidden=128, epochs=30, lr=0.001, dropout=0.2, validate_every=2, device="cpu"
    ),
}

STRATEGIES: dict[str, dict[str, Any]] = {
    "split": {},
    "groups": {"split_group": 2},
    "dgl": {"strategy": "data"},
    "pagraph": {"strategy": "data", "cache": "replicated", "cache_size": "10%"},
    "quiver": {"strategy": "data", "cache": "partitioned", "cache_size": "10%"},
}
"""Settings by the system that they stand for; groups are of 2 trainers."""


@dataclass(frozen=True, kw_only=True)
class AccuracyConfig(Flags):
    """Test accuracy of GraphSAGE on real graphs, mean over seeds."""

    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the .npz files."""
    datasets: Annotated[tuple[str, ...], names_of(CONFIGS, "dataset")] = tuple(CONFIGS)
    """Which of them: cora, coauthor_cs, amazon_computers."""
    trainers: Annotated[tuple[int, ...], from_one_on("--trainers")] = (4, 1)
    """Numbers of trainers to compare."""
    strategies: Annotated[tuple[str, ...], names_of(STRATEGIES, "strategy")] = ("split",)
    """Ways to lay mini-batches over them: split, groups, dgl, pagraph, quiver."""
    exchange_dtypes: Annotated[tuple[str, ...], names_of(get_args(ExchangeDtype), "type of the exchange")] = (
        "model",
    )
    """Types in which rows travel between trainers: model, bfloat16. The others are held against the first."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """One run for each."""
    defaults: bool = False
    """Train with the defaults of gsplit train alone, not the settings that were found for each graph."""
    quick: bool = False
    """Train for two epochs: whether all works; figures say nothing."""


def rows_of(dataset: str, config: AccuracyConfig, folder: Path) -> list[dict[str, Any]]:
    """A row for each number of trainers, each strategy and each type of the exchange."""
    asked = TrainConfig(device="cpu") if config.defaults else CONFIGS[dataset]
    store = store_of(dataset, data=config.data, work=folder, dtype="float16")
    rows = []
    for trainers in config.trainers:
        layout = folder / f"layout-{trainers}"
        partition(PartitionConfig(store=store, out=layout, parts=trainers))
        for strategy in config.strategies:
            first: list[float] = []
            for exchange_dtype in config.exchange_dtypes:
                out = folder / f"run-{trainers}-{strategy}-{exchange_dtype}"
                changes = {**STRATEGIES[strategy], "exchange_dtype": exchange_dtype}
                scores = scores_of(layout, replace(asked, out=out, **changes), config)
                row = {
                    "dataset": dataset,
                    "trainers": trainers,
                    "strategy": strategy,
                    "exchange_dtype": exchange_dtype,
                    **columns(scores),
                    "minus_first": mean(a - b for a, b in zip(scores, first, strict=True)) if first else None,
                }
                first = first or scores
                rows.append(printed(row))
    return rows


def scores_of(layout: Path, asked: TrainConfig, config: AccuracyConfig) -> list[float]:
    """Test accuracy by seed."""
    epochs = 2 if config.quick else asked.epochs
    runs = (
        replace(asked, out=Path(f"{asked.out}-{seed}"), seed=seed, epochs=epochs, checkpoint_every=0)
        for seed in config.seeds
    )
    return [train(layout, run)["test_accuracy"] for run in runs]


def measure(config: AccuracyConfig) -> list[dict[str, Any]]:
    """The rows of all datasets."""
    rows = []
    for dataset in config.datasets:
        with tempfile.TemporaryDirectory() as folder:
            rows += rows_of(dataset, config, Path(folder))
    return rows


command = Experiment("paper.accuracy", AccuracyConfig, measure)

if __name__ == "__main__":
    cli.main(command)
