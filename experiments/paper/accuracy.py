"""Test accuracy of GraphSAGE on the real graphs, with 4 trainers and with 1, over several seeds.

    python -m experiments.paper.accuracy --datasets cora coauthor_cs amazon_computers --json accuracy.json
    python -m experiments.paper.accuracy --datasets amazon_computers --trainers 4 \
        --strategies split groups dgl pagraph quiver

Each dataset goes the whole way, from its .npz through store and layout to a run for every seed. ``--json`` writes a
list: ``dataset``, ``trainers``, ``strategy``, ``mean`` and ``stdev`` of test accuracy, and its ``scores`` by seed.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any

from experiments.shared.flags import from_one_on, names_of
from experiments.shared.results import write_json
from gsplit import cli
from gsplit.config.fields import Checked
from gsplit.config.train import TrainConfig
from gsplit.data import write_store
from gsplit.data.importers.npz import load_npz
from gsplit.partition import PartitionConfig, partition
from gsplit.train.api import train
from tools import real_graphs

PROG = "python -m experiments.paper.accuracy"

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
class AccuracyConfig(Checked):
    """Test accuracy of GraphSAGE on real graphs, mean over seeds."""

    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the .npz files."""
    datasets: Annotated[tuple[str, ...], names_of(CONFIGS, "dataset")] = tuple(CONFIGS)
    """Which of them: cora, coauthor_cs, amazon_computers."""
    trainers: Annotated[cli.IntList, from_one_on("--trainers")] = (4, 1)
    """Numbers of trainers to compare."""
    strategies: Annotated[tuple[str, ...], names_of(STRATEGIES, "strategy")] = ("split",)
    """Ways to lay mini-batches over them: split, groups, dgl, pagraph, quiver."""
    seeds: cli.IntList = (0, 1, 2)
    """One run for each."""
    json: Path | None = None
    """File to write the results to."""


def measure(dataset: str, config: AccuracyConfig, folder: Path) -> list[dict[str, Any]]:
    """A row for each number of trainers and each strategy."""
    store = folder / "store"
    graph = load_npz(real_graphs.path(config.data, dataset)).with_feature_dtype("float16")
    write_store(store, graph, name=dataset, source=dataset)
    rows = []
    for trainers in config.trainers:
        layout = folder / f"layout-{trainers}"
        partition(PartitionConfig(store=store, out=layout, parts=trainers))
        for strategy in config.strategies:
            scores = []
            for seed in config.seeds:
                run = folder / f"run-{trainers}-{strategy}-{seed}"
                changes = {"out": run, "seed": seed, "checkpoint_every": 0, **STRATEGIES[strategy]}
                scores.append(train(layout, replace(CONFIGS[dataset], **changes))["test_accuracy"])
            row = {
                "dataset": dataset,
                "trainers": trainers,
                "strategy": strategy,
                "mean": mean(scores),
                "stdev": stdev(scores) if len(scores) > 1 else 0.0,
                "scores": scores,
            }
            rows.append(row)
            print(row, flush=True)
    return rows


def command(arguments: list[str]) -> None:
    config = cli.parse(AccuracyConfig, arguments, prog=PROG)
    rows = []
    for dataset in config.datasets:
        with tempfile.TemporaryDirectory() as folder:
            rows += measure(dataset, config, Path(folder))
    print("\n| dataset | trainers | strategy | test accuracy, mean | standard deviation | seeds |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        scores = f"{row['mean']:.4f} | {row['stdev']:.4f} | {len(row['scores'])}"
        print(f"| {row['dataset']} | {row['trainers']} | {row['strategy']} | {scores} |")
    if config.json:
        write_json(config.json, rows)


if __name__ == "__main__":
    cli.main(command)
