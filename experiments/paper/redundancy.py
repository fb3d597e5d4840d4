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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.paper.redundancy_table import PAPER, bar_of, traffic_rows, work_rows
from experiments.shared.datasets import open_or_make
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Percents, Positive, Seed
from experiments.shared.placements import Placements
from experiments.shared.results import about
from experiments.shared.systems import count, systems_of
from experiments.shared.traffic import FLOAT32_BYTES
from gsplit import cli
from gsplit.data import Layout
from gsplit.errors import InputError

FEATURE_WIDTH = 100
"""Number of features of ogbn-products."""

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
    width, row_bytes = feature_row(layout, config.feature_width)
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


def feature_row(layout: Layout, width: int | None) -> tuple[int, int]:
    """(columns, bytes as stored) of a feature row; ``width`` columns of float32 where the graph has none."""
    features = layout.graph.features
    if features is None:
        return width or FEATURE_WIDTH, (width or FEATURE_WIDTH) * FLOAT32_BYTES
    if width is not None:
        logger.warning("--feature-width %d is ignored: %s has features", width, layout.path)
    return features.shape[1], features.shape[1] * features.dtype.itemsize


def measure(config: RedundancyConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    layout, generator = open_or_make(config.dataset, seed=config.seed, work=config.work)
    return {"dataset": about(layout, generator), **counts_of(layout, config), "paper": PAPER}


command = Experiment("paper.redundancy", RedundancyConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
