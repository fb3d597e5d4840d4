"""How a run lays its mini-batches over the trainers, and its feature rows: flags made into decisions.

| flags | groups | a mini-batch is | stands for |
|---|---|---|---|
| ``--strategy split`` | one of all trainers | split over all | GSplit |
| ``--strategy data`` | one for each trainer | a micro-batch for each | DGL; with caches PaGraph and Quiver |
| ``--split-group K`` | of K trainers | a micro-batch for each group, split inside | both at once |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from gsplit.config.features import CacheName, FeaturesConfig
from gsplit.config.parallel import ParallelConfig
from gsplit.config.resolved import Placed, Resolved
from gsplit.data import Layout, first_parts
from gsplit.device import accelerator, peer_memory
from gsplit.errors import InputError
from gsplit.features import Memory, prefix_rows, replicated_rows
from gsplit.features.placement import prefixes
from gsplit.features.room import sharers_of
from gsplit.host import check_memory
from gsplit.parallel import DATA, SPLIT, Grid, trainer_grid
from gsplit.units import CacheSize


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """The groups of trainers that compute together, and the places of cached feature rows."""

    grid: Grid
    """Micro-batches (``data``) x the trainers that split each of them (``split``)."""
    fixed_shares: bool
    """Whether each micro-batch has its own share of the training vertices (:class:`gsplit.sampling.EpochPlan`)."""
    cache: CacheName
    """Kind of the caches, never ``auto``."""
    cache_size: CacheSize | None
    """Size of each trainer's cache; None without one."""
    here: int
    """Trainers of a host, which may read each other's caches."""

    @classmethod
    def of(cls, config: Resolved) -> Strategy:
        """The strategy that a configuration describes."""
        return cls(
            grid=trainer_grid(config.gpus, config.split_group),
            fixed_shares=config.cache == "replicated",
            cache=config.cache,
            cache_size=None if config.cache_size is None else CacheSize.parse(config.cache_size),
            here=config.trainers_here,
        )

    @property
    def micro_batches(self) -> int:
        """Number of micro-batches that a mini-batch is cut into."""
        return self.grid.size(DATA)

    @property
    def splits(self) -> int:
        """Number of splits of a micro-batch: trainers of a split group."""
        return self.grid.size(SPLIT)

    @property
    def peers(self) -> bool:
        """Trainers of a host read each other's caches, as in Quiver."""
        return self.cache == "partitioned" and self.splits == 1 < self.here

    @property
    def cache_holders(self) -> int:
        """Trainers that hold the rows of a partitioned cache between them."""
        return self.here if self.peers else self.splits


def copied_dtype(config: FeaturesConfig, layout: Layout) -> torch.dtype | None:
    """The type in which rows are copied to memory of their own; None where they stay as they are stored."""
    if config.feature_dtype == "stored":
        return None
    assert layout.graph.features is not None
    if config.feature_dtype == layout.graph.features.dtype.name:
        return None
    dtype: torch.dtype = getattr(torch, config.feature_dtype)
    return dtype


def check_strategy(config: Resolved, layout: Layout) -> None:
    """Refuse mini-batches and caches that cannot be on this layout and this host.

    Raises:
        InputError: for the flag that is wrong.
    """
    strategy = Strategy.of(config)
    trainers = strategy.here
    if strategy.cache == "partitioned" and _is_data_parallel(config, config.split_group) and layout.parts < trainers:
        raise InputError(
            f"--cache partitioned deals the parts of a layout out to the trainers{' of a host' * (config.hosts > 1)},"
            f" but {layout.path} has {layout.parts} parts for {trainers} trainers; make a layout with --parts "
            f"{trainers}"
        )
    if config.loader == "zero-copy" and config.device == "cpu":
        raise InputError("--loader zero-copy reads host memory from a GPU, and --device is cpu; use --loader gather")
    opened = config.device == accelerator.HOST or peer_memory.can_be_opened(config.device)
    if strategy.peers and not opened:
        raise InputError(
            "--cache partitioned with --strategy data reads the memory of other GPUs, which PyTorch cannot open with "
            f"--device {config.device}; use --cache replicated"
        )
    _check_memory(config, strategy, layout)


def _check_memory(config: Resolved, strategy: Strategy, layout: Layout) -> None:
    """Refuse what cannot fit before anything is begun. What GPUs have free only trainers know, who check it again."""
    try:
        if copied_dtype(config, layout) is not None:
            check_memory(layout.graph.num_vertices * row_bytes(config, layout))
    except MemoryError as error:
        raise InputError(f"--feature-dtype {config.feature_dtype} takes a copy of all rows: {error}") from None
    check_cache(config, strategy, layout)


