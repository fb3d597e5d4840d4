"""A process grid: the ranks of all trainers, laid out along named axes.

Today's axes are ``data`` (micro-batches) x ``split`` (the trainers that split a micro-batch between them). One
micro-batch split by all trainers is split parallelism, one for each trainer is data parallelism, and anything
between is both. Eight trainers, two micro-batches::

    data 0    ranks 0 1 2 3        the group of rank 1 along split: 0 1 2 3
    data 1    ranks 4 5 6 7                           along data:  1 5

A grid follows from sizes alone. It does not know who owns which vertices, nor how the processes were started.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

DATA = "data"
"""Axis of the micro-batches of a mini-batch."""
SPLIT = "split"
"""Axis of the trainers that split a micro-batch between them: a split group."""
HOSTS, HERE = "hosts", "here"
"""Axes of the trainers by host: the hosts, and the trainers of one. Of all trainers, hosts is the slowest axis."""


@dataclass(frozen=True)
class Grid:
    """Ranks 0 .. world - 1 in the order of their coordinates; the last axis varies fastest.

    Raises:
        ValueError: for a size below 1, or an axis that is named twice.
    """

    axes: tuple[str, ...]
    """Names."""
    sizes: tuple[int, ...]
    """Number of coordinates along each axis."""

    def __post_init__(self) -> None:
        if len(set(self.axes)) != len(self.sizes) or len(self.axes) != len(self.sizes):
            raise ValueError(f"a grid needs a size for each axis: {self.axes} and {self.sizes}")
        if any(size < 1 for size in self.sizes):
            raise ValueError(f"no axis may be empty: {self}")

    @classmethod
    def of(cls, **sizes: int) -> Grid:
        """The grid with these axes, slowest first: ``Grid.of(data=2, split=4)``."""
        return cls(tuple(sizes), tuple(sizes.values()))

    def __str__(self) -> str:
        return " x ".join(f"{axis} {size}" for axis, size in zip(self.axes, self.sizes, strict=True))

    @property
    def world(self) -> int:
        """Number of ranks."""
        return math.prod(self.sizes)

    def size(self, *axes: str) -> int:
        """Number of ranks of a group along these axes.

        Raises:
            ValueError: for an axis that the grid does not have.
        """
        self._check(axes)
        return math.prod(size for axis, size in zip(self.axes, self.sizes, strict=True) if axis in axes)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Axis -> coordinate of a rank, from 0.

        Raises:
            ValueError: for a rank that the grid does not have.
        """
        if not 0 <= rank < self.world:
            raise ValueError(f"the grid {self} has no rank {rank}")
        along = []
        for size in reversed(self.sizes):
            rank, coordinate = divmod(rank, size)
            along.append(coordinate)
        return dict(zip(self.axes, reversed(along), strict=True))

    def coordinate(self, rank: int, axis: str) -> int:
        """Coordinate of a rank along one axis; raises what :meth:`coordinates` and :meth:`size` do."""
        self._check((axis,))
        return self.coordinates(rank)[axis]

    def rank(self, **coordinates: int) -> int:
        """The rank with these coordinates, one for each axis.

        Raises:
            ValueError: where one is missing, too many or out of range.
        """
        self._check(tuple(coordinates))
        rank = 0
        for axis, size in zip(self.axes, self.sizes, strict=True):
            if not 0 <= coordinates.get(axis, -1) < size:
                raise ValueError(f"the grid {self} has no rank at {coordinates}")
            rank = rank * size + coordinates[axis]
        return rank

    def group(self, rank: int, *axes: str) -> tuple[int, ...]:
        """The ranks, ascending, that differ from ``rank`` along these axes alone; it is one of them.

        Raises:
            ValueError: for a rank or an axis that the grid does not have.
        """
        self._check(axes)
        own = self.coordinates(rank)
        along = [
            range(size) if axis in axes else [own[axis]] for axis, size in zip(self.axes, self.sizes, strict=True)
        ]
        return tuple(self.rank(**dict(zip(self.axes, at, strict=True))) for at in itertools.product(*along))

    def groups(self, *axes: str) -> list[tuple[int, ...]]:
        """All groups along these axes, by their first rank: every rank is in one of them."""
        return sorted({self.group(rank, *axes) for rank in range(self.world)})

    def _check(self, axes: tuple[str, ...]) -> None:
        for axis in axes:
            if axis not in self.axes:
                raise ValueError(f"the grid {self} has no axis {axis!r}")


def trainer_grid(trainers: int, split: int | None = None) -> Grid:
    """Micro-batches x the trainers that split each of them.

    Args:
        trainers: of the run.
        split: trainers of a split group; by default all of them.

    Raises:
        ValueError: where ``split`` does not divide ``trainers``.
    """
    split = trainers if split is None else split
    if split < 1 or trainers % split:
        raise ValueError(f"groups of {split} do not divide {trainers} trainers")
    return Grid.of(**{DATA: trainers // split, SPLIT: split})
