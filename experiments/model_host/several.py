"""Counts and epochs over several hosts of one kind, by network card: more hosts for as much work, or for more.

``K`` trainers on each of ``H`` hosts, in three ways:

- *grown*: each host splits a micro-batch of the batch size, so a mini-batch has H times as many targets.
- *held*: a mini-batch has as many targets as on one host, and each host splits its share of them.
- *over*: as many, and one mini-batch is split over all trainers of all hosts (``--split-group``).

Each host has the whole graph, and caches a share of it on each trainer of a split group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from experiments.model_host.counts import Counted, Strategy, TrainerCount, of_segment
from experiments.model_host.layers import Layer
from experiments.model_host.model import Prediction, bytes_between, predict
from experiments.model_host.rates import Host
from experiments.shared.placements import EPOCH
from experiments.shared.systems import OURS
from experiments.shared.traffic import GroupedCache, NoCache, loads_by_trainer
from gsplit.data import Layout
from gsplit.features.placement import prefixes
from gsplit.sampling import MicroBatches, Neighbours, SamplerSpec

GROWN, HELD, OVER = WAYS = ("grown", "held", "over")


@dataclass(frozen=True, kw_only=True)
class Work:
    """What an epoch trains on, whatever the hosts."""

    layout: Layout
    layers: Sequence[Layer]
    batch_size: int
    """Targets of a mini-batch on one host."""
    fan_out: Sequence[int]
    seed: int
    row_bytes: int
    """Of a feature row."""
    trainers: int
    """Of each host."""
    iterations: int | None
    """Mini-batches of one host that are counted, and as many targets of others; None: an epoch."""


def host_rows(work: Work, host: Host, hosts: Sequence[int], caches: Sequence[int]) -> list[dict[str, Any]]:
    """``hosts`` of ``--json``: one host, then each number of them in each way, with each cache."""
    rows, alone = [], dict[int, Prediction]()
    rates: dict[str, Any] = {"row_bytes": work.row_bytes, "averaged": int(host.samplers.rate)}
    for number in (1, *(each for each in hosts if each > 1)):
        for way in WAYS if number > 1 else (GROWN,):
            counted, share = count(work, way, number, caches)
            for each in counted:
                made = predict(each, work.layers, host, epochs=share, hosts=number, **rates)
                alone.setdefault(each.strategy.cache_percent, made)
                rows.append(_row(work, each, made, alone[each.strategy.cache_percent], way, number, share))
    return rows


def count(work: Work, way: str, hosts: int, caches: Sequence[int]) -> tuple[list[Counted], float]:
    """What trainers have of an epoch with each cache, and the share of its targets that was counted."""
    layout, trainers = work.layout, hosts * work.trainers
    splits = trainers if way == OVER else work.trainers
    spec = SamplerSpec(
        layout=layout.path,
        micro_batches=trainers // splits,
        splits=splits,
        rule=Neighbours(fan_out=tuple(work.fan_out)),
        batch_size=work.batch_size * (hosts if way == GROWN else 1),
        seed=work.seed,
        edge_ids=False,
    )
    strategies = [
        Strategy(
            name=OURS,
            cache_percent=percent,
            group=splits,
            placement=way,
            cache=GroupedCache(layout.offsets, prefixes(layout.offsets, splits, share=Fraction(percent, 100)), splits)
            if percent
            else NoCache(),
        )
        for percent in caches
    ]
    targets = len(layout.graph.train_idx)
    wanted = -(-min(targets, (work.iterations or targets) * work.batch_size) // spec.batch_size)
    mini_batches = [*_mini_batches(MicroBatches(layout, spec), wanted, strategies)]
    counted = [
        Counted(strategy=strategy, mini_batches=of_strategy)
        for strategy, of_strategy in zip(strategies, zip(*mini_batches, strict=True), strict=True)
    ]
    return counted, min(wanted * spec.batch_size, targets) / targets


def _mini_batches(
    sampled: MicroBatches, wanted: int, strategies: Sequence[Strategy]
) -> Iterator[list[tuple[TrainerCount, ...]]]:
    """What trainers have of each mini-batch, by strategy."""
    for batch in range(wanted):
        segments = [
            sampler.segment(split) for sampler in sampled.sample_all(EPOCH, batch) for split in range(sampled.splits)
        ]
        shares = [of_segment(segment) for segment in segments]
        yield [
            tuple(
                replace(share, loads=loads)
                for share, loads in zip(shares, loads_by_trainer(strategy.cache, segments), strict=True)
            )
            for strategy in strategies
        ]


def _row(
    work: Work, counted: Counted, made: Prediction, alone: Prediction, way: str, hosts: int, share: float
) -> dict[str, Any]:
    """One row; seconds of one host with the same cache are ``alone``."""
    reduced, exchanged = bytes_between(counted, work.layers, hosts)
    loads = counted.loads
    return {
        "hosts": hosts,
        "batch": way if hosts > 1 else "-",
        "cache_percent": counted.strategy.cache_percent,
        "steps": len(counted.mini_batches) / share,
        "edges": counted.edges / share,
        "needed_rows": loads.needed_rows / share,
        "host_rows": loads.host_rows / share,
        "between_hosts_reduce_bytes": reduced / share,
        "between_hosts_exchange_bytes": exchanged / share,
        "load_s": made.load_s,
        "compute_s": made.compute_s,
        "exchange_s": made.exchange_s,
        "reduce_s": made.reduce_s,
        "epoch_s": made.epoch_s,
        "speedup": alone.epoch_s / made.epoch_s,
    }