def check_cache(config: Resolved, strategy: Strategy, layout: Layout, *, working_bytes: int | None = None) -> None:
    """Refuse caches that are larger than the devices of the trainers.

    Args:
        config, strategy: of the run.
        layout: with features.
        working_bytes: what training takes of each accelerator; None where that is not known yet.

    Raises:
        InputError: with what there is.
    """
    if strategy.cache_size is None:
        return
    sharers = sharers_of(config.device, config.trainers_here)
    if config.device == accelerator.HOST:
        memory = Memory.of(torch.device("cpu"), sharers)
    else:
        memory = Memory.of_empty(config.device, sharers, working_bytes=working_bytes)
    if strategy.cache == "partitioned":
        prefix_rows(strategy.cache_size, layout.offsets, strategy.cache_holders, row_bytes(config, layout), memory)
    else:
        replicated_rows(strategy.cache_size, layout.graph.num_vertices, row_bytes(config, layout), memory)


def cached_bytes(config: FeaturesConfig, strategy: Strategy, layout: Layout) -> int | None:
    """Bytes of the largest cache of a trainer, of a run that was not refused; None where ``auto`` says it later."""
    size = strategy.cache_size
    if size is None:
        return 0
    each = row_bytes(config, layout)
    if size.share is None:
        # No more than there is: of all vertices, for parts that one trainer holds may be uneven.
        return None if size.num_bytes is None else min(size.num_bytes, each * layout.graph.num_vertices)
    if strategy.cache == "replicated":
        return each * -(-layout.graph.num_vertices * size.share.numerator // size.share.denominator)
    rows = prefixes(layout.offsets, strategy.cache_holders, share=size.share)
    return each * int(np.add.reduceat(rows, first_parts(len(rows), strategy.cache_holders)[:-1]).max())


def row_bytes(config: FeaturesConfig, layout: Layout) -> int:
    """Bytes of a feature row as host and caches keep it."""
    features, copied = layout.graph.features, copied_dtype(config, layout)
    assert features is not None
    return int(features.shape[1] * (features.itemsize if copied is None else copied.itemsize))


def split_group_of(config: Placed, layout: Layout) -> int:
    """Number of trainers that split a micro-batch between them.

    Raises:
        InputError: where trainers or parts cannot be dealt out to groups of so many.
    """
    trainers, here = config.gpus, config.trainers_here
    size = 1 if config.strategy == "data" else config.split_group or here
    if trainers % size:
        divisors = ", ".join(str(k) for k in range(1, trainers + 1) if trainers % k == 0)
        raise InputError(f"--split-group {size} does not divide the {trainers} trainers; use one of {divisors}")
    if size % here and here % size:
        raise InputError(
            f"--split-group {size} would split mini-batches between some trainers of one host and some of another, "
            f"with {here} on each; use a divisor or a multiple of {here}"
        )
    if layout.parts < size:
        raise InputError(
            f"{layout.path} has {layout.parts} parts, which cannot be dealt out to {size} trainers; make a layout "
            f"with gsplit partition ... --parts {size}"
        )
    return size


def _is_data_parallel(config: ParallelConfig, split_group: int) -> bool:
    """Return whether groups are of one trainer, and that is what was asked for, not all there is."""
    return split_group == 1 and (config.gpus != 1 or config.strategy == "data")


def cache_of(config: Placed, split_group: int, *, typed: bool = False) -> tuple[CacheName, str | None]:
    """Kind of the caches, and the size of each; None without one, as where vertices have several types.

    Raises:
        InputError: for one that does not go with the strategy.
    """
    cache, data_parallel = config.cache, _is_data_parallel(config, split_group)
    if cache == "auto":
        if data_parallel and config.cache_size is not None:
            raise InputError(
                f"--cache-size {config.cache_size} of which cache? With --strategy data there are two: add "
                "--cache partitioned (Quiver's) or --cache replicated (PaGraph's)"
            )
        wanted = config.cache_size is not None or (not data_parallel and config.device != accelerator.HOST)
        wanted = wanted and not typed
        cache = "partitioned" if wanted else "none"
    if cache == "replicated" and not data_parallel:
        raise InputError(
            "--cache replicated belongs to --strategy data: under split parallelism only its owner loads a row; "
            "use --cache partitioned"
        )
    return cache, None if cache == "none" else config.cache_size or "auto"
