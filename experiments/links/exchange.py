"""What scoring pairs sends between trainers, beside what the layers of the model send.

    python -m experiments.links.exchange
    python -m experiments.links.exchange --quick
    python -m experiments.links.exchange --dataset synthetic:products?scale=0.1 --fan-out 15,10,5

A pair is scored by the owner of its source, so the rows of its destination and its candidates travel there, each
once. ``at_destination_rows`` is what travels if each pair and each candidate is scored by the owner of its
destination, as ``--score-at destination`` does for bce and candidates that no pairs share. Counts, so the same on any
machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from experiments.links.redundancy import check_kinds, links_of, opened
from experiments.shared import real_graphs
from experiments.shared.experiment import Experiment, Flags
from experiments.shared.flags import FanOut, Positive, Seed
from experiments.shared.results import about, printed
from gsplit import cli
from gsplit.config.fields import Accepted
from gsplit.data import Layout
from gsplit.sampling import MicroBatches, SamplerSpec, split_offsets
from gsplit.sampling.links import LinkPlan, Pairs


@dataclass(frozen=True, kw_only=True)
class ExchangeConfig(Flags):
    """Rows that trainers send each other for layers and for pairs."""

    dataset: str = "amazon_computers"
    """A real graph, a layout folder, or synthetic:PRESET or synthetic:PRESET?scale=0.1, generated once."""
    trainers: Positive = 4
    """Trainers, and parts of a layout that is made."""
    fan_out: FanOut = (15, 10)
    """Neighbours drawn per hop, the first for the targets; -1 takes all."""
    batch_size: Positive = 1024
    """Pairs of a mini-batch over all trainers."""
    negatives: Annotated[tuple[str, ...], Accepted(check_kinds)] = (
        *("uniform:1", "uniform:10", "joint:64", "joint:1024", "in-batch"),
    )
    """What pairs are compared with, one row each; + adds kinds to each other."""
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


QUICK = ExchangeConfig(dataset="cora", fan_out=(10, 10), batch_size=256, iterations=3, quick=True)


def measure(config: ExchangeConfig) -> dict[str, Any]:
    """What ``--json`` has."""
    layout, generator = opened(
        config.dataset, seed=config.seed, data=config.data, work=config.work, parts=config.trainers
    )
    return {
        "dataset": about(layout, generator),
        **{name: getattr(config, name) for name in ("fan_out", "batch_size", "trainers")},
        "exchange": [printed({"negatives": kind, **counts_of(layout, kind, config)}) for kind in config.negatives],
    }


def counts_of(layout: Layout, kind: str, config: ExchangeConfig) -> dict[str, float]:
    """Rows and messages of a mini-batch, on average, and how uneven the pairs of trainers are."""
    spec = SamplerSpec(
        layout=layout.path,
        rule=links_of(kind, config.fan_out),
        batch_size=config.batch_size,
        seed=config.seed,
        edge_ids=False,
        splits=config.trainers,
    )
    sampled = MicroBatches(layout, spec)
    assert isinstance(sampled.plan, LinkPlan)
    batches = range(min(config.iterations, sampled.plan.num_batches))
    ends = split_offsets(layout, config.trainers)[1:]
    layers, at_source, messages, at_destination = 0, 0, 0, 0
    groups = np.zeros(config.trainers, np.int64)
    for batch in batches:
        sampler = sampled.sample(0, batch, 0)
        segments = [sampler.segment(rank) for rank in range(config.trainers)]
        headers = [segment.pairs for segment in segments]
        layers += sum(int(sum(layer.send_counts)) for segment in segments for layer in segment.layers.values())
        sent = np.array([header.send_counts for header in headers if header is not None])
        at_source, messages = at_source + int(sent.sum()), messages + int((sent > 0).sum())
        groups += [header.num_groups for header in headers if header is not None]
        (pairs,) = sampled.plan.pairs(0, batch)
        at_destination += rows_at_destination(pairs, np.searchsorted(ends, pairs.targets, side="right"))
    number = len(batches)
    return {
        "layer_rows": layers / number,
        "pair_rows": at_source / number,
        "pair_messages": messages / number,
        "at_destination_rows": at_destination / number,
        "pairs_over_layers": at_source / max(1, layers),
        "groups_max_over_mean": float(groups.max() / groups.mean()),
    }


def rows_at_destination(pairs: Pairs, owners: NDArray[np.int64]) -> int:
    """Rows of sources that travel to the owners of destinations and candidates, each once to each.

    Args:
        pairs: of a mini-batch.
        owners: [T] trainers of its targets.
    """
    shared = pairs.shared[np.arange(len(pairs.sources)) // pairs.chunk]
    candidates = np.concatenate([pairs.own, shared], axis=1)
    source = np.repeat(pairs.sources, candidates.shape[1]).reshape(candidates.shape)
    counted: Sequence[NDArray[Any]] = [source[~pairs.masked], candidates[~pairs.masked]]
    sources = np.concatenate([pairs.sources, counted[0]]).astype(np.int64)
    to = owners[np.concatenate([pairs.destinations, counted[1]])]
    crossing = owners[sources] != to
    return len(np.unique(sources[crossing] * (owners.max() + 1) + to[crossing]))


command = Experiment("links.exchange", ExchangeConfig, measure, quick=QUICK)

if __name__ == "__main__":
    cli.main(command)
