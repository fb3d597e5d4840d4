"""Seconds of an epoch of links: two trainers of GSplit beside DGL with as many threads, in turn.

    python -m experiments.links.systems
    python -m experiments.links.systems --quick
    python -m experiments.links.systems --dataset synthetic:products?scale=0.1 --fan-out 15,10,5

Both train GraphSAGE with a dot product on the same edges of the graph, with as many random candidates, and leave out
the edges that a mini-batch asks for, with their reverses. DGL draws first and takes these out of what was drawn. An
epoch is so many mini-batches; the first is not counted.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.shared import processes, real_graphs
from experiments.shared.datasets import store_of
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive, Seed
from experiments.shared.results import printed, records
from gsplit import cli
from gsplit.config.partition import PartitionConfig
from gsplit.data import open_store
from gsplit.partition import partition

LIMIT_S = 600.0


@dataclass(frozen=True, kw_only=True)
class SystemsConfig(Flags):
    """Epochs of links beside DGL."""

    dataset: str = "amazon_computers"
    """A real graph, or synthetic:PRESET or synthetic:PRESET?scale=0.1, generated once."""
    fan_out: FanOut = (15, 10)
    """Neighbours drawn per hop, the first for the targets; -1 takes all."""
    batch_size: Positive = 1024
    """Pairs of a mini-batch over all trainers."""
    candidates: Positive = 1
    """Random candidates of each pair."""
    hidden: Positive = 64
    """Width of the hidden layers and of the vectors that are scored."""
    trainers: Positive = 2
    """Trainers of GSplit, of one thread each; DGL has one process with so many."""
    batches: Positive = 40
    """Mini-batches of an epoch."""
    epochs: Positive = 3
    """Epochs of a run, the first of which is not counted."""
    rounds: Positive = 3
    """Runs of each, in turn."""
    seed: Seed = 0
    """Seed of the generator and of the draws."""
    quick: bool = False
    """Take seconds: cora, and few mini-batches."""
    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the real graphs."""
    work: Path = Path("work/sampling")
    """Keeps stores and layouts."""


QUICK = SystemsConfig(
    dataset="cora", fan_out=(10, 5), batch_size=256, hidden=16, batches=3, epochs=2, rounds=1, quick=True
)


def measure(config: SystemsConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    store = store_of(config.dataset, data=config.data, work=config.work)
    layout = store.parent / f"presampled-{config.trainers}-{'-'.join(map(str, config.fan_out))}"
    if not layout.exists():
        about: dict[str, Any] = {
            "weights": "presample",
            "task": "links",
            "presample_epochs": 1,
            "batch_size": config.batch_size,
        }
        partition(PartitionConfig(store=store, out=layout, parts=config.trainers, fan_out=config.fan_out, **about))
    graph = open_store(store).graph
    rounds = []
    for _ in range(config.rounds):
        ours, theirs = _ours(config, layout), _dgl(config, store)
        rounds.append(printed({"gsplit_s": ours, "dgl_s": theirs, "ratio": round(theirs / ours, 2)}))
    ratios = [each["ratio"] for each in rounds]
    return {
        "dataset": {"name": config.dataset, "vertices": graph.num_vertices, "edges": graph.num_edges},
        "fan_out": config.fan_out,
        "batch_size": config.batch_size,
        "rounds": rounds,
        "ratio": statistics.median(ratios),
    }


def _ours(config: SystemsConfig, layout: Path) -> float:
    """Median seconds of an epoch of ours."""
    with tempfile.TemporaryDirectory() as folder:
        flags = {
            "task": "links",
            "pairs": "edges",
            "epoch_pairs": config.batches * config.batch_size,
            "batch_size": config.batch_size,
            "negatives": f"uniform:{config.candidates}",
            "fan_out": ",".join(map(str, config.fan_out)),
            "hidden": config.hidden,
            "epochs": config.epochs,
            "gpus": config.trainers,
            "threads": 1,
            "dropout": 0,
            "evaluate": "none",
            "checkpoint_every": 0,
            "seed": config.seed,
            "device": "cpu",
        }
        _run(processes.train_command(layout, Path(folder) / "run", flags), Path(folder), threads=1)
        seconds = [record["seconds"] for record in records(Path(folder) / "run")]
    return statistics.median(seconds[1:])


def _dgl(config: SystemsConfig, store: Path) -> float:
    """Median seconds of an epoch of DGL's."""
    words = {
        "fan-out": ",".join(map(str, config.fan_out)),
        "batch-size": config.batch_size,
        "batches": config.batches,
        "epochs": config.epochs,
        "hidden": config.hidden,
        "candidates": config.candidates,
        "threads": config.trainers,
        "workers": 0,
    }
    command = [sys.executable, "-m", "experiments.links.dgl_links", str(store)]
    command += [word for name, value in words.items() for word in (f"--{name}", str(value))]
    with tempfile.TemporaryDirectory() as folder:
        _run(command, Path(folder), threads=config.trainers)
        seconds = json.loads((Path(folder) / "stdout").read_text().splitlines()[-1])["seconds"]
    return statistics.median(seconds[1:])


def _run(command: list[str], folder: Path, *, threads: int) -> None:
    processes.run(command, processes.environment("kept", threads), folder, limit_s=LIMIT_S)


command = Experiment("links.systems", SystemsConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
