"""GraphSAINT's node sampler: the subgraph of vertices drawn by importance, each with a known chance of its own.

Zeng et al., "GraphSAINT: Graph Sampling Based Inductive Learning Method", ICLR 2020, section 3. Darts hit vertices in
proportion to their masses. Their number is not fixed but that of a Poisson process, so that vertices are drawn
independently of each other: u is in the set with the chance q_u = 1 - exp(-darts x share of u), whatever else is. An
edge from u counts 1 / q_u exactly, and the loss of a target 1 / q_v, where the paper estimates both by drawing sets
beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.sampling.masses import Importance, MassLine, source_masses
from gsplit.sampling.plan import fold_key, hashed
from gsplit.sampling.sampler import SetSampler
from gsplit.sampling.subgraphs import SETS, SetPlan, set_size

UNIT = 2.0**-53
_LINES: WeakValueDictionary[tuple[int, str], MassLine] = WeakValueDictionary()
"""The lines that somebody holds, by the layout, which a line keeps alive, and the importance."""


def arrivals(key: int, rate: float, length: float) -> NDArray[np.uint64]:
    """Places of a Poisson process, rounded down: uint64, ascending, from 0 to below ``length``.

    Args:
        key: that all draws depend on.
        rate: places expected in all.
        length: of the line.
    """
    gap, found = length / rate, [np.empty(0)]
    first, at = 0, 0.0
    some = int(rate + 6 * np.sqrt(rate)) + 16  # the rest would be missed once in a thousand million times
    while at < length:
        words = hashed(key, np.arange(first, first + some, dtype=np.uint64)) >> np.uint64(11)
        steps = -np.log((words + np.uint64(1)).astype(np.float64) * UNIT) * gap
        steps[0] += at
        found.append(np.cumsum(steps))
        first, at = first + some, float(found[-1][-1])
    places = np.concatenate(found)
    return places[places < length].astype(np.uint64)


class SaintPlan(SetPlan):
    """The sets of a run, drawn for each mini-batch anew.

    Args:
        layout, seed, micro_batches: as :class:`~gsplit.sampling.subgraphs.SetPlan`'s.
        darts: that a set expects.
        line: of the masses.
    """

    def __init__(self, layout: Layout, *, darts: int, line: MassLine, seed: int, micro_batches: int) -> None:
        super().__init__(layout, seed=seed, micro_batches=micro_batches)
        self._darts, self._line = darts, line
        self._drawn: tuple[tuple[int, int], list[NDArray[np.int64]]] | None = None
        """The mini-batch asked for last and its sets."""

    def sets(self, epoch: int, batch: int) -> list[NDArray[np.int64]]:
        """The sets of a mini-batch: [G] int64 arrays of layout ids, ascending."""
        if self._drawn is None or self._drawn[0] != (epoch, batch):
            keys = [fold_key(self._seed, epoch, batch, micro, SETS) for micro in range(self._number)]
            total = float(self._line.total)
            drawn = [self._line.hit(arrivals(key, self._darts, total))[0] for key in keys]
            self._drawn = (epoch, batch), [np.sort(vertices) for vertices in drawn]
        return self._drawn[1]


class SaintSampler(SetSampler):
    """Cuts out the subgraphs of a :class:`SaintPlan`, each vertex with its scale.

    Args:
        layout, offsets, options: see :class:`~gsplit.sampling.sampler.SetSampler`.
        layers: number of layers.
        darts: that a set expects.
        line: of the masses.
    """

    def __init__(
        self, layout: Layout, offsets: NDArray[np.int64], *, layers: int, darts: int, line: MassLine, **options: Any
    ) -> None:
        super().__init__(layout, offsets, **options)
        self._layers, self._darts, self._line = layers, darts, line

    def _keep(self, start: NDArray[np.int64], targets: int, about: tuple[int, int, int, int]) -> None:
        scales = _scales(self._line, self._darts, start)
        self._core.sample_subgraph(start, targets, self._layers, scales, None, *about, self._edge_ids)


@dataclass(frozen=True, kw_only=True)
class Saint:
    """The rule of GraphSAINT's node sampler. Masses go by in-degrees, with each vertex its own source, too.

    Plan and sampler of a process share a line of 16 bytes a vertex.
    """

    draws_targets: ClassVar[bool] = True
    subgraph: str
    """Darts of a set: a number, or a share of all vertices such as ``10%``. Some hit the same vertex, so sets are
    smaller."""
    layers: int
    """Number of layers."""
    importance: Importance = "squares"
    """What the masses are, over all vertices as destinations."""

    def num_batches(self, layout: Layout, *, batch_size: int, micro_batches: int = 1) -> int:
        """Number of mini-batches that throw as many darts as there are vertices."""
        n = layout.graph.num_vertices
        return -(-max(1, -(-n // set_size(self.subgraph, n))) // micro_batches)

    def plan(
        self, layout: Layout, *, batch_size: int, seed: int, micro_batches: int = 1, fixed_shares: bool = False
    ) -> SaintPlan:
        """Sets that are drawn anew for each mini-batch."""
        return SaintPlan(
            layout, darts=self._darts(layout), line=self._line(layout), seed=seed, micro_batches=micro_batches
        )

    def sampler(self, layout: Layout, offsets: NDArray[np.int64], **options: Any) -> SaintSampler:
        """The sampler that cuts subgraphs out."""
        return SaintSampler(
            layout, offsets, layers=self.layers, darts=self._darts(layout), line=self._line(layout), **options
        )

    def scales(self, layout: Layout, vertices: NDArray[np.int64]) -> NDArray[np.float32]:
        """What an edge from each vertex of a set counts, and its loss: 1 over its chance to be there."""
        return _scales(self._line(layout), self._darts(layout), vertices)

    def _darts(self, layout: Layout) -> int:
        return set_size(self.subgraph, layout.graph.num_vertices)

    def _line(self, layout: Layout) -> MassLine:
        line = _LINES.get((id(layout), self.importance))
        if line is None:
            line = MassLine(layout, source_masses(layout.graph, self.importance, own=True))
            _LINES[id(layout), self.importance] = line
        return line


def _scales(line: MassLine, darts: int, vertices: NDArray[np.int64]) -> NDArray[np.float32]:
    chances = -np.expm1(-darts * line.shares(vertices))
    return (1 / chances).astype(np.float32)
