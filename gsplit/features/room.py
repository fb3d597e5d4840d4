"""How many rows a cache may have: what ``--cache-size`` asks for, compared with what the device has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gsplit.data import first_parts
from gsplit.device import accelerator
from gsplit.errors import InputError
from gsplit.features.placement import hottest, prefixes
from gsplit.limits import host_memory
from gsplit.units import CacheSize, binary

FLOOR_BYTES = 2 << 30
"""Bytes of a GPU that ``auto`` leaves free at most for what only a GPU shows: pieces that the allocator cannot use
again, NCCL's buffers and channels, workspaces of kernels."""
FLOOR_SHARE = Fraction(1, 16)
"""Share of a GPU that it leaves for them where that is less: a small device is given small work, which takes little
of them, and 2 GiB might be all it has."""
MARGIN = Fraction(1, 8)
"""Share of what training takes that ``auto`` leaves free on top: mini-batches may be larger than those looked at."""
UNUSABLE = Fraction(1, 8)
"""What the allocator may hold over what training takes, in pieces that are free and too small."""
SEGMENTS_BYTES = 64 << 20
"""Bytes that it may hold beside that, however little training takes: it has memory in segments of 20 MiB, some for
each stream."""
UNKNOWN_SHARE = Fraction(1, 4)
"""Share of a GPU that ``auto`` leaves to training where nobody knows what it takes."""


