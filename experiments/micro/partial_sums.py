"""Rows that trainers send before each layer by ``--exchange auto`` over those by ``rows``, and what choosing takes.

python -m experiments.micro.partial_sums LAYOUT ... [--json FILE]

Counts are exact. Beside them stands the least that any choice between rows and sums could send: the edges of a
maximum matching of each pair's cut edges.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive
from experiments.shared.results import about, printed
from experiments.shared.rounds import spread
from gsplit import cli
from gsplit.config.fields import Range
from gsplit.config.flags import Positional
from gsplit.data import Layout, open_layout
from gsplit.errors import InputError
from gsplit.sampling import EpochPlan, MiniBatchSampler, Segment
from gsplit.sampling.sampler import sampler_of

SAMPLER_RATIOS = ("sampler_ratio", "sampler_ratio_min", "sampler_ratio_max")


@dataclass(frozen=True, kw_only=True)
class SumsConfig(Flags):
    """Rows sent with and without partial sums, over some mini-batches; times are medians of pairs."""

    layouts: Annotated[tuple[Path, ...], Positional]
    """The layouts to sample from; the parts of each are the trainers."""
    fan_out: FanOut = (15, 10, 5)
    """Neighbours drawn per hop."""
    batch_size: Positive = 4096
    """Targets of a mini-batch."""
    batches: Annotated[int, Range(2)] = 9
    """How many, at most one epoch; the first one is counted, but not timed."""


def measure(config: SumsConfig) -> list[dict[str, Any]]:
    """A record for each layout."""
    found = []
    for path in config.layouts:
        layout = open_layout(path)
        if layout.parts < 2:
            raise InputError(f"{path} has one part, so no trainer sends anything")
        found.append(printed(measured(layout, config)))
    return found


def measured(layout: Layout, config: SumsConfig) -> dict[str, Any]:
    """Counts of both samplers over the same mini-batches, by layer, and their times one over the other."""
    samplers = {
        name: sampler_of(layout, layout.offsets, fan_outs=list(config.fan_out), seed=0, partial_sums=name == "auto")
        for name in ("rows", "auto")
    }
    sent: Counter[tuple[str, int]] = Counter()
    computed: Counter[str] = Counter()
    ratios = []
    plan = EpochPlan(layout.graph.train_idx, layout.permutation, config.batch_size, seed=0)
    for batch, targets in itertools.islice(plan.batches(0), config.batches):
        seconds = {}
        for name, sampler in samplers.items():
            segments, seconds[name] = _timed(sampler, targets, batch)
            computed[name] += sum(segment.num_computed_edges for segment in segments)
            for layer in segments[0].layers:
                sent[name, layer] += sum(sum(segment.layers[layer].send_counts) for segment in segments)
                if name == "rows":
                    sent["least", layer] += _least(segments, layer)
        if batch:
            ratios.append(seconds["auto"] / seconds["rows"])
    layers = range(1, len(config.fan_out) + 1)
    rows, auto = (sum(sent[name, layer] for layer in layers) for name in ("rows", "auto"))
    return {
        "dataset": about(layout, None),
        "method": layout.description["method"],
        "settings": {"fan_out": list(config.fan_out), "batch_size": config.batch_size, "batches": len(ratios) + 1},
        "layers": [
            {
                "layer": layer,
                **{name: sent[name, layer] for name in ("rows", "auto", "least")},
                "ratio": sent["auto", layer] / max(1, sent["rows", layer]),
            }
            for layer in layers
        ],
        "rows_ratio": auto / max(1, rows),
        "edges_ratio": computed["auto"] / max(1, computed["rows"]),
        **(spread(ratios, "sampler_ratio") if ratios else dict.fromkeys(SAMPLER_RATIOS)),
    }


def _timed(sampler: MiniBatchSampler, targets: np.ndarray, batch: int) -> tuple[list[Segment], float]:
    """The segments of a mini-batch, and the seconds of sampling and writing them."""
    start_s = time.perf_counter()
    sampler.sample(targets, epoch=0, batch=batch)
    segments = [sampler.segment(rank) for rank in range(sampler.parts)]
    return segments, time.perf_counter() - start_s


def _least(segments: list[Segment], layer: int) -> int:
    """Fewest rows and sums that could be sent before a layer, by segments of rows: Koenig's theorem, pair by pair."""
    least = 0
    for segment in segments:
        header, first = segment.layers[layer], segment.layers[layer].num_own_sources
        sources = segment.indices(layer).astype(np.int64)
        destinations = np.repeat(np.arange(header.num_destinations), np.diff(segment.indptr(layer)))
        for count in header.receive_counts:
            here = (sources >= first) & (sources < first + count)
            if count:
                ends = (destinations[here], sources[here] - first)
                cut = csr_matrix((np.ones(len(ends[0]), np.int8), ends), shape=(header.num_destinations, count))
                least += int((maximum_bipartite_matching(cut) >= 0).sum())
            first += count
    return least


command = Experiment("micro.partial_sums", SumsConfig, measure)

if __name__ == "__main__":
    cli.main(command)
