"""The engine of sampled mini-batches: split parallelism, data parallelism, and split groups between the two.

Samplers draw and split each mini-batch ahead of training; a trainer copies its segment, loads the features, and
exchanges rows with the trainers of its split group before each layer.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from gsplit.config.resolved import Placed, Resolved
from gsplit.config.sampling import MAX_SLOTS, SamplingConfig
from gsplit.data import Layout
from gsplit.device import accelerator
from gsplit.engine.components import Components
from gsplit.engine.dry.dry_step import step_bytes
from gsplit.engine.dry.step_bytes import StepBytes
from gsplit.engine.feed import Feed
from gsplit.engine.run import Run
from gsplit.engine.sampled.maker import Splits
from gsplit.engine.sampled.rules import check_rule, rule_of_run
from gsplit.engine.sampled.sources import FromSlots, SampledHere, SegmentSource
from gsplit.engine.strategy import cache_of, check_strategy, split_group_of
from gsplit.engine.tasks.links import open_for
from gsplit.engine.typed.refused import check_trained
from gsplit.errors import InputError
from gsplit.limits import host_memory
from gsplit.parallel import Grid
from gsplit.sampling import MicroBatches, Rule, SamplerSpec
from gsplit.sampling.fresh import bytes_of_sets
from gsplit.sampling.subgraphs import set_size
from gsplit.supply.order import order_of
from gsplit.supply.pipes import Supply, TrainerEnd
from gsplit.supply.pool import MOST_IN_A_BULK
from gsplit.supply.supplied import Supplied
from gsplit.supply.tickets import Position, tickets
from gsplit.units import binary, parse_bytes

logger = logging.getLogger(__name__)

MAX_SAMPLERS = 64
"""Number of samplers that a host of any size is let start."""
SAMPLERS_OF_A_CPU_TRAINER = 2
"""Samplers that keep up with a trainer on the CPU, which computes for longer than one of them samples."""
SAMPLERS_OF_A_GPU = 8
"""Samplers that keep up with a GPU: an H100 computes a mini-batch in a sixth of the time that one of them takes
(docs/results/gpu.md)."""
SAMPLER_BYTES = 24 << 20
"""Private memory of a sampler beside its maps: the interpreter, NumPy, the core."""
MAP_BYTES = 8
"""Bytes of a sampler's maps for each vertex of the graph; where they may take less, they hold fewer vertices."""
SHARE_OF_SAMPLERS = 4
"""Part of the memory that is available to which samplers keep that nobody asked for."""
SPARE_SLOTS = 2
"""Slots beside one for each sampler and for each mini-batch that is loaded ahead: one being written, one finished."""


