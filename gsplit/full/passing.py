"""Moves beside a product: rows that come move by move, and sums that are made block by block.

Rows that are there are summed while others travel (:func:`arriving`). Each block of sums is sent while the next is
made (:func:`leaving`).

In step s each trainer makes what is for the member s places on, so all send and receive at once, and the own block,
which stays, comes last. What is returned waits for what is still on its way.

Where sums are added up along one axis and go to rows along the features, the own block is made in pieces, by the
trainer along the features that they go to: these set out while the piece is made that this trainer keeps.

Legend: n own rows, D columns, D' of this trainer, G members of a group.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from gsplit.full.moves import Moves, Side, once, shares, side_by_side
from gsplit.full.operators import Sizes
from gsplit.full.plans import FEATURES
from gsplit.kernels.sums import core_rests
from gsplit.nn.rowwise.products import without_autocast
from gsplit.parallel.collectives import start_all_to_all

Piece = TypeVar("Piece")
"""Edges into some rows of a product."""


def cuts(device: torch.device) -> bool:
    """Return whether a product there is cut: on the CPU the cores that sum would also send."""
    return device.type != "cpu" or core_rests[0]


def there_early(moves: Moves, given: Sizes, axis: str) -> list[slice]:
    """Places of the rows that :func:`arriving` gives before the last, among all of these."""
    side, along = moves.sides[axis], moves.sides[FEATURES]
    begin, places = sum(given.across[: side.place]), []
    if along.size > 1:
        own = begin + sum(given.features[: along.place])
        places.append(slice(own, own + given.features[along.place]))
    if side.size > 1:
        places.append(slice(begin, begin + given.across[side.place]))
    return places


def arriving(moves: Moves, x: Tensor, given: Sizes, axis: str, way: str) -> Iterator[Callable[[], Tensor]]:
    """Move rows along the features and an axis; what gives those that are there comes while others travel."""
    rows = x
    if moves.sides[FEATURES].size > 1:
        arrive = moves.start_to_columns(x, given.features, way)
        yield lambda: moves.own_columns(x)
        rows = arrive()
    if moves.sides[axis].size > 1:
        own = moves.rounded(rows)
        arrive = moves.start_gather(own, given.across, axis, way)
        yield lambda: own
        rows = arrive()
    yield lambda: rows


def blocks_of(moves: Moves, wanted: Sizes, axis: str) -> list[list[int]]:
    """Sizes of the pieces of each block that :func:`leaving` sends.

    A block is for a member along the axis, the own one in pieces for the trainers along the features; where the
    trainer is alone along the axis, a block is for one of these.
    """
    side = moves.sides[axis]
    if side.size == 1:
        return [[size] for size in wanted.features]
    blocks = [[size] for size in wanted.across]
    blocks[side.place] = wanted.features
    return blocks


def leaving(
    moves: Moves,
    blocks: Sequence[Sequence[Piece]],
    made: Callable[[Piece], Tensor],
    wanted: Sizes,
    width: int,
    axis: str,
    way: str,
) -> Callable[[], Tensor]:
    """Make the sums, piece by piece, and send them; what is returned gives [own rows of ``wanted``, ``width``].

    Args:
        moves: of the trainer.
        blocks: the pieces, as :func:`blocks_of` has them.
        made: makes the sums of a piece.
        wanted: sizes of the sums.
        width: of the rows that they become.
        axis: along which they are added up.
        way: ``forward`` or ``backward``, under which it is counted.
    """
    side, along = moves.sides[axis], moves.sides[FEATURES]

    def block(member: int) -> Tensor:
        return made(blocks[member][0])

    if side.size == 1:
        return start_to_rows(moves, block, wanted.features, width, way) if along.size > 1 else lambda: block(0)
    if along.size == 1:
        return start_reduce_scatter(moves, block, wanted.across, width, axis, way)
    own = blocks[side.place]
    return start_scattered_to_rows(
        moves, block, lambda member: made(own[member]), wanted.across, wanted.features, width, axis, way
    )


def start_reduce_scatter(
    moves: Moves, block: Callable[[int], Tensor], sizes: Sequence[int], width: int, axis: str, way: str
) -> Callable[[], Tensor]:
    """Begin a :meth:`~gsplit.full.moves.Moves.reduce_scatter` of blocks; what is returned gives the sums [n, D].

    Args:
        moves: of the trainer.
        block: makes what is for a member, [sizes[p], D].
        sizes: [G] numbers of rows of the members.
        width: D.
        axis: of the grid.
        way: ``forward`` or ``backward``, under which it is counted.
    """
    side, own = moves.sides[axis], moves.sides[axis].place
    received = [sizes[own] * width] * side.size
    if side.size == 2:  # the other's sums come alone, and the own ones are added to them
        received[own] = 0
    passed = _start(moves, block, received, side)
    moves.count("reduce_scatter", way, [size * width for size in sizes], own, passed.out.itemsize)
    kept = [moves.packed(block(own))]
    if side.size > 2:
        passed.keep(kept.pop(), side)

    def sums() -> Tensor:
        passed.wait()
        if kept:
            return passed.out.view(sizes[own], width).to(passed.dtype).add_(kept.pop().to(passed.dtype))
        return passed.out.view(side.size, sizes[own], width).sum(dim=0, dtype=passed.dtype)

    return once(sums)


def start_to_rows(
    moves: Moves, block: Callable[[int], Tensor], sizes: Sequence[int], width: int, way: str
) -> Callable[[], Tensor]:
    """Begin to move blocks to rows along the features; what is returned gives the own rows [n, D].

    Args:
        moves: of the trainer.
        block: makes what is for a member, [sizes[p], D'].
        sizes: [F] numbers of rows of the members.
        width: D.
        way: ``forward`` or ``backward``, under which it is counted.
    """
    side = moves.sides[FEATURES]
    widths, n = shares(width, side.size), sizes[side.place]
    passed = _start(moves, block, [n * each for each in widths], side)
    moves.count("to_rows", way, [size * widths[side.place] for size in sizes], side.place, passed.out.itemsize)
    passed.keep(block(side.place), side)

    def rows() -> Tensor:
        passed.wait()
        return side_by_side(passed.parts, n, widths).to(passed.dtype)

    return once(rows)


def start_scattered_to_rows(
    moves: Moves,
    block: Callable[[int], Tensor],
    piece: Callable[[int], Tensor],
    sizes: Sequence[int],
    features: Sequence[int],
    width: int,
    axis: str,
    way: str,
) -> Callable[[], Tensor]:
    """Begin a reduce-scatter of blocks whose sums move to rows; what is returned gives the own rows [n, D].

    Args:
        moves: of the trainer.
        block: makes what is for another member, [sizes[p], D'].
        piece: makes what is for this member, of the rows of one trainer along the features, [features[f], D'].
        sizes: [G] numbers of rows of the members along ``axis``.
        features: [F] numbers of rows of the trainers along the features.
        width: D.
        axis: of the grid, along which sums are added up.
        way: ``forward`` or ``backward``, under which it is counted.
    """
    side, along = moves.sides[axis], moves.sides[FEATURES]
    widths, own = shares(width, along.size), along.place
    columns = widths[own]
    passed = _start(moves, block, [sizes[side.place] * columns] * side.size, side)
    moves.count("reduce_scatter", way, [size * columns for size in sizes], side.place, passed.out.itemsize)
    parts, dtype = passed.out.view(side.size, sizes[side.place], columns), passed.dtype
    ends = [0, *itertools.accumulate(features)]

    def summed(member: int) -> Tensor:
        rows = parts[:, ends[member] : ends[member + 1]]
        return moves.packed(rows.sum(dim=0, dtype=dtype))

    def make(member: int) -> None:
        parts[side.place, ends[member] : ends[member + 1]].copy_(piece(member))

    others = [member for member in range(along.size) if member != own]
    for member in others:
        make(member)
    passed.wait()
    with without_autocast(passed.out.device):
        sent = torch.cat([summed(member) for member in others]).view(-1)
    sends, receives = [size * columns for size in features], [features[own] * each for each in widths]
    moves.count("to_rows", way, sends, own, sent.itemsize)
    sends[own] = receives[own] = 0
    received = sent.new_empty(sum(receives))
    wait = start_all_to_all(received, sent, receives, sends, along.group)
    make(own)
    kept = summed(own).view(-1)

    def rows(_: Tensor = sent) -> Tensor:  # alive until it has gone
        wait()
        come = list(received.split(receives))
        come[own] = kept
        return side_by_side(come, features[own], widths).to(dtype)

    return once(rows)


class _Passed(NamedTuple):
    """Blocks on their way."""

    out: Tensor
    """Those that the members make for this one, after each other."""
    parts: Sequence[Tensor]
    """[G] the same, one by one."""
    wait: Callable[[], None]
    """Waits until all others' have come."""
    dtype: torch.dtype
    """Type in which they are made."""

    def keep(self, made: Tensor, side: Side) -> None:
        """Put the own block where those of the others come."""
        self.parts[side.place].copy_(made.view(-1))


def _start(moves: Moves, block: Callable[[int], Tensor], received: Sequence[int], side: Side) -> _Passed:
    """Make the blocks of all others, and send each.

    Args:
        moves: of the trainer.
        block: makes what is for a member.
        received: [G] numbers from each member.
        side: the members, at least two.
    """
    made = block((side.place + 1) % side.size)
    out = made.new_empty(sum(received), dtype=moves.dtype)
    parts, waits = out.split(list(received)), []
    for step in range(1, side.size):
        to, source = (side.place + step) % side.size, (side.place - step) % side.size
        sent, receives, sends = moves.packed(made).reshape(-1), [0] * side.size, [0] * side.size
        receives[source], sends[to] = received[source], sent.numel()
        waits.append((start_all_to_all(parts[source], sent, receives, sends, side.group), sent))
        if step + 1 < side.size:
            made = block((to + 1) % side.size)

    def wait() -> None:
        for come, _ in waits:
            come()
        waits.clear()

    return _Passed(out, parts, wait, made.dtype)
