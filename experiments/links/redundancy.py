"""What P micro-batches of pairs load and compute twice: their rows, vertices and edges over those of one mini-batch.

    python -m experiments.links.redundancy
    python -m experiments.links.redundancy --quick
    python -m experiments.links.redundancy --dataset synthetic:products?scale=0.1 --fan-out 15,10,5

One mini-batch is what split parallelism computes, for any number of trainers. Micro-batches have their share of the
pairs and draw candidates of their own, as data parallelism does; neither sees an edge that it asks for. Pairs are
edges of the graph. ``vertices`` are as many random targets, and twice as many, without pairs. Nothing is timed, so
the figures are the same on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from experiments.shared import real_graphs
from experiments.shared.datasets import PREFIX, open_or_make, store_of
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive, Seed, from_one_on
from experiments.shared.results import about, printed
from gsplit import cli
from gsplit.config.fields import Accepted
from gsplit.config.links import parse_negatives
from gsplit.data import Layout
from gsplit.partition import PartitionConfig, partition
from gsplit.sampling import EpochPlan, MiniBatchSampler, Neighbours, sampler_of
from gsplit.sampling.links import LinkPlan, Links, Negatives
from gsplit.sampling.micro_batches import sample_planned

Counts = NDArray[np.float64]
"""[4] targets, rows loaded (vertices of level 0), vertices computed (of the levels above) and edges, on average."""


def check_kinds(kinds: tuple[str, ...]) -> None:
    """The rule of a list of negatives, of which each may be a sum: joint:64+hard:2."""
    for kind in kinds:
        parse_negatives(kind.replace("+", ","))


@dataclass(frozen=True, kw_only=True)
class RedundancyConfig(Flags):
    """Redundant loading and computing of pairs under data parallelism."""

    dataset: str = "amazon_computers"
    """A real graph, a layout folder, or synthetic:PRESET or synthetic:PRESET?scale=0.1, generated once."""
    fan_out: FanOut = (15, 10)
    """Neighbours drawn per hop, the first for the targets; -1 takes all."""
    batch_sizes: Annotated[tuple[int, ...], from_one_on("--batch-sizes")] = (512, 4096)
    """Pairs of a mini-batch over all trainers."""
    negatives: Annotated[tuple[str, ...], Accepted(check_kinds)] = (
        *("in-batch", "uniform:1", "uniform:10", "joint:64", "joint:1024"),
    )
    """What pairs are compared with, one row each; + adds kinds to each other."""
    trainers: Annotated[tuple[int, ...], from_one_on("--trainers")] = (2, 4, 8)
    """Numbers of micro-batches that a mini-batch is cut into."""
    iterations: Positive = 10
    """Mini-batches to count, at most an epoch's."""
    seed: Seed = 0
    """Seed of the generator and of the draws."""
    quick: bool = False
    """Take seconds: cora, and few mini-batches."""
    data: Path = field(default_factory=real_graphs.folder)
    """The folder of the real graphs."""
    work: Path = Path("work/sampling")
    """Keeps stores and layouts."""


QUICK = RedundancyConfig(dataset="cora", fan_out=(10, 10), batch_sizes=(256,), iterations=3, quick=True)


def measure(config: RedundancyConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    layout, generator = opened(config.dataset, seed=config.seed, data=config.data, work=config.work)
    return {
        "dataset": about(layout, generator),
        "fan_out": config.fan_out,
        "trainers": config.trainers,
        "redundancy": [
            printed({"batch_size": batch_size, "what": what, **row_of(counted, config.trainers)})
            for batch_size in config.batch_sizes
            for what, counted in _ways(layout, config, batch_size)
        ],
    }


def row_of(counted: Callable[[int], Counts], trainers: Sequence[int]) -> dict[str, Any]:
    """What a mini-batch has on average, and ratios over that of so many micro-batches each."""
    once, names = counted(1), ("targets", "rows", "vertices", "edges")
    ratios = [counted(number) / once for number in trainers]
    return {
        **{name: float(count) for name, count in zip(names, once, strict=True)},
        **{f"{name}_ratios": [round(float(ratio[at]), 2) for ratio in ratios] for at, name in enumerate(names) if at},
    }


def _ways(layout: Layout, config: RedundancyConfig, batch_size: int) -> list[tuple[str, Callable[[int], Counts]]]:
    """What is compared, each with what counts it, cut into so many micro-batches."""
    sampler = sampler_of(layout, fan_outs=config.fan_out, seed=config.seed)
    vertices, edges = layout.graph.num_vertices, layout.graph.num_edges

    def full(number: int, size: int) -> range:
        """Mini-batches to count: no smaller last one, unless it is all that there is."""
        return range(max(1, min(config.iterations, number // size)))

    def of_vertices(size: int) -> Callable[[int], Counts]:
        def counted(number: int) -> Counts:
            plan = EpochPlan(np.arange(vertices), layout.permutation, size, config.seed, micro_batches=number)
            return counts_of(sampler, plan, full(vertices, size))

        return counted

    def of_pairs(kind: str) -> Callable[[int], Counts]:
        def counted(number: int) -> Counts:
            rule = links_of(kind, config.fan_out)
            plan = rule.plan(layout, batch_size=batch_size, seed=config.seed, micro_batches=number)
            return counts_of(sampler, plan, full(edges, batch_size))

        return counted

    return [
        ("vertices", of_vertices(batch_size)),
        ("vertices, twice", of_vertices(2 * batch_size)),
        *((kind, of_pairs(kind)) for kind in config.negatives),
    ]


def links_of(kind: str, fan_out: tuple[int, ...]) -> Links:
    """The rule that trains on all edges of a graph with such negatives."""
    return Links(
        neighbours=Neighbours(fan_out=fan_out),
        negatives=Negatives(**parse_negatives(kind.replace("+", ","))._asdict()),
        edges=True,
    )


def counts_of(sampler: MiniBatchSampler, plan: EpochPlan | LinkPlan, batches: Sequence[int]) -> Counts:
    """What the micro-batches of some mini-batches of a plan have together, on average."""
    total = np.zeros(4, np.int64)
    for batch in batches:
        for micro in range(len(plan.micro_batches(0, batch))):
            sample_planned(sampler, plan, 0, batch, micro)
            segment = sampler.segment(0)
            loaded, *computed = segment.level_sizes
            total += [len(segment.targets), loaded, sum(computed), segment.num_edges]
    return total / len(batches)


def opened(
    dataset: str, *, seed: int, data: Path, work: Path, parts: int = 1
) -> tuple[Layout, dict[str, Any] | None]:
    """The layout to sample from, and what generated it; arguments as of :func:`open_or_make` and :func:`store_of`."""
    if not dataset.startswith(PREFIX) and not Path(dataset).is_dir():
        store, dataset = store_of(dataset, data=data, work=work), str(work / f"{dataset}-{parts}")
        if not Path(dataset).exists():
            partition(PartitionConfig(store=store, out=Path(dataset), parts=parts))
    return open_or_make(dataset, seed=seed, work=work, parts=parts)


command = Experiment("links.redundancy", RedundancyConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
