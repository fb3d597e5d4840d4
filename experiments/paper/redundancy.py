"""Redundant loading and computing under data parallelism, beside split parallelism: the paper's tables 1 and 2.

    python -m experiments.paper.redundancy
    python -m experiments.paper.redundancy --quick
    python -m experiments.paper.redundancy --dataset LAYOUT --json redundancy.json

Everything is counted from the samples of one epoch; nothing is moved and nothing timed, so the figures are the same
on any machine. The systems are strategies of one engine (shared/systems.py): DGL loads every row from the host,
PaGraph gives each trainer its own share of the training vertices and a cache of what its neighbourhood needs most,
Quiver spreads one cache over all trainers, which read each other's. GSplit splits one mini-batch, so it loads a row
on its owner alone; what trainers need of each other's rows they exchange, features before the first layer and hidden
vectors, with their gradients on the way back, before the others. Exchange is traffic too: it is in the total.

The presets products, papers and amazon are calibrated to the paper's at a fan-out of their own, which is printed; at
a larger one, or on plain presets, a mini-batch reaches nearly all vertices and data parallelism repeats more.

The paper calls the figures of its table 1 those of an iteration, but all features of its graph, ogbn-products, are
980 MB: they are likely an epoch's. docs/formats.md has the keys of ``--json``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.shared.datasets import FEATURE_WIDTH, feature_row, open_or_make
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Percents, Positive, Seed
from experiments.shared.placements import Placements
from experiments.shared.results import about
from experiments.shared.systems import OURS, System, Work, count, systems_of
from experiments.shared.traffic import exchange_bytes
from gsplit import cli
from gsplit.data import Layout
from gsplit.errors import InputError

TABLE_1 = {
    "PaGraph": {0: (13682, 0), 10: (10829, 0), 25: (7404, 0)},
    "Quiver": {0: (19267, 0), 10: (6334, 9698), 25: (0, 14448)},
}
"""The paper, table 1, ogbn-products: system -> cache % -> (CPU-GPU, GPU-GPU) in MB."""
TABLE_2 = {
    "products": (195_000_000, 155_000_000, 25.5),
    "papers100M": (327_000_000, 131_000_000, 148.9),
    "amazon": (473_000_000, 263_000_000, 79.2),
}
"""The paper, table 2: edges of an epoch as 4 micro-batches of 1024 and as a mini-batch of 4096, redundancy in %."""

PAPER = {
    "traffic": [
        {"system": system, "cache_percent": percent, "paper_host_mb": host_mb, "paper_peer_mb": peer_mb}
        for system, cells in TABLE_1.items()
        for percent, (host_mb, peer_mb) in cells.items()
    ],
    "work": [
        {"graph": graph, "micro_edges": micro, "mini_edges": mini, "edge_redundancy_percent": percent}
        for graph, (micro, mini, percent) in TABLE_2.items()
    ],
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RedundancyConfig(Flags):
    """Redundant loading and computing under data parallelism: the paper's tables 1 and 2."""

    dataset: str = "synthetic:products"
    """A layout folder, or synthetic:PRESET or synthetic:PRESET?scale=0.05, generated and partitioned in 4 once; quick
    is one more preset."""
    quick: bool = False
    """Take a minute: a graph of 300k vertices."""
    batch_size: Positive = 4096
    """Targets of a mini-batch over all trainers."""
    fan_out: FanOut = (20, 20, 20)
    """Neighbours drawn per hop, the first for the targets; -1 takes all."""
    hidden: Positive = 16
    """Width of the hidden vectors that are exchanged."""
    caches: Percents = (0, 10, 25)
    """Sizes to compare: what each trainer holds, in percent of all feature rows."""
    feature_width: Positive | None = None
    """Columns (float32) of a graph without features, as those made here are; 100 by default."""
    iterations: Positive | None = None
    """Mini-batches to count, at most an epoch, whose figures are then scaled. None: an epoch."""
    seed: Seed = 0
    """Seed of the generator and of the draws."""
    work: Path = Path("work/sampling")
    """Keeps the layouts of synthetic graphs."""


QUICK = RedundancyConfig(dataset="synthetic:quick", quick=True)


def counts_of(layout: Layout, config: RedundancyConfig) -> dict[str, Any]:
    """All of ``--json`` but the dataset and the paper."""
    width, row_bytes = feature_row(layout, config.feature_width or FEATURE_WIDTH)
    if config.feature_width not in (None, width):
        logger.warning("--feature-width %d is ignored: %s has features", config.feature_width, layout.path)
    placements = Placements(layout, config.batch_size, config.fan_out, config.seed)
    if not placements.plan.num_batches:
        raise InputError(f"{layout.path} has no training vertices")
    batches = range(placements.plan.num_batches)[: config.iterations]
    systems = systems_of(layout, placements, config.caches, len(config.fan_out))
    work = count(placements, systems, batches)
    level_widths = [width, *[config.hidden] * (len(config.fan_out) - 1), layout.graph.num_classes]
    traffic, exchanges = traffic_rows(systems, work, level_widths=level_widths, row_bytes=row_bytes)
    settings = ("fan_out", "batch_size", "hidden", "caches")
    return {
        "settings": {
            **{key: getattr(config, key) for key in settings},
            "feature_width": width,
            "row_bytes": row_bytes,
            "seed": config.seed,
            "quick": config.quick,
        },
        "counted": counted(layout, config.batch_size, batches),
        "traffic": traffic,
        "exchanges": exchanges,
        "bar": bar_of(traffic),
        "work": work_rows(work),
    }


