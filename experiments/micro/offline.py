"""Time and memory of each offline stage, from a store to a layout.

    python -m experiments.micro.offline STORE
    python -m experiments.micro.offline STORE --methods metis kaminpar --weights uniform presample --json offline.json

Each way runs in a process of its own, and the layouts are removed. Seconds are those of the machine at that moment;
memory is resident memory at the peak of the stage, touched pages of mapped files included. ``--json`` writes
``store`` (``name``, ``vertices``, ``edges``, ``features``) and ``runs``: ``method``, ``weights``, ``imbalance``,
``cuts`` (0: by default), ``seconds`` in all, ``stages`` (name -> ``seconds``, ``peak_bytes``), ``quality`` as in
``layout.json``.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Count, FanOut, Imbalance, Positive
from experiments.shared.results import printed
from gsplit import cli
from gsplit.config.flags import Positional
from gsplit.config.partition import Method
from gsplit.data import open_store
from gsplit.partition import PartitionConfig, partition
from gsplit.partition.stages import Stages
from gsplit.partition.weights import Weights


@dataclass(frozen=True, kw_only=True)
class OfflineConfig(Flags):
    """What the offline stage takes: time and memory of each stage, from a store to a layout."""

    store: Annotated[Path, Positional]
    """The graph store."""
    methods: tuple[Method, ...] = ("metis", "kaminpar", "streaming")
    """Partitioners to compare."""
    weights: tuple[Weights, ...] = ("uniform",)
    """Weights to compare."""
    parts: Positive = 4
    """Parts of the layouts."""
    fan_out: FanOut = (20, 20, 20)
    """presample: fan-out of the training."""
    batch_size: Positive = 4096
    """presample: batch size of the training."""
    presample_epochs: Positive = 3
    """presample: how many epochs to sample."""
    imbalance: Imbalance = 0.03
    """How much more than the mean a part may hold of what is balanced."""
    cuts: Count = 0
    """Cuts of metis and kaminpar with pre-sampled weights, as in python -m gsplit.partition."""
    work: Path = Path("work")
    """Folder of the layouts, for as long as it takes."""


def measure(config: OfflineConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    graph = open_store(config.store).graph
    about = {
        "name": config.store.name,
        "vertices": graph.num_vertices,
        "edges": graph.num_edges,
        "features": graph.num_features,
    }
    ways = [(method, weights) for method in config.methods for weights in config.weights]
    return {"store": about, "runs": [printed(run(config, *way)) for way in ways]}


def run(config: OfflineConfig, method: Method, weights: Weights) -> dict[str, Any]:
    """One way, in a process of its own: memory that a library kept would count for the next."""
    config.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=config.work) as folder, multiprocessing.get_context("spawn").Pool(1) as pool:
        wanted = PartitionConfig(
            store=config.store,
            out=Path(folder) / "layout",
            parts=config.parts,
            method=method,
            weights=weights,
            fan_out=config.fan_out,
            batch_size=config.batch_size,
            presample_epochs=config.presample_epochs,
            imbalance=config.imbalance,
            cuts=config.cuts if weights == "presample" else 0,
        )
        return pool.apply(measured, (wanted,))


def measured(config: PartitionConfig) -> dict[str, Any]:
    """A run of ``--json``."""
    stages = Stages(own_peaks=True)
    start_s = time.perf_counter()
    quality = partition(config, stages)
    return {
        "method": config.method,
        "weights": config.weights,
        "imbalance": config.imbalance,
        "cuts": config.cuts,
        "seconds": time.perf_counter() - start_s,
        "stages": {name: asdict(taken) for name, taken in stages.taken.items()},
        "quality": quality,
    }


command = Experiment("micro.offline", OfflineConfig, measure)

if __name__ == "__main__":
    cli.main(command)
