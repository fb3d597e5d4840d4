"""Mini-batches a second through the slots, by how many are sampled and sent at a time (``--bulk``).

python -m experiments.rules.bulks LAYOUT [--quick] [--json FILE]

One sampler process; what stands for the trainers reads the headers of all splits and lets go of the slots. Sizes of
bulks take turns; a ratio is of one round, then the median.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive
from experiments.shared.results import about
from experiments.shared.rounds import in_turn, ratios, spread
from experiments.shared.slab_path import through_slots
from gsplit import cli
from gsplit.config.flags import Positional
from gsplit.data import Layout, open_layout
from gsplit.sampling import Ladies, Neighbours, Rule
from gsplit.supply.sampler_process import SamplerSpec

BULKS = (1, 4, 16, 64)
SETTINGS: tuple[tuple[str, Rule, int, int], ...] = (
    ("ladies 512, one layer", Ladies(sizes=(512,)), 512, 1024),
    ("neighbours 20,20,20", Neighbours(fan_out=(20, 20, 20)), 4096, 64),
)
"""What is sampled: the bulk paper's table 4, and mini-batches that take long; targets, and mini-batches counted."""
SLOTS = 4


@dataclass(frozen=True, kw_only=True)
class BulksConfig(Flags):
    """Mini-batches a second by the size of bulks, over those one at a time."""

    layout: Annotated[Path, Positional]
    """The layout to sample from."""
    rounds: Positive = 5
    """How often each runs."""
    quick: bool = False
    """Take seconds; figures say nothing."""


def measure(config: BulksConfig) -> dict[str, Any]:
    """A row for each rule and size of bulks."""
    layout = open_layout(config.layout)
    rows: list[dict[str, Any]] = []
    for name, rule, batch_size, counted in SETTINGS:
        rates: dict[int, list[float]] = {bulk: [] for bulk in BULKS}
        for i in range(1 if config.quick else config.rounds):
            for bulk in in_turn(BULKS, i):
                number = max(2, counted // bulk // (16 if config.quick else 1)) * bulk
                rates[bulk].append(_rate(layout, rule, batch_size, bulk, number))
        for bulk in BULKS:
            row = {"rule": name, "targets": batch_size, "bulk": bulk}
            rows.append({**row, **spread(ratios(rates[bulk], rates[1]))})
    return {"dataset": about(layout, None), "rows": rows}


def _rate(layout: Layout, rule: Rule, batch_size: int, bulk: int, counted: int) -> float:
    """Mini-batches a second of one run, but for the first bulk, which touches maps and slots for the first time."""
    spec = SamplerSpec(
        layout=layout.path, rule=rule, batch_size=batch_size, seed=0, edge_ids=False, memory=1 << 40, threads=1
    )
    epoch = rule.num_batches(layout, batch_size=batch_size)
    how = {"samplers": 1, "slots": SLOTS, "bulk": bulk, "epoch": epoch}
    return through_slots(spec, layout, epoch, warm_up=bulk, total=counted + bulk, **how)[0]


command = Experiment("rules.bulks", BulksConfig, measure)

if __name__ == "__main__":
    cli.main(command)
