"""Edges a second of one sampler: the same mini-batches unsplit and split, in turn.

python -m experiments.micro.sampling_rate LAYOUT
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Annotated

import tyro

from experiments.shared.flags import Count, FanOut, Positive
from gsplit import cli
from gsplit.config.fields import Checked, Range
from gsplit.data import open_layout
from gsplit.sampling import EpochPlan, MiniBatchSampler

PROG = "python -m experiments.micro.sampling_rate"


@dataclass(frozen=True, kw_only=True)
class RateConfig(Checked):
    """Million edges per second, median over the mini-batches; the first one warms up."""

    layout: Annotated[Path, tyro.conf.Positional]
    """The layout to sample from; its parts are the splits."""
    fan_out: FanOut = (20, 20, 20)
    """Neighbours drawn per hop."""
    batch_size: Positive = 4096
    """Targets of a mini-batch."""
    batches: Annotated[int, Range(2)] = 9
    """How many, at most one epoch."""
    threads: Positive = 1
    """Threads that work on one mini-batch."""
    memory: Count | None = None
    """Bytes that dense maps may take; beyond, hash maps are used. None: no bound."""


def command(arguments: list[str]) -> None:
    config = cli.parse(RateConfig, arguments, prog=PROG)
    layout = open_layout(config.layout)
    graph = layout.graph
    samplers = {
        name: MiniBatchSampler(
            graph.indptr,
            graph.indices,
            offsets,
            fan_outs=config.fan_out,
            seed=0,
            global_ids=layout.permutation,
            memory=config.memory,
            threads=config.threads,
        )
        for name, offsets in (("unsplit", [0, graph.num_vertices]), ("split", layout.offsets))
    }
    plan = EpochPlan(graph.train_idx, layout.permutation, config.batch_size, seed=0)
    rates: dict[str, list[float]] = {"unsplit": [], "split": [], "split and written": []}
    for batch, targets in islice(plan.batches(0), config.batches):
        seconds = {}
        for name, sampler in samplers.items():
            start_s = time.perf_counter()
            sampler.sample(targets, epoch=0, batch=batch)
            seconds[name] = time.perf_counter() - start_s
        start_s = time.perf_counter()
        edges = sum(samplers["split"].segment(rank).num_edges for rank in range(layout.parts))
        seconds["split and written"] = seconds["split"] + time.perf_counter() - start_s
        if batch:
            for name in rates:
                rates[name].append(edges / seconds[name] / 1e6)
    ratios = [split / unsplit for split, unsplit in zip(rates["split"], rates["unsplit"], strict=True)]
    print(f"split / unsplit, rate by rate: {median(ratios):.2f}")
    for name, values in rates.items():
        print(f"{name:<18} {median(values):6.1f} M edges/s  ({min(values):.1f} to {max(values):.1f})")


if __name__ == "__main__":
    cli.main(command)
