"""The configuration of the offline stage: the flags of ``python -m gsplit.partition`` and of its ``report``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from gsplit.config.fields import Accepted, Checked, Range
from gsplit.config.flags import Positional, Takes
from gsplit.config.links import TaskName
from gsplit.config.rules import AsksForNothing, Needed, Only, check_needed, refuse_useless
from gsplit.config.sampling import (
    DRAWN_SETS,
    LAYERWISE,
    FanOutOf,
    LayerSizes,
    Subgraph,
    check_fan_out,
    fan_outs_by_name,
)
from gsplit.errors import InputError

Method = Literal["auto", "metis", "kaminpar", "streaming", "deal", "random", "range"]
Weights = Literal["uniform", "degree", "presample"]
Hotness = Literal["degree", "presample"]

MAX_INT32 = 2**31 - 1
MAX_SEED = 2**63 - 1
MAX_THREADS = 256
"""More threads than any host makes use of."""
MAX_CUTS = 1000
PARTS = 4
"""Parts where nothing says how many."""


def _check_fan_out(fan_out: Sequence[int]) -> None:
    check_fan_out(fan_out)
    if max(fan_out) > MAX_INT32:
        raise InputError(f"--fan-out takes numbers up to {MAX_INT32}, not {max(fan_out)}; -1 takes all")


def _check_imbalance(imbalance: float) -> None:
    if not 0 <= imbalance <= 1:
        raise InputError(f"--imbalance must be from 0 to 1, such as 0.03, not {imbalance}")


def _check_method(method: str) -> None:
    if method in get_args(Method):
        return
    path = Path(method)
    if not (path.suffix or path.parent.name or path.exists()):  # a slip of the pen, not the name of a file
        raise InputError(
            f"--method must be one of {', '.join(get_args(Method))}, or a file with the part of each vertex, not "
            f"{method!r}"
        )


Presampled = Literal["neighbours", "ladies", "fastgcn", "uniform", "saint"]
FanOut = Annotated[tuple[int, ...], Accepted(_check_fan_out)]
BatchSize = Annotated[int, Range(1)]
Threads = Annotated[int, Range(0, MAX_THREADS)]
PRESAMPLED = Only(presampling=True)


@dataclass(frozen=True, kw_only=True)
class Training(Checked):
    """The training to come, as far as its mini-batches depend on it."""

    fan_out: FanOut
    """Neighbours drawn by hop, the first number for the targets; -1 takes all."""
    batch_size: BatchSize
    """Targets of a mini-batch over all trainers."""
    task: TaskName = "vertices"
    """What is learned; links are pairs with one random candidate each."""
    sampling: Presampled = "neighbours"
    """The rule; the others than neighbours take no fan-out, uniform and saint no size of mini-batches."""
    fan_out_of: Annotated[FanOutOf | None, Only(sampling="neighbours"), AsksForNothing("")] = None
    """neighbours: other numbers than ``fan_out`` for some relations of several."""
    layer_sizes: Annotated[
        LayerSizes | None, Only(sampling=LAYERWISE), Needed("sources drawn per hop, such as 512,512,512")
    ] = None
    """ladies, fastgcn: sources drawn per hop."""
    subgraph: Annotated[
        Subgraph | None, Only(sampling=DRAWN_SETS), Needed("the vertices of a subgraph, such as 10%")
    ] = None
    """uniform, saint: vertices of a subgraph."""
    num_layers: Annotated[int, Range(1)] = 3
    """uniform, saint: layers of the model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_needed(self)
        refuse_useless(self, vars(self))
        if self.task == "links" and self.sampling != "neighbours":
            raise InputError(f"--sampling {self.sampling} has no pairs; --task links takes neighbours")

    def described(self) -> dict[str, Any]:
        """Return what a layout or a report says of it."""
        about: dict[str, Any] = {"fan_out": list(self.fan_out), "batch_size": self.batch_size}
        if self.fan_out_of:
            about["fan_out_of"] = {name: list(each) for name, each in fan_outs_by_name(self.fan_out_of).items()}
        if self.sampling != "neighbours":
            about |= {"sampling": self.sampling, "layer_sizes": self.layer_sizes, "subgraph": self.subgraph}
            about["num_layers"] = self.num_layers
        return about | ({"task": self.task} if self.task == "links" else {})