class Sampled:
    """The strategies ``split`` and ``data``; see :class:`gsplit.engine.engines.Engine`."""

    def resolve(self, config: Placed, layout: Layout) -> Resolved:
        """Decide groups, caches, samplers and slots."""
        split_group = split_group_of(config, layout)
        cache, cache_size = cache_of(config, split_group, typed=layout.graph.schema.is_typed)
        samplers = samplers_of(config, config.trainers_here, config.device, sampler_bytes(config, layout))
        slots = config.slots or min(MAX_SLOTS, samplers + config.prefetch + SPARE_SLOTS)
        resolved = config.resolved(
            split_group=split_group,
            cache=cache,
            cache_size=cache_size,
            samplers=samplers,
            slots=slots if samplers else None,
        )
        check_strategy(resolved, layout)
        check_rule(resolved, layout)
        check_trained(resolved, layout)
        return resolved

    def grid(self, run: Run) -> Grid:
        """Micro-batches x the trainers that split each of them."""
        return run.strategy.grid

    def rule(self, run: Run) -> Rule:
        """The rule by which mini-batches are sampled; asked for wherever anything depends on it."""
        return rule_of_run(run.config, estimates=run.estimates, fan_out_of=run.fan_out_of)

    def sampling(self, run: Run, layout: Layout) -> SamplerSpec:
        """Return how mini-batches are sampled and split, by samplers and trainers alike."""
        config, strategy = run.config, run.strategy
        return SamplerSpec(
            layout=run.layout,
            rule=self.rule(run),
            batch_size=config.batch_size,
            seed=config.seed,
            edge_ids=run.needs["weights"] and any(each.edge_weight is not None for each in layout.graph.adjacencies),
            partial_sums=run.partial_sums,
            by_id=run.reads_stored_rows,
            micro_batches=strategy.micro_batches,
            splits=strategy.splits,
            fixed_shares=strategy.fixed_shares,
        )

    def num_batches(self, run: Run, layout: Layout) -> int:
        """Number of mini-batches of an epoch."""
        return self.rule(run).num_batches(
            layout, batch_size=run.config.batch_size, micro_batches=run.strategy.micro_batches
        )

    def step_bytes(self, run: Run) -> StepBytes | None:
        """Return what a training step takes of a device; see :func:`gsplit.engine.dry.dry_step.step_bytes`."""
        return self._step_bytes(run, on_host=False)

    def host_step_bytes(self, run: Run) -> StepBytes | None:
        """Return what a training step takes where trainers compute on the CPU, with its kernels."""
        return self._step_bytes(run, on_host=True)

    def _step_bytes(self, run: Run, *, on_host: bool) -> StepBytes | None:
        layout = open_for(run.config)
        spec, batches = self.sampling(run, layout), self.num_batches(run, layout)
        return step_bytes(run, layout, spec, batches, on_host=on_host)

    @contextmanager
    def supply(self, run: Run, layout: Layout, position: Position) -> Iterator[Supply]:
        """Supply the trainers with mini-batches; the samplers have ended when the block has."""
        supply = self.supplied(run, layout, position, range(run.trainers)).supply()
        try:
            yield supply
        finally:
            supply.end()

    def supplied(self, run: Run, layout: Layout, position: Position, trainers: range) -> Supplied:
        """Return what supplies some trainers, those of a host, with the micro-batches that they take part in."""
        config, splits = run.config, run.strategy.splits
        memory, threads = parse_bytes(config.sampler_memory), config.sampler_threads
        own = range(trainers.start // splits, -(-trainers.stop // splits))
        spec = replace(self.sampling(run, layout), memory=memory, threads=threads, own=own)
        return Supplied(
            trainers=len(trainers),
            spec=spec if run.samplers else None,
            num_batches=self.num_batches(run, layout),
            epochs=config.epochs,
            position=position,
            samplers=run.samplers,
            slots=config.slots or 1,
            max_restarts=config.max_sampler_restarts,
            bulk=bulk_of(config),
        )

    def feed(self, components: Components, position: Position, end: TrainerEnd | None) -> Feed:
        """The mini-batches of one trainer: its splits, out of the slots or sampled by itself."""
        run, member, config = components.run, components.member, components.run.config
        left = tickets(self.num_batches(run, components.layout), config.epochs, position)
        order = order_of(left, end, member.local, by=config.order, bulk=bulk_of(config) or MOST_IN_A_BULK)
        if end is not None and end.slots:
            first = member.here.start - member.here.start % run.strategy.splits  # whose segment lies first in a slot
            source: SegmentSource = FromSlots(end, member.rank - first, member.device)
        else:
            spec = self.sampling(run, components.layout)
            source = SampledHere(MicroBatches(components.layout, spec), member, end)
        maker = Splits(components, source)
        return Feed(order, maker, member.device, prefetch=config.prefetch, threads=config.threads)


def bulk_of(config: SamplingConfig) -> int | None:
    """Number of mini-batches that are sampled together; None where memory shall say it."""
    return None if config.bulk == "auto" else int(config.bulk)


def sampler_bytes(config: SamplingConfig, layout: Layout) -> int:
    """Bytes that a sampler takes at most, beside the graph and the slots, which all processes map."""
    vertices = sum(each.num_vertices for each in layout.graph.schema.types)
    sets = 0
    if config.fresh and config.subgraph is not None:
        sets = bytes_of_sets(vertices, set_size(config.subgraph, vertices), config.layers)
    return SAMPLER_BYTES + min(parse_bytes(config.sampler_memory), MAP_BYTES * vertices) + sets


def samplers_of(config: SamplingConfig, trainers: int, device: str, each: int) -> int:
    """Number of processes to sample with: those asked for, or the cores left over, as far as memory goes.

    Args:
        config: that asks.
        trainers: of the run.
        device: type of the device that they compute on.
        each: bytes that one takes.

    Raises:
        InputError: for so many that starting them would bring the host down, or that have no memory.
    """
    cores, available = len(os.sched_getaffinity(0)), host_memory().available_bytes
    if config.samplers is None:
        useful = SAMPLERS_OF_A_CPU_TRAINER if device == accelerator.HOST else SAMPLERS_OF_A_GPU
        wanted = min(cores - trainers, useful * trainers, MAX_SAMPLERS)
        fit = available // SHARE_OF_SAMPLERS // each
        if fit < wanted:
            logger.warning(
                "--samplers: %d in place of %d, for one takes %s of memory, and %s are available",
                max(1, fit),
                wanted,
                binary(each),
                binary(available),
            )
        return max(1, min(wanted, fit))
    most = max(MAX_SAMPLERS, 4 * cores)
    if config.samplers > most:
        raise InputError(f"--samplers is {config.samplers}, but there are {cores} cores; use at most {most}")
    if config.samplers * each > available:
        raise InputError(
            f"--samplers {config.samplers} take {binary(config.samplers * each)} of memory, and {binary(available)} "
            f"are available; use at most {available // each}, or a smaller --sampler-memory"
        )
    return config.samplers
