"""How even splits are and how much they need of each other: the paper's table 5, beside a random partition.

    python -m experiments.paper.split_quality
    python -m experiments.paper.split_quality --quick
    python -m experiments.paper.split_quality --dataset LAYOUT --json split_quality.json

Each mini-batch is sampled twice, split by the layout's own parts and by parts drawn at random; the samples are the
same, only the owners differ. *Edge skew* is (most - least) / mean of the edges of the splits, the mean of all
iterations. *Local edges* are those whose source is owned by the split of their destination, as a share of all.
Nothing is timed, so the figures are the same on any machine.

docs/formats.md has the keys of ``--json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import numpy as np

from experiments.shared.datasets import open_or_make
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive, Seed, from_one_on
from experiments.shared.ownership import Ownership, at_random, of_layout
from experiments.shared.results import about, paper_graph
from gsplit import cli
from gsplit.errors import InputError
from gsplit.partition.report import edge_skew, edges_of, local_edges_of
from gsplit.sampling import EpochPlan, MiniBatchSampler

EPOCH = 0

TABLE_5 = {
    "products": {1024: (0.997, 0.93), 4096: (0.999, 0.93), 16384: (1.012, 0.94)},
    "papers100M": {1024: (1.326, 0.96), 4096: (1.323, 0.96), 16384: (1.315, 0.95)},
    "amazon": {1024: (0.514, 0.83), 4096: (0.517, 0.84), 16384: (0.541, 0.83)},
}
"""The paper, table 5: graph -> batch size -> (edge skew, local edges)."""
PAPER = [
    {"graph": graph, "batch_size": batch_size, "edge_skew": skew, "local_share": local}
    for graph, cells in TABLE_5.items()
    for batch_size, (skew, local) in cells.items()
]

RANDOM = {"method": "random", "weights": "uniform"}
PAPER_RANDOM = (None, 0.25)
"""Section 5.3, of a random partition."""


@dataclass(frozen=True, kw_only=True)
class QualityConfig(Flags):
    """How even splits are and how much they need of each other: the paper's table 5."""

    dataset: str = "synthetic:products"
    """A layout folder, or synthetic:PRESET or synthetic:PRESET?scale=0.05, generated and partitioned in 4 once; quick
    is one more preset."""
    quick: bool = False
    """Take a minute: a graph of 300k vertices."""
    batch_sizes: Annotated[tuple[int, ...], from_one_on("--batch-sizes")] = (1024, 4096, 16384)
    """Targets of a mini-batch."""
    fan_out: FanOut = (20, 20, 20)
    """Neighbours drawn per hop, the first for the targets; -1 takes all."""
    iterations: Positive = 12
    """Mini-batches of each size to count, at most an epoch."""
    seed: Seed = 0
    """Seed of the generator, of the random partition and of the draws."""
    work: Path = Path("work/sampling")
    """Keeps the layouts of synthetic graphs."""


QUICK = QualityConfig(dataset="synthetic:quick", quick=True, iterations=4)


def measure(config: QualityConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    layout, generator = open_or_make(config.dataset, seed=config.seed, work=config.work)
    if not len(layout.graph.train_idx):
        raise InputError(f"{layout.path} has no training vertices")
    cells = TABLE_5[paper_graph(layout.name)]
    settings = ("fan_out", "batch_sizes", "iterations", "seed", "quick")
    return {
        "dataset": about(layout, generator),
        "settings": {key: getattr(config, key) for key in settings},
        "partitions": [
            {**{key: layout.description[key] for key in RANDOM}, "rows": rows_of(of_layout(layout), config, cells)},
            {**RANDOM, "rows": rows_of(at_random(layout, config.seed), config, dict.fromkeys(cells, PAPER_RANDOM))},
        ],
        "paper": PAPER,
    }


def rows_of(
    owners: Ownership, config: QualityConfig, paper: Mapping[int, tuple[float | None, float]]
) -> list[dict[str, Any]]:
    """A row for each batch size; ``paper`` maps batch sizes to its edge skew and local edges."""
    sampler = MiniBatchSampler(
        owners.indptr,
        owners.indices,
        owners.offsets,
        fan_outs=config.fan_out,
        seed=config.seed,
        global_ids=owners.permutation,
    )
    rows = []
    for batch_size in config.batch_sizes:
        plan = EpochPlan(owners.train_idx, owners.permutation, batch_size, config.seed)
        edges_IP, local = [], 0
        for batch, targets in islice(plan.batches(EPOCH), config.iterations):
            sampler.sample(targets, epoch=EPOCH, batch=batch)
            segments = [sampler.segment(rank) for rank in range(sampler.parts)]
            edges_IP.append(edges_of(segments))
            local += local_edges_of(segments)
        edges_P = np.sum(edges_IP, axis=0).tolist()
        paper_skew, paper_local = paper.get(batch_size, (None, None))
        rows.append(
            {
                "batch_size": batch_size,
                "iterations": len(edges_IP),
                "edges": sum(edges_P),
                "local_edges": local,
                "edges_per_split": edges_P,
                "local_share": local / max(1, sum(edges_P)),
                "edge_skew": mean(map(edge_skew, edges_IP)),
                "paper_edge_skew": paper_skew,
                "paper_local_share": paper_local,
            }
        )
    return rows


command = Experiment("paper.split_quality", QualityConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
