"""Layer-wise rules: a hop draws a fixed number of sources for all its destinations together.

So mini-batches grow with the number of layers, not with its power. Every in-edge from a source that was drawn is
kept, and counts 1 over the chance that it was (csrc/race.hpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.data import Layout
from gsplit.sampling.masses import Importance, MassLine, source_masses, uniform_below
from gsplit.sampling.plan import OfTraining, fold_key
from gsplit.sampling.sampler import SetSampler

Draw = Literal["priority", "race"]
"""How sources are drawn by mass: by priority sampling, or one after the other without replacement."""
DARTS = 0x44415254
"""A tag that keeps the keys of darts apart from those of other draws."""


@dataclass(frozen=True, kw_only=True)
class Ladies(OfTraining):
    """Layer-dependent importance sampling: the sources of a hop are drawn from the in-neighbours of its destinations.

    Zou et al., "Layer-Dependent Importance Sampling for Training Deep and Large Graph Convolutional Networks",
    NeurIPS 2019; in bulk Tripathy, Yelick, Buluc, MLSys 2024. Draws are of a fixed size and have known chances.
    """

    sizes: tuple[int, ...]
    """Number of sources drawn per hop, the first for the targets."""
    importance: Importance = "squares"
    """What the masses are."""
    draw: Draw = "priority"
    """How sources are drawn by mass."""

    def sampler(self, layout: Layout, offsets: NDArray[np.int64], **options: Any) -> LadiesSampler:
        """The sampler of a layout's graph."""
        return LadiesSampler(layout, offsets, rule=self, **options)


class LadiesSampler(SetSampler):
    """Draws by :class:`Ladies`.

    Args:
        layout, offsets, options: see :class:`~gsplit.sampling.sampler.SetSampler`.
        rule: how many sources, and by what.
        edge_ids: let segments carry the positions of the kept edges, and their weights make the masses.
    """

    def __init__(
        self, layout: Layout, offsets: NDArray[np.int64], *, rule: Ladies, edge_ids: bool = False, **options: Any
    ) -> None:
        super().__init__(layout, offsets, edge_ids=edge_ids, **options)
        self._core.use_pool(layout.graph.edge_weight if edge_ids else None, rule.importance)
        self._sizes = np.array(rule.sizes, np.int64)
        self._exponential = rule.draw == "race"

    def _keep(self, start: NDArray[np.int64], targets: int, about: tuple[int, int, int, int]) -> None:
        assert len(start) == targets
        self._core.sample_pools(start, self._sizes, self._seed, *about, self._exponential, self._edge_ids)


@dataclass(frozen=True, kw_only=True)
class FastGCN(OfTraining):
    """Importance sampling from all vertices: the sources of a hop are darts thrown at the whole graph, with repeats.

    Chen, Ma, Xiao, "FastGCN: Fast Learning with Graph Convolutional Networks via Importance Sampling", ICLR 2018,
    algorithm 2. An edge from u counts (hits of u) / (darts x share of u in all masses). Each sampler keeps 16 bytes a
    vertex.
    """

    sizes: tuple[int, ...]
    """Number of darts per hop, the first for the targets."""
    importance: Importance = "squares"
    """What the masses are, over all vertices as destinations."""

    def sampler(self, layout: Layout, offsets: NDArray[np.int64], **options: Any) -> FastGCNSampler:
        """The sampler of a layout's graph."""
        return FastGCNSampler(layout, offsets, rule=self, **options)


class FastGCNSampler(SetSampler):
    """Draws by :class:`FastGCN`; arguments as :class:`LadiesSampler`'s."""

    def __init__(
        self, layout: Layout, offsets: NDArray[np.int64], *, rule: FastGCN, edge_ids: bool = False, **options: Any
    ) -> None:
        super().__init__(layout, offsets, edge_ids=edge_ids, **options)
        self._sizes = rule.sizes
        masses = source_masses(layout.graph, rule.importance, layout.graph.edge_weight if edge_ids else None)
        self._line = MassLine(layout, masses)

    def _keep(self, start: NDArray[np.int64], targets: int, about: tuple[int, int, int, int]) -> None:
        assert len(start) == targets
        epoch, batch, micro, _ = about
        keys = [fold_key(self._seed, epoch, batch, micro, hop, DARTS) for hop in range(1, len(self._sizes) + 1)]
        thrown = [self._thrown(key, size) for key, size in zip(keys, self._sizes, strict=True)]
        sets, scales = map(list, zip(*thrown, strict=True))
        self._core.sample_inside(start, sets, scales, None, *about, self._edge_ids)

    def _thrown(self, key: int, darts: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The vertices that are hit, int64 layout ids, and their scales, float32."""
        if self._line.total == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        hit, hits = self._line.hit(uniform_below(key, self._line.total, darts))
        return hit, (hits / (darts * self._line.shares(hit))).astype(np.float32)
