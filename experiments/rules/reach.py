"""Accuracies of all sampling rules and of the whole graph, one model and recipe; and time to an accuracy.

python -m experiments.rules.reach [--datasets cora,...] [--ways saint ...] [--others] [--seeds 3] [--target 0.89]
    [--steps-share 0.5] [--limit SECONDS] [--quick] [--json FILE]

Test accuracies are of the epoch that is best in validation. Time to the target is that of training alone, in the
epochs up to the first look at validation that finds it reached, of which there are at most 60 a run; ways take turns,
each seed begins with the next one, and a ratio is of one seed, then the median. ``--others`` adds PyG's and DGL's own
loaders and whole graph (:mod:`experiments.rules.other_systems`), by the same recipe, on as many cores. A run of
theirs ends after the epoch that passes ``--limit`` seconds of training; its row says so.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, median, stdev
from typing import Annotated, Any

import gsplit
from experiments.baselines.workload import Workload
from experiments.rules.other_systems import OTHERS, outcome_of
from experiments.rules.recipes import PARTS, RECIPES, SMALL, Recipe, epochs_of, settings
from experiments.shared import real_graphs
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, names_of
from experiments.shared.processes import RunFailed
from experiments.shared.results import printed, records
from experiments.shared.rounds import in_turn
from gsplit import cli
from gsplit.config.fields import Range
from gsplit.data import open_store
from gsplit.data.__main__ import command as data
from gsplit.errors import InputError
from gsplit.partition import PartitionConfig, partition

VALIDATIONS = 60
"""Times that a run looks at its validation accuracy, at most: every epoch, or every few."""


def flag_of(name: str) -> str:
    """A way as ``--ways`` names it."""
    return name.replace(",", "").replace(" ", "-")


OURS = {flag_of(name): name for name in settings(SMALL)}
WAYS = OURS | {flag_of(name): name for name in OTHERS}


@dataclass(frozen=True, kw_only=True)
class ReachConfig(Flags):
    """Accuracies by rule, and time to one."""

    datasets: Annotated[tuple[str, ...], names_of(RECIPES, "dataset")] = tuple(RECIPES)
    """Real graphs: cora, citeseer, coauthor_cs, amazon_computers."""
    ways: Annotated[tuple[str, ...], names_of(WAYS, "way")] = tuple(OURS)
    """Ways to train, such as neighbours, uniform-fresh, whole-graph or pyg-saint; by default all of ours."""
    others: bool = False
    """Train by PyG's and DGL's own loaders and on the whole graph by them, too."""
    model: str = "sage"
    """--model of all."""
    seeds: Positive = 3
    """Runs of each."""
    target: Annotated[float, Range(above=0, most=1)] = 0.89
    """Validation accuracy whose time is measured, where it is reached."""
    trainers: Positive = 4
    """Trainers of each run, of one thread each."""
    steps_share: Annotated[float, Range(above=0, most=1)] = 1.0
    """Share of the steps of a recipe that are trained."""
    limit: Annotated[float | None, Range(above=0)] = None
    """Seconds of training after which a run of PyG or DGL ends; by default none does."""
    quick: bool = False
    """Take a minute: few epochs; figures say nothing."""
    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the real graphs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model != "sage" and any(name in OTHERS for name in self.names):
            raise InputError(f"PyG and DGL train sage here, not --model {self.model}")

    @property
    def names(self) -> list[str]:
        """The ways that are trained, ours first."""
        return [name for flag, name in WAYS.items() if flag in self.ways or (self.others and flag not in OURS)]


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A real graph that is trained on."""

    store: Path
    layout: Path
    """In many parts."""
    recipe: Recipe
    targets: int
    """Training vertices."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a run came to."""

    test: float
    """Test accuracy at the epoch that is best in validation."""
    epochs: list[tuple[float, float | None]]
    """Seconds of training of each, and its validation accuracy; None where that was not taken."""
    asked: int
    """Epochs that were asked for."""


def measure(config: ReachConfig) -> dict[str, Any]:
    """The rows of all graphs."""
    rows: list[dict[str, Any]] = []
    for dataset in config.datasets:
        with tempfile.TemporaryDirectory() as temporary:
            rows += map(printed, rows_of(dataset, config, Path(temporary)))
    return {"ways": rows}


def rows_of(dataset: str, config: ReachConfig, work: Path) -> list[dict[str, Any]]:
    """A row for each way on one graph; ``work`` holds the store, the layout, and one run at a time."""
    store, layout, names = work / "store", work / "layout", config.names
    prepare(real_graphs.path(config.data, dataset), store, layout)
    whole = RECIPES[dataset]
    recipe = replace(whole, steps=max(1, round(whole.steps * config.steps_share)))
    graph = Graph(store=store, layout=layout, recipe=recipe, targets=len(open_store(store).graph.train_idx))
    notes = {name: reason for name in names if name in OTHERS and (reason := OTHERS[name].missing())}
    runs: dict[str, list[Trained]] = {name: [] for name in names}
    for seed in range(config.seeds):
        for name in in_turn(names, seed):
            if name in notes:
                continue
            try:
                runs[name].append(trained(name, graph, config, seed, work))
            except RunFailed as reason:
                notes[name] = str(reason)
    return [row_of(name, dataset, config, runs, notes.get(name, "")) for name in names]


