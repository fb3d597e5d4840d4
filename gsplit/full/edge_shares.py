"""Shares of edges: what a trainer holds of a block that several multiply by, where the graph moves.

The block's edges, row by row, are cut into as many runs as there are members, as even as can be, whichever rows they
begin and end in. So are its pointers, by rows. A member holds a run of each; to find it, it goes over the edges of
the block in the layout, in pieces. The edges turned round are cut in the same way, row by row of sources.

Legend: R rows of the block or, turned round, sources; E edges of the block; G members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.data import GraphArrays
from gsplit.full.moves import shares
from gsplit.full.operators import transposed
from gsplit.full.reading import Places
from gsplit.full.shards import ends_of_rows, read_shard
from gsplit.kernels import Edges


@dataclass(frozen=True, kw_only=True)
class EdgeBlock:
    """The edges of a block in a layout, as :func:`gsplit.full.shards.read_shard` takes them."""

    graph: GraphArrays
    """Of a layout."""
    ranges: Sequence[tuple[int, int]]
    """Of the vertices whose edges are read."""
    rows: Places
    """Gives the row of each of them; -1 to leave it out."""
    num_rows: int
    """Number of rows."""
    sources: Places
    """Gives the place of each source; -1 to leave its edges out."""
    num_sources: int
    """Number of sources."""
    weights: NDArray[np.float32] | None
    """Of the edges of the graph; None for none."""


class Run(NamedTuple):
    """The edges of one member: where they begin and end in the block, and the rows that they are of."""

    begin: int
    """Position of the first edge."""
    end: int
    """Position behind the last one."""
    first_row: int
    """Row of the first edge."""
    end_row: int
    """Row behind that of the last edge."""

    def edges(self, indptr: Tensor, indices: Tensor) -> Edges:
        """The edges of the rows of the run; of the first and the last row only those that are in it.

        Args:
            indptr: int32 [R + 1] of the block.
            indices: int32 [end - begin] sources of the run.
        """
        pointers = indptr[self.first_row : self.end_row + 1].clamp(self.begin, self.end)
        return Edges(indptr=pointers.sub_(self.begin), indices=indices)


@dataclass(frozen=True, kw_only=True)
class EdgeShare:
    """One member's share of the edges of a block."""

    ends: Tensor
    """int32 [shares(R, G)[member]] positions behind the last edges of its rows, in the block."""
    indices: Tensor
    """int32 [shares(E, G)[member]] sources of its edges."""
    weight: Tensor | None
    """[shares(E, G)[member]] weights; None where the model takes none or the graph has none."""
    num_rows: int
    """R."""
    runs: list[Run]
    """[G] of all members."""

    @property
    def num_edges(self) -> int:
        """E."""
        return self.runs[-1].end

    def to(self, device: torch.device, dtype: torch.dtype) -> EdgeShare:
        """The same where it is summed, with weights in the type of the rows."""
        weight = None if self.weight is None else self.weight.to(device).to(dtype)
        there = self.ends.to(device), self.indices.to(device)
        return EdgeShare(ends=there[0], indices=there[1], weight=weight, num_rows=self.num_rows, runs=self.runs)


def read_edge_share(block: EdgeBlock, member: int, members: int, *, turned: bool) -> EdgeShare:
    """What a member holds of a block, in the order of the layout row by row.

    Args:
        block: in the layout.
        member: its place among them.
        members: G.
        turned: whether the edges are turned round: a row for each source.

    Raises:
        InputError: for more edges than int32 can count.
    """
    by, num_rows = (block.sources, block.num_sources) if turned else (block.rows, block.num_rows)
    ends_R = ends_of_rows(block.graph, block.ranges, block.rows, num_rows, block.sources, turned=turned)
    runs = _runs(ends_R, members)
    mine = runs[member]
    kept, number = _places_between(by, mine.first_row, mine.end_row), mine.end_row - mine.first_row
    sources, rows, read_rows = (kept, block.rows, block.num_rows) if turned else (block.sources, kept, number)
    shard = read_shard(block.graph, block.ranges, rows, read_rows, sources, block.weights)
    if turned:
        shard = transposed(shard, number)
    before = int(ends_R[mine.first_row - 1]) if mine.first_row else 0
    at = slice(mine.begin - before, mine.end - before)
    firsts = [0, *accumulate(shares(num_rows, members))]
    return EdgeShare(
        ends=torch.from_numpy(ends_R[firsts[member] : firsts[member + 1]].copy()),
        indices=shard.edges.indices[at].clone(),
        weight=None if shard.weight is None else shard.weight[at].clone(),
        num_rows=num_rows,
        runs=runs,
    )


def _runs(ends_R: NDArray[np.int32], members: int) -> list[Run]:
    """The edges of all members, by where the rows of the block end."""
    runs, begin = [], 0
    for number in shares(int(ends_R[-1]) if len(ends_R) else 0, members):
        end = begin + number
        first, last = (np.searchsorted(ends_R, at, side="right") for at in (begin, end - 1))
        runs.append(Run(begin, end, int(first), int(last) + 1) if number else Run(begin, end, 0, 0))
        begin = end
    return runs


def _places_between(places: Places, first: int, end: int) -> Places:
    """Places from ``first`` on and below ``end``, which count from there; -1 of all others."""

    def between(ids: NDArray[np.integer]) -> NDArray[np.int32]:
        place = places(ids)
        return np.where((place >= first) & (place < end), place - np.int32(first), np.int32(-1))

    return between