def sharers_of(kind: str, trainers: int) -> int:
    """Trainers that have one memory between them: all on the host; on an accelerator one, but for tests with fewer.

    Args:
        kind: the type of device that they compute on.
        trainers: of the run.
    """
    return trainers if kind == accelerator.HOST else -(-trainers // accelerator.count(kind))


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The memory that one trainer can have of its device. It changes: trainers agree on the least (:meth:`least`)."""

    device: str
    """The name of the device, for messages."""
    total_bytes: int
    """Bytes of the device, shared out to the trainers on it."""
    free_bytes: int
    """Bytes that a cache may take: those that are free, shared out likewise, less what has to be for training."""
    auto_bytes: int
    """Bytes that a cache of size ``auto`` takes."""
    working_bytes: int = 0
    """Bytes that training takes beside it; 0 where that is not known."""

    @classmethod
    def of(cls, device: torch.device, sharers: int, *, working_bytes: int | None = None) -> Memory:
        """Return what a trainer can have of its device now.

        Args:
            device: of the trainer.
            sharers: trainers that take their caches from the same memory: all of the host on the CPU, one on a GPU
                of its own.
            working_bytes: what each of them takes for training, on a GPU; None where that is not known.
        """
        if accelerator.is_one(device):
            free, total = accelerator.free_and_total(device)
            return cls._of_one(str(device), free, total, sharers, working_bytes)
        host = host_memory()
        total, free, spare = host.total_bytes, host.available_bytes, host.available_bytes // 2
        return cls(
            device=str(device), total_bytes=total // sharers, free_bytes=free // sharers, auto_bytes=spare // sharers
        )

    @classmethod
    def of_empty(cls, kind: str, sharers: int, *, working_bytes: int | None = None) -> Memory:
        """Return what a trainer can have of an accelerator of which nothing is taken yet.

        Args:
            kind: the type of the accelerators.
            sharers: trainers on each of them.
            working_bytes: what each of them takes for training; None where that is not known yet.
        """
        total = accelerator.smallest_bytes(kind)
        return cls._of_one(kind, total, total, sharers, working_bytes)

    @classmethod
    def _of_one(cls, device: str, free: int, total: int, sharers: int, working_bytes: int | None) -> Memory:
        taken = None if working_bytes is None else sharers * working_bytes
        return cls(
            device=device,
            total_bytes=total // sharers,
            free_bytes=max(0, free // sharers - sufficient_bytes(working_bytes or 0)),
            auto_bytes=spare_bytes(free, total, taken) // sharers,
            working_bytes=working_bytes or 0,
        )

    @staticmethod
    def least(memories: Sequence[Memory]) -> Memory:
        """Take the least that any of some trainers can have, with the name of the device that has it."""
        return Memory(
            device=min(memories, key=lambda memory: memory.free_bytes).device,
            total_bytes=min(memory.total_bytes for memory in memories),
            free_bytes=min(memory.free_bytes for memory in memories),
            auto_bytes=min(memory.auto_bytes for memory in memories),
            working_bytes=max(memory.working_bytes for memory in memories),
        )


def spare_bytes(free: int, total: int, working_bytes: int | None = None) -> int:
    """Bytes that caches of size ``auto`` may take of a GPU.

    Args:
        free, total: bytes of the GPU.
        working_bytes: what training takes; None where that is not known.
    """
    working = total * UNKNOWN_SHARE if working_bytes is None else working_bytes * (1 + MARGIN)
    return max(0, int(free - floor_bytes(total) - working))


def usable_bytes(free: int) -> int:
    """Bytes of tensors for which so many that are free suffice.

    Small devices have a share of the segments, as of the floor.
    """
    return int((free - min(SEGMENTS_BYTES, int(free * FLOOR_SHARE))) / (1 + UNUSABLE))


def sufficient_bytes(working_bytes: int) -> int:
    """Bytes that have to be free for so many bytes of tensors: the least that :func:`usable_bytes` says suffice."""
    held = working_bytes * (1 + UNUSABLE)
    return math.ceil(min(held + SEGMENTS_BYTES, held / (1 - FLOOR_SHARE)))


def floor_bytes(total: int) -> int:
    """Bytes of a GPU that are left free for what only a GPU shows."""
    return min(FLOOR_BYTES, int(total * FLOOR_SHARE))


def prefix_rows(
    size: CacheSize, offsets: NDArray[np.int64], holders: int, row_bytes: int, memory: Memory
) -> NDArray[np.int64]:
    """Return how many rows of each part a partitioned cache holds: ``cache_rows``, int64 [P].

    Args:
        size: what was asked for.
        offsets: int64 [P + 1] of the layout.
        holders: number of trainers that hold the parts between them.
        row_bytes: of a row as stored.
        memory: that each of them has.

    Raises:
        InputError: where a cache would have less than a row, or more than there is room for.
    """
    if size.share is not None:
        cache_rows = prefixes(offsets, holders, share=size.share)
    else:
        cache_rows = prefixes(offsets, holders, rows=_rows_within(size, row_bytes, memory))
    largest = int(np.add.reduceat(cache_rows, first_parts(len(cache_rows), holders)[:-1]).max())
    if largest == 0:  # a row, shared out over several parts
        raise InputError(_too_little(size, row_bytes))
    _check_room(size, largest * row_bytes, memory)
    return cache_rows


def replicated_ids(
    size: CacheSize,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    targets: NDArray[np.int64],
    hops: int,
    row_bytes: int,
    memory: Memory,
) -> NDArray[np.int64]:
    """The vertices that one trainer caches for itself, int64 [R] layout ids; none where it has no targets.

    Args:
        size: what was asked for.
        indptr, indices, targets, hops: see :func:`gsplit.features.placement.hottest`.
        row_bytes: of a row as stored.
        memory: that the trainer has.

    Raises:
        InputError: where the cache would have less than a row, or more than there is room for.
    """
    num_rows = replicated_rows(size, len(indptr) - 1, row_bytes, memory)
    ids = hottest(indptr, indices, targets, hops, num_rows)
    _check_room(size, len(ids) * row_bytes, memory)
    return ids


def replicated_rows(size: CacheSize, num_vertices: int, row_bytes: int, memory: Memory) -> int:
    """Return how many rows one trainer may cache for itself, at most.

    Raises:
        InputError: where that is less than a row, or more than the device has room for.
    """
    if size.share is None:
        return min(num_vertices, _rows_within(size, row_bytes, memory))
    return -(-num_vertices * size.share.numerator // size.share.denominator)


def _rows_within(size: CacheSize, row_bytes: int, memory: Memory) -> int:
    """Return how many rows fit into a size in bytes, or into ``auto``.

    Raises:
        InputError: where that is less than a row, or more than the device has room for.
    """
    num_bytes = size.num_bytes
    if num_bytes is None:
        num_bytes = memory.auto_bytes
        if num_bytes < row_bytes:
            raise InputError(
                f"--cache-size auto: {memory.device} has {binary(memory.free_bytes)} free{_beside(memory)}, which "
                "leaves nothing for a cache; use --cache none"
            )
    if num_bytes > memory.total_bytes:
        raise InputError(
            f"--cache-size {size}: {memory.device} has {binary(memory.total_bytes)} in all for a trainer; "
            "use a smaller size or auto"
        )
    if num_bytes < row_bytes:
        raise InputError(_too_little(size, row_bytes))
    return num_bytes // max(1, row_bytes)


def _too_little(size: CacheSize, row_bytes: int) -> str:
    return (
        f"--cache-size {size}: that is less than a row of {binary(row_bytes)} for each part; use a larger size or "
        "--cache none"
    )


def _check_room(size: CacheSize, num_bytes: int, memory: Memory) -> None:
    if num_bytes > memory.free_bytes:
        raise InputError(
            f"--cache-size {size}: a trainer would cache {binary(num_bytes)} of rows, but {memory.device} has "
            f"{binary(memory.free_bytes)} free{_beside(memory)}; use a smaller size or auto"
        )


def _beside(memory: Memory) -> str:
    return f" beside the {binary(memory.working_bytes)} that training takes" if memory.working_bytes else ""
