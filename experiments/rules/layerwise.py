"""LADIES and FastGCN beside DGL's primitives, SciPy's products and neighbour sampling, one thread, in turn.

OMP_NUM_THREADS=1 python -m experiments.rules.layerwise LAYOUT [--error] [--papers N] [--quick] [--json FILE]

Times are of sampling alone, of ours with the segments written; ratios are of one round each, then their median.
``--error`` measures the squared error of one layer's estimates instead, over many draws. ``--papers N`` samples so
many mini-batches of the bulk paper's setting instead, beside the time that it gives for the reference implementation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.rules.errors import squared_errors
from experiments.rules.other_ladies import DGLLadies, SciPyLadies
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive
from experiments.shared.results import about
from experiments.shared.rounds import in_turn, ratios, seconds_of, spread
from gsplit import cli
from gsplit.config.fields import Range
from gsplit.config.flags import Positional
from gsplit.data import Layout, open_layout
from gsplit.errors import InputError
from gsplit.sampling import EpochPlan, FastGCN, Ladies, Neighbours, Rule
from gsplit.sampling.micro_batches import split_offsets

SETTINGS = ((512, (512,)), (512, (512, 512, 512)), (1024, (4096, 4096, 4096)))
"""Targets and sources per hop: the bulk paper's table 4, the same with three layers, and a large one."""
BULKS = (1, 4, 8, 16)
"""Mini-batches that SciPy's products sample at once."""


@dataclass(frozen=True, kw_only=True)
class LayerwiseConfig(Flags):
    """Mini-batches a second of layer-wise rules, and the error of what they estimate."""

    layouts: Annotated[tuple[Path, ...], Positional]
    """The layouts to sample from; splitting is over the parts of each."""
    error: bool = False
    """Measure errors, not times."""
    papers: Annotated[int | None, Range(1)] = None
    """Sample so many mini-batches, beside the 43.9 s that the paper gives for all of papers: 2,344 of 512 targets."""
    rounds: Positive = 9
    """Times: rounds, of which the first is not counted."""
    draws: Positive = 200
    """Errors: mini-batches that are drawn."""
    quick: bool = False
    """Take seconds: two rounds, few draws; figures say nothing."""


def measure(config: LayerwiseConfig) -> list[dict[str, Any]]:
    """The rows of each layout."""
    if not config.error and torch.get_num_threads() != 1:
        raise InputError("times are of one thread: set OMP_NUM_THREADS=1 in the environment")
    found = []
    for path in config.layouts:
        layout = open_layout(path)
        if config.error:
            rows = squared_errors(layout, 5 if config.quick else config.draws)
        elif config.papers is not None:
            rows = [beside_paper(layout, 2 if config.quick else config.papers, 1 if config.quick else 3)]
        else:
            rows = times(layout, 2 if config.quick else config.rounds)
        found.append({"dataset": about(layout, None), "rows": rows})
    return found


def times(layout: Layout, rounds: int) -> list[dict[str, Any]]:
    """Times of each way over those of ours, by setting: median, least and most over the rounds."""
    graph, rows = layout.graph, []
    scipy = SciPyLadies(graph.indptr, graph.indices)
    dgl = {
        name: DGLLadies(graph.indptr, graph.indices, poisson=name == "dgl poisson") for name in ("dgl", "dgl poisson")
    }
    for targets, sizes in SETTINGS:
        plan = EpochPlan(graph.train_idx, layout.permutation, targets, seed=0)
        batches = [plan.batch(0, batch % plan.num_batches) for batch in range(max(BULKS) * rounds)]
        of_ours: dict[str, Rule] = {
            "ladies": Ladies(sizes=sizes),
            "race": Ladies(sizes=sizes, draw="race"),
            "fastgcn": FastGCN(sizes=sizes),
            "neighbours 15,10,5": Neighbours(fan_out=(15, 10, 5)[: len(sizes)]),
        }
        ways: dict[str, Way] = {
            **{name: _ours(layout, rule, batches, splits=1) for name, rule in of_ours.items()},
            "ladies, split": _ours(layout, of_ours["ladies"], batches, splits=layout.parts),
            **{name: _dgl(way, sizes) for name, way in dgl.items()},
            **{f"scipy, {k} at once": _scipy(scipy, sizes, k) for k in BULKS},
        }
        seconds = seconds_by_way(ways, batches, rounds)
        for name in ways:
            row = {"targets": targets, "sources": ",".join(map(str, sizes)), "way": name}
            rows.append({**row, **spread(ratios(seconds[name][1:], seconds["ladies"][1:]))})
    return rows


REFERENCE_S = 43.9
"""Seconds of the reference LADIES on a CPU for all mini-batches of papers (Tripathy, Yelick, Buluc, 8.2.2)."""


def beside_paper(layout: Layout, number: int, rounds: int) -> dict[str, Any]:
    """Time of so many mini-batches by one thread over the paper's for as many, on another graph and machine."""
    targets, sizes = SETTINGS[0]
    plan = EpochPlan(layout.graph.train_idx, layout.permutation, targets, seed=0)
    batches = [
        plan.batch(epoch, batch)
        for epoch in range(-(-number // plan.num_batches))
        for batch in range(plan.num_batches)
    ]
    way = _ours(layout, Ladies(sizes=sizes), batches, splits=1)
    shares = []
    for _ in range(rounds):
        shares.append(seconds_of(way.sample, batches[:number]) / (REFERENCE_S * number / 2344))
    return {
        "mini_batches": number,
        "mean_degree": layout.graph.num_edges / layout.graph.num_vertices,
        "over_reference": median(shares),
        "least": min(shares),
        "most": max(shares),
    }


@dataclass(frozen=True)
class Way:
    """A way to sample, and how many mini-batches are timed together."""

    sample: Callable[[list[NDArray[np.int64]]], Any]
    number: int = 1


def seconds_by_way(ways: dict[str, Way], batches: list[NDArray[np.int64]], rounds: int) -> dict[str, list[float]]:
    """Seconds of a mini-batch by each way in each round; every round begins with another way."""
    seconds: dict[str, list[float]] = {name: [0.0] * rounds for name in ways}
    for i in range(rounds):
        for name in in_turn(ways, i):
            way = ways[name]
            some = batches[i * max(BULKS) : i * max(BULKS) + way.number]
            seconds[name][i] = seconds_of(way.sample, some) / way.number
    return seconds


REPEATS = 8
"""Mini-batches of ours that are timed together: one may take less than a clock is good for."""


def _ours(layout: Layout, rule: Rule, batches: list[NDArray[np.int64]], *, splits: int) -> Way:
    """Samples as a sampler process does: segments are written to memory that is there."""
    sampler = rule.sampler(layout, split_offsets(layout, splits), seed=0)
    room = np.empty(1 << 26, np.uint8)
    drawn = itertools.count()

    def sample(some: list[NDArray[np.int64]]) -> None:
        for targets in some:
            sampler.sample(targets, epoch=0, batch=next(drawn))
            for rank in range(splits):
                sampler.write_segment(rank, room)

    return Way(sample, number=REPEATS)


def _dgl(way: DGLLadies, sizes: tuple[int, ...]) -> Way:
    return Way(lambda some: [way.sample(targets, sizes) for targets in some])


def _scipy(way: SciPyLadies, sizes: tuple[int, ...], k: int) -> Way:
    return Way(lambda some: way.sample(some, sizes), number=k)


command = Experiment("rules.layerwise", LayerwiseConfig, measure)

if __name__ == "__main__":
    cli.main(command)
