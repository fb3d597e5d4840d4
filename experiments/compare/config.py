"""The flags of the comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from experiments.baselines.workload import Workload
from experiments.shared.flags import Count, FanOut, Positive, Seed, from_one_on
from experiments.shared.rounds import cores
from gsplit.config.fields import Accepted, Checked, Range
from gsplit.config.partition import Method, Weights
from gsplit.errors import InputError

SYSTEMS = ("gsplit", "dgl", "pyg", "pagraph", "quiver", "torch-quiver")
PRECISIONS = ("32", "bf16-mixed")
"""What a system may compute in, as NAME:PRECISION."""
OURS = "gsplit"
"""The system that the others are compared with."""
LR = 0.003
"""Learning rate of Adam."""


def _split(systems: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in systems.split(",") if name.strip())


def _accept_systems(systems: str) -> None:
    names = _split(systems)
    for name in names:
        system, colon, precision = name.partition(":")
        if system not in SYSTEMS:
            raise InputError(f"unknown system {name!r}; choose from {', '.join(SYSTEMS)}")
        if colon and precision not in PRECISIONS:
            raise InputError(f"unknown precision in {name!r}; choose from {', '.join(PRECISIONS)}")
    if len(set(names)) < len(names) or not names:
        raise InputError(f"--systems takes names, each once, with commas, not {systems!r}")


def _accept_cache(percents: tuple[int, ...]) -> None:
    if any(not 0 <= percent <= 100 for percent in percents):
        raise InputError(f"--sweep-cache takes percents from 0 to 100, not {list(percents)}")


@dataclass(frozen=True, kw_only=True)
class BenchConfig(Checked):
    """Whole epochs on one graph, in rounds: what comparisons and ablations (:mod:`experiments.ablation`) share."""

    dataset: str = "products?scale=0.25"
    """A synthetic preset, perhaps with ?scale=; a real graph such as amazon_computers (GSPLIT_DATA names their
    folder); or the folder of a graph store."""
    model: Literal["sage", "gat", "gcn"] = "sage"
    """Layers of all; vertices are not their own neighbours in a comparison, and gcn takes the mean."""
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
    threads: Count = 0
    """Threads of each trainer; 0 shares the cores out."""
    epochs: Annotated[int, Range(2)] = 3
    """Epochs of a measured run; the first one warms up."""
    pairs: Positive = 5
    """Rounds in which every contender runs once."""
    dropout: Annotated[float, Range(least=0, below=1)] = 0.5
    """Share of hidden values dropped in training."""
    seed: Seed = 0
    """Seed of the graph, the partition, the draws and the weights."""
    method: Method = "metis"
    """Partitioner of the layout."""
    weights: Weights | None = None
    """What its parts balance, as in gsplit partition; by default that command's default."""
    run_limit_s: Positive = 3600
    """Seconds after which a run is ended and its contender left out."""
    quick: bool = False
    """Take the tiny graph and few rounds: whether all works; figures say nothing."""
    work: Path = Path("work/compare")
    """Keeps graph stores and layouts."""
    out: Path
    """Folder for the results as JSON and as Markdown; what it has of them is replaced."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model == "gat" and self.hidden % self.heads:
            raise InputError(f"--heads {self.heads} does not divide --hidden {self.hidden}, which the heads share")
        for flag, sizes in self.batch_sizes.items():
            if wrong := [size for size in sizes if size % self.gpus]:
                raise InputError(f"{flag} {wrong[0]} cannot be shared out evenly over --gpus {self.gpus}")

    @property
    def batch_sizes(self) -> dict[str, tuple[int, ...]]:
        """Sizes of mini-batches, by flag."""
        return {"--batch-size": (self.batch_size,)}

    @property
    def trainer_threads(self) -> int:
        """Threads of each trainer."""
        return self.threads or max(1, cores() // self.gpus)

    def workload(self, store: Path) -> Workload:
        """What all contenders train."""
        return Workload(
            store=str(store),
            model=self.model,
            hidden=self.hidden,
            heads=self.heads,
            fan_out=tuple(self.fan_out),
            batch_size=self.batch_size,
            epochs=self.epochs,
            trainers=self.gpus,
            threads=self.trainer_threads,
            lr=LR,
            dropout=self.dropout,
            seed=self.seed,
        )

    def make_folders(self) -> None:
        """Make the folders that are written to.

        Raises:
            InputError: where that cannot be done.
        """
        for folder in (self.out, self.work):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot write to {folder}: {error.strerror}") from None


@dataclass(frozen=True, kw_only=True)
class CompareConfig(BenchConfig):
    """Whole epochs of GSplit beside DGL's, PyG's and the strategies of PaGraph and Quiver."""

    systems: Annotated[str, Accepted(_accept_systems)] = ",".join(SYSTEMS)
    """Names with commas: gsplit, dgl, pyg, pagraph, quiver, torch-quiver; each as it is or as NAME:bf16-mixed, under
    PyTorch's autocast with features in bfloat16."""
    search_epochs: Count = 2
    """Epochs by which a setting is judged, after one that warms up; 0 takes the defaults."""
    accuracy_epochs: Count = 5
    """Epochs of the run that is evaluated after each; 0 leaves it out."""
    lr: Annotated[float, Range(above=0)] = LR
    """Learning rate of Adam."""
    cache: Annotated[int, Range(0, 100)] = 10
    """Cache of each trainer of pagraph and quiver, in percent of all feature rows."""
    sweep_cache: Annotated[tuple[int, ...], Accepted(_accept_cache)] = ()
    """Percents for which gsplit, pagraph and quiver are measured as well; dgl and pyg have no cache."""
    sweep_batch: Annotated[tuple[int, ...], from_one_on("--sweep-batch", empty=True)] = ()
    """Batch sizes for which all systems are measured as well."""
    sweep_pairs: Positive = 3
    """Rounds of a sweep."""
    out: Path = Path("work/comparison")
    """Folder for comparison.json and comparison.md; what it has of them is replaced."""

    @property
    def batch_sizes(self) -> dict[str, tuple[int, ...]]:
        """Sizes of mini-batches, by flag."""
        return {**super().batch_sizes, "--sweep-batch": self.sweep_batch}

    @property
    def names(self) -> tuple[str, ...]:
        """The systems."""
        return _split(self.systems)

    def workload(self, store: Path) -> Workload:
        """What all systems train."""
        return replace(super().workload(store), lr=self.lr)


QUICK = CompareConfig(
    quick=True,
    dataset="tiny",
    fan_out=(4, 3),
    batch_size=100,
    epochs=2,
    pairs=2,
    search_epochs=0,
    accuracy_epochs=2,
    out=Path("work/comparison-quick"),
)
