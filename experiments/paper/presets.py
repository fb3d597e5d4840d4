"""What the calibrated synthetic presets come to, beside the paper's tables 2 and 5.

    python -m experiments.paper.presets
    python -m experiments.paper.presets --presets products --partitioner metis
    python -m experiments.paper.presets --presets "papers?scale=0.1" "amazon" --json presets.json

Each is generated without features, partitioned in 4 with uniform weights and sampled at its own fan-out and batch
size, all in memory. Counts, so the same on any machine, but for the peak memory.

``--json`` writes ``presets``, a list: ``preset``, ``scale``, ``version``, ``seed``, ``vertices``, directed ``edges``,
``training_targets``, ``partitioner``, ``fan_out``, ``batch_size``, ``iterations``; ``edges_per_target``;
``reached_share``, inputs of a mini-batch over all vertices; ``redundancy_percent``, by how much the edges of 4
micro-batches exceed those of a mini-batch; ``local_share`` and ``edge_skew`` as in experiments.paper.split_quality;
``hit_rates``, the share of inputs in the hottest tenth of the vertices, by ``degree``, by ``presampled`` counts of
another epoch (as many iterations) and by their own, ``optimal`` ones; ``peak_memory_bytes`` of the process so far;
``paper``: its ``redundancy_percent``, ``local_share`` and ``edge_skew``.
"""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import mean
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments.paper.redundancy import TABLE_2
from experiments.paper.split_quality import TABLE_5
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive, Seed
from experiments.shared.ownership import Ownership, relabelled
from experiments.shared.results import paper_graph, printed
from gsplit import cli
from gsplit.data.synthetic import Calibrated, Choice, choose
from gsplit.errors import InputError
from gsplit.partition.methods import assign
from gsplit.partition.problem import Problem
from gsplit.partition.report import edge_skew, edges_of, local_edges_of
from gsplit.sampling import EpochPlan, MiniBatchSampler

PARTS = 4
PAPER_BATCH = 4096
HOTTEST = 0.1


@dataclass(frozen=True, kw_only=True)
class PresetsConfig(Flags):
    """What the calibrated synthetic presets come to, beside the paper's tables 2 and 5."""

    presets: tuple[str, ...] = ("products?scale=0.05", "papers?scale=0.03", "amazon?scale=0.2")
    """Calibrated presets, without synthetic: before them."""
    partitioner: Literal["metis", "kaminpar"] = "kaminpar"
    """metis takes five times the memory."""
    fan_out: FanOut | None = None
    """Neighbours drawn per hop, the first for the targets; by default the preset's."""
    iterations: Positive = 12
    """Mini-batches to count, at most an epoch."""
    seed: Seed = 0
    """Seed of the generator, the partitioner and the draws."""


@dataclass(kw_only=True)
class Counts:
    """What was counted of some mini-batches."""

    targets: int = 0
    edges: int = 0
    micro_edges: int = 0
    local_edges: int = 0
    inputs: list[int] = field(default_factory=list)
    skews: list[float] = field(default_factory=list)


def measure(config: PresetsConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    choices = {text: choose(text) for text in config.presets}
    for text, choice in choices.items():
        if not isinstance(choice.preset, Calibrated):
            raise InputError(f"{text} is not calibrated; choose products, papers or amazon")
    return {"presets": [printed(row_of(choice, config)) for choice in choices.values()]}


def row_of(choice: Choice, config: PresetsConfig) -> dict[str, Any]:
    preset = choice.preset
    assert isinstance(preset, Calibrated)
    graph = choice.generate(seed=config.seed, features=False)
    about = {
        "preset": choice.name,
        "scale": choice.scale,
        "version": preset.version,
        "seed": config.seed,
        "vertices": graph.num_vertices,
        "edges": graph.num_edges,
        "training_targets": len(graph.train_idx),
    }
    assignment = assign(config.partitioner, Problem(graph=graph, parts=PARTS, seed=config.seed))
    owners = relabelled(graph, assignment, PARTS)
    del graph
    fan_out = config.fan_out or preset.fan_out
    graph_name = paper_graph(choice.name)
    paper_skew, paper_local = TABLE_5[graph_name][PAPER_BATCH]
    return {
        **about,
        "partitioner": config.partitioner,
        "fan_out": fan_out,
        "batch_size": preset.batch_size,
        **counts_of(owners, fan_out, preset.batch_size, config.iterations, config.seed),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "paper": {"redundancy_percent": TABLE_2[graph_name][2], "local_share": paper_local, "edge_skew": paper_skew},
    }


def counts_of(
    owners: Ownership, fan_out: Sequence[int], batch_size: int, iterations: int, seed: int
) -> dict[str, Any]:
    """What ``--json`` has of the mini-batches."""
    n = len(owners.indptr) - 1

    def sampler(offsets: NDArray[np.int64]) -> MiniBatchSampler:
        return MiniBatchSampler(
            owners.indptr, owners.indices, offsets, fan_outs=tuple(fan_out), seed=seed, global_ids=owners.permutation
        )

    splits, whole = sampler(owners.offsets), sampler(np.array([0, n]))
    plan = EpochPlan(owners.train_idx, owners.permutation, batch_size, seed)
    counts, times_N = Counts(), np.zeros(n, np.int32)
    for batch, targets in islice(plan.batches(0), min(iterations, len(owners.train_idx) // batch_size)):
        splits.sample(targets, epoch=0, batch=batch)
        segments = [splits.segment(rank) for rank in range(splits.parts)]
        edges = edges_of(segments)
        counts.targets += len(targets)
        counts.edges += sum(edges)
        counts.skews.append(edge_skew(edges))
        counts.local_edges += local_edges_of(segments)
        counts.inputs.append(sum(len(segment.vertices) for segment in segments))
        for segment in segments:
            times_N[segment.vertices] += 1
        # Samples of their own: another seed for each, as micro-batches have (law 1).
        for part, micro in enumerate(np.array_split(targets, PARTS)):
            whole.sample(micro, epoch=part + 1, batch=batch)
            counts.micro_edges += whole.segment(0).num_edges
    before_N = np.zeros(n, np.int32)
    for batch, targets in islice(plan.batches(1), len(counts.inputs)):
        whole.sample(targets, epoch=PARTS + 1, batch=batch)
        before_N[whole.segment(0).vertices] += 1
    degrees_N = np.diff(owners.indptr)
    orders = {"degree": degrees_N, "presampled": before_N + degrees_N / (degrees_N.max() + 1), "optimal": times_N}
    return {
        "iterations": len(counts.inputs),
        "edges_per_target": counts.edges / counts.targets,
        "reached_share": mean(counts.inputs) / n,
        "redundancy_percent": 100 * (counts.micro_edges / counts.edges - 1),
        "local_share": counts.local_edges / counts.edges,
        "edge_skew": mean(counts.skews),
        "hit_rates": {name: hit_rate(heat_N, times_N) for name, heat_N in orders.items()},
    }


def hit_rate(heat_N: NDArray[Any], times_N: NDArray[np.int32]) -> float:
    """Share of the inputs, counted in ``times_N``, that are among the hottest."""
    rows = int(len(heat_N) * HOTTEST)
    return float(times_N[np.argpartition(-heat_N, rows)[:rows]].sum() / times_N.sum())


command = Experiment("paper.presets", PresetsConfig, measure)

if __name__ == "__main__":
    cli.main(command)
