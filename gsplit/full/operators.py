"""Operators: ``Y = A X`` and ``X' = A' Y'`` over the trainers, own rows in and own rows out.

On a grid R x K x F trainer (r, k, f) holds the edges from the rows of column k to those of row r, and

    forward     to_columns (F) | gather (R) | product by A | reduce_scatter (K) | to_rows (F)
    backward    to_columns (F) | gather (K) | product by A' | reduce_scatter (R) | to_rows (F)

Row r has the rows of all trainers (r, ., .), column k those of all trainers (., k, .). Both are unions of own rows,
so what comes out lies where the next layer wants it, whatever the grid and however uneven the ranges
(:mod:`gsplit.full.grid_operator`).

In memory that all trainers map, rows are written once and summed where they lie; the edges into the own destinations
serve forward, those out of the own sources backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.profiler import record_function

from gsplit.full.common_rows import CommonRows
from gsplit.full.moves import Moves
from gsplit.full.plans import FEATURES, ROWS
from gsplit.full.shards import Shard
from gsplit.kernels import Edges, Sums, TwoWayEdges, computed_in, kernels_for
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
    return chain_of_columns(moves, rows, summed, given, wanted, axes, width)


def chain_of_columns(
    moves: Moves,
    rows: list[Tensor],
    summed: Callable[[Tensor], Tensor],
    given: Sizes,
    wanted: Sizes,
    axes: tuple[str, str],
    width: int,
) -> Tensor:
    """The same behind the first move: ``rows`` has what came, and lets go of it; ``width`` is D."""
    way = way_of(axes)
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
    width: int | None = None,
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
        width: columns of the rows that a panel is a slice of; None: it is none.
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
                        width=width,
                    )
                )
    return out


def transposed(shard: Shard, num_sources: int) -> Shard:
    """The edges again, a row for each source; weights follow, so that no order has to be kept."""
    two_way = TwoWayEdges(shard.edges, num_sources)
    if shard.weight is None:
        return Shard(two_way.transposed, None)
    edges = two_way.transposed_with_order
    assert edges.order is not None
    return Shard(Edges(indptr=edges.indptr, indices=edges.indices), shard.weight[edges.order])
