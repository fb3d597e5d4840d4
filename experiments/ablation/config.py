"""The flags of the ablation, and its studies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from experiments.compare.config import CompareConfig
from experiments.shared.flags import FanOut, Positive, Seed, names_of
from experiments.shared.noise import cores
from gsplit.config.fields import Checked, Range
from gsplit.config.partition import Method, Weights
from gsplit.errors import InputError

PYG = "PyG itself"
"""A change that is none of ours: PyG computes the same mini-batches."""
PYG_MODEL = "model=torch_geometric.nn:GraphSAGE"


@dataclass(frozen=True, kw_only=True)
class AblationConfig(Checked):
    """Our own training with one thing changed at a time, beside the same training without the change."""

    studies: Annotated[tuple[str, ...], names_of(("exchange", "threads", "cache", "batch", "models"), "study")] = (
        "exchange",
        "threads",
    )
    """Which of exchange, threads, cache, batch, models; --studies alone leaves all out."""
    changes: tuple[str, ...] = ()
    """Changes of your own, a study called own: flags of gsplit train without dashes, as in "order=ready slots=4"."""
    dataset: str = "products?scale=0.25"
    """As in experiments.compare: a synthetic preset, a real graph, or the folder of a graph store."""
    model: Literal["sage", "gat", "gcn"] = "sage"
    """The model of the base."""
    hidden: Positive = 16
    """Width of the hidden layers, all heads together."""
    heads: Positive = 4
    """gat: heads of the hidden layers."""
    fan_out: FanOut = (15, 10, 5)
    """Neighbours drawn per hop, the first for the targets; -1 takes all."""
    batch_size: Positive = 4096
    """Targets of a mini-batch over all trainers together."""
    gpus: Positive = 2
    """Trainers, processes on the CPU; the layout has as many parts."""
    threads: Annotated[int, Range(0)] = 0
    """Threads of each trainer; 0 shares the cores out."""
    samplers: Positive = 1
    """Sampler processes."""
    epochs: Annotated[int, Range(2)] = 3
    """Epochs of a run; the first one warms up."""
    pairs: Positive = 5
    """Rounds in which the base and every change run once."""
    dropout: Annotated[float, Range(least=0, below=1)] = 0.5
    """Share of hidden values dropped in training."""
    seed: Seed = 0
    """Seed of the graph, the partition, the draws and the weights."""
    method: Method = "metis"
    """Partitioner of the layout."""
    weights: Weights | None = None
    """What its parts balance, as in gsplit partition; by default that command's default."""
    run_limit_s: Positive = 3600
    """Seconds after which a run is ended and left out."""
    quick: bool = False
    """Take the tiny graph and few rounds: whether all works; figures say nothing."""
    work: Path = Path("work/compare")
    """Keeps graph stores and layouts, the same as those of experiments.compare."""
    out: Path = Path("work/ablation")
    """Folder for ablation.json, ablation.md and the pictures; what it has of them is replaced."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.all_changes():
            raise InputError("name a study or a change: --studies exchange, or --changes order=ready")
        if "models" in self.studies and self.model != "sage":
            raise InputError(f"the study models compares GraphSAGE, so drop --model {self.model}")

    @property
    def trainer_threads(self) -> int:
        """Threads of each trainer."""
        return self.threads or max(1, cores() // self.gpus)

    def all_changes(self) -> dict[str, tuple[str, ...]]:
        """The changes of each study that was asked for."""
        own = {"own": self.changes} if self.changes else {}
        return {**{study: STUDIES[study](self) for study in self.studies}, **own}

    def comparison(self) -> CompareConfig:
        """What :mod:`experiments.compare` is told of graph, layout and runs."""
        return CompareConfig(
            systems="gsplit",
            dataset=self.dataset,
            model=self.model,
            hidden=self.hidden,
            heads=self.heads,
            fan_out=self.fan_out,
            batch_size=self.batch_size,
            gpus=self.gpus,
            threads=self.threads,
            epochs=self.epochs,
            pairs=self.pairs,
            dropout=self.dropout,
            seed=self.seed,
            method=self.method,
            weights=self.weights,
            run_limit_s=self.run_limit_s,
            work=self.work,
            out=self.out,
        )


STUDIES: dict[str, Callable[[AblationConfig], tuple[str, ...]]] = {
    "exchange": lambda config: ("exchange-dtype=bfloat16", "exchange=auto", "exchange=auto exchange-dtype=bfloat16"),
    "threads": lambda config: (f"gpus=1 threads={config.gpus * config.trainer_threads}",),
    "cache": lambda config: tuple(f"cache-size={percent}%" for percent in (5, 10, 25, 50)),
    "batch": lambda config: tuple(
        f"batch-size={size}"
        for size in (config.batch_size // 4, config.batch_size // 2, 2 * config.batch_size, 4 * config.batch_size)
    ),
    "models": lambda config: (PYG_MODEL, PYG),
}
"""The changes of each study."""

QUICK = AblationConfig(
    quick=True,
    studies=("exchange", "threads", "models"),
    dataset="tiny",
    fan_out=(4, 3),
    batch_size=100,
    epochs=2,
    pairs=1,
    out=Path("work/ablation-quick"),
)
