"""The offline stage: assign every vertex to a part and relabel the graph, so that run time needs no table."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from gsplit.data import open_store
from gsplit.data.folders import check_free
from gsplit.errors import InputError
from gsplit.partition import methods, quality, relabel

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PartitionConfig:
    """Make a layout: partition a graph store and relabel it."""

    store: Annotated[Path, tyro.conf.Positional]
    """The graph store to partition, or a recipe: NAME.toml with these flags as keys."""
    out: Path
    """The layout folder to write."""
    parts: int = 4
    """Number of parts: one a trainer."""
    method: methods.Method = "metis"
    """metis, or streaming for graphs it has no room for; random and range are ablations."""
    weights: methods.Weights = "uniform"
    """What to balance: vertices (uniform) or in-edges (degree)."""
    seed: int = 0
    """Of the partitioner."""
    overwrite: bool = False
    """Replace the layout if it is there."""

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise InputError(f"--parts must be at least 1, not {self.parts}")
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0, not {self.seed}")


def partition(config: PartitionConfig) -> dict[str, Any]:
    """Partition, relabel, write; returns the quality (:func:`gsplit.partition.quality.measure`).

    Raises:
        InputError: for a store that cannot be read, more parts than vertices, or an ``out`` that exists.
    """
    out, store = config.out.resolve(), config.store.resolve()
    if out == store or out in store.parents:
        raise InputError(f"--out {config.out} is or holds the graph store itself; choose another folder")
    check_free(config.out, overwrite=config.overwrite)
    source = open_store(config.store)
    graph = source.graph
    if config.parts > graph.num_vertices:
        raise InputError(f"--parts {config.parts} is more than the {graph.num_vertices} vertices of {config.store}")
    if config.method == "random" and config.weights != "uniform":
        logger.warning("--weights %s is ignored: random parts are equal in vertices", config.weights)
    start_s = time.perf_counter()
    if config.parts == 1:
        assignment = methods.random(graph, 1, config.weights, config.seed)
    else:
        assignment = methods.ASSIGNERS[config.method](graph, config.parts, config.weights, config.seed)
    measured = quality.measure(graph, assignment, config.parts)
    about = {
        "method": config.method,
        "weights": config.weights,
        "seed": config.seed,
        "quality": measured,
        "seconds": {"partition": round(time.perf_counter() - start_s, 3)},
    }
    relabel.write_layout(config.out, source, assignment, config.parts, about, overwrite=config.overwrite)
    return measured
