"""The stages of the bulk sampling paper's pipeline as counts: what is sampled, fetched, exchanged, summed and told.

python -m experiments.rules.stages LAYOUT [--quick] [--json FILE]

Its figures 4 and 6 (Tripathy, Yelick, Buluc, MLSys 2024) break the time of an epoch of GraphSAGE with 15,10,5
neighbours and mini-batches of 1,024 targets into sampling, fetching and propagation on up to 128 GPUs, with features
replicated c times and not at all (c = 1). Here the same epoch is trained by 1, 2 and 4 trainers and counted: their
strategy with a row at one trainer (c = 1) and at all (c = p), and one mini-batch split over all. ``--bulk`` changes
none of these bytes; the messages that it saves are counted by themselves.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gsplit
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import Positive
from experiments.shared.results import about
from experiments.shared.slab_path import reports_of
from gsplit import cli
from gsplit.config.flags import Positional
from gsplit.data import open_layout
from gsplit.sampling import Neighbours
from gsplit.supply.sampler_process import SamplerSpec

FAN_OUT = (15, 10, 5)
BATCH_SIZE = 1024
WAYS: dict[str, dict[str, Any]] = {
    "data, c = 1": {"strategy": "data", "cache": "partitioned", "cache_size": "100%"},
    "data, c = p": {"strategy": "data"},
    "split": {"strategy": "split"},
}
"""Their pipeline with each feature row at one process, as in figure 6, and at every one; and ours."""
TRAINERS = (1, 2, 4)
BULKS = (1, 4, 16, 64)


@dataclass(frozen=True, kw_only=True)
class StagesConfig(Flags):
    """Count the stages of an epoch by trainers, by strategy and by bulk."""

    layout: Annotated[Path, Positional]
    """The layout to train on; its parts are dealt out to 1, 2 and 4 trainers."""
    hidden: Positive = 64
    """Width of the hidden vectors, which exchanges and gradients depend on."""
    quick: bool = False
    """Fewer runs: one number of trainers."""


def measure(config: StagesConfig) -> dict[str, Any]:
    """The tables ``stages`` and ``told``."""
    layout = open_layout(config.layout)
    stages = [
        stage_counts(config.layout, name, trainers, config.hidden)
        for trainers in (TRAINERS[1:2] if config.quick else TRAINERS)
        for name in WAYS
    ]
    rule = Neighbours(fan_out=FAN_OUT)
    spec = SamplerSpec(
        layout=layout.path, rule=rule, batch_size=BATCH_SIZE, seed=0, edge_ids=False, memory=1 << 40, threads=1
    )
    number = rule.num_batches(layout, batch_size=BATCH_SIZE)
    told = [{"bulk": bulk, "mini_batches": number, "messages": reports_of(spec, number, bulk=bulk)} for bulk in BULKS]
    return {"dataset": about(layout, None), "stages": stages, "told": told}


def stage_counts(layout: Path, name: str, trainers: int, hidden: int) -> dict[str, Any]:
    """What an epoch by one way counts, summed over the trainers; bytes in MiB."""
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stdout(io.StringIO()):
        run = gsplit.TrainConfig(
            out=Path(temporary) / "run",
            fan_out=FAN_OUT,
            batch_size=BATCH_SIZE,
            hidden=hidden,
            dropout=0.5,
            epochs=1,
            gpus=trainers,
            device="cpu",
            threads=1,
            evaluate="none",
            **WAYS[name],
        )
        summary = gsplit.train(layout, run)
    counts = summary["traffic"]
    return {
        "trainers": trainers,
        "way": name,
        "edges": counts["sampled_edges"],
        "segments": counts["segment_bytes"] / 2**20,
        "rows": counts["cache_hits"] + counts["peer_rows"] + counts["host_rows"],
        "fetched": counts["device_to_device_bytes"] / 2**20,
        "exchanged": (counts["exchange_forward_bytes"] + counts["exchange_backward_bytes"]) / 2**20,
        "messages": counts["exchange_forward_messages"] + counts["exchange_backward_messages"],
        "gradients": counts["all_reduce_bytes"] / 2**20,
    }


command = Experiment("rules.stages", StagesConfig, measure)

if __name__ == "__main__":
    cli.main(command)
