"""The offline stage: assign every vertex to a part and relabel the graph, so that run time needs no table."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from gsplit.cli import IntList
from gsplit.data import GraphStore, open_store
from gsplit.data.folders import check_free
from gsplit.errors import InputError
from gsplit.partition import methods, quality, relabel
from gsplit.partition.estimate import estimate_of
from gsplit.partition.presample import MAX_THREADS, Counts, Training, check_targets, presample
from gsplit.partition.problem import Problem, size_of
from gsplit.partition.stages import Stages
from gsplit.partition.weights import Hotness, Weights, edge_weights, heat, vertex_weights

MAX_SEED = 2**63 - 1
MANY = 2**31 - 1
RANGES = {
    "parts": (1, MANY),
    "seed": (0, MAX_SEED),
    "presample_epochs": (1, MANY),
    "threads": (0, MAX_THREADS),
    "cuts": (0, 1000),
}
"""The least and the most of flags that are whole numbers."""
CUTS_WITH_PRESAMPLE = 4

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PartitionConfig:
    """Make a layout: partition a graph store and relabel it. (``report LAYOUT`` says how good one is.)"""

    store: Annotated[Path, tyro.conf.Positional]
    """The graph store to partition, or a recipe: NAME.toml with these flags as keys."""
    out: Path
    """The layout folder to write."""
    parts: int = 4
    """Number of parts: one a trainer."""
    method: methods.Method = "metis"
    """metis; kaminpar (several threads, a quarter of the memory; pip install kaminpar); streaming, for graphs that
    fit neither; auto: the first of these that is installed and fits (kaminpar comes first with presample). random
    and range are ablations."""
    weights: Weights = "uniform"
    """What to balance, and what a cut costs: vertices (uniform); in-edges (degree); presample: the edges that
    sampling draws for a vertex, and how often it draws the edge that is cut. Give it the training's --fan-out and
    --batch-size."""
    hotness: Hotness | None = None
    """Which vertices of a part come first, and are cached: those with most out-edges (degree), or those that sampling
    needs most often (presample). By default presample with --weights presample, else degree."""
    fan_out: IntList = (20, 20, 20)
    """presample: of the training to come."""
    batch_size: int = 4096
    """presample: of the training to come."""
    presample_epochs: int = 3
    """presample: how many epochs to sample."""
    threads: int = 0
    """For presample and kaminpar, whose parts are the same every time only with 1; 0: all cores."""
    imbalance: float = 0.03
    """How much more than the mean a part may hold of what is balanced. More room finds smaller cuts."""
    cuts: int = 0
    """metis, kaminpar and streaming: make so many, one after another, and keep the best. 0: 4 with --weights
    presample, where chance decides much about what is found, else 1."""
    seed: int = 0
    """Of the partitioner, and of the sampling."""
    dry_run: bool = False
    """Only print the memory and the disk that it will take."""
    overwrite: bool = False
    """Replace the layout if it is there."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fan_out", tuple(self.fan_out))
        for name, (least, most) in RANGES.items():
            value, flag = getattr(self, name), name.replace("_", "-")
            if value < least:
                raise InputError(f"--{flag} must be at least {least}, not {value}")
            if value > most:
                raise InputError(f"--{flag} must be at most {most}, not {value}")
        if not 0 <= self.imbalance <= 1:
            raise InputError(f"--imbalance must be from 0 to 1, such as 0.03, not {self.imbalance}")
        assert self.training  # refuses what no training has

    @property
    def training(self) -> Training:
        return Training(fan_out=self.fan_out, batch_size=self.batch_size)

    @property
    def ordered_by(self) -> Hotness:
        return self.hotness or ("presample" if self.weights == "presample" else "degree")

    @property
    def presamples(self) -> bool:
        return "presample" in (self.weights, self.ordered_by)

    def cuts_by(self, method: str) -> int:
        """How many are made, of which the best is kept."""
        if self.parts == 1 or method in methods.ABLATIONS:
            return 1
        return self.cuts or (CUTS_WITH_PRESAMPLE if self.weights == "presample" else 1)


