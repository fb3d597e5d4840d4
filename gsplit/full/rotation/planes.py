"""Planes: which rows and columns of each level a trainer has where layers rotate.

The trainers stand on a grid of the axes x, y, z. In layer l the adjacency is cut into blocks of rows along one axis
and of columns along a second; rows of the level below are cut along the second and their features along the third.
The product of a layer is cut as the next layer wants its input if the axes change their roles:

| layer | rows of A | columns of A | features |
|---|---|---|---|
| 1, 4, .. | z | x | y |
| 2, 5, .. | y | z | x |
| 3, 6, .. | x | y | z |

So no rows travel between layers, and there are three blocks of A to hold. What is cut along two axes is the same for
all trainers along the third.

Levels may have vertices in another order in turn (a double permutation): then the blocks of every other layer are
``P_r A P_c'``, of those between ``P_c A P_r'``, and there are six to hold.

Legend: N vertices, P trainers, L layers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsplit.full.plans import TURNING
from gsplit.parallel import Grid


class Roles(NamedTuple):
    """The roles of the axes in a layer."""

    rows: str
    """Axis along which the rows of the adjacency are cut."""
    columns: str
    """Axis along which its columns are cut, and the outputs of the layer."""
    features: str
    """Axis along which the inputs of the layer are cut."""


def roles_of(layer: int) -> Roles:
    """Roles of the axes in a layer, 1 .. L."""
    axes = Roles("z", "x", "y")
    for _ in range((layer - 1) % 3):
        axes = Roles(rows=axes.features, columns=axes.rows, features=axes.columns)
    return axes


class PlaneOrder(NamedTuple):
    """An order of the vertices, cut into a range for each trainer."""

    vertices: Sequence[NDArray[np.int64]]
    """[P] layout ids of each trainer's."""

    @property
    def sizes(self) -> list[int]:
        """[P] numbers of vertices."""
        return [len(own) for own in self.vertices]

    @property
    def owner_N(self) -> NDArray[np.int64]:
        """[N] the trainer that has each vertex."""
        owner_N = np.empty(sum(self.sizes), np.int64)
        for trainer, own in enumerate(self.vertices):
            owner_N[own] = trainer
        return owner_N


def orders_of(bounds: NDArray[np.int64], seed: int, *, double: bool) -> tuple[PlaneOrder, PlaneOrder]:
    """The orders of even levels, that of the layout, and of odd ones: the same, or one that is drawn.

    Args:
        bounds: [P + 1] layout ids: trainer p owns ``bounds[p] .. bounds[p + 1]``.
        seed: that the second order is drawn from.
        double: whether there is a second one.
    """
    even = PlaneOrder([np.arange(begin, end) for begin, end in itertools.pairwise(bounds)])
    if not double:
        return even, even
    drawn = np.random.default_rng(seed).permutation(int(bounds[-1]))
    return even, PlaneOrder(np.array_split(drawn, len(bounds) - 1))


class Planes(NamedTuple):
    """The blocks of all levels, as one trainer sees them."""

    grid: Grid
    """The trainers along :data:`gsplit.full.plans.TURNING`."""
    rank: int
    """This trainer."""
    orders: tuple[PlaneOrder, PlaneOrder]
    """Orders of even and of odd levels."""

    def order(self, level: int) -> PlaneOrder:
        """The order of a level, 0 .. L."""
        return self.orders[level % 2]

    def peers(self, axis: str) -> list[int]:
        """The trainers that have the same block along an axis, in the order of their rows: by z, then y, then x."""
        own = self.grid.coordinate(self.rank, axis)
        same = [peer for peer in range(self.grid.world) if self.grid.coordinate(peer, axis) == own]
        return sorted(same, key=self._by_rows)

    def block(self, level: int, axis: str) -> NDArray[np.int64]:
        """Layout ids of the own block of a level along an axis."""
        return np.concatenate([self.order(level).vertices[peer] for peer in self.peers(axis)])

    def place_N(self, level: int) -> NDArray[np.int64]:
        """[N] place of each vertex among all of a level; those of a block along any axis lie in this order."""
        order = self.order(level)
        vertices = np.concatenate(
            [order.vertices[peer] for peer in sorted(range(self.grid.world), key=self._by_rows)]
        )
        place_N = np.empty(len(vertices), np.int64)
        place_N[vertices] = np.arange(len(vertices))
        return place_N

    def _by_rows(self, trainer: int) -> tuple[int, ...]:
        """What trainers are in order by where their rows lie in a block: z, then y, then x."""
        return tuple(self.grid.coordinates(trainer)[name] for name in reversed(TURNING))

    def along(self, axis: str) -> list[int]:
        """The trainers that differ from this one along an axis alone, with it."""
        return list(self.grid.group(self.rank, axis))
