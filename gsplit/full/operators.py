"""Operators: ``Y = A X`` and ``X' = A' Y'`` over the trainers, own rows in and own rows out.

On a grid R x K x F trainer (r, k, f) holds the edges from the rows of column k to those of row r, and

    forward     to_columns (F) | gather (R) | product by A | reduce_scatter (K) | to_rows (F)
    backward    to_columns (F) | gather (K) | product by A' | reduce_scatter (R) | to_rows (F)

Row r has the rows of all trainers (r, ., .), column k those of all trainers (., k, .). Both are unions of own rows,
so what comes out lies where the next layer wants it, whatever the grid and however uneven the ranges. On accelerators
the moves next to the product overlap with it (:class:`Cut`).

In memory that all trainers map, rows are written once and summed where they lie; the edges into the own destinations
serve forward, those out of the own sources backward.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.profiler import record_function

from gsplit.full.common_rows import CommonRows
from gsplit.full.moves import Moves, Side
from gsplit.full.plans import COLUMNS, FEATURES, ROWS
from gsplit.full.shards import Shard
from gsplit.kernels import Edges, Sums, TwoWayEdges, computed_in, kernels_for
from gsplit.kernels.sums import core_rests
from gsplit.nn.exchange import times
from gsplit.nn.neighbourhood import NO_FACTORS, Factors
from gsplit.parallel import Grid


class Operator(Protocol):
    """Sums over the in-edges of one layer, weighted where the shard has weights and they are asked for."""

    num_edges: int
    """Number of edges that are summed over in forward."""

    def forward(self, x: Tensor, by: Factors, *, weighted: bool) -> Tensor:
        """Normalised sums of the own destinations [n_l, D] for rows of the own sources [n_(l-1), D]."""

    def backward(self, grad: Tensor, by: Factors, *, weighted: bool) -> Tensor:
        """Gradients of the own sources [n_(l-1), D] for those of the own destinations [n_l, D].

        Args:
            grad: the gradients.
            by: the factors, turned (:meth:`~gsplit.nn.neighbourhood.Factors.turned`).
            weighted: as in forward.
        """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Numbers of rows that the moves of one layer are about, on one trainer."""

    features: list[int]
    """[F] rows of the trainers along ``features``."""
    across: list[int]
    """Rows that each member of a group brings: along ``rows`` of sources, along ``columns`` of destinations."""

    @classmethod
    def of(cls, sizes: NDArray[np.int64], grid: Grid, rank: int, axis: str) -> Sizes:
        """The sizes of rows, [P] on each trainer, where they are gathered along ``axis``."""

        def of_group(member: int) -> list[int]:
            return [int(sizes[peer]) for peer in grid.group(member, FEATURES)]

        return cls(features=of_group(rank), across=[sum(of_group(peer)) for peer in grid.group(rank, axis)])


class Cut(NamedTuple):
    """The edges of a product, cut by where rows come from and where sums go."""

    own: Shard | None
    """Those from own rows, whose sources count from the first of them; None where no others come."""
    blocks: list[Shard]
    """All others, by the member that the sums are for."""
    sizes: list[int]
    """Rows of the blocks."""

    @classmethod
    def of(cls, shard: Shard, own: slice | None, sizes: list[int]) -> Cut:
        """The edges of a shard; ``own`` are the places of own rows, ``sizes`` the rows of the blocks."""
        of_own = None
        if own is not None:
            from_own_E = (shard.edges.indices >= own.start) & (shard.edges.indices < own.stop)
            of_own, shard = kept(shard, from_own_E, own.start), kept(shard, ~from_own_E)
        ends = [0, *itertools.accumulate(sizes)]
        places = shard.edges.indptr[torch.tensor(ends, device=shard.edges.indptr.device)].tolist()
        blocks = []
        for (first, end), at in zip(itertools.pairwise(ends), itertools.pairwise(places), strict=True):
            weight = None if shard.weight is None else shard.weight[slice(*at)]
            blocks.append(Shard(shard.edges.from_row(first, end, at), weight))
        return cls(of_own, blocks, sizes)


