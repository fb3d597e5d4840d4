"""The samplers of a training run: how many, what they sample, and from where on."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from gsplit.config.train import TrainConfig
from gsplit.data import Layout
from gsplit.engine.strategy import Strategy
from gsplit.errors import InputError
from gsplit.models import custom
from gsplit.models import registry as models
from gsplit.parallel import DATA, SPLIT
from gsplit.runs import checkpoint
from gsplit.supply.pipes import Supply
from gsplit.supply.pool import SamplerPool
from gsplit.supply.sampler_process import SamplerJob
from gsplit.supply.tickets import Position, tickets
from gsplit.units import parse_bytes

logger = logging.getLogger(__name__)

MANY = 64
"""Samplers that a host of any size is let start."""
SPARE_SLOTS = 2
"""Beside one for each sampler and one for each mini-batch that trainers load ahead: one at work, one finished."""


def samplers_of(config: TrainConfig, world: int) -> int:
    """Processes to sample with: those asked for, or the cores left over.

    Raises:
        InputError: for so many that starting them would bring the host down.
    """
    cores = len(os.sched_getaffinity(0))
    if config.samplers is None:
        return max(1, min(cores - world, 2 * world))
    most = max(MANY, 4 * cores)
    if config.samplers > most:
        raise InputError(f"--samplers is {config.samplers}, but there are {cores} cores; use at most {most}")
    return config.samplers


@contextmanager
def supplied(
    config: TrainConfig, layout: Layout, strategy: Strategy, samplers: int, model: nn.Module
) -> Iterator[Supply]:
    """What gives the trainers their mini-batches; the samplers have ended when the block has.

    Args:
        config: of the run.
        layout: to sample from.
        strategy: of the run.
        samplers: processes; 0 leaves sampling to the trainers.
        model: which decides whether segments carry the ids of the drawn edges.
    """
    if samplers == 0:
        if config.order != "sequence" or config.slots is not None or config.sampler_threads != 1:
            logger.warning("--order, --slots and --sampler-threads have no effect with --samplers 0")
        supply = Supply(strategy.grid.world)
    else:
        job = SamplerJob(
            layout=layout.path,
            fan_out=config.fan_out,
            batch_size=config.batch_size,
            seed=config.seed,
            edge_ids=layout.graph.edge_weight is not None and _wants_weights(model),
            memory=parse_bytes(config.sampler_memory),
            threads=config.sampler_threads,
            micro_batches=strategy.grid.size(DATA),
            splits=strategy.grid.size(SPLIT),
            fixed_shares=strategy.fixed_shares,
        )
        num_batches = -(-len(layout.graph.train_idx) // config.batch_size)
        supply = Supply(
            strategy.grid.world,
            lambda finished: SamplerPool(
                job,
                tickets(num_batches, config.epochs, _position(config)),
                samplers=samplers,
                slots=config.slots or samplers + config.prefetch + SPARE_SLOTS,
                readers=strategy.grid.world,
                finished=finished,
                max_restarts=config.max_sampler_restarts,
            ),
        )
    try:
        yield supply
    finally:
        supply.end()


def _wants_weights(model: nn.Module) -> bool:
    return models.needs(custom.prepare(copy.deepcopy(model)))["weights"]


def _position(config: TrainConfig) -> Position:
    """Where the trainers will go on: they read the same checkpoint."""
    if config.resume is None:
        return Position()
    saved = checkpoint.describe_state(config.resume, checkpoint.CHECKPOINT)
    return Position(epoch=saved["epoch"], batch=saved["batch"], ahead=saved["ahead"])
