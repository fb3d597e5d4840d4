"""The epoch plan: which targets are in which mini-batch.

Targets are shuffled as *global* ids, by sorting them by a hash of (seed, epoch, global id), so that the
mini-batches are the same whatever the partition and the number of trainers (law 1).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

GOLDEN = 0x9E3779B97F4A7C15
SHUFFLE = 0x53485546  # keeps the shuffle's keys apart from those of the draws
_MASK = 2**64 - 1


class EpochPlan:
    """Shuffles the training vertices of each epoch and cuts them into mini-batches.

    Args:
        train_idx: int64 [T] layout ids.
        global_ids: int64 [N] layout id -> global id.
        batch_size: targets of one mini-batch over all trainers; the last one of an epoch may be smaller.
        seed: of the run.
    """

    def __init__(
        self, train_idx: NDArray[np.int64], global_ids: NDArray[np.int64], batch_size: int, seed: int
    ) -> None:
        global_train = np.asarray(global_ids)[train_idx]
        order = np.argsort(global_train)
        self._global_ids = global_train[order].astype(np.uint64)
        self._layout_ids = np.asarray(train_idx)[order]
        self._batch_size = batch_size
        self._seed = seed
        self._epoch: tuple[int, NDArray[np.int64]] | None = None
        """The epoch asked for last, and its targets: mini-batches are asked for one at a time."""

    @property
    def num_batches(self) -> int:
        """Mini-batches of an epoch."""
        return -(-len(self._layout_ids) // self._batch_size)

    def targets(self, epoch: int) -> NDArray[np.int64]:
        """[T] layout ids in the order of an epoch."""
        key = fold_key(self._seed, epoch, SHUFFLE)
        return self._layout_ids[np.argsort(_hash(key, self._global_ids), kind="stable")]

    def batch(self, epoch: int, batch: int) -> NDArray[np.int64]:
        """The targets of one mini-batch, [T] layout ids."""
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, self.targets(epoch)
        return self._epoch[1][batch * self._batch_size : (batch + 1) * self._batch_size]

    def batches(self, epoch: int, first: int = 0) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """(number, targets) of the mini-batches of an epoch, from number ``first`` on."""
        for batch in range(first, self.num_batches):
            yield batch, self.batch(epoch, batch)


def mix64(x: int) -> int:
    """The finaliser of SplitMix64, as in csrc/random.hpp."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def fold_key(*words: int) -> int:
    """One 64-bit key from several words; the same as ``fold_key`` of csrc/random.hpp."""
    key = 0
    for word in words:
        key = mix64(((key ^ (word & _MASK)) + GOLDEN) & _MASK)
    return key


def _hash(key: int, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (ids ^ np.uint64(key)) + np.uint64(GOLDEN)  # wraps, as it should
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
