"""Sampling and splitting beside DGL's sampler, one thread: the paper's table 4, on the same targets in turn.

    python -m experiments.paper.sampling
    python -m experiments.paper.sampling --quick
    python -m experiments.paper.sampling --dataset LAYOUT --json sampling.json

What a training iteration of B targets needs is P splits of one mini-batch (ours), or P micro-batches of B / P
targets (data parallelism). Times are those of the call alone: DGL's blocks from ``NeighborSampler.sample_blocks``
(its unfused form still has to sort the edges of a block by destination before it can be computed with; that is not
counted), our mini-batch in the sampler's memory, and, for *segments*, also written out. DGL's blocks are checked
before they are timed, and forms that fail are left out. DGL is optional (pip install 'gsplit[dgl]', Python 3.10 or
3.11).

On small graphs such as that of ``--quick`` every mini-batch reaches nearly all vertices: micro-batches repeat more
than on large ones and everything fits better into caches, so the bars hold for graphs of 2 million vertices and more.

docs/formats.md has the keys of ``--json``.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from experiments.baselines.dgl_sampling import FORMS, QUICK_FORMS
from experiments.paper.sampling_table import BAR_BATCH_SIZE, PAPER, ratios_of, rows_of
from experiments.paper.sampling_ways import Iteration, Ours, Theirs, Way, iterations
from experiments.shared.datasets import Dataset, open_dataset
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive, Seed, from_one_on
from experiments.shared.results import about, printed, versions
from experiments.shared.rounds import in_turn
from gsplit import cli
from gsplit.errors import InputError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(Flags):
    """Sampling and splitting beside DGL's sampler, one thread: the paper's table 4."""

    dataset: str = "synthetic:products"
    """A layout folder, or synthetic:PRESET or synthetic:PRESET?scale=0.05, generated and partitioned in 4 once; quick
    is one more preset."""
    quick: bool = False
    """Take a minute: a graph of 300k vertices, two batch sizes, three rounds, without DGL's slowest form."""
    batch_sizes: Annotated[tuple[int, ...], from_one_on("--batch-sizes")] = (1024, 4096, 16384)
    """Targets of a mini-batch."""
    fan_out: FanOut = (20, 20, 20)
    """Neighbours drawn per hop, the first for the targets; -1 takes all."""
    rounds: Positive = 5
    """Mini-batches of each size that every way produces, after one that warms up."""
    seed: Seed = 0
    """Seed of the generator and of the draws."""
    samplers: Annotated[tuple[int, ...], from_one_on("--samplers", empty=True)] = (1, 2)
    """Numbers of sampler processes to compare by throughput, through the whole slab path."""
    work: Path = Path("work/sampling")
    """Keeps the layouts of synthetic graphs."""


THEIRS = ("torch", "dgl")
"""What is loaded for DGL's sampler alone."""
QUICK = SamplingConfig(dataset="synthetic:quick", quick=True, batch_sizes=(1024, 4096), rounds=3)


def measure(config: SamplingConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read when torch and DGL are loaded, which nothing has done yet
    dataset = open_dataset(config.dataset, seed=config.seed, work=config.work)
    check_batch_sizes(config, dataset)
    theirs = open_dgl(dataset, config)
    result: dict[str, Any] = {
        "dataset": about(dataset.layout, dataset.generator),
        "settings": {key: getattr(config, key) for key in ("fan_out", "batch_sizes", "rounds", "seed", "quick")},
        "versions": {**dict.fromkeys(THEIRS), **versions("numpy", *(name for name in THEIRS if name in sys.modules))},
    }
    ours = Ours(dataset, config.fan_out, config.seed)
    batch_sizes, excluded, busiest = [], [], 0.0
    for batch_size in config.batch_sizes:
        warm_up, *rounds = islice(iterations(dataset, batch_size, config.seed), config.rounds + 1)
        for fault in theirs.exclude_faulty(warm_up) if theirs else ():
            excluded.append(printed(fault))
        ways = run_in_turn(ours, theirs, warm_up, rounds)
        busiest = max(busiest, *(sum(c.cpu_s) / sum(c.wall_s) for c in ways))
        epoch = len(dataset.layout.graph.train_idx) / batch_size
        measured = {
            "batch_size": batch_size,
            "rows": rows_of(ways, epoch),
            "ratios": ratios_of(ways, batch_size, dataset.layout.graph.num_vertices),
        }
        batch_sizes.append(printed(measured))
    threads = {"omp_num_threads": 1, "torch": torch_threads(), "cpu_seconds_per_second": busiest}
    if busiest > 1.05:
        logger.warning("more than one thread was at work: %.2f CPU seconds a second", busiest)
    elif busiest < 0.95:
        logger.warning("other processes held the cores: %.2f CPU seconds a second; figures are noisy", busiest)
    result |= {"threads": threads, "excluded": excluded, "batch_sizes": batch_sizes}
    return {**result, "slab_path": slab_path_of(dataset, config), "paper": PAPER}


def slab_path_of(dataset: Dataset, config: SamplingConfig) -> list[dict[str, Any]]:
    """Throughput by samplers, for the batch size nearest to the bar's."""
    if not config.samplers:
        return []
    from experiments.shared.slab_path import slab_path  # loads torch, which has no part in what is timed above

    batch_size = min(config.batch_sizes, key=lambda size: abs(size - BAR_BATCH_SIZE))
    return slab_path(
        dataset.layout,
        config.samplers,
        fan_out=config.fan_out,
        batch_size=batch_size,
        rounds=config.rounds,
        seed=config.seed,
    )


def run_in_turn(ours: Ours, theirs: Theirs | None, warm_up: Iteration, rounds: Sequence[Iteration]) -> list[Way]:
    """Every way produces every iteration; each round begins with another one."""
    for way in ours.ways():  # DGL's have warmed up in their check
        way.round(warm_up)
    ways = [*ours.ways(), *(theirs.ways() if theirs else [])]
    for number, iteration in enumerate(rounds):
        for way in in_turn(ways, number * len(ways) // len(rounds)):
            way.round(iteration)
    return ways


def open_dgl(dataset: Dataset, config: SamplingConfig) -> Theirs | None:
    """DGL with one thread, or a warning and None."""
    try:
        theirs = Theirs(dataset, config.fan_out, QUICK_FORMS if config.quick else FORMS)
    except InputError as error:
        logger.warning("only our own figures: %s", error)
        return None
    import dgl
    import torch

    torch.set_num_threads(1)
    dgl.seed(config.seed)
    return theirs


def check_batch_sizes(config: SamplingConfig, dataset: Dataset) -> None:
    targets, parts = len(dataset.layout.graph.train_idx), dataset.layout.parts
    for batch_size in config.batch_sizes:
        if batch_size > targets:
            raise InputError(f"--batch-sizes {batch_size} is more than the {targets} training vertices")
        if batch_size < parts:
            raise InputError(f"--batch-sizes {batch_size} is less than a target for each of {parts} micro-batches")


def torch_threads() -> int | None:
    """None where torch is not loaded, which our own sampler does not need."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch else None


command = Experiment("paper.sampling", SamplingConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
