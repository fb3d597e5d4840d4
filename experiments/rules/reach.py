"""Accuracies of all sampling rules and of the whole graph, one model and recipe; and time to an accuracy.

python -m experiments.rules.reach [--datasets cora,...] [--seeds 3] [--target 0.89] [--quick] [--json FILE]

Test accuracies are of the epoch that is best in validation. Time to the target is that of training alone, in the
epochs up to the first look at validation that finds it reached, of which there are at most 60 a run; ways take turns,
and a ratio is of one seed, then the median.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import gsplit
from experiments.shared import real_graphs
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive
from experiments.shared.results import printed, records
from gsplit import cli
from gsplit.data import open_layout
from gsplit.data.__main__ import command as data
from gsplit.partition import PartitionConfig, partition

DATASETS = "cora,citeseer,coauthor_cs,amazon_computers"
LAYERS = 2
PARTS = 64
"""Parts of the layouts, so that there are clusters to choose from; four trainers have sixteen each."""
VALIDATIONS = 60
"""Times that a run looks at its validation accuracy, at most: every epoch, or every few."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What all ways to train on a graph have alike: one model, one rate, as many steps."""

    flags: dict[str, Any]
    """Of the model and its training."""
    steps: int
    """Steps of the optimizer."""
    batch_size: int
    """Targets of a mini-batch of those who choose targets."""
    fan_out: tuple[int, ...]
    """Of neighbours."""
    sources: int
    """Sources of a layer of LADIES and FastGCN."""
    sets: int
    """Sets that an epoch of subgraphs is cut into."""


SMALL = Recipe(
    flags={
        "hidden": 64,
        "dropout": 0.5,
        "input_dropout": 0.5,
        "weight_decay": 5e-4,
        "lr": 0.01,
        "normalize_features": True,
    },
    steps=100,
    batch_size=140,
    fan_out=(10, 10),
    sources=256,
    sets=2,
)
RECIPES = {
    "cora": SMALL,
    "citeseer": SMALL,
    "coauthor_cs": Recipe(
        flags={"hidden": 64, "dropout": 0.5, "weight_decay": 1e-4, "lr": 0.003},
        steps=96,
        batch_size=2048,
        fan_out=(10, 10),
        sources=2048,
        sets=4,
    ),
    "amazon_computers": Recipe(
        flags={"hidden": 128, "dropout": 0.2, "lr": 0.001},
        steps=480,
        batch_size=512,
        fan_out=(15, 10),
        sources=2048,
        sets=4,
    ),
}
"""Those of experiments.paper.accuracy, which were found for neighbour sampling; all ways are trained by them."""


def settings(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The flags of each rule."""
    targets = {"batch_size": recipe.batch_size}
    layerwise = {"layer_sizes": (recipe.sources,) * LAYERS, **targets}
    subgraphs = {"num_layers": LAYERS, "subgraph": f"{100 / recipe.sets:g}%"}
    return {
        "neighbours": {"fan_out": recipe.fan_out, **targets},
        "ladies": {"sampling": "ladies", **layerwise},
        "ladies, norms": {"sampling": "ladies", "importance": "norms", **layerwise},
        "fastgcn": {"sampling": "fastgcn", **layerwise},
        "uniform, ratio": {"sampling": "uniform", **subgraphs},
        "uniform, unbiased": {"sampling": "uniform", "estimate": "unbiased", **subgraphs},
        "uniform, fresh": {"sampling": "uniform", "estimate": "unbiased", "fresh": True, **subgraphs},
        "saint": {"sampling": "saint", **subgraphs},
        "clusters": {"num_layers": LAYERS, "sampling": "clusters", "clusters": PARTS // recipe.sets},
        "whole graph": {"strategy": "full", "num_layers": LAYERS},
    }


@dataclass(frozen=True, kw_only=True)
class ReachConfig(Flags):
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


def measure(config: ReachConfig) -> list[dict[str, Any]]:
    """The rows of all graphs."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for dataset in config.datasets.split(","):
            rows += map(printed, rows_of(dataset, config, Path(temporary)))
    return rows


def rows_of(dataset: str, config: ReachConfig, work: Path) -> list[dict[str, Any]]:
    """A row for each rule on one graph."""
    recipe = RECIPES[dataset]
    layout = layout_of(dataset, config.data, work)
    rules = settings(recipe)
    scores: dict[str, list[float]] = {name: [] for name in rules}
    times: dict[str, list[tuple[float, int] | None]] = {name: [] for name in rules}
    for seed in range(config.seeds):
        for name, flags in rules.items():
            epochs = 3 if config.quick else epochs_of(name, recipe, len(open_layout(layout).graph.train_idx))
            out = work / "run"
            run = gsplit.TrainConfig(
                out=out,
                overwrite=True,
                epochs=epochs,
                validate_every=-(-epochs // VALIDATIONS),
                model=config.model,
                gpus=config.trainers,
                seed=seed,
                device="cpu",
                threads=1,
                **recipe.flags,
                **flags,
            )
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


def epochs_of(name: str, recipe: Recipe, targets: int) -> int:
    """Epochs that make about the steps of a recipe."""
    if name == "whole graph":
        return recipe.steps
    whole_sets = name.startswith("uniform") or name in ("saint", "clusters")
    return max(1, round(recipe.steps / (recipe.sets if whole_sets else -(-targets // recipe.batch_size))))


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
    for epoch in records(run):
        seconds += epoch["seconds"]
        if epoch["valid_accuracy"] is not None and epoch["valid_accuracy"] >= target:
            return seconds, epoch["epoch"]
    return None


def layout_of(dataset: str, folder: Path, work: Path) -> Path:
    """A layout of many parts of a real graph."""
    store, layout = work / dataset, work / f"{dataset}-{PARTS}"
    if not layout.exists():
        with contextlib.redirect_stdout(io.StringIO()):
            data(["import", str(folder / f"{dataset}.npz"), "--out", str(store)])
            partition(PartitionConfig(store=store, out=layout, parts=PARTS))
    return layout


command = Experiment("rules.reach", ReachConfig, measure)

if __name__ == "__main__":
    cli.main(command)
