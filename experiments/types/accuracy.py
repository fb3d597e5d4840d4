"""Accuracy of labels that follow a path of two relations: models that tell relations apart, and one that does not.

    python -m experiments.types.accuracy --json accuracy.json

A graph of users, devices and makers, made anew for each seed. A device has a class; one maker of that class `made`
it, and it was `seen with` four others at random. A user's label is the class of most of the five devices that are
`used by` it; twenty that were `seen by` it are random. Only the features of makers tell a class, so a label is two
relations away, and where all edges are alike most of them are noise. Each run goes through ``gsplit.train``:
mini-batches of all trainers, test accuracy over all neighbours at the best epoch.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

import gsplit
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, names_of
from experiments.shared.results import printed
from experiments.shared.rounds import scores
from gsplit import cli
from gsplit.config.fields import Range
from gsplit.config.train import TrainConfig
from gsplit.data import Layout

CLASSES, MAKERS = 4, 40
USES, SAW, SEEN_WITH = 5, 20, 4
"""Edges of each relation to each of its destinations; of `made` there is one."""
LIKELY = 0.9
"""Share of the used devices that have the class of the user's label; the others are random."""
LEAST, MOST = 0.95, 0.75
"""The least accuracy of rgcn and the most of sage, of each seed."""
SETTINGS = TrainConfig(
    fan_out=(-1, -1),
    hidden=32,
    lr=0.01,
    dropout=0.0,
    epochs=25,
    validate_every=5,
    checkpoint_every=0,
    device="cpu",
    samplers=0,
    threads=1,
    overwrite=True,
)


@dataclass(frozen=True, kw_only=True)
class AccuracyConfig(Flags):
    """Accuracy of labels that follow a path of two relations."""

    models: Annotated[tuple[str, ...], names_of(("rgcn", "rgat", "sage"), "model")] = ("rgcn", "rgat", "sage")
    """Models: rgcn and rgat tell relations apart, sage does not."""
    seeds: Positive = 5
    """Graphs, and a run of each."""
    trainers: Positive = 2
    """Number of trainers."""
    users: Annotated[int, Range(MAKERS)] = 4000
    """Users: a quarter to train on, in four mini-batches, an eighth to validate; three quarters as many devices."""
    quick: bool = False
    """One small graph and one trainer: whether all works."""


QUICK = AccuracyConfig(seeds=1, trainers=1, users=1000, quick=True)


def measure(config: AccuracyConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    found: dict[str, list[float]] = {model: [] for model in config.models}
    for seed in range(config.seeds):
        with tempfile.TemporaryDirectory() as work:
            layout = gsplit.partition(path_graph(seed, config.users), Path(work) / "layout", parts=config.trainers)
            for model in config.models:
                found[model].append(accuracy_of(layout, model, seed, Path(work) / "run", config.users // 16))
    about = {"seeds": config.seeds, "trainers": config.trainers}
    return {"paths": [printed({"model": model, **about, **scores(each)}) for model, each in found.items()]}


def accuracy_of(layout: Layout, model: str, seed: int, out: Path, batch_size: int) -> float:
    """Test accuracy of a model."""
    asked = replace(SETTINGS, model=model, seed=seed, out=out, batch_size=batch_size)
    return float(gsplit.train(layout, asked)["test_accuracy"])


def path_graph(seed: int, users: int) -> Any:
    """The graph of a seed, as ``gsplit.from_arrays`` makes it."""
    random, devices = np.random.default_rng(seed), 3 * users // 4
    label = random.integers(CLASSES, size=users)
    of_device = random.integers(CLASSES, size=devices)
    of_maker = np.arange(MAKERS) % CLASSES

    def alike(classes: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each class the number of a random thing of that class."""
        order, counts = np.argsort(among, kind="stable"), np.bincount(among, minlength=CLASSES)
        begins = np.cumsum(counts) - counts
        return order[begins[classes] + random.integers(counts[classes])]

    uses_to = np.repeat(np.arange(users), USES)
    by_chance = random.integers(devices, size=len(uses_to))
    uses = np.where(random.random(len(uses_to)) < LIKELY, alike(label[uses_to], of_device), by_chance)
    saw_to, seen_to = np.repeat(np.arange(users), SAW), np.repeat(np.arange(devices), SEEN_WITH)
    train, valid, test = np.split(np.arange(users), [users // 4, 3 * users // 8])
    features = np.ones((users, CLASSES)), np.ones((devices, CLASSES)), np.eye(CLASSES)[of_maker]
    return gsplit.from_arrays(
        {name: rows.astype(np.float32) for name, rows in zip(("user", "device", "maker"), features, strict=True)},
        {
            ("device", "used by", "user"): (uses, uses_to),
            ("device", "seen by", "user"): (random.integers(devices, size=len(saw_to)), saw_to),
            ("maker", "made", "device"): (alike(of_device, of_maker), np.arange(devices)),
            ("maker", "seen with", "device"): (random.integers(MAKERS, size=len(seen_to)), seen_to),
        },
        labels={"user": label},
        train=train,
        valid=valid,
        test=test,
        duplicates="keep",
    )


def missed(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows with a score that is not what it must be."""
    return [
        row
        for row in found["paths"]
        if (row["model"] == "rgcn" and min(row["scores"]) < LEAST)
        or (row["model"] == "sage" and max(row["scores"]) > MOST)
    ]


command = Experiment("types.accuracy", AccuracyConfig, measure, quick=QUICK, wrong=lambda found: bool(missed(found)))

if __name__ == "__main__":
    cli.main(command)