class GridOperator:
    """The chain of moves around a product, on one trainer of a grid.

    Args:
        shard: edges from the places of its column to those of its row.
        moves: of the trainer.
        sources, destinations: sizes of the layer's two levels.
        returns: whether there is a backward.
    """

    def __init__(
        self, shard: Shard, moves: Moves, sources: Sizes, destinations: Sizes, *, returns: bool = True
    ) -> None:
        self._moves, self._sources, self._destinations = moves, sources, destinations
        self.num_edges = len(shard.edges.indices)
        turned = transposed(shard, sum(sources.across)) if returns else None
        self._shard = self._cut(shard, sources, destinations, (ROWS, COLUMNS))
        self._turned = None if turned is None else self._cut(turned, destinations, sources, (COLUMNS, ROWS))

    def tensors(self) -> Iterator[Tensor]:
        """The edges, forward and backward."""
        for cut in (self._shard, self._turned):
            shards = [cut.own, *cut.blocks] if isinstance(cut, Cut) else [cut]
            for edges, weight in filter(None, shards):
                yield from (edges.indptr, edges.indices, *([] if weight is None else [weight]))

    def forward(self, x: Tensor, by: Factors, *, weighted: bool) -> Tensor:
        """Sums of the own destinations."""
        sums = self._chain(
            lambda: times(x, by.sources), self._shard, self._sources, self._destinations, (ROWS, COLUMNS), weighted
        )
        return by.applied(sums, x)

    def backward(self, grad: Tensor, by: Factors, *, weighted: bool) -> Tensor:
        """Gradients of the own sources: the chain with rows and columns exchanged, and the edges turned round."""
        assert self._turned is not None
        sums = self._chain(
            lambda: times(grad, by.sources).contiguous(),
            self._turned,
            self._destinations,
            self._sources,
            (COLUMNS, ROWS),
            weighted,
        )
        return by.applied(sums, grad)

    def _cut(self, shard: Shard, given: Sizes, wanted: Sizes, axes: tuple[str, str]) -> Shard | Cut:
        """The edges of a product, on accelerators cut so that the moves next to it go on meanwhile."""
        if shard.edges.indices.device.type == "cpu" and not core_rests[0]:
            return shard
        (brings, given_rows), (_, wanted_rows) = self._beside(axes[0], given), self._beside(axes[1], wanted)
        first = sum(given_rows[: brings.place])
        own = None if brings.size == 1 else slice(first, first + given_rows[brings.place])
        return Cut.of(shard, own, wanted_rows)

    def _beside(self, axis: str, sizes: Sizes) -> tuple[Side, list[int]]:
        """The members of the move next to a product, and the rows of each."""
        side = self._moves.sides[axis]
        return (side, sizes.across) if side.size > 1 else (self._moves.sides[FEATURES], sizes.features)

    def _chain(
        self,
        x: Callable[[], Tensor],
        shard: Shard | Cut,
        given: Sizes,
        wanted: Sizes,
        axes: tuple[str, str],
        weighted: bool,
    ) -> Tensor:
        if isinstance(shard, Cut):
            return self._overlapped(x(), shard, given, wanted, axes, weighted)
        return chain(
            self._moves,
            x,
            lambda rows: product(shard.edges, [rows], shard.weight if weighted else None),
            given,
            wanted,
            axes,
        )

    def _overlapped(
        self, x: Tensor, cut: Cut, given: Sizes, wanted: Sizes, axes: tuple[str, str], weighted: bool
    ) -> Tensor:
        """The chain, where own rows are summed while others come, and sums for one member while others' go."""
        moves, way = self._moves, way_of(axes)
        if moves.sides[axes[0]].size > 1:
            own = moves.rounded(moves.to_columns(x, given.features, way))
            arrive = moves.start_gather(own, given.across, axes[0], way)
        else:
            own, arrive = moves.own_columns(x), moves.start_to_columns(x, given.features, way)
        width = own.shape[1]
        sums = own.new_empty((sum(cut.sizes), width), dtype=computed_in(x.dtype))
        if cut.own is not None:
            product(cut.own.edges, [own], cut.own.weight if weighted else None, out=sums)
        rows = arrive()

        def block(place: int) -> Tensor:
            edges, weight = cut.blocks[place]
            out, of_edges = sums.split(cut.sizes)[place], weight if weighted else None
            return product(edges, [rows], of_edges, out=out, onto=None if cut.own is None else out).to(x.dtype)

        if moves.sides[axes[1]].size > 1:
            scattered = moves.reduce_scatter_blocks(block, wanted.across, width, axes[1], way)
            return moves.to_rows(scattered, wanted.features, x.shape[1], way)
        if moves.sides[FEATURES].size > 1:
            return moves.to_rows_blocks(block, wanted.features, x.shape[1], way)
        return block(0)


def way_of(axes: tuple[str, str]) -> str:
    """The direction in which rows are gathered along the first axis, and sums scattered along the second."""
    return "forward" if axes[0] == ROWS else "backward"


