"""One core's typed sampling and epochs of R-GCN, beside DGL's, in turn.

    taskset -c 0 python -m experiments.types.speed
    taskset -c 0 python -m experiments.types.speed --quick

Sampling is of mini-batches split over the parts of a layout, with their segments written; DGL's is of the same
targets, not split. An epoch is a run of ``gsplit train`` with one trainer that samples for itself, beside DGL's loop:
the same graph with features of all types, the same widths, fan-outs, batch size and optimizer. Each side has a
process of its own that stays for all rounds, of one thread.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive, Seed
from experiments.shared.results import printed, versions
from experiments.shared.rounds import in_turn, ratios, seconds_of, spread
from experiments.types.parts import layout_of, store_of_types
from gsplit import cli, train
from gsplit.config.partition import Training
from gsplit.config.train import TrainConfig
from gsplit.data import Layout, TypedGraph, open_layout, open_store, write_store
from gsplit.data.graph import GraphArrays
from gsplit.runs.log import METRICS
from gsplit.sampling import Neighbours


@dataclass(frozen=True, kw_only=True)
class SpeedConfig(Flags):
    """Typed sampling and epochs of R-GCN on one core, over DGL's."""

    dataset: str = "synthetic:mag?scale=0.1"
    """A graph store of several types, or synthetic:mag?scale=0.1, made for as long as it takes."""
    parts: Positive = 4
    """Parts that sampled mini-batches are split over."""
    fan_out: FanOut = (10, 10)
    """Neighbours drawn per hop of each relation."""
    batch_size: Positive = 1024
    """Targets of a mini-batch."""
    batches: Positive = 12
    """Mini-batches that are sampled in a round, and trained on in an epoch."""
    width: Positive = 128
    """Width of the features of each type."""
    hidden: Positive = 64
    """Width of the hidden layer."""
    rounds: Positive = 5
    """Rounds; in each both sides sample, and train two epochs, of which the second counts."""
    seed: Seed = 0
    """Seed of the graph, its features and the draws."""
    quick: bool = False
    """Take seconds."""
    work: Path = Path("work")
    """Folder of stores and layouts, for as long as it takes."""


QUICK = SpeedConfig(dataset="synthetic:mag?scale=0.007", batch_size=128, batches=3, rounds=2, quick=True)


def measure(config: SpeedConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    with store_of_types(config.dataset, config.seed, config.work) as source, tempfile.TemporaryDirectory() as folder:
        store = with_features(open_store(source, typed=True).graph, config, Path(folder) / "store")
        training = Training(fan_out=config.fan_out, batch_size=config.batch_size)
        layout_of(store, config.parts, "metis", training, config.seed)
        split = store.with_name("layout").rename(store.with_name("split"))
        layout_of(store, 1, "range", training, config.seed)
        whole = store.with_name("layout")
        contenders = {"gsplit": Side(_ours, config, split, whole), "dgl": Side(_dgl, config, split, whole)}
        rounds = [
            {name: contenders[name].round() for name in in_turn(contenders, number)}
            for number in range(config.rounds)
        ]
        for side in contenders.values():
            side.end()
    rows = []
    for what, better in (("edges_per_second", 1), ("epoch_s", -1)):
        ours, theirs = ([each[name][what] for each in rounds] for name in ("gsplit", "dgl"))
        over = ratios(ours, theirs) if better > 0 else ratios(theirs, ours)
        rows.append(printed({"what": what, "gsplit": median(ours), "dgl": median(theirs), **spread(over)}))
    return {
        **{name: getattr(config, name) for name in ("dataset", "parts", "fan_out", "batch_size", "batches", "width")},
        "hidden": config.hidden,
        "rounds": config.rounds,
        "versions": versions("torch", "dgl"),
        "losses": {name: [each[name]["loss"] for each in rounds] for name in contenders},
        "rows": rows,
    }


def with_features(graph: GraphArrays, config: SpeedConfig, store: Path) -> Path:
    """A store of the graph with features of all types, and as many training vertices as mini-batches take."""
    assert isinstance(graph, TypedGraph)
    random = np.random.default_rng(config.seed)
    rows = tuple(random.standard_normal((each.num_vertices, config.width), np.float32) for each in graph.schema.types)
    number = min(config.batches * config.batch_size, graph.schema.types[graph.target].num_vertices)
    train_idx = np.sort(random.permutation(graph.schema.types[graph.target].num_vertices)[:number])
    none = np.empty(0, np.int64)
    graph = replace(graph, features_by_type=rows, train_idx=train_idx, valid_idx=none, test_idx=none)
    write_store(store, graph, name="mag", source=config.dataset)
    return store


class Side:
    """A process that measures one side, round by round."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=work, args=(there, *arguments))
        self._process.start()

    def round(self) -> dict[str, float]:
        """Edges a second, seconds of an epoch and its loss."""
        self._here.send(True)
        found: dict[str, float] = self._here.recv()
        return found

    def end(self) -> None:
        """End the process."""
        self._here.send(False)
        self._process.join()


def targets_of(layout: Layout, config: SpeedConfig) -> list[np.ndarray]:
    """The targets of the mini-batches that are sampled."""
    plan = Neighbours(fan_out=config.fan_out).plan(layout, batch_size=config.batch_size, seed=config.seed)
    return [targets for _, targets in islice(plan.batches(0), config.batches)]


def _ours(pipe: Connection, config: SpeedConfig, split: Path, whole: Path) -> None:
    layout = open_layout(split, typed=True)
    rule = Neighbours(fan_out=config.fan_out)
    sampler = rule.sampler(layout, np.stack(layout.offsets_by_type), seed=config.seed)
    batches = targets_of(layout, config)

    def written(targets: np.ndarray, batch: int) -> int:
        sampler.sample(targets, epoch=0, batch=batch)
        return sum(sampler.segment(rank).num_edges for rank in range(layout.parts))

    edges = [written(targets, batch) for batch, targets in enumerate(batches)]
    while pipe.recv():
        seconds = [seconds_of(written, targets, batch) for batch, targets in enumerate(batches)]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            train(
                config=TrainConfig(
                    layout=whole,
                    out=out,
                    model="rgcn",
                    input_projection=False,
                    fan_out=config.fan_out,
                    batch_size=config.batch_size,
                    hidden=config.hidden,
                    lr=0.01,
                    epochs=2,
                    evaluate="none",
                    samplers=0,
                    prefetch=0,
                    threads=1,
                    device="cpu",
                    seed=config.seed,
                )
            )
            records = [json.loads(line) for line in (out / METRICS).read_text().splitlines()]
        epoch = [record for record in records if record["kind"] == "epoch"][-1]
        pipe.send({"edges_per_second": sum(edges) / sum(seconds), "epoch_s": epoch["seconds"], "loss": epoch["loss"]})


def _dgl(pipe: Connection, config: SpeedConfig, split: Path, whole: Path) -> None:
    from experiments.types import dgl_rgcn

    layout = open_layout(whole, typed=True)
    graph, batches = layout.graph, targets_of(layout, config)
    features = [np.array(rows) for rows in graph.features_by_type]
    while pipe.recv():
        sampled = dgl_rgcn.sampling(graph, config.fan_out, batches)
        _, (epoch_s, loss) = dgl_rgcn.epochs(graph, features, config.fan_out, config.batch_size, config.hidden, 2)
        rate = sum(edges for edges, _ in sampled) / sum(seconds for _, seconds in sampled)
        pipe.send({"edges_per_second": rate, "epoch_s": epoch_s, "loss": loss})


command = Experiment("types.speed", SpeedConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
