"""What a trainer loads feature rows with: the rows of the host, its cache, and the memory that trainers share."""

from __future__ import annotations

import logging
import time
from typing import Any

import torch

from gsplit.data import Layout
from gsplit.device import accelerator
from gsplit.engine.own_ranges import bounds_of
from gsplit.engine.rows.reserve import reserve_of
from gsplit.engine.rows.shared import Shared
from gsplit.engine.run import Run
from gsplit.engine.strategy import copied_dtype
from gsplit.errors import InputError
from gsplit.features import (
    Cache,
    FeatureLoader,
    HostRows,
    Memory,
    NoCache,
    PartitionedCache,
    PeerCaches,
    Prefixes,
    ReplicatedCache,
    prefix_rows,
    replicated_ids,
)
from gsplit.features.room import sharers_of
from gsplit.host import SharedBuffer
from gsplit.parallel import DATA, SPLIT, Member
from gsplit.parallel.collectives import all_gather_object
from gsplit.sampling import EpochPlan
from gsplit.terminal import say
from gsplit.units import binary

TOLD_BYTES = 1 << 30
"""Bytes of rows from which on registering them takes seconds, which is printed."""

logger = logging.getLogger(__name__)


def host_rows(layout: Layout, member: Member, copied: torch.dtype | None, buffer: SharedBuffer) -> HostRows:
    """The feature rows of a layout, as they are stored, or a copy that all trainers share; all make the call.

    Args:
        layout: with features.
        member: of this trainer.
        copied: the type of the copy, which can be registered for kernels; None for no copy.
        buffer: for the copy, the same for all.

    Raises:
        InputError: for a value that the type cannot hold.
        MemoryError: where the host has no room.
    """
    assert layout.graph.features is not None
    if copied is None:
        return HostRows(layout.graph.features)
    bounds = bounds_of(layout, len(member.here))  # each host has a copy of its own
    begin, end = (int(bound) for bound in bounds[member.local : member.local + 2])
    return HostRows.shared(
        layout.graph.features,
        copied,
        buffer,
        begin=begin,
        end=end,
        create=member.local == 0,
        barrier=member.barrier,
        shown=lambda row: layout.shown(int(layout.permutation[row])),
    )


def register_in_turn(host: HostRows, member: Member) -> None:
    """Register the rows of the host for kernels, one trainer after the other; all make the call.

    The driver pins page by page and holds a lock meanwhile; trainers that do so at once, on the same pages, wait for
    each other there, where nobody sees it.
    """
    begin_s, is_told = time.monotonic(), member.rank == 0 and host.bytes_view.nbytes >= TOLD_BYTES
    if is_told:
        size = binary(host.bytes_view.nbytes)
        say(f"registering {size} of feature rows with the driver, one trainer after the other")
    for local in range(len(member.here)):
        if local == member.local:
            host.pin()
        member.barrier()
    if is_told:
        say(f"{'registered' if host.pin() else 'refused'} after {time.monotonic() - begin_s:.1f} s")


