"""How a run lays its mini-batches over the trainers, and its feature rows: flags made into decisions.

| flags | groups | a mini-batch is | stands for |
|---|---|---|---|
| ``--strategy split`` | one of all trainers | split over all | GSplit |
| ``--strategy data`` | one for each trainer | a micro-batch for each | DGL; with caches PaGraph and Quiver |
| ``--split-group K`` | of K trainers | a micro-batch for each group, split inside | both at once |
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

import torch

from gsplit.config.features import CacheName
from gsplit.config.train import TrainConfig
from gsplit.data import Layout
from gsplit.errors import InputError
from gsplit.features import Memory, prefix_rows, replicated_rows
from gsplit.host import check_memory
from gsplit.sampling import SplitGroups
from gsplit.units import CacheSize

logger = logging.getLogger(__name__)

MANY = 64
"""Trainers that a host of any size is let start."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """What was decided."""

    groups: SplitGroups
    cache: CacheName
    """Not auto any more."""
    cache_size: CacheSize | None
    """Of each trainer; None without a cache."""

    @property
    def peers(self) -> bool:
        """Trainers read each other's caches, as in Quiver."""
        return self.cache == "partitioned" and self.groups.size == 1 < self.groups.trainers

    @property
    def cache_holders(self) -> int:
        """Trainers that hold the rows of a partitioned cache between them."""
        return self.groups.trainers if self.peers else self.groups.size


def world_of(config: TrainConfig, layout: Layout) -> int:
    """How many trainers there will be.

    Raises:
        InputError: for so many that starting them would bring the host down.
    """
    cores = len(os.sched_getaffinity(0))
    most = max(MANY, 4 * cores)
    if config.gpus is not None and config.gpus > most:
        raise InputError(f"--gpus is {config.gpus}, but there are {cores} cores; use at most {most}")
    return config.gpus or layout.parts


def copied_dtype(config: TrainConfig, layout: Layout) -> torch.dtype | None:
    """The type in which rows are copied to memory of their own; None where they stay as they are stored."""
    assert layout.graph.features is not None
    if config.feature_dtype in ("stored", layout.graph.features.dtype.name):
        return None
    dtype: torch.dtype = getattr(torch, config.feature_dtype)
    return dtype


def decide(config: TrainConfig, layout: Layout, device_type: str) -> Strategy:
    """Check the flags against each other and the layout.

    Raises:
        InputError: for what cannot be.
    """
    groups = _groups(config, layout)
    cache, size = _cache(config, groups, device_type)
    if cache == "partitioned" and _data_parallel(config, groups) and layout.parts % groups.trainers:
        raise InputError(
            f"--cache partitioned deals the parts of a layout out to the trainers, but {layout.path} has "
            f"{layout.parts} parts for {groups.trainers} trainers; make a layout with --parts {groups.trainers}"
        )
    if config.loader == "zero-copy" and device_type == "cpu":
        raise InputError("--loader zero-copy reads host memory from a GPU, and --device is cpu; use --loader gather")
    strategy = Strategy(groups=groups, cache=cache, cache_size=size)
    _check_memory(config, strategy, layout, device_type)
    return strategy


def _check_memory(config: TrainConfig, strategy: Strategy, layout: Layout, device_type: str) -> None:
    """Refuse what cannot fit before anything is begun. What GPUs have free only trainers know, who check it again."""
    features, copied = layout.graph.features, copied_dtype(config, layout)
    assert features is not None
    row_bytes = features.shape[1] * (features.itemsize if copied is None else copied.itemsize)
    try:
        if copied is not None:
            check_memory(len(features) * row_bytes)
    except MemoryError as error:
        raise InputError(f"--feature-dtype {config.feature_dtype} takes a copy of all rows: {error}") from None
    if strategy.cache_size is None:
        return
    if device_type == "cpu":
        memory = Memory.of(torch.device("cpu"), strategy.groups.trainers)
    else:
        sharers = -(-strategy.groups.trainers // torch.cuda.device_count())
        memory = Memory.of_empty_gpus(sharers)
    if strategy.cache == "partitioned":
        prefix_rows(strategy.cache_size, layout.offsets, strategy.cache_holders, row_bytes, memory)
    else:
        replicated_rows(strategy.cache_size, layout.graph.num_vertices, row_bytes, memory)


def _groups(config: TrainConfig, layout: Layout) -> SplitGroups:
    world = world_of(config, layout)
    # A run that goes on may have been split before: what was saved of that gives way.
    if config.strategy == "data" and config.split_group not in (None, 1) and config.resume is None:
        raise InputError(f"--strategy data has groups of one trainer, so drop --split-group {config.split_group}")
    if config.strategy == "data" and config.split_group not in (None, 1):
        logger.warning("--split-group %d is ignored with --strategy data", config.split_group)
    size = 1 if config.strategy == "data" else config.split_group or world
    if world % size:
        divisors = ", ".join(str(k) for k in range(1, world + 1) if world % k == 0)
        raise InputError(f"--split-group {size} does not divide the {world} trainers; use one of {divisors}")
    if layout.parts % size:
        raise InputError(
            f"{layout.path} has {layout.parts} parts, which cannot be dealt out to {size} trainers; make a layout "
            f"with python -m gsplit.partition ... --parts {size}"
        )
    return SplitGroups(trainers=world, size=size, fixed_shares=config.cache == "replicated")


def _data_parallel(config: TrainConfig, groups: SplitGroups) -> bool:
    """Groups are of one trainer, and that is what was asked for, not all there is."""
    return groups.size == 1 and (groups.number > 1 or config.strategy == "data")


def _cache(config: TrainConfig, groups: SplitGroups, device_type: str) -> tuple[CacheName, CacheSize | None]:
    cache: CacheName = config.cache
    data_parallel = _data_parallel(config, groups)
    if cache == "auto":
        if data_parallel and config.cache_size is not None:
            raise InputError(
                f"--cache-size {config.cache_size} of which cache? With --strategy data there are two: add "
                "--cache partitioned (Quiver's) or --cache replicated (PaGraph's)"
            )
        wanted = config.cache_size is not None or (not data_parallel and device_type == "cuda")
        cache = "partitioned" if wanted else "none"
    if cache == "none":
        if config.cache_size is not None and config.resume is None:
            raise InputError(f"--cache none and --cache-size {config.cache_size} contradict each other; drop one")
        if config.cache == "none" and config.cache_size is not None:
            logger.warning("--cache-size %s is ignored with --cache none", config.cache_size)
        return "none", None
    if cache == "replicated" and not data_parallel:
        raise InputError(
            "--cache replicated belongs to --strategy data: under split parallelism only its owner loads a row; "
            "use --cache partitioned"
        )
    return cache, CacheSize.parse(config.cache_size or "auto")
