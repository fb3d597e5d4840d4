"""How a product of attention is cut on accelerators, for moves to go on beside it.

    forward     rows come, move by move | own ones are scored meanwhile
                scores of destinations travel | sources are scored
                highest and totals travel | rows of the edges are found, of which shares are made
                sums go, piece by piece | the next piece is summed
    backward    gradients come, move by move | products with rows, of edges whose gradients are there
                what the softmax takes off travels | the first piece of gradients of rows is summed, half by half
                gradients of destinations' scores travel | those of sources' scores, and of their vector
                gradients of rows go, piece by piece | the next piece is summed

The numbers of a row are those of one product, in whichever piece it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from gsplit.full.moves import Moves
from gsplit.full.operators import Sizes
from gsplit.full.passing import blocks_of, there_early
from gsplit.full.plans import COLUMNS, FEATURES, ROWS
from gsplit.kernels import Edges, kernels_for

Places: TypeAlias = tuple[slice, slice]
"""Some rows of a product, and their edges among all row by row."""
T = TypeVar("T")


class Piece(NamedTuple):
    """The edges of some rows of a product."""

    rows: slice
    """The rows."""
    at: slice
    """Their edges, among all row by row."""
    edges: Edges
    """The same, whose rows count from 0."""

    @classmethod
    def of(cls, edges: Edges, places: Places) -> Piece:
        """Of all edges."""
        rows, at = places
        return cls(rows, at, edges.from_row(rows.start, rows.stop, (at.start, at.stop)))


@dataclass(frozen=True, kw_only=True)
class AttentionCut:
    """The pieces of one layer on one trainer."""

    coming: list[slice]
    """Places of the rows that are there, move by move, among all that are gathered; the last: of all."""
    returning: list[slice]
    """The same of gradients of sums."""
    blocks: list[list[Piece]]
    """Edges of the sums, as :func:`~gsplit.full.passing.leaving` sends these."""
    turned: list[list[Places]]
    """Those of gradients of rows, likewise, as edges row by row of sources."""
    first: int
    """Block of which these are made first."""
    halves: list[Places]
    """Its first piece, in two."""

    @classmethod
    def of(cls, edges: Edges, moves: Moves, sources: Sizes, destinations: Sizes) -> AttentionCut:
        """Cut the edges of a shard; a device is asked how many there are."""
        side, along, device = moves.sides[ROWS], moves.sides[FEATURES], edges.indices.device
        sizes, of_sources = blocks_of(moves, destinations, COLUMNS), blocks_of(moves, sources, ROWS)
        first = (side.place + 1) % side.size if side.size > 1 else (along.place + 1) % along.size
        begin, rows, room = sum(map(sum, of_sources[:first])), _ends(sizes), of_sources[first][0]
        bounds = [*_ends(of_sources), begin, begin + room // 2, begin + room]
        places = torch.cat([edges.indptr[torch.tensor(rows, device=device)], _below(edges, bounds)]).tolist()
        there, turned = places[: len(rows)], places[len(rows) :]
        return cls(
            coming=[*there_early(moves, sources, ROWS), slice(0, sum(sources.across))],
            returning=[*there_early(moves, destinations, COLUMNS), slice(0, sum(destinations.across))],
            blocks=[[Piece.of(edges, each) for each in block] for block in _dealt(_between(rows, there), sizes)],
            turned=_dealt(_between(bounds[:-3], turned[:-3]), of_sources),
            first=first,
            halves=_between(bounds[-3:], turned[-3:]),
        )

    def turned_round(self, edges: Edges) -> list[list[Piece]]:
        """The pieces of gradients of rows; ``edges`` are all, row by row of sources."""
        return [[Piece.of(edges, each) for each in block] for block in self.turned]

    def pieces(self) -> list[Piece]:
        """All pieces of the sums, in the order of their rows."""
        return [piece for block in self.blocks for piece in block]


def own_of(blocks: Sequence[Sequence[T]], moves: Moves, axis: str) -> list[T]:
    """The pieces for each trainer along the features, of blocks as ``blocks_of`` says."""
    side = moves.sides[axis]
    return list(blocks[side.place]) if side.size > 1 else [piece for (piece,) in blocks]


def _ends(sizes: Sequence[Sequence[int]]) -> list[int]:
    """Where pieces begin, and where the last one ends."""
    return [0, *itertools.accumulate(size for block in sizes for size in block)]


def _below(edges: Edges, bounds: Sequence[int]) -> Tensor:
    """Numbers of edges from sources below each bound, int32 [len(bounds)]."""
    return torch.stack([(edges.indices < bound).sum(dtype=torch.int32) for bound in bounds])


def _between(rows: Sequence[int], places: Sequence[int]) -> list[Places]:
    pairs = zip(itertools.pairwise(rows), itertools.pairwise(places), strict=True)
    return [(slice(*of_rows), slice(*at)) for of_rows, at in pairs]


def _dealt(pieces: Sequence[Places], sizes: Sequence[Sequence[int]]) -> list[list[Places]]:
    """The pieces again, block by block."""
    every = iter(pieces)
    return [[next(every) for _ in block] for block in sizes]


def scored(
    coming: Iterable[Callable[[], Tensor]],
    places: Sequence[slice],
    score: Callable[[Tensor], Tensor],
    come: Callable[[int, slice, Tensor], None],
) -> tuple[Tensor, Tensor]:
    """Score rows while others travel; all rows [S, D'] and their scores [S, h].

    Args:
        coming: gives the rows that are there, move by move, each time with those of before.
        places: of these among all.
        score: scores rows.
        come: is told, before rows are scored, the number of moves that are over, and places and rows.
    """
    parts: list[Tensor] = []
    done = rows = None
    for number, (there, place) in enumerate(zip(coming, places, strict=True)):
        rows = there()
        come(number, place, rows)
        if done is None:
            parts = [score(rows)]
        else:
            parts = [score(rows[: done.start - place.start]), *parts, score(rows[done.stop - place.start :])]
        done = place
    assert rows is not None
    return rows, parts[0] if len(parts) == 1 else torch.cat(parts)


def dotted(
    coming: Iterable[Callable[[], Tensor]], places: Sequence[slice], pieces: Sequence[Piece], rows: Tensor, heads: int
) -> tuple[Tensor, Tensor]:
    """Multiply gradients by rows, edge by edge, while others travel; all gradients [R, D'], and products [E, h].

    Args:
        coming: gives the gradients that are there, move by move, each time with those of before.
        places: of these among all.
        pieces: edges of all sums.
        rows: [S, D'] of the sources.
        heads: h.
    """
    made: dict[int, Tensor] = {}
    gradients = None
    for there, place in zip(coming, places, strict=True):
        gradients = there()
        for number, (at, _, edges) in enumerate(pieces):
            if number not in made and place.start <= at.start and at.stop <= place.stop:
                left = gradients[at.start - place.start : at.stop - place.start]
                made[number] = kernels_for(rows).dot(edges, rows, None, left, heads)
    assert gradients is not None
    return gradients, made[0] if len(pieces) == 1 else torch.cat([made[number] for number in range(len(pieces))])