def partition(config: PartitionConfig, stages: Stages | None = None) -> dict[str, Any]:
    """Count, partition, relabel, write; returns the quality (:func:`gsplit.partition.quality.measure`).

    Args:
        stages: takes down what each stage took.

    Raises:
        InputError: for a store that cannot be read, more parts than vertices, an ``out`` that exists, a partitioner
            that is not installed or does not fit in memory, no training vertices to sample for, too small a disk.
    """
    source = _open(config)
    graph = source.graph
    _warn_of_what_is_ignored(config)
    estimate_of(graph).check_disk(config.out)
    threads = _threads(config)
    stages = stages or Stages()
    counts = None
    if config.presamples:
        with stages.stage("presample"):
            counts = presample(
                graph, config.training, epochs=config.presample_epochs, seed=config.seed, threads=threads
            )
    edge_weight = edge_weights(graph, config.weights, counts)
    method = methods.choose(config.method, size_of(graph, edge_weight))
    problem = Problem(
        graph=graph,
        parts=config.parts,
        vertex_weight=vertex_weights(graph, config.weights, counts),
        edge_weight=edge_weight,
        # What targets cost is in the weights already where they were presampled.
        targets=None if config.weights == "presample" else graph.train_idx,
        imbalance=config.imbalance,
        cuts=config.cuts_by(method),
        seed=config.seed,
        threads=threads,
    )
    with stages.stage(f"partition by {method}"):
        assignment = methods.assign(method, problem)
    with stages.stage("measure"):
        measured = quality.measure(graph, assignment, config.parts)
    about = {
        "method": method,
        "weights": config.weights,
        "hotness": config.ordered_by,
        "imbalance": config.imbalance,
        "cuts": problem.cuts,
        "presample": None if counts is None else _about_counts(config, counts),
        "seed": config.seed,
        "quality": measured,
        "stages": {name: asdict(taken) for name, taken in stages.taken.items()},
    }
    order = relabel.layout_order(assignment, heat(graph, config.ordered_by, counts))
    del problem, edge_weight, counts
    with stages.stage("relabel"):
        relabel.write_layout(config.out, source, assignment, order, config.parts, about, overwrite=config.overwrite)
    return measured


def dry_run(config: PartitionConfig) -> list[str]:
    """What :func:`partition` would take, in lines to print; refuses what it would refuse at once."""
    graph = _open(config).graph
    _warn_of_what_is_ignored(config)
    size = size_of(graph, None, edge_weights=config.weights == "presample")
    method: Any = methods.choose(config.method, size) if config.method == "auto" else config.method
    cuts = config.cuts_by(method)
    by = method if cuts == 1 else f"{method}, the best of {cuts} cuts"
    lines = [f"{config.store} into {config.parts} parts by {by}, weights {config.weights}: nothing is written"]
    lines += estimate_of(graph, methods.PARTITIONERS[method], size).lines(config.out)
    try:
        methods.choose(method, size)
    except InputError as error:
        lines.append(f"it does not fit: {error}")
    if config.weights == "presample":
        lines.append("edges of vertices that are never computed are left out, so partitioning may take far less")
    return lines


def _open(config: PartitionConfig) -> GraphStore:
    out, store = config.out.resolve(), config.store.resolve()
    if out == store or out in store.parents:
        raise InputError(f"--out {config.out} is or holds the graph store itself; choose another folder")
    check_free(config.out, overwrite=config.overwrite)
    methods.check_installed(config.method)
    source = open_store(config.store)
    if config.parts > source.graph.num_vertices:
        vertices = source.graph.num_vertices
        raise InputError(f"--parts {config.parts} is more than the {vertices} vertices of {config.store}")
    if config.presamples:
        check_targets(source.graph)
    return source


def _warn_of_what_is_ignored(config: PartitionConfig) -> None:
    if config.method == "random" and config.weights != "uniform":
        logger.warning("--weights %s is ignored: random parts are equal in vertices", config.weights)
    if config.cuts and config.method in methods.ABLATIONS:
        logger.warning("--cuts is ignored: %s makes one", config.method)
    if not config.presamples:
        for name in ("fan_out", "batch_size", "presample_epochs"):
            if getattr(config, name) != getattr(PartitionConfig, name):
                flag = name.replace("_", "-")
                logger.warning("--%s is ignored: nothing is presampled; see --weights and --hotness", flag)


def _threads(config: PartitionConfig) -> int:
    cores = len(os.sched_getaffinity(0))
    if config.threads > cores:
        logger.warning(
            "--threads %d is more than the %d cores there are, so %d are used", config.threads, cores, cores
        )
    return min(config.threads or cores, cores)


def _about_counts(config: PartitionConfig, counts: Counts) -> dict[str, Any]:
    return {
        "fan_out": list(config.fan_out),
        "batch_size": config.batch_size,
        "epochs": config.presample_epochs,
        "mini_batches": counts.mini_batches,
        "edges": int(counts.computed.sum()),
        "inputs": int(counts.loaded.sum()),
    }
