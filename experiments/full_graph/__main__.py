"""``python -m experiments.full_graph``: see :mod:`experiments.full_graph`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from experiments.baselines.whole_graph import Task
from experiments.full_graph import accuracy as accuracies
from experiments.full_graph import balance as blocks
from experiments.full_graph import choice as choices
from experiments.full_graph import epochs as rivals
from experiments.full_graph import loading as loads
from experiments.full_graph import volumes
from experiments.shared import real_graphs
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive, Seed, names_of
from gsplit import cli
from gsplit.config.fields import Accepted, Range
from gsplit.errors import InputError


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _accept_names(names: str) -> None:
    names_of(rivals.ALL, "system").function(_split(names))


@dataclass(frozen=True, kw_only=True)
class FullGraphConfig(Flags):
    """Whole-graph training beside CAGNET, Plexus, PyG and DGL: --words, --balance, --choice and others."""

    words: bool = False
    """Words of an epoch: the papers' formulas beside ours, rows that parts need of each other, and minimum covers."""
    balance: bool = False
    """Edges of blocks, the most over the mean, by permutation."""
    systems: bool = False
    """Epochs beside PyG's and DGL's, in turn in one run."""
    accuracy: bool = False
    """Test accuracy beside the same model in full-batch PyG."""
    loading: bool = False
    """Bytes that trainers read, and their private memory beside what --dry-run says."""
    choice: bool = False
    """Every plan timed, beside what is predicted, and what --algorithm auto takes."""
    quick: bool = False
    """Take seconds to a minute: small graphs, few rounds; figures say nothing."""
    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the real graphs."""
    seed: Seed = 0
    """words: seed of the partitions; systems, loading, choice: of the graph and of the initial weights."""
    dataset: str = "amazon_computers"
    """systems: a real graph, or synthetic:PRESET, perhaps with ?scale=0.05."""
    model: Literal["gcn", "sage"] = "gcn"
    """systems: layers of all."""
    hidden: Positive = 16
    """systems: width of the hidden layers."""
    layers: Positive = 3
    """systems: number of layers."""
    epochs: Annotated[int, Range(rivals.WARM_UP + 1)] = 12
    """systems: epochs of a run; the first two warm up."""
    rounds: Positive = 5
    """systems: how often each runs."""
    lr: Annotated[float, Range(above=0)] = 0.01
    """systems: learning rate of Adam."""
    only: Annotated[str, Accepted(_accept_names)] = ",".join(rivals.ALL)
    """systems: names with commas."""
    run_limit_s: Positive = 1800
    """systems: seconds after which a run is ended and its system left out."""
    work: Path = Path("work/full_graph")
    """words, systems, loading, choice: keeps graph stores and layouts."""
    strategy: Literal["full", "split"] = "full"
    """accuracy: --strategy of ours; split takes the whole graph as one mini-batch."""
    trainers: Positive = 2
    """accuracy: trainers of ours."""
    seeds: Positive = 10
    """accuracy: runs of each side."""

    @property
    def chosen(self) -> str:
        """What is measured."""
        given = {"words": self.words, "balance": self.balance, "systems": self.systems, "accuracy": self.accuracy}
        given |= {"loading": self.loading, "choice": self.choice}
        chosen = [name for name, is_given in given.items() if is_given]
        if len(chosen) != 1:
            raise InputError(f"give one of --{', --'.join(given)}; {len(chosen)} are given")
        return chosen[0]


def measure(config: FullGraphConfig) -> dict[str, Any]:
    """The tables of what was chosen."""
    chosen = config.chosen
    with warnings_alone("gsplit" if chosen in ("loading", "choice") else "gsplit.partition"):
        if chosen == "words":
            return volumes.measure(config.data, config.work, quick=config.quick, seed=config.seed)
        if chosen == "balance":
            return blocks.measure(config.data, quick=config.quick)
        if chosen == "loading":
            return loads.measure(config.data, config.work, quick=config.quick, seed=config.seed)
        if chosen == "choice":
            return choices.measure(config.data, config.work, quick=config.quick, seed=config.seed)
    if chosen == "systems":
        return rivals.measure(plan_of(config), _split(config.only))
    fewer = {"epochs": 5, "cases": 2} if config.quick else {}
    seeds = 2 if config.quick else config.seeds
    return accuracies.measure(config.data, strategy=config.strategy, trainers=config.trainers, seeds=seeds, **fewer)


@contextmanager
def warnings_alone(package: str) -> Iterator[None]:
    """Keep a package from telling of each of hundreds of deals, or of every run."""
    logger = logging.getLogger(package)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def plan_of(config: FullGraphConfig) -> rivals.Plan:
    """What ``--systems`` measures."""
    return rivals.Plan(
        dataset="synthetic:tiny" if config.quick else config.dataset,
        task=Task(
            store="",
            model=config.model,
            hidden=config.hidden,
            layers=config.layers,
            epochs=config.epochs,
            lr=config.lr,
            seed=config.seed,
        ),
        rounds=2 if config.quick else config.rounds,
        work=config.work,
        data=config.data,
        limit_s=config.run_limit_s,
    )


command = Experiment("full_graph", FullGraphConfig, measure, wrong=lambda found: bool(found.get("not_run")))

if __name__ == "__main__":
    cli.main(command)