@dataclass(frozen=True, kw_only=True)
class PartitionConfig(Checked):
    """Make a layout: partition a graph store and relabel it. ``report LAYOUT`` says how good one is."""

    store: Annotated[Path, Positional]
    """The graph store to partition, or a recipe: NAME.toml with these flags as keys."""
    out: Path
    """The layout folder to write."""
    parts: Annotated[int | None, Range(1, MAX_INT32)] = None
    """Number of parts: one a trainer. By default 4, or as many as the file of --method has."""
    method: Annotated[str, Accepted(_check_method), Only(keep=None), Takes("METHOD|FILE")] = "metis"
    """metis; kaminpar (several threads, a quarter of the memory; pip install kaminpar); streaming, for graphs that
    fit neither; auto: the first of these that is installed and fits (kaminpar comes first with presample); deal, for
    training on the whole graph: equal parts and even blocks in seconds, whatever is cut. random and range are
    ablations. Or a partition of your own: a file with the part of each vertex, in the order of the vertices, from 0
    on, a .npy or one column of text, as METIS writes it."""
    keep: Path | None = None
    """A layout of the store that this one was grown from (gsplit import --add): its vertices stay in their parts, and
    the new ones are placed beside their neighbours, as far as --imbalance lets them. It stands in place of --method,
    and there are as many parts as in that layout."""
    weights: Annotated[Weights, Only(weighed_parts=True)] = "uniform"
    """What to balance, and what a cut costs: vertices (uniform); in-edges (degree); presample: the edges that
    sampling draws for a vertex, and how often it draws the edge that is cut. Give it the training's --fan-out and
    --batch-size. deal makes parts equal in vertices, and balances edges in and out with uniform."""
    hotness: Hotness | None = None
    """Which vertices of a part come first, and are cached: those with most out-edges (degree), or those that sampling
    needs most often (presample). By default presample with --weights presample, else degree."""
    fan_out: Annotated[FanOut, PRESAMPLED] = (20, 20, 20)
    """presample: --fan-out of the training to come."""
    fan_out_of: Annotated[FanOutOf | None, PRESAMPLED, Only(several_types=True), AsksForNothing("")] = None
    """presample: --fan-out-of of the training to come, where there are several relations."""
    batch_size: Annotated[BatchSize, PRESAMPLED] = 4096
    """presample: --batch-size of the training to come."""
    task: Annotated[TaskName | None, PRESAMPLED] = None
    """presample: --task of the training to come; by default vertices where the store has a training set of them."""
    sampling: Annotated[Presampled, PRESAMPLED] = "neighbours"
    """presample: --sampling of the training to come, with --layer-sizes or --subgraph in the place of --fan-out."""
    layer_sizes: Annotated[LayerSizes | None, PRESAMPLED] = None
    """presample: --layer-sizes of the training to come."""
    subgraph: Annotated[Subgraph | None, PRESAMPLED] = None
    """presample: --subgraph of the training to come."""
    num_layers: Annotated[int, Range(1), PRESAMPLED] = 3
    """presample: --num-layers of a training by subgraphs."""
    presample_epochs: Annotated[int, Range(1, MAX_INT32), PRESAMPLED] = 3
    """presample: how many epochs to sample."""
    threads: Threads = 0
    """Threads of presample and of kaminpar, whose parts are the same every time only with 1; 0: all cores."""
    imbalance: Annotated[float, Accepted(_check_imbalance), Only(balanced_cut=True)] = 0.03
    """metis, kaminpar and streaming: how much more than the mean a part may hold of what is balanced. More room finds
    smaller cuts."""
    even_types: Annotated[float, Range(1, 1_000_000), Only(several_types=True)] = 1.2
    """Where vertices have several types: bound of the vertices of a type in a part, over their mean. Those that lose
    least move from parts that have more. Types of fewer than 100 vertices a part are left as they are."""
    cuts: Annotated[int, Range(0, MAX_CUTS), Only(several_cuts=True)] = 0
    """metis, kaminpar, streaming and deal: make so many, one after another, and keep the best. 0: 4 with deal and
    with --weights presample, where chance decides much about what is found, else 1."""
    seed: Annotated[int, Range(0, MAX_SEED)] = 0
    """Seed of the partitioner, and of the sampling."""
    dry_run: bool = False
    """Only print the memory and the disk that it will take."""
    overwrite: bool = False
    """Replace the layout if it is there."""

    @property
    def part_file(self) -> Path | None:
        """The file of the user's own partition; None where a partitioner makes one."""
        return None if self.method in get_args(Method) else Path(self.method)

    @property
    def asked_method(self) -> str:
        """The method that gives vertices their parts: ``--method``, or what is given in its place."""
        return "keep" if self.keep else "file" if self.part_file else self.method

    @property
    def training(self) -> Training:
        """The training that is presampled."""
        given = {field.name: getattr(self, field.name) for field in fields(Training)}
        return Training(**{**given, "task": self.task or "vertices"})

    @property
    def ordered_by(self) -> Hotness:
        """The order of the vertices of a part, as decided."""
        return self.hotness or ("presample" if self.weights == "presample" else "degree")

    @property
    def presamples(self) -> bool:
        """True where the weights or the order of the vertices need counts of sampled mini-batches."""
        return "presample" in (self.weights, self.ordered_by)


@dataclass(frozen=True, kw_only=True)
class ReportConfig(Checked):
    """The quality of a layout for a training: balance, local edges, cache hit rates."""

    layout: Annotated[Path, Positional]
    """The layout folder."""
    out: Path | None = None
    """Where to write: OUT.json and OUT.png, with or without one of the endings; by default the layout's name with
    -report, beside it."""
    fan_out: FanOut | None = None
    """--fan-out of the training; by default what the layout was presampled with, else 20,20,20."""
    fan_out_of: FanOutOf | None = None
    """--fan-out-of of the training; by default what the layout was presampled with, where --fan-out is not given."""
    batch_size: BatchSize | None = None
    """--batch-size of the training; by default what the layout was presampled with, else 4096."""
    task: TaskName | None = None
    """--task of the training; by default what the layout was presampled for."""
    sampling: Presampled | None = None
    """--sampling of the training, with --layer-sizes or --subgraph; by default as the layout was presampled."""
    layer_sizes: LayerSizes | None = None
    """--layer-sizes of the training."""
    subgraph: Subgraph | None = None
    """--subgraph of the training."""
    num_layers: Annotated[int | None, Range(1)] = None
    """--num-layers of a training by subgraphs, by default 3."""
    epochs: Annotated[int, Range(1)] = 1
    """Epochs to sample and count; as many more, with other draws, for the pre-sampled order."""
    seed: Annotated[int, Range(0)] = 0
    """Seed of the draws."""
    threads: Threads = 0
    """Threads that sample; 0: all cores."""
