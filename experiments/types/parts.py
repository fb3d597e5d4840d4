"""How even METIS's parts are in each type, and what the pass that makes types even costs in cut edges.

    python -m experiments.types.parts
    python -m experiments.types.parts --quick
    python -m experiments.types.parts --dataset "synthetic:mag?scale=0.3"

Each number of parts is cut with pre-sampled weights, without the pass and with it; then an epoch of the training is
sampled and split, with other draws than those that were counted. Nothing is timed, so the figures are the same on any
machine with the same METIS.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from experiments.shared.datasets import PREFIX, write_store_of
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive, Seed, from_one_on
from experiments.shared.results import printed
from experiments.shared.rounds import cores
from gsplit import cli
from gsplit.config.fields import Range
from gsplit.config.partition import Method, Training
from gsplit.data import Layout, open_layout
from gsplit.data.synthetic import TYPED, choose
from gsplit.partition import PartitionConfig, partition
from gsplit.partition.even_types import LEAST
from gsplit.partition.quality import balance
from gsplit.partition.report import sample

NO_BOUND = 1e6
"""A bound of types that no cell is above."""
CELLS, EDGES, POINTS = 1.2, 1.1, 2.5
"""The most that is allowed: of a type in a part over the mean, of sampled edges, and percent of edges cut more."""


@dataclass(frozen=True, kw_only=True)
class PartsConfig(Flags):
    """Cells, sampled edges and remote edges of METIS's parts, with types made even and without."""

    dataset: str = "synthetic:mag?scale=0.1"
    """A graph store of several types, or synthetic:mag?scale=0.1, made for as long as it takes."""
    parts: Annotated[tuple[int, ...], from_one_on("--parts")] = (2, 4, 8)
    """Numbers of parts."""
    fan_out: FanOut = (10, 10)
    """Neighbours drawn per hop of each relation, the first for the targets; -1 takes all."""
    batch_size: Positive = 4096
    """Targets of a mini-batch over all trainers."""
    even_types: Annotated[float, Range(1, NO_BOUND)] = CELLS
    """Bound of the pass that makes types even."""
    seed: Seed = 0
    """Seed of the generator, the partitioner and the draws."""
    quick: bool = False
    """Take seconds: 13,000 vertices, in 2 parts."""
    work: Path = Path("work")
    """Folder of stores and layouts, for as long as it takes."""


QUICK = PartsConfig(dataset="synthetic:mag?scale=0.007", parts=(2,), batch_size=256, quick=True)


def measure(config: PartsConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    training = Training(fan_out=config.fan_out, batch_size=config.batch_size)
    rows: list[dict[str, Any]] = []
    with store_of_types(config.dataset, config.seed, config.work) as store:
        for parts in config.parts:
            alone = None
            for name, bound in (("METIS", NO_BOUND), ("METIS, even types", config.even_types)):
                layout = layout_of(store, parts, "metis", training, config.seed, even_types=bound)
                found = row_of(layout, training, config.seed)
                alone = found["remote_percent"] if alone is None else alone
                points = round(found["remote_percent"] - alone, 2)
                about = {"dataset": config.dataset, "parts": parts, "partition": name}
                rows.append(printed({**about, **found, "more_remote_points": points}))
    return {"fan_out": config.fan_out, "batch_size": config.batch_size, "parts": rows}


def row_of(layout: Layout, training: Training, seed: int) -> dict[str, Any]:
    """How even a layout is by type, and what an epoch of a training has of it."""
    types = layout.graph.schema.types
    cells = [balance(np.diff(offsets)) for offsets in layout.offsets_by_type]
    held = [cell for cell, each in zip(cells, types, strict=True) if each.num_vertices >= LEAST * layout.parts]
    sampled = sample(layout, training, epochs=1, seed=seed, threads=cores())
    return {
        "types": [each.name for each in types],
        "cells": [round(cell, 2) for cell in cells],
        "worst_cell": round(max(held, default=1.0), 3),
        "sampled_edges": round(balance(sampled.edges_IP.sum(axis=0)), 3),
        "remote_percent": round(100 * (1 - int(sampled.local_edges_R.sum()) / int(sampled.edges_R.sum())), 2),
    }


def missed(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows with even types that are above what is allowed."""
    return [
        row
        for row in found["parts"]
        if row["partition"] != "METIS"
        and (row["worst_cell"] > CELLS or row["sampled_edges"] > EDGES or row["more_remote_points"] > POINTS)
    ]


@contextmanager
def store_of_types(dataset: str, seed: int, work: Path) -> Iterator[Path]:
    """The folder of a graph store of several types; of a preset it is there for as long as the context lasts."""
    if not dataset.startswith(PREFIX):
        yield Path(dataset)
        return
    choice = choose(dataset.removeprefix(PREFIX), TYPED)
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        store = Path(folder) / "store"
        write_store_of(choice, seed, store, dataset)
        yield store


def layout_of(
    store: Path, parts: int, method: Method, training: Training, seed: int, *, even_types: float = CELLS
) -> Layout:
    """A layout beside a store, in the place of the one before; METIS has pre-sampled weights."""
    out = store.with_name("layout")
    weights: dict[str, Any] = {}
    if method == "metis":
        weights = {"weights": "presample", "fan_out": training.fan_out, "batch_size": training.batch_size}
    partition(
        PartitionConfig(
            store=store,
            out=out,
            parts=parts,
            method=method,
            even_types=even_types,
            seed=seed,
            overwrite=True,
            **weights,
        )
    )
    return open_layout(out, typed=True)


command = Experiment("types.parts", PartsConfig, measure, quick=QUICK, wrong=lambda found: bool(missed(found)))

if __name__ == "__main__":
    cli.main(command)
