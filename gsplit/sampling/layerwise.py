"""Layer-wise rules: a hop draws a fixed number of sources for all its destinations together.

So mini-batches grow with the number of layers, not with its power. Every in-edge from a source that was drawn is
kept, and counts 1 over the chance that it was (csrc/race.hpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gsplit.data import GraphArrays, Layout
from gsplit.data.graph import row_ranges
from gsplit.sampling.plan import OfTraining, fold_key, hashed
from gsplit.sampling.sampler import SetSampler

Importance = Literal["squares", "counts", "norms"]
"""What a source's mass is: the sum of the squares of p_iv = w_iv / (weight of i's in-edges) over its out-edges to the
destinations i; the square of their number; or the square root of that sum, the norm of its column, which is what
makes the variance of a product least (Drineas, Kannan, Mahoney, SIAM J. Comput. 36(1), 2006)."""
Draw = Literal["priority", "race"]
"""How sources are drawn by mass: by priority sampling, or one after the other without replacement."""
UNIT_BITS = 40
"""A mass of 1 is 2 to this power, or to a lower one where so many could not be added."""
DARTS = 0x44415254
"""A tag that keeps the keys of darts apart from those of other draws."""
PIECE_EDGES = 1 << 22
"""Edges whose masses are summed at a time."""


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
        self._layout_ids = np.argsort(layout.permutation)
        self._ends = np.cumsum(masses[self._layout_ids])
        """uint64 [N] sums of the masses up to each global id, so that no partition changes which vertex is hit."""

    def _keep(self, start: NDArray[np.int64], targets: int, about: tuple[int, int, int, int]) -> None:
        assert len(start) == targets
        epoch, batch, micro, _ = about
        keys = [fold_key(self._seed, epoch, batch, micro, hop, DARTS) for hop in range(1, len(self._sizes) + 1)]
        sets = [self._thrown(key, size) for key, size in zip(keys, self._sizes, strict=True)]
        self._core.sample_inside(start, sets, *about, self._edge_ids)

    def _thrown(self, key: int, darts: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The vertices that are hit, int64 layout ids, and their scales, float32."""
        total = int(self._ends[-1])
        if total == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        hit, hits = np.unique(
            np.searchsorted(self._ends, uniform_below(key, total, darts), side="right"), return_counts=True
        )
        before = np.where(hit > 0, self._ends[hit - 1], np.uint64(0))
        shares = (self._ends[hit] - before).astype(np.float64) / total
        return self._layout_ids[hit], (hits / (darts * shares)).astype(np.float32)


def uniform_below(key: int, bound: int, count: int) -> NDArray[np.uint64]:
    """uint64 [count] numbers below ``bound``, each as likely: hashes of 0, 1, ..., those too large left out."""
    mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
    kept: list[NDArray[np.uint64]] = []
    first, missing = 0, count
    while missing > 0:
        some = min(2 * missing + 16, PIECE_EDGES)
        numbers = hashed(key, np.arange(first, first + some, dtype=np.uint64)) & mask
        first += len(numbers)
        kept.append(numbers[numbers < bound][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept) if kept else np.empty(0, np.uint64)


def source_masses(
    graph: GraphArrays, importance: Importance, weights: NDArray[np.float32] | None = None
) -> NDArray[np.uint64]:
    """The mass of every vertex as a source of all vertices, uint64 [N]; read piece by piece.

    Args:
        graph: whose in-edges are summed over.
        importance: what masses are.
        weights: float32 [E], at least 0; None: each edge weighs 1.
    """
    n = graph.num_vertices
    masses = np.zeros(n, np.uint64)
    bits = min(UNIT_BITS, 62 - n.bit_length())
    unit = 1 << bits
    for begin, end in row_ranges(graph.indptr, PIECE_EDGES):
        indptr = graph.indptr[begin : end + 1]
        degrees = np.diff(indptr)
        sources = graph.indices[indptr[0] : indptr[-1]]
        if importance == "counts":
            np.add.at(masses, sources, np.uint64(1))
            continue
        if weights is None:
            squares = np.maximum(degrees, 1) ** 2
            each = np.repeat(np.maximum(1, (unit + squares // 2) // squares), degrees)
        else:
            own = np.asarray(weights[indptr[0] : indptr[-1]], np.float64)
            rows = np.repeat(np.arange(len(degrees)), degrees)
            totals = np.bincount(rows, own, minlength=len(degrees))[rows]
            shares = np.divide(own, totals, out=np.zeros_like(own), where=totals > 0)
            each = np.where(shares > 0, np.maximum(1, np.rint(unit * shares**2)), 0)
        np.add.at(masses, sources, each.astype(np.uint64))
    if importance == "norms":
        # At most sqrt(unit) each on average, so that all can be added.
        root_bits = min(UNIT_BITS // 2, 62 - n.bit_length() - (bits + 1) // 2)
        return np.rint(np.ldexp(np.sqrt(masses.astype(np.float64)), root_bits)).astype(np.uint64)
    return masses * masses if importance == "counts" else masses
