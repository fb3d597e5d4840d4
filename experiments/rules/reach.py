"""Accuracies of all sampling rules and of the whole graph, one model and recipe; and time to an accuracy.

python -m experiments.rules.reach [--datasets cora,...] [--seeds 3] [--target 0.89] [--quick] [--json FILE]

Test accuracies are of the epoch that is best in validation. Time to the target is that of training alone, in the
epochs up to the first that reaches it in validation; systems take turns, and a ratio is of one seed, then the median.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import gsplit
from experiments.shared.flags import Positive
from experiments.shared.results import markdown_table, write_json
from gsplit import cli
from gsplit.config.fields import Checked
from gsplit.data.__main__ import command as data
from gsplit.partition import PartitionConfig, partition
from tools import real_graphs

PROG = "python -m experiments.rules.reach"
DATASETS = "cora,citeseer,coauthor_cs,amazon_computers"
LAYERS = 2
PARTS = 64
"""Parts of the layouts, so that there are clusters to choose from; four trainers have sixteen each."""
RECIPE: dict[str, Any] = {
    "hidden": 64,
    "dropout": 0.5,
    "lr": 0.01,
    "weight_decay": 5e-4,
    "device": "cpu",
    "threads": 1,
}
SMALL = ("cora", "citeseer")
"""Graphs with few training vertices, which are one mini-batch."""
EPOCHS = {True: 100, False: 30}
"""Of small graphs and of others; of the whole graph, where an epoch is one step, as many steps as neighbours take."""
WHOLE_EPOCHS = {True: 100, False: 270}


def settings(small: bool) -> dict[str, dict[str, Any]]:
    """The flags of each rule."""
    sizes = (256,) * LAYERS if small else (2048,) * LAYERS
    batch = {"batch_size": 140 if small else 1024}
    subgraphs = {"num_layers": LAYERS, "sampling": "uniform", "subgraph": "25%" if small else "10%"}
    return {
        "neighbours": {"fan_out": (15, 10), **batch},
        "ladies": {"sampling": "ladies", "layer_sizes": sizes, **batch},
        "fastgcn": {"sampling": "fastgcn", "layer_sizes": sizes, **batch},
        "uniform, ratio": subgraphs,
        "uniform, unbiased": {**subgraphs, "estimate": "unbiased"},
        "clusters": {"num_layers": LAYERS, "sampling": "clusters", "clusters": 16 if small else 8},
        "whole graph": {"strategy": "full", "num_layers": LAYERS},
    }


@dataclass(frozen=True, kw_only=True)
class ReachConfig(Checked):
    """Accuracies by rule, and time to one."""

    datasets: str = DATASETS
    """Real graphs, with commas."""
    model: str = "sage"
    """--model of all."""
    seeds: Positive = 3
    """Runs of each."""
    target: float = 0.89
    """Validation accuracy whose time is measured, where it is reached."""
    trainers: Positive = 4
    """Trainers of each run."""
    quick: bool = False
    """Take a minute: few epochs; figures say nothing."""
    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the real graphs."""
    json: Path | None = None
    """Where the figures go, too."""


def command(arguments: list[str]) -> None:
    config = cli.parse(ReachConfig, arguments, prog=PROG)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for dataset in config.datasets.split(","):
            rows += rows_of(dataset, config, Path(temporary))
            print(markdown_table(list(rows[-1]), [list(row.values()) for row in rows], numbers=".4f"), flush=True)
    if config.json is not None:
        write_json(config.json, rows)


def rows_of(dataset: str, config: ReachConfig, work: Path) -> list[dict[str, Any]]:
    """A row for each rule on one graph."""
    small = dataset in SMALL
    layout = layout_of(dataset, config.data, work)
    rules = settings(small)
    scores: dict[str, list[float]] = {name: [] for name in rules}
    times: dict[str, list[tuple[float, int] | None]] = {name: [] for name in rules}
    for seed in range(config.seeds):
        for name, flags in rules.items():
            epochs = (WHOLE_EPOCHS if name == "whole graph" else EPOCHS)[small]
            out = work / "run"
            recipe = {**RECIPE, "model": config.model, "gpus": config.trainers, "seed": seed, **flags}
            run = gsplit.TrainConfig(out=out, overwrite=True, epochs=3 if config.quick else epochs, **recipe)
            with contextlib.redirect_stdout(io.StringIO()):
                scores[name].append(gsplit.train(layout, run)["test_accuracy"])
            times[name].append(reached(out, config.target))
    return [
        {
            "dataset": dataset,
            "way": name,
            "test": mean(scores[name]),
            "stdev": stdev(scores[name]) if config.seeds > 1 else None,
            "scores": scores[name],
            **reach_of(name, times),
        }
        for name in rules
    ]


def reach_of(name: str, times: dict[str, list[tuple[float, int] | None]]) -> dict[str, Any]:
    """How long a way took to the target, over the whole graph's time, by seed; None where one never got there."""
    pairs = [
        (mine[0] / whole[0], mine[1])
        for mine, whole in zip(times[name], times["whole graph"], strict=True)
        if mine is not None and whole is not None
    ]
    own = [mine[1] for mine in times[name] if mine is not None]
    return {
        "reached": len(own),
        "epochs_to_target": median(own) if own else None,
        "time_over_whole_graph": median(ratio for ratio, _ in pairs) if pairs else None,
    }


def reached(run: Path, target: float) -> tuple[float, int] | None:
    """Seconds of training, and epochs, until validation first says so much; None where it never does."""
    seconds = 0.0
    for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()):
        if line["kind"] == "epoch":
            seconds += line["seconds"]
            if line["valid_accuracy"] is not None and line["valid_accuracy"] >= target:
                return seconds, line["epoch"]
    return None


def layout_of(dataset: str, folder: Path, work: Path) -> Path:
    """A layout of many parts of a real graph."""
    store, layout = work / dataset, work / f"{dataset}-{PARTS}"
    if not layout.exists():
        with contextlib.redirect_stdout(io.StringIO()):
            data(["import", str(folder / f"{dataset}.npz"), "--out", str(store)])
            partition(PartitionConfig(store=store, out=layout, parts=PARTS))
    return layout


if __name__ == "__main__":
    cli.main(command)