def chain(
    moves: Moves,
    x: Callable[[], Tensor],
    summed: Callable[[Tensor], Tensor],
    given: Sizes,
    wanted: Sizes,
    axes: tuple[str, str],
) -> Tensor:
    """The moves around a product, one after another, [own rows of ``wanted``, D].

    Args:
        moves: of the trainer.
        x: gives [own rows of ``given``, D], which go when they have moved.
        summed: the product: sums [rows of ``wanted``, D'] of the gathered rows [rows of ``given``, D'].
        given, wanted: sizes of what is summed, and of the sums.
        axes: along which rows are gathered, and sums scattered.
    """
    way = way_of(axes)
    rows = [x()]  # a move has the only reference to what it is given, and lets go of it early
    width = rows[0].shape[1]
    with record_function("to_columns"):
        rows.append(moves.to_columns(rows.pop(), given.features, way))
    with record_function("gather"):
        rows.append(moves.gather(rows.pop(), given.across, axes[0], way))
    rows.append(summed(rows.pop()))
    with record_function("reduce_scatter"):
        rows.append(moves.reduce_scatter(rows.pop(), wanted.across, axes[1], way))
    with record_function("to_rows"):
        return moves.to_rows(rows.pop(), wanted.features, width, way)


class CommonOperator:
    """Sums of rows where they lie, in memory that all trainers map.

    Args:
        shard: edges into the own destinations from the places of all trainers' sources.
        turned: edges out of the own sources to the places of all trainers' destinations; None for no backward.
        common: the memory.
        sources, destinations: numbers of rows of all trainers, by rank.
    """

    def __init__(
        self,
        shard: Shard,
        turned: Shard | None,
        common: CommonRows,
        sources: Sequence[int],
        destinations: Sequence[int],
    ) -> None:
        self.num_edges = len(shard.edges.indices)
        self._forward, self._backward, self._common = shard, turned, common
        self._sources, self._destinations = sources, destinations

    def forward(self, x: Tensor, by: Factors, *, weighted: bool) -> Tensor:
        """Sums of the own destinations."""
        return self._summed(x, self._forward, self._sources, by, weighted, "forward")

    def backward(self, grad: Tensor, by: Factors, *, weighted: bool) -> Tensor:
        """Gradients of the own sources."""
        assert self._backward is not None
        return self._summed(grad.contiguous(), self._backward, self._destinations, by, weighted, "backward")

    def _summed(self, x: Tensor, shard: Shard, sizes: Sequence[int], by: Factors, weighted: bool, way: str) -> Tensor:
        panels = self._common.share_panels(x, sizes, by.sources, way)
        return product(shard.edges, panels, shard.weight if weighted else None, own=x, by=by)


def product(
    edges: Edges,
    panels: Sequence[Tensor],
    weight: Tensor | None,
    *,
    own: Tensor | None = None,
    by: Factors = NO_FACTORS,
    out: Tensor | None = None,
    onto: Tensor | None = None,
) -> Tensor:
    """Sums over the edges of each row, [rows, D].

    Args:
        edges: whose rows are summed.
        panels: [sources, d] each, the columns of the sources' rows; multiplied by the factors of sources where there
            are any.
        weight: in the order of the edges.
        own: rows that the factors ``by.own`` are for, the first of them those of the first sums.
        by: what the sums are multiplied by, and what of the own rows is added.
        out: where they go; None: to memory of their own.
        onto: sums that they are added to, in place of own rows; it may be ``out``.
    """
    if out is None:
        out = panels[0].new_empty((edges.num_rows, sum(panel.shape[1] for panel in panels)))
    start = onto if own is None or by.own is None else own[: len(by.own)]
    if out.shape[1]:
        of_edges = None if weight is None else weight.to(computed_in(out.dtype)).unsqueeze(1)
        first = 0
        with record_function("product"):
            for panel in panels:
                columns = slice(first, first := first + panel.shape[1])
                kernels_for(panel).sum(
                    Sums(
                        edges,
                        panel,
                        None,
                        out[:, columns],
                        start=None if start is None else start[:, columns],
                        start_scale=None if start is None else by.own,
                        weight=of_edges,
                        scale=by.sums,
                    )
                )
    return out


def kept(shard: Shard, mask_E: Tensor, first: int = 0) -> Shard:
    """The edges of a shard that a mask says, whose sources count from ``first``; a device is asked how many."""
    edges, at = shard.edges, mask_E.nonzero().squeeze(1)
    indptr = F.pad(mask_E.cumsum(0, dtype=torch.int32), (1, 0))[edges.indptr]
    weight = None if shard.weight is None else shard.weight[at]
    return Shard(Edges(indptr=indptr, indices=edges.indices[at] - first), weight)


def transposed(shard: Shard, num_sources: int) -> Shard:
    """The edges again, a row for each source; weights follow, so that no order has to be kept."""
    two_way = TwoWayEdges(shard.edges, num_sources)
    if shard.weight is None:
        return Shard(two_way.transposed, None)
    edges = two_way.transposed_with_order
    assert edges.order is not None
    return Shard(Edges(indptr=edges.indptr, indices=edges.indices), shard.weight[edges.order])
