"""The operator of a grid where the graph moves, as in CAGNET's 2D and 3D: a trainer holds 1/F of its block's edges.

The trainers along the features multiply by one block, each other columns of the rows. Where the graph stays, each has
the block; here each has a share of it (:mod:`gsplit.full.edge_shares`), and a product has F stages:

    begin       pointers of all, edges of member 0 set out | to_columns (F) | gather (R)
    stage s     edges of member s + 1 set out | those of member s have come | sums += product by these
    end         reduce_scatter (K) | to_rows (F)

So edges travel while others are summed over, and beside its share a trainer has those of two members at most.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor
from torch.profiler import record_function

from gsplit.full.edge_shares import EdgeShare
from gsplit.full.moves import Moves, shares
from gsplit.full.operators import Sizes, chain, chain_of_columns, product, way_of
from gsplit.full.passing import cuts
from gsplit.full.plans import COLUMNS, FEATURES, ROWS
from gsplit.kernels import computed_in
from gsplit.nn.exchange import times
from gsplit.nn.neighbourhood import Factors

Coming = Callable[[], tuple[Tensor, Tensor | None]]
"""Waits for one member's edges, and gives their sources and, where they are asked for, weights."""


class MovingOperator:
    """The chain of moves around a product in stages, on one trainer of a grid.

    Args:
        share: what the trainer holds of the edges from the places of its column to those of its row.
        turned: the same turned round; None for no backward.
        moves: of the trainer.
        sources, destinations: sizes of the layer's two levels.
    """

    def __init__(
        self, share: EdgeShare, turned: EdgeShare | None, moves: Moves, sources: Sizes, destinations: Sizes
    ) -> None:
        self._share, self._turned, self._moves = share, turned, moves
        self._sources, self._destinations = sources, destinations
        self.num_edges = share.num_edges

    def forward(self, x: Tensor, by: Factors, *, weighted: bool) -> Tensor:
        """Sums of the own destinations."""
        rows, around = times(x, by.sources), (self._sources, self._destinations, (ROWS, COLUMNS))
        return by.applied(self._summed(rows, self._share, *around, weighted=weighted), x)

    def backward(self, grad: Tensor, by: Factors, *, weighted: bool) -> Tensor:
        """Gradients of the own sources: the chain with rows and columns exchanged, by the edges turned round."""
        assert self._turned is not None
        rows, around = times(grad, by.sources), (self._destinations, self._sources, (COLUMNS, ROWS))
        return by.applied(self._summed(rows.contiguous(), self._turned, *around, weighted=weighted), grad)

    @property
    def overlaps(self) -> bool:
        """Whether moves of backward go on while something else is computed."""
        return self._turned is not None and cuts(self._turned.indices.device)

    def start_backward(self, grad: Tensor, by: Factors, *, weighted: bool) -> Callable[[], Tensor]:
        """Begin to do :meth:`backward` on accelerators; what is returned does the rest, and gives the gradients.

        Pointers, the edges of the first member, and gradients that become columns are on their way then.
        """
        assert self._turned is not None
        x, around = times(grad, by.sources).contiguous(), (self._destinations, self._sources, (COLUMNS, ROWS))
        in_stages = self._start_edges(self._turned, weighted, way_of((COLUMNS, ROWS)))
        columns, width = self._moves.start_to_columns(x, self._destinations.features, "backward"), x.shape[1]

        def gradients() -> Tensor:
            return by.applied(chain_of_columns(self._moves, [columns()], in_stages, *around, width), grad)

        return gradients

    def _summed(
        self, x: Tensor, share: EdgeShare, given: Sizes, wanted: Sizes, axes: tuple[str, str], *, weighted: bool
    ) -> Tensor:
        in_stages = self._start_edges(share, weighted, way_of(axes))
        return chain(self._moves, lambda: x, in_stages, given, wanted, axes)

    def _start_edges(self, share: EdgeShare, weighted: bool, way: str) -> Callable[[Tensor], Tensor]:
        """Begin to bring pointers and the first member's edges; what is returned sums rows over those of all."""
        members = self._moves.sides[FEATURES].size
        pointers = self._moves.start_pointers(share.ends, shares(share.num_rows, members), way)
        coming = [self._start(share, 0, weighted, way)]

        def in_stages(rows: Tensor) -> Tensor:
            sums = rows.new_zeros((share.num_rows, rows.shape[1]), dtype=computed_in(rows.dtype))
            indptr = F.pad(pointers(), (1, 0))
            for stage, run in enumerate(share.runs):
                if stage + 1 < members:
                    coming.append(self._start(share, stage + 1, weighted, way))
                with record_function("edges"):
                    indices, weight = coming.pop(0)()
                if len(indices):
                    out = sums[run.first_row : run.end_row]
                    product(run.edges(indptr, indices), [rows], weight, out=out, onto=out)
                del indices, weight  # or a third member's would come beside these
            return sums.to(rows.dtype)

        return in_stages

    def _start(self, share: EdgeShare, member: int, weighted: bool, way: str) -> Coming:
        """Begin to bring a member's edges to all."""
        number = share.runs[member].end - share.runs[member].begin
        indices = self._moves.start_edges(share.indices, member, number, way)
        if share.weight is None or not weighted:
            return lambda: (indices(), None)
        weight = self._moves.start_edges(share.weight, member, number, way)
        return lambda: (indices(), weight())
