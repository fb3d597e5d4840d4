"""The operator of a grid: the chain of moves around a product, on accelerators beside it.

    rows come     own columns | those of the trainers along the features | those of all along the first axis
    sums go       to each member along the second axis | of the own ones, to each trainer along the features

There a product is cut at all of these places (:class:`Cut`): what is there is summed while the next rows come, and
sums for one member are sent while those for the next are taken. In backward the first move can set out by itself
(:meth:`GridOperator.start_backward`), and something else be computed meanwhile. On the CPU, where the cores that sum
would also send, moves and product follow each other (:func:`~gsplit.full.operators.chain`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from gsplit.full.moves import Moves, shares
from gsplit.full.operators import Sizes, chain, product, transposed, way_of
from gsplit.full.passing import arriving, blocks_of, cuts, leaving, there_early
from gsplit.full.plans import COLUMNS, FEATURES, ROWS
from gsplit.full.shards import Shard
from gsplit.kernels import Edges, computed_in
from gsplit.nn.exchange import times
from gsplit.nn.neighbourhood import Factors
from gsplit.nn.slices import slices

PASS_EDGES = 2
"""Edges a row that take as long as a pass over the sums, which are read and written once more."""


class Cut(NamedTuple):
    """The edges of a product, cut by where rows come from and where sums go."""

    early: list[Shard | None]
    """Those from rows that are there while others are on their way, move by move; their sources count from the first
    of these rows. None where they are too few for a pass of their own."""
    blocks: list[list[tuple[slice, Shard]]]
    """All others, by the member that the sums are for, with the rows of these; those of the own block by the trainer
    along the features that they go to, where a move along these follows."""

    @classmethod
    def of(cls, shard: Shard, early: Sequence[slice], sizes: Sequence[Sequence[int]]) -> Cut:
        """Cut the edges of a shard.

        Args:
            shard: to be cut; a device is asked where.
            early: places of the rows that are there early, each among those of the next.
            sizes: rows of each piece of each block.
        """
        passes: list[Shard | None] = []
        for number, rows in enumerate(early, start=1):
            is_early_E = (shard.edges.indices >= rows.start) & (shard.edges.indices < rows.stop)
            near = kept(shard, is_early_E, rows.start)
            worth = number == len(early) or len(near.edges.indices) >= PASS_EDGES * shard.edges.num_rows
            passes.append(near if worth else None)
            shard = kept(shard, ~is_early_E) if worth else shard
        ends = [0, *itertools.accumulate(size for block in sizes for size in block)]
        places = shard.edges.indptr[torch.tensor(ends, device=shard.edges.indptr.device)].tolist()
        pieces = iter(zip(itertools.pairwise(ends), itertools.pairwise(places), strict=True))

        def piece() -> tuple[slice, Shard]:
            (first, end), at = next(pieces)
            weight = None if shard.weight is None else shard.weight[slice(*at)]
            return slice(first, end), Shard(shard.edges.from_row(first, end, at), weight)

        return cls(passes, [[piece() for _ in block] for block in sizes])

    def shards(self) -> Iterator[Shard]:
        """All edges."""
        yield from (shard for shard in self.early if shard is not None)
        yield from (shard for block in self.blocks for _, shard in block)


class GridOperator:
    """The chain of moves around a product, on one trainer of a grid.

    Args:
        shard: edges from the places of its column to those of its row.
        moves: of the trainer.
        sources, destinations: sizes of the layer's two levels.
        returns: whether there is a backward.
        in_slices: whether columns go around in slices, for less memory (:mod:`gsplit.nn.slices`).
    """

    def __init__(
        self,
        shard: Shard,
        moves: Moves,
        sources: Sizes,
        destinations: Sizes,
        *,
        returns: bool = True,
        in_slices: bool = False,
    ) -> None:
        self._moves, self._sources, self._destinations = moves, sources, destinations
        self._in_slices = in_slices
        self.num_edges = len(shard.edges.indices)
        turned = transposed(shard, sum(sources.across)) if returns else None
        self._shard = self._cut(shard, sources, destinations, (ROWS, COLUMNS))
        self._turned = None if turned is None else self._cut(turned, destinations, sources, (COLUMNS, ROWS))

    def tensors(self) -> Iterator[Tensor]:
        """The edges, forward and backward."""
        for cut in (self._shard, self._turned):
            shards = cut.shards() if isinstance(cut, Cut) else filter(None, [cut])
            for edges, weight in shards:
                yield from (edges.indptr, edges.indices, *([] if weight is None else [weight]))

    @property
    def overlaps(self) -> bool:
        """Whether moves of backward go on while something else is computed."""
        return isinstance(self._turned, Cut) and any(side.size > 1 for side in self._moves.sides.values())

    def forward(self, x: Tensor, by: Factors, *, weighted: bool) -> Tensor:
        """Sums of the own destinations."""
        around = self._sources, self._destinations, (ROWS, COLUMNS)
        return self._summed(x, by, self._shard, *around, weighted)

    def backward(self, grad: Tensor, by: Factors, *, weighted: bool) -> Tensor:
        """Gradients of the own sources: the chain with rows and columns exchanged, and the edges turned round."""
        assert self._turned is not None
        around = self._destinations, self._sources, (COLUMNS, ROWS)
        return self._summed(grad.contiguous(), by, self._turned, *around, weighted)

    def start_backward(self, grad: Tensor, by: Factors, *, weighted: bool) -> Callable[[], Tensor]:
        """Begin to do :meth:`backward` on accelerators; what is returned does the rest, and gives the gradients.

        The first move is on its way then; where none comes before the product, the last one is.
        """
        assert isinstance(self._turned, Cut)
        around = self._destinations, self._sources, (COLUMNS, ROWS)
        sums = self._start(times(grad, by.sources).contiguous(), self._turned, *around, weighted)
        return lambda: by.applied(sums(), grad)

    def _cut(self, shard: Shard, given: Sizes, wanted: Sizes, axes: tuple[str, str]) -> Shard | Cut:
        """The edges of a product, on accelerators cut so that moves go on meanwhile."""
        if not cuts(shard.edges.indices.device):
            return shard
        first, second = axes
        return Cut.of(shard, there_early(self._moves, given, first), blocks_of(self._moves, wanted, second))

    def _summed(
        self,
        x: Tensor,
        by: Factors,
        shard: Shard | Cut,
        given: Sizes,
        wanted: Sizes,
        axes: tuple[str, str],
        weighted: bool,
    ) -> Tensor:
        """Sums of all columns, or slice by slice."""
        along, around = self._moves.sides[FEATURES], (given, wanted, axes, weighted)
        widths = slices(x.shape[1], along.size) if self._in_slices else [x.shape[1]]
        whole = shares(x.shape[1], along.size)[along.place]

        def of_slice(part: Tensor) -> Tensor:
            if isinstance(shard, Cut):
                return by.applied(self._start(times(part, by.sources), shard, *around, whole)(), part)
            return by.applied(self._chain(lambda: times(part, by.sources), shard, *around), part)

        if len(widths) == 1:
            return of_slice(x)
        out = x.new_empty((wanted.features[along.place], x.shape[1]))
        for part, into in zip(x.split(widths, dim=1), out.split(widths, dim=1), strict=True):
            into.copy_(of_slice(part))
        return out

    def _chain(
        self,
        x: Callable[[], Tensor],
        shard: Shard,
        given: Sizes,
        wanted: Sizes,
        axes: tuple[str, str],
        weighted: bool,
    ) -> Tensor:
        def summed(rows: Tensor) -> Tensor:
            return product(shard.edges, [rows], shard.weight if weighted else None)

        return chain(self._moves, x, summed, given, wanted, axes)

    def _start(
        self,
        x: Tensor,
        cut: Cut,
        given: Sizes,
        wanted: Sizes,
        axes: tuple[str, str],
        weighted: bool,
        whole: int | None = None,
    ) -> Callable[[], Tensor]:
        """Begin the chain; what is returned does the rest, and gives [own rows of ``wanted``, D].

        Of a slice ``whole`` are the columns that this trainer sums in all.
        """
        width, dtype, way, along = x.shape[1], x.dtype, way_of(axes), self._moves.sides[FEATURES]
        room = cut.blocks[-1][-1][0].stop, shares(width, along.size)[along.place]
        coming = arriving(self._moves, x, given, axes[0], way)
        there = [next(coming)]

        def summed() -> Callable[[], Tensor]:
            sums, onto = x.new_empty(room, dtype=computed_in(dtype)), None
            for shard in cut.early:
                if shard is not None:
                    of_edges = shard.weight if weighted else None
                    product(shard.edges, [there.pop()()], of_edges, out=sums, onto=onto, width=whole)
                    onto = sums
                there[:] = [next(coming)]
            rows = there.pop()()

            def made(piece: tuple[slice, Shard]) -> Tensor:
                at, shard = piece
                of_edges, begun = shard.weight if weighted else None, None if onto is None else onto[at]
                return product(shard.edges, [rows], of_edges, out=sums[at], onto=begun, width=whole).to(dtype)

            return leaving(self._moves, cut.blocks, made, wanted, width, axes[1], way)

        if not cut.early:  # products come first, and what goes at last is on its way
            return summed()
        return lambda: summed()()


def kept(shard: Shard, mask_E: Tensor, first: int = 0) -> Shard:
    """The edges of a shard that a mask says, whose sources count from ``first``; a device is asked how many."""
    edges, at = shard.edges, mask_E.nonzero().squeeze(1)
    indptr = F.pad(mask_E.cumsum(0, dtype=torch.int32), (1, 0))[edges.indptr]
    weight = None if shard.weight is None else shard.weight[at]
    return Shard(Edges(indptr=indptr, indices=edges.indices[at] - first), weight)