def trained(name: str, graph: Graph, config: ReachConfig, seed: int, work: Path) -> Trained:
    """One run of a way."""
    epochs = 3 if config.quick else epochs_of(name, graph.recipe, graph.targets)
    run = theirs if name in OTHERS else ours
    return run(name, graph, config, work, epochs=epochs, validate_every=-(-epochs // VALIDATIONS), seed=seed)


def ours(name: str, graph: Graph, config: ReachConfig, work: Path, **more: Any) -> Trained:
    """One run of GSplit."""
    flags: dict[str, Any] = {**graph.recipe.flags, **settings(graph.recipe)[name], **more}
    out = work / "run"
    asked = gsplit.TrainConfig(
        out=out,
        overwrite=True,
        checkpoint_every=0,
        model=config.model,
        gpus=config.trainers,
        device="cpu",
        threads=1,
        **flags,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        test = gsplit.train(graph.layout, asked)["test_accuracy"]
    epochs = [(epoch["seconds"], epoch["valid_accuracy"]) for epoch in records(out)]
    return Trained(test=test, epochs=epochs, asked=more["epochs"])


def theirs(name: str, graph: Graph, config: ReachConfig, work: Path, **more: Any) -> Trained:
    """One run of PyG or DGL."""
    other, recipe = OTHERS[name], graph.recipe
    workload = Workload(
        store=str(graph.store),
        layout=str(graph.layout),
        model=config.model,
        heads=1,
        fan_out=recipe.fan_out,
        batch_size=recipe.batch_size,
        sets=recipe.sets if other.subgraphs else 0,
        trainers=config.trainers if other.distributed else 1,
        threads=1 if other.distributed else config.trainers,
        check=more["seed"] == 0,
        limit_s=config.limit,
        **recipe.flags,
        **more,
    )
    epochs = outcome_of(other, workload, work).epochs
    validated = [epoch for epoch in epochs if epoch.valid_accuracy is not None]
    best = max(validated, key=lambda epoch: epoch.valid_accuracy or 0.0)  # the first of equals, as ours
    assert best.test_accuracy is not None
    times = [(epoch.seconds, epoch.valid_accuracy) for epoch in epochs]
    return Trained(test=best.test_accuracy, epochs=times, asked=more["epochs"])


def row_of(name: str, dataset: str, config: ReachConfig, runs: dict[str, list[Trained]], note: str) -> dict[str, Any]:
    """A way on a graph; ``note`` says why it has no runs, or not all."""
    own = runs[name]
    scores = [run.test for run in own]
    times = {way: [reached(run.epochs, config.target) for run in of_way] for way, of_way in runs.items()}
    found = [time for time in times[name] if time is not None]
    epochs = [len(run.epochs) for run in own]
    if not note and any(run.asked > len(run.epochs) for run in own):
        note = f"ended after {config.limit:g} s of training"
        spent: list[Reached | None] = [(sum(s for s, _ in run.epochs), len(run.epochs)) for run in own]
        if not found and (ratio := over(times | {name: spent}, name, "neighbours")):
            note += f", {ratio:.1f} times our neighbours' to the target"
    return {
        "dataset": dataset,
        "way": name,
        "on": OTHERS[name].layout(config.trainers) if name in OTHERS else f"{config.trainers} x 1 thread",
        "test": mean(scores) if scores else None,
        "stdev": stdev(scores) if len(scores) > 1 else None,
        "scores": scores,
        "epochs": median(epochs) if epochs else None,
        "target": config.target,
        "reached": len(found),
        "epochs_to_target": median(epochs for _, epochs in found) if found else None,
        "time_over_whole_graph": over(times, name, "whole graph"),
        "time_over_neighbours": over(times, name, "neighbours"),
        "note": note,
    }


Reached = tuple[float, int]
"""Seconds of training, and epochs, until validation first says so much."""


def over(times: dict[str, list[Reached | None]], name: str, base: str) -> float | None:
    """Seconds of a way to the target over those of another, by seed, then the median; None where there are none."""
    pairs = [(mine, its) for mine, its in zip(times[name], times.get(base, []), strict=False) if mine and its]
    return median(mine[0] / its[0] for mine, its in pairs) if pairs else None


def reached(epochs: list[tuple[float, float | None]], target: float) -> Reached | None:
    """When validation first says so much; None where it never does."""
    seconds = 0.0
    for number, (took, accuracy) in enumerate(epochs, start=1):
        seconds += took
        if accuracy is not None and accuracy >= target:
            return seconds, number
    return None


def prepare(file: Path, store: Path, layout: Path) -> None:
    """Write the store of a real graph, and its layout of many parts."""
    with contextlib.redirect_stdout(io.StringIO()):
        data(["import", str(file), "--out", str(store)])
        partition(PartitionConfig(store=store, out=layout, parts=PARTS))


command = Experiment("rules.reach", ReachConfig, measure)

if __name__ == "__main__":
    cli.main(command)