class Loading:
    """The rows of the host and the cache of one trainer; makes loaders. All trainers make one, together.

    Args:
        run: that rows are loaded for.
        layout: with features.
        member: of this trainer.
        shared: memory.

    Raises:
        InputError: where memory does not suffice.
    """

    def __init__(self, run: Run, layout: Layout, member: Member, shared: Shared) -> None:
        self._run = run
        self._config, self._strategy, self._layout, self._member = run.config, run.strategy, layout, member
        self._shared, self._threads = shared, run.config.threads
        assert layout.graph.features is not None
        self._everything_cached = False
        try:
            copied = copied_dtype(self._config, layout)
            self._host = host_rows(layout, member, copied, shared.features)
            self._cache = self._make_cache()
            # On the whole graph each row is read once, which takes less than registering all of them.
            loader = "gather" if self._config.strategy == "full" else "zero-copy"
            loader = loader if self._config.loader == "auto" else self._config.loader
            zero_copy = (
                accelerator.reads_host_memory(member.device.type)
                and loader == "zero-copy"
                and not self._everything_cached
            )
            if zero_copy and copied is None and self._room_for_a_copy():
                self._host = host_rows(layout, member, self._host.dtype, shared.features)
        except MemoryError as error:
            raise InputError(f"no memory for feature rows: {error}") from None
        self._zero_copy = zero_copy and self._host.bytes_view.flags.writeable
        if self._zero_copy:
            register_in_turn(self._host, member)
        self.cache_rows: list[int] = self._gathered(len(self._cache.rows))
        """Number of cached rows of every trainer."""

    @property
    def in_memory(self) -> bool:
        """True where the host's rows fit its memory, so that a layer that reads them need not wait for a disk."""
        return self._host.bytes_view.nbytes <= Memory.of(torch.device("cpu"), sharers=1).auto_bytes

    def loader(self, dtype: torch.dtype) -> FeatureLoader:
        """One for each user: a loader counts what it loads."""
        return FeatureLoader(
            self._host,
            device=self._member.device,
            dtype=dtype,
            normalize=self._config.normalize_features,
            threads=self._threads,
            cache=self._cache,
            zero_copy=self._zero_copy,
        )

    def close(self) -> None:
        """Let go of the peers' caches, before a trainer ends; all make the call."""
        if isinstance(self._cache, PeerCaches):
            self._cache.close(self._member.barrier)

    def _make_cache(self) -> Cache:
        strategy, layout, member, host = self._strategy, self._layout, self._member, self._host
        if strategy.cache_size is None:
            return NoCache()
        memory = Memory.least(self._gathered(self._memory()))
        graph, device, threads = layout.graph, member.device, self._threads
        if strategy.cache == "replicated":
            plan = EpochPlan(
                graph.train_idx,
                layout.permutation,
                self._config.batch_size,
                self._config.seed,
                micro_batches=strategy.micro_batches,
                fixed_shares=True,
            )
            assert plan.shares is not None
            own = plan.shares[member.coordinate(DATA)]
            ids = replicated_ids(
                strategy.cache_size, graph.indptr, graph.indices, own, self._config.layers, host.row_bytes, memory
            )
            return ReplicatedCache(host, ids, device=device, threads=threads)
        cache_rows = prefix_rows(strategy.cache_size, layout.offsets, strategy.cache_holders, host.row_bytes, memory)
        everything = int(cache_rows.sum()) == graph.num_vertices
        prefixes = Prefixes(layout.offsets, cache_rows, strategy.cache_holders)
        self._everything_cached = everything
        if not strategy.peers:
            return PartitionedCache(host, prefixes, member.coordinate(SPLIT), device=device, threads=threads)
        if accelerator.is_one(device):
            cache = PeerCaches.on_gpus(
                host, prefixes, member.local, device=device, all_gather_object=self._gathered_here, threads=threads
            )
            self._everything_cached = everything and all(self._gathered(cache.reaches_all))
            return cache
        return PeerCaches.in_buffers(
            host,
            prefixes,
            member.local,
            buffers=self._shared.caches[: len(member.here)],
            barrier=member.barrier,
            threads=threads,
        )

    def _memory(self) -> Memory:
        """Return what this trainer has for its cache."""
        sharers = sharers_of(self._member.device.type, len(self._member.here))
        working = reserve_of(self._run, self._layout) if accelerator.is_one(self._member.device) else 0
        return Memory.of(self._member.device, sharers, working_bytes=working)

    def _room_for_a_copy(self) -> bool:
        """Decide whether zero-copy, not asked for, may have the memory that it takes; the same everywhere."""
        if self._config.loader == "zero-copy":
            return True
        num_bytes = self._host.bytes_view.nbytes
        free = min(self._gathered(Memory.of(torch.device("cpu"), sharers=1).auto_bytes))
        if num_bytes > free and self._member.rank == 0:
            logger.warning("too little memory for a copy of the feature rows that GPUs can read: the CPU copies rows")
        return num_bytes <= free

    def _gathered(self, value: Any) -> list[Any]:
        """Everyone's, by rank."""
        return all_gather_object(value, self._member.group)

    def _gathered_here(self, value: Any) -> list[Any]:
        """Those of the trainers of this host; all trainers make the call."""
        here = self._member.here
        return self._gathered(value)[here.start : here.stop]
