"""The epoch plan: which targets are in which mini-batch.

Targets are shuffled as *global* ids, by sorting them by a hash of (seed, epoch, global id), so that the
mini-batches are the same whatever the partition and the number of trainers (law 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout

GOLDEN = 0x9E3779B97F4A7C15
"""The increment of SplitMix64, as in csrc/random.hpp."""
SHUFFLE = 0x53485546
"""A tag that keeps the shuffle's keys apart from those of the draws."""
_MASK = 2**64 - 1


def num_batches(num_targets: int, batch_size: int) -> int:
    """Number of mini-batches of an epoch with so many targets; the last one may be smaller."""
    return -(-num_targets // batch_size)


class EpochPlan:
    """Shuffles the training vertices of each epoch and cuts them into mini-batches, and those into micro-batches.

    Args:
        train_idx: int64 [T] layout ids.
        global_ids: int64 [N] layout id -> global id.
        batch_size: targets of one mini-batch over all trainers; the last one of an epoch may be smaller.
        seed: of the run.
        micro_batches: of each mini-batch, G; their sizes differ by one at most.
        fixed_shares: let micro-batch g of every mini-batch come from share g of the training vertices, which stays
            the same and is shuffled for itself (as PaGraph does). The shares are equal runs of the layout ids, so
            they follow the parts, and the targets depend on the layout.
    """

    def __init__(
        self,
        train_idx: NDArray[np.int64],
        global_ids: NDArray[np.int64],
        batch_size: int,
        seed: int,
        *,
        micro_batches: int = 1,
        fixed_shares: bool = False,
    ) -> None:
        global_train = np.asarray(global_ids)[train_idx]
        by_global_id = np.argsort(global_train)
        self._global_ids = global_train[by_global_id].astype(np.uint64)
        self._layout_ids = np.asarray(train_idx)[by_global_id]
        self._batch_size = batch_size
        self._seed = seed
        self._micro_batches = micro_batches
        self.shares = np.array_split(np.sort(train_idx), micro_batches) if fixed_shares else None
        """The share of each micro-batch, [G] int64 arrays of layout ids; None where shares are not fixed."""
        self._epoch: tuple[int, list[NDArray[np.int64]]] | None = None
        """The epoch asked for last and its shuffled targets, by share: mini-batches are asked for one at a time."""

    @property
    def num_batches(self) -> int:
        """Number of mini-batches of an epoch."""
        return num_batches(len(self._layout_ids), self._batch_size)

    def targets(self, epoch: int) -> NDArray[np.int64]:
        """All targets as they are shuffled in an epoch, int64 [T] layout ids."""
        key = fold_key(self._seed, epoch, SHUFFLE)
        return self._layout_ids[np.argsort(hashed(key, self._global_ids), kind="stable")]

    def micro_batches(self, epoch: int, batch: int) -> list[NDArray[np.int64]]:
        """The targets of one mini-batch by micro-batch: [G] int64 arrays of layout ids."""
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, self._by_share(self.targets(epoch))
        total = len(self._layout_ids)
        begin, end = (min(number * self._batch_size, total) for number in (batch, batch + 1))
        if self.shares is None:
            return np.array_split(self._epoch[1][0][begin:end], self._micro_batches)
        # Targets are taken from the shares in turn: number i of the epoch is number i // G of share i % G.
        number = self._micro_batches
        return [share[-((g - begin) // number) : -((g - end) // number)] for g, share in enumerate(self._epoch[1])]

    def others(self, epoch: int, batch: int) -> None:
        """Nothing: the targets alone start."""

    def batch(self, epoch: int, batch: int) -> NDArray[np.int64]:
        """The targets of one mini-batch, int64 [at most ``batch_size``] layout ids."""
        return np.concatenate(self.micro_batches(epoch, batch))

    def batches(self, epoch: int, first: int = 0) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The mini-batches of an epoch from number ``first`` on, each as (number, targets)."""
        for batch in range(first, self.num_batches):
            yield batch, self.batch(epoch, batch)

    def _by_share(self, targets: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        if self.shares is None:
            return [targets]
        return [targets[np.isin(targets, share)] for share in self.shares]


@dataclass(frozen=True, kw_only=True)
class OfTraining:
    """The part of a rule whose mini-batches start from shuffled training vertices."""

    def num_batches(self, layout: Layout, *, batch_size: int, micro_batches: int = 1) -> int:
        """Number of mini-batches that the training vertices fill; the last one may be smaller."""
        return num_batches(len(layout.graph.train_idx), batch_size)

    def plan(
        self, layout: Layout, *, batch_size: int, seed: int, micro_batches: int = 1, fixed_shares: bool = False
    ) -> EpochPlan:
        """The training vertices, shuffled anew in each epoch."""
        graph = layout.graph
        return EpochPlan(
            graph.train_idx,
            layout.permutations[graph.target] if graph.schema.is_typed else layout.permutation,
            batch_size,
            seed,
            micro_batches=micro_batches,
            fixed_shares=fixed_shares,
        )


def mix64(x: int) -> int:
    """The finaliser of SplitMix64, as in csrc/random.hpp."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def fold_key(*words: int) -> int:
    """One 64-bit key from several words, as ``fold_key`` of csrc/random.hpp gives it."""
    key = 0
    for word in words:
        key = mix64(((key ^ (word & _MASK)) + GOLDEN) & _MASK)
    return key


def hashed(key: int, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64 [...] each id folded into the key, as ``fold_word`` of csrc/random.hpp does it."""
    x = (ids ^ np.uint64(key)) + np.uint64(GOLDEN)  # wraps, as it should
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