def counted(layout: Layout, batch_size: int, batches: Sequence[int]) -> dict[str, Any]:
    """How much of an epoch was counted: the first mini-batches, of which an epoch's last may be smaller."""
    all_targets = len(layout.graph.train_idx)
    targets = min(len(batches) * batch_size, all_targets)
    return {
        "iterations": len(batches),
        "targets": targets,
        "iterations_per_epoch": -(-all_targets // batch_size),
        "epochs": targets / all_targets,
    }


def measure(config: RedundancyConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    layout, generator = open_or_make(config.dataset, seed=config.seed, work=config.work)
    return {"dataset": about(layout, generator), **counts_of(layout, config), "paper": PAPER}


def traffic_rows(
    systems: Sequence[System], work: Mapping[str, Work], *, level_widths: Sequence[int], row_bytes: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """``traffic`` and ``exchanges`` of ``--json``.

    Args:
        systems: with all their rows counted.
        work: by placement.
        level_widths: [L + 1] columns of the vectors of each level, which are exchanged as float32.
        row_bytes: of a feature row as stored, in which it is loaded and cached.
    """
    exchanged = {name: _exchanges(done, level_widths) for name, done in work.items()}
    rows = []
    for system in systems:
        loads = system.loads
        forward_bytes, backward_bytes = (
            sum(layer[way] for layer in exchanged[system.placement]) for way in ("forward_bytes", "backward_bytes")
        )
        host_bytes, peer_bytes = loads.host_rows * row_bytes, loads.peer_rows * row_bytes
        paper_host_mb, paper_peer_mb = TABLE_1.get(system.name, {}).get(system.cache_percent, (None, None))
        rows.append(
            {
                "system": system.name,
                "cache_percent": system.cache_percent,
                "needed_rows": loads.needed_rows,
                "hit_rows": loads.hit_rows,
                "peer_rows": loads.peer_rows,
                "host_rows": loads.host_rows,
                "hit_rate": loads.hit_rows / max(1, loads.needed_rows),
                "host_bytes": host_bytes,
                "peer_bytes": peer_bytes,
                "exchange_forward_bytes": forward_bytes,
                "exchange_backward_bytes": backward_bytes,
                "total_bytes": host_bytes + peer_bytes + forward_bytes + backward_bytes,
                "paper_host_mb": paper_host_mb,
                "paper_peer_mb": paper_peer_mb,
            }
        )
    return rows, exchanged["splits"]


def _exchanges(work: Work, level_widths: Sequence[int]) -> list[dict[str, int]]:
    made = []
    for layer, sent in sorted(work.exchanges.items()):
        forward_bytes, backward_bytes = exchange_bytes(layer, sent.rows, level_widths)
        projected = exchange_bytes(layer, sent.rows, level_widths, project_first=True)
        made.append(
            {
                "layer": layer,
                "rows": sent.rows,
                "messages": sent.messages,
                "forward_bytes": forward_bytes,
                "backward_bytes": backward_bytes,
                "projected_forward_bytes": projected[0],
                "projected_backward_bytes": projected[1],
            }
        )
    return made


def bar_of(traffic: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Whether GSplit reads no more from the host than any other, and less than those that read at all."""
    missed = []
    for ours in (row for row in traffic if row["system"] == OURS):
        for row in traffic:
            # DGL has no cache: its one row stands beside all sizes.
            beside = row["system"] == "DGL" or row["cache_percent"] == ours["cache_percent"]
            at_most = max(0, row["host_bytes"] - 1)
            if row["system"] != OURS and beside and ours["host_bytes"] > at_most:
                missed.append({"system": row["system"], "cache_percent": ours["cache_percent"]})
    return {"met": not missed, "missed": missed}


def work_rows(work: Mapping[str, Work]) -> list[dict[str, Any]]:
    """``work`` of ``--json``."""
    once = work["splits"]
    return [
        {
            "laying": name,
            "edges": done.edges,
            "inputs": done.inputs,
            "edge_redundancy_percent": 100 * (done.edges - once.edges) / max(1, once.edges),
            "input_redundancy_percent": 100 * (done.inputs - once.inputs) / max(1, once.inputs),
        }
        for name, done in work.items()
    ]


command = Experiment("paper.redundancy", RedundancyConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
