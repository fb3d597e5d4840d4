"""What P micro-batches of a graph of several types load and compute twice, and what splits send in its place.

    python -m experiments.types.redundancy
    python -m experiments.types.redundancy --quick
    python -m experiments.types.redundancy --dataset "synthetic:mag?scale=0.3" --fan-out 15,10,5

One mini-batch is what split parallelism computes, for any number of trainers; micro-batches have their share of the
targets, as in data parallelism. Rows are inputs, counted by type, since a type of few vertices is repeated most.
Splits load each row once, and send what others need of it: by METIS's parts with pre-sampled weights, and by random
ones.
Nothing is timed, so the figures are the same on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive, Seed, from_one_on
from experiments.shared.results import printed
from experiments.types.parts import layout_of, store_of_types
from gsplit import cli
from gsplit.config.partition import Method, Training
from gsplit.data import Layout, open_store
from gsplit.data.graph import GraphArrays
from gsplit.partition.presample import Whole
from gsplit.sampling import Neighbours
from gsplit.sampling.micro_batches import sample_planned

PARTITIONS: dict[str, Method] = {"METIS": "metis", "random": "random"}
"""The partitions whose splits send rows."""


@dataclass(frozen=True, kw_only=True)
class RedundancyConfig(Flags):
    """Redundant loading and computing by type, and rows sent in its place."""

    dataset: str = "synthetic:mag?scale=0.1"
    """A graph store of several types, or synthetic:mag?scale=0.1, made for as long as it takes."""
    fan_out: FanOut = (10, 10)
    """Neighbours drawn per hop of each relation, the first for the targets; -1 takes all."""
    batch_size: Positive = 4096
    """Targets of a mini-batch over all trainers."""
    trainers: Annotated[tuple[int, ...], from_one_on("--trainers")] = (2, 4, 8)
    """Numbers of micro-batches that a mini-batch is cut into, and of splits."""
    iterations: Positive = 10
    """Mini-batches to count, at most an epoch's."""
    seed: Seed = 0
    """Seed of the generator, the partitioner and the draws."""
    quick: bool = False
    """Take seconds: 13,000 vertices, few mini-batches."""
    work: Path = Path("work")
    """Folder of stores and layouts, for as long as it takes."""


QUICK = RedundancyConfig(
    dataset="synthetic:mag?scale=0.007", batch_size=256, trainers=(2, 4), iterations=2, quick=True
)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What mini-batches have, on average. T types, L layers."""

    edges: float
    """Of all layers, trainers and relations."""
    rows_T: NDArray[np.float64]
    """Rows that all trainers load."""
    sent_L: NDArray[np.float64]
    """Rows that trainers send before each layer, the first of inputs."""


def measure(config: RedundancyConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    rule = Neighbours(fan_out=config.fan_out)
    training = Training(fan_out=config.fan_out, batch_size=config.batch_size)
    with store_of_types(config.dataset, config.seed, config.work) as store:
        graph = open_store(store, typed=True).graph
        whole = whole_of(graph)
        once, *cut = (
            counts_of(whole, rule, config, micro_batches=number, splits=1) for number in (1, *config.trainers)
        )
        names = [each.name for each in graph.schema.types]
        sent = [
            printed({"trainers": number, "partition": name, **sent_row(once, micro, counts)})
            for number, micro in zip(config.trainers, cut, strict=True)
            for name, method in PARTITIONS.items()
            for layout in [layout_of(store, number, method, training, config.seed)]
            for counts in [counts_of(layout, rule, config, micro_batches=1, splits=number)]
        ]
    return {
        **{name: getattr(config, name) for name in ("dataset", "fan_out", "batch_size", "trainers", "iterations")},
        "redundancy": redundancy_rows(names, once, cut),
        "sent": sent,
    }


def redundancy_rows(types: Sequence[str], once: Counts, cut: Sequence[Counts]) -> list[dict[str, Any]]:
    """Counts of one mini-batch, and those of its micro-batches over them: edges, all rows and rows of each type."""

    def row(what: str, of_one: float, of_cut: Sequence[float]) -> dict[str, Any]:
        return {"what": what, "count": float(of_one), "ratios": [round(float(each / of_one), 2) for each in of_cut]}

    return [
        row("edges", once.edges, [each.edges for each in cut]),
        row("rows", once.rows_T.sum(), [each.rows_T.sum() for each in cut]),
        *(
            row(f"rows of {name}", once.rows_T[number], [each.rows_T[number] for each in cut])
            for number, name in enumerate(types)
            if once.rows_T[number]
        ),
    ]


def sent_row(once: Counts, micro: Counts, split: Counts) -> dict[str, Any]:
    """What a partition's splits send, beside what they do not load again."""
    loaded, by_micro_batches = float(once.rows_T.sum()), float(micro.rows_T.sum())
    assert split.rows_T.sum() == loaded  # no vertex is in two splits (law 3)
    sent = float(split.sent_L.sum())
    return {
        "micro_batches_rows": by_micro_batches,
        "splits_rows": loaded,
        "saved_rows": by_micro_batches - loaded,
        "sent_rows": split.sent_L.tolist(),
        "sent_over_saved": round(sent / (by_micro_batches - loaded), 2),
    }


def counts_of(
    layout: Layout, rule: Neighbours, config: RedundancyConfig, *, micro_batches: int, splits: int
) -> Counts:
    """What mini-batches have that are cut into micro-batches, each of them split."""
    plan = rule.plan(layout, batch_size=config.batch_size, seed=config.seed, micro_batches=micro_batches)
    sampler = rule.sampler(layout, np.stack(layout.offsets_by_type), seed=config.seed)
    epoch = rule.num_batches(layout, batch_size=config.batch_size, micro_batches=micro_batches)
    full = max(1, len(layout.graph.train_idx) // config.batch_size)  # no smaller last one, unless it is all there is
    batches = range(min(config.iterations, epoch, full))
    edges = 0
    rows_T = np.zeros(len(layout.offsets_by_type), np.int64)
    sent_L = np.zeros(len(config.fan_out), np.int64)
    for batch in batches:
        for micro in range(micro_batches):
            sample_planned(sampler, plan, 0, batch, micro)
            for rank in range(splits):
                segment = sampler.segment(rank)
                edges += segment.num_edges
                rows_T += [levels[0] for levels in segment.levels]
                sent_L += [sum(sum(of.send_counts) for of in segment.sends[layer]) for layer in sorted(segment.sends)]
    number = len(batches)
    return Counts(edges=edges / number, rows_T=rows_T / number, sent_L=sent_L / number)


def whole_of(graph: GraphArrays) -> Layout:
    """A graph as samplers see a layout, in one part."""
    sizes = [each.num_vertices for each in graph.schema.types]
    offsets = [np.array([0, size]) for size in sizes]
    return cast(Layout, Whole(graph=graph, permutations=list(map(np.arange, sizes)), offsets_by_type=offsets))


command = Experiment("types.redundancy", RedundancyConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
