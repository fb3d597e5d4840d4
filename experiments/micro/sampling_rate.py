"""Edges a second of one sampler: the same mini-batches unsplit and split, in turn.

python -m experiments.micro.sampling_rate LAYOUT
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Count, FanOut, Positive
from experiments.shared.rounds import ratios, seconds_of, spread
from gsplit import cli
from gsplit.config.fields import Range
from gsplit.config.flags import Positional
from gsplit.data import open_layout
from gsplit.sampling import EpochPlan, MiniBatchSampler


@dataclass(frozen=True, kw_only=True)
class RateConfig(Flags):
    """Edges a second, median over the mini-batches, and over the unsplit ones; the first mini-batch warms up."""

    layout: Annotated[Path, Positional]
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


def measure(config: RateConfig) -> list[dict[str, Any]]:
    """A row for each way."""
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
        seconds = {
            name: seconds_of(sampler.sample, targets, epoch=0, batch=batch) for name, sampler in samplers.items()
        }
        start_s = time.perf_counter()
        edges = sum(samplers["split"].segment(rank).num_edges for rank in range(layout.parts))
        seconds["split and written"] = seconds["split"] + time.perf_counter() - start_s
        if batch:
            for name in rates:
                rates[name].append(edges / seconds[name])
    return [
        {"way": name, **spread(values, "edges_per_second"), **spread(ratios(values, rates["unsplit"]))}
        for name, values in rates.items()
    ]


command = Experiment("micro.sampling_rate", RateConfig, measure)

if __name__ == "__main__":
    cli.main(command)
