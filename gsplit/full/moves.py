"""Moves: how rows travel on a grid of trainers. Each is linear, and another one is its adjoint.

| move | along | its adjoint |
|---|---|---|
| ``to_columns``: own rows -> everyone's rows, some columns | features | ``to_rows`` |
| ``gather``: own rows -> everyone's | rows (backward: columns) | ``reduce_scatter`` |
| ``reduce_scatter``: partial sums of everyone's rows -> sums of the own | columns (backward: rows) | ``gather`` |
| ``to_rows``: everyone's rows, some columns -> own rows | features | ``to_columns`` |

Where the graph moves, so do the shares of its edges (:mod:`gsplit.full.edge_shares`), for each product again:

| move | along |
|---|---|
| ``pointers``: own pointers -> everyone's | features |
| ``edges``: one member's edges, and what they weigh -> everyone's, one member after another | features |

Ranges are uneven and may be empty, as may be the columns of a trainer. What is sent is counted: a message for each
trainer that gets anything, and its bytes (:mod:`gsplit.full.volumes` has the formulas). Rows may travel in a shorter
type than they have; they come out in theirs, the own ones rounded like the others, and are added up in it.

Legend: n own rows, D columns, G members of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gsplit.full.plans import FEATURES
from gsplit.nn import ExchangeCounters
from gsplit.nn.rowwise.products import without_autocast
from gsplit.parallel import Group, Member
from gsplit.parallel.collectives import start_all_to_all, start_broadcast_pieces

OF_EDGES = ("edges", "pointers")
"""Moves of the graph, where it moves."""
MOVES = ("to_columns", "gather", "reduce_scatter", "to_rows", *OF_EDGES)
DIRECTIONS = ("forward", "backward")


def names_of_counts() -> list[str]:
    """The names of all counts of moves, as ``metrics.jsonl`` has them."""
    return [f"{move}_{way}_{what}" for move in MOVES for way in DIRECTIONS for what in ("bytes", "messages")]


def fresh_counters() -> ExchangeCounters:
    """Counters of moves that have sent nothing."""
    return ExchangeCounters(moves=dict.fromkeys(names_of_counts(), 0))


@dataclass(frozen=True, kw_only=True)
class Side:
    """One axis of the grid, as a trainer sees it: its group along it, and its place there."""

    group: Group | None
    """The trainers along the axis; None where this one is alone."""
    size: int
    """G."""
    place: int
    """This trainer's place among them."""


@dataclass(kw_only=True)
class Moves:
    """All moves of one trainer, and what they sent."""

    sides: dict[str, Side]
    """The axes of the grid: ``rows``, ``columns`` and ``features``, or others that moves are asked for along."""
    dtype: torch.dtype | None = None
    """Type in which rows travel; None: their own."""
    counters: ExchangeCounters = field(default_factory=fresh_counters)
    """What the moves of the current mini-batch sent."""

    @classmethod
    def of(cls, member: Member, dtype: torch.dtype | None = None) -> Moves:
        """The moves of a member on a grid, in their own type or ``dtype``; all members make the call."""
        assert member.grid is not None
        return cls(
            sides={
                axis: Side(group=member.along(axis), size=member.grid.size(axis), place=member.coordinate(axis))
                for axis in member.grid.axes
            },
            dtype=dtype,
        )

    def to_columns(self, x: Tensor, sizes: Sequence[int], way: str = "forward", axis: str = FEATURES) -> Tensor:
        """This trainer's columns of everyone's rows, [sum(sizes), D']; see :meth:`start_to_columns`."""
        side = self.sides[axis]
        if side.size == 1:
            return x
        number, dtype, sent = len(x), x.dtype, self._by_columns(x, side)
        widths = shares(x.shape[1], side.size)
        del x  # before room is made for what comes
        return self._start_columns(sent, number, widths, dtype, sizes, way, side)()

    def start_to_columns(
        self, x: Tensor, sizes: Sequence[int], way: str = "forward", axis: str = FEATURES
    ) -> Callable[[], Tensor]:
        """Begin to move rows to columns; what is returned waits for them, and gives [sum(sizes), D'].

        Args:
            x: [n, D] own rows.
            sizes: [G] numbers of rows of the members along ``axis``.
            way: ``forward`` or ``backward``, under which it is counted.
            axis: of the grid.
        """
        side = self.sides[axis]
        if side.size == 1:
            return lambda: x
        widths, sent = shares(x.shape[1], side.size), self._by_columns(x, side)
        return self._start_columns(sent, len(x), widths, x.dtype, sizes, way, side)

    def _by_columns(self, x: Tensor, side: Side) -> Tensor:
        """Rows [n, D] in the type that travels, [n D]: the columns of member 0, then of member 1, ..."""
        widths, n = shares(x.shape[1], side.size), len(x)
        sent = x.new_empty(x.numel(), dtype=self.dtype)
        pieces = sent.split([n * width for width in widths])
        for piece, part in zip(pieces, x.split(widths, dim=1), strict=True):
            piece.view(part.shape).copy_(part)
        return sent

    def _start_columns(
        self,
        sent: Tensor,
        number: int,
        widths: Sequence[int],
        dtype: torch.dtype,
        sizes: Sequence[int],
        way: str,
        side: Side,
    ) -> Callable[[], Tensor]:
        out = sent.new_empty((sum(sizes), widths[side.place]))
        counts = [number * width for width in widths]
        received = [size * widths[side.place] for size in sizes]
        wait = start_all_to_all(out.view(-1), sent, received, counts, side.group)
        self.count("to_columns", way, counts, side.place, sent.itemsize)

        def columns(_: Tensor = sent) -> Tensor:  # alive until it has gone
            wait()
            return out.to(dtype)

        return once(columns)

    def own_columns(self, x: Tensor, axis: str = FEATURES) -> Tensor:
        """This trainer's columns of its own rows, [n, D'], as :meth:`to_columns` has them."""
        side = self.sides[axis]
        return self.rounded(x.split(shares(x.shape[1], side.size), dim=1)[side.place].contiguous())

    def rounded(self, x: Tensor) -> Tensor:
        """Own rows as a move has them: rounded like those that travel."""
        return self.packed(x).to(x.dtype)

    def to_rows(
        self, y: Tensor, sizes: Sequence[int], width: int, way: str = "forward", axis: str = FEATURES
    ) -> Tensor:
        """All columns of the own rows, [n, D]; see :meth:`start_to_rows`."""
        rows = self.start_to_rows(y, sizes, width, way, axis)
        del y
        return rows()

    def start_to_rows(
        self, y: Tensor, sizes: Sequence[int], width: int, way: str = "forward", axis: str = FEATURES
    ) -> Callable[[], Tensor]:
        """Begin to move columns to rows; what is returned waits for them, and gives [n, D].

        Args:
            y: [sum(sizes), D'] this trainer's columns of everyone's rows.
            sizes: [G] numbers of rows of the members along ``axis``.
            width: D.
            way: ``forward`` or ``backward``, under which it is counted.
            axis: of the grid.
        """
        side = self.sides[axis]
        if side.size == 1:
            return once(lambda: y)
        widths, n, dtype, sent = shares(width, side.size), sizes[side.place], y.dtype, self.packed(y)
        received = sent.new_empty(n * width)
        counts = [size * widths[side.place] for size in sizes]
        parts = received.split([n * each for each in widths])
        wait = [start_all_to_all(received, sent.reshape(-1), [n * each for each in widths], counts, side.group)]
        self.count("to_rows", way, counts, side.place, sent.itemsize)

        def rows() -> Tensor:
            wait.pop()()  # what was sent goes
            return side_by_side(parts, n, widths).to(dtype)

        return once(rows)

    def gather(self, x: Tensor, sizes: Sequence[int], axis: str, way: str = "forward") -> Tensor:
        """Everyone's rows, [sum(sizes), D], for own rows x [n, D]; ``sizes`` [G] are the members' along ``axis``."""
        return self.start_gather(x, sizes, axis, way)()

    def start_gather(self, x: Tensor, sizes: Sequence[int], axis: str, way: str = "forward") -> Callable[[], Tensor]:
        """Begin to :meth:`gather`; what is returned waits for the rows, and gives them."""
        if self.sides[axis].size == 1:
            return lambda: x
        rows = self._start_gather("gather", x, sizes, axis, way, self.dtype)
        return once(lambda: rows().to(x.dtype))

    def start_pointers(self, own: Tensor, sizes: Sequence[int], way: str = "forward") -> Callable[[], Tensor]:
        """Begin to bring everyone's pointers, int32 [sum(sizes)] for own ones [n]; ``sizes`` [F] are the members'.

        What is returned waits for them, and gives them.
        """
        return self._start_gather("pointers", own, sizes, FEATURES, way, None)

    def start_edges(self, own: Tensor, member: int, size: int, way: str = "forward") -> Callable[[], Tensor]:
        """Begin to bring the numbers [size] of one member's edges to all along the features.

        What is returned waits for them, and gives them; of that member they are its own.

        Args:
            own: [n] numbers of the own edges, of the same kind.
            member: whose numbers come.
            size: how many it has.
            way: ``forward`` or ``backward``, under which it is counted.
        """
        side = self.sides[FEATURES]
        numbers = own if side.place == member else own.new_empty(size)
        wait = start_broadcast_pieces(
            [numbers if place == member else numbers[:0] for place in range(side.size)], side.group
        )
        if side.place == member:
            self.count("edges", way, [size] * side.size, side.place, own.itemsize)

        def come() -> Tensor:
            wait()
            return numbers

        return once(come)

    def reduce_scatter(self, y: Tensor, sizes: Sequence[int], axis: str, way: str = "forward") -> Tensor:
        """Sums of the own rows, [n, D], for partial sums y [sum(sizes), D] of everyone's along ``axis``."""
        sums = self.start_reduce_scatter(y, sizes, axis, way)
        del y
        return sums()

    def start_reduce_scatter(
        self,
        y: Tensor,
        sizes: Sequence[int],
        axis: str,
        way: str = "forward",
        joined: Callable[[Tensor], Tensor] | None = None,
    ) -> Callable[[], Tensor]:
        """Begin to :meth:`reduce_scatter`; what is returned waits for the parts, and gives their sums.

        ``joined`` makes something else than their sum of the parts [G, n, D], where it is given.
        """
        side = self.sides[axis]
        if side.size == 1:
            return lambda: y
        n, dtype, sent = sizes[side.place], y.dtype, self.packed(y).contiguous()
        if side.size == 2 and joined is None:
            return self._start_to_sum_two(sent, sizes, side, way, dtype)
        parts = sent.new_empty((side.size, n, y.shape[1]))
        wait = start_all_to_all(parts.flatten(0, 1), sent, [n] * side.size, list(sizes), side.group)
        counts = [size * y.shape[1] for size in sizes]
        self.count("reduce_scatter", way, counts, side.place, sent.itemsize)

        def sums(_: Tensor = sent) -> Tensor:  # alive until it has gone
            wait()
            return parts.sum(dim=0, dtype=dtype) if joined is None else joined(parts.to(dtype))

        return once(sums)

    def _start_to_sum_two(
        self, sent: Tensor, sizes: Sequence[int], side: Side, way: str, dtype: torch.dtype
    ) -> Callable[[], Tensor]:
        """Begin to reduce-scatter among two: the other's part comes, and the own one is added to it where it came."""
        first = sum(sizes[: side.place])
        own, other = sent[first : first + sizes[side.place]], sent[: sizes[0]] if side.place else sent[sizes[0] :]
        counts = [size * sent.shape[1] for size in sizes]
        self.count("reduce_scatter", way, counts, side.place, sent.itemsize)
        part, there = torch.empty_like(own), 1 - side.place
        receives, sends = [0, 0], [0, 0]
        receives[there], sends[there] = len(part), len(other)
        wait = start_all_to_all(part, other, receives, sends, side.group)

        def sums(own: Tensor = own) -> Tensor:
            wait()
            return part.to(dtype).add_(own.to(dtype))

        return once(sums)

    def all_reduce(self, y: Tensor, axis: str, way: str = "forward") -> Tensor:
        """Sums of everyone's y [rows, D] along ``axis``, on all: reduce-scattered by rows, and gathered."""
        return self.start_all_reduce(y, axis, way)()()

    def start_all_reduce(self, y: Tensor, axis: str, way: str = "forward") -> Callable[[], Callable[[], Tensor]]:
        """Begin to :meth:`all_reduce`.

        What is returned waits for the parts and begins to gather their sums; what that returns waits for the sums of
        all, and gives them.
        """
        sizes = shares(len(y), self.sides[axis].size)
        sums = self.start_reduce_scatter(y, sizes, axis, way)
        return lambda: self.start_gather(sums(), sizes, axis, way)

    def all_reduced(self, blocks: Iterable[Tensor], axis: str, way: str = "forward") -> Iterator[Tensor]:
        """Do :meth:`all_reduce` with block after block; while one is made, the two before it are on their way."""
        scattered: Callable[[], Callable[[], Tensor]] | None = None
        gathered: Callable[[], Tensor] | None = None
        for y in blocks:
            before, gathered = gathered, None if scattered is None else scattered()
            scattered = self.start_all_reduce(y, axis, way)
            if before is not None:
                yield before()
        if gathered is not None:
            yield gathered()
        if scattered is not None:
            yield scattered()()

    def _start_gather(
        self, move: str, x: Tensor, sizes: Sequence[int], axis: str, way: str, dtype: torch.dtype | None
    ) -> Callable[[], Tensor]:
        """Begin to bring everyone's x [n, ...] to all, [sum(sizes), ...] in ``dtype``; of a move that is counted."""
        side = self.sides[axis]
        out = x.new_empty((sum(sizes), *x.shape[1:]), dtype=dtype)
        pieces = out.split(list(sizes))
        pieces[side.place].copy_(x)
        wait = start_broadcast_pieces(pieces, side.group)
        self.count(move, way, [x.numel()] * side.size, side.place, out.itemsize)

        def come() -> Tensor:
            wait()
            return out

        return once(come)

    def packed(self, x: Tensor) -> Tensor:
        """The rows in the type that travels."""
        return x if self.dtype is None else x.to(self.dtype)

    def count(self, move: str, way: str, numbers: Sequence[int], own: int, itemsize: int) -> None:
        """Count what was sent.

        Args:
            move, way: which, and in which direction.
            numbers: [G] those for each member.
            own: place of this trainer, which sends itself nothing.
            itemsize: bytes of a number.
        """
        sent = [number for place, number in enumerate(numbers) if place != own and number]
        counters, num_bytes = self.counters, sum(sent) * itemsize
        counters.moves[f"{move}_{way}_bytes"] += num_bytes
        counters.moves[f"{move}_{way}_messages"] += len(sent)
        counters.count(way, num_bytes, len(sent))


def once(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The function, which is called once, and let go of with all it holds when it has returned."""
    held = [function]
    return lambda: held.pop()()


def side_by_side(parts: Sequence[Tensor], n: int, widths: Sequence[int]) -> Tensor:
    """Rows [n, D] of their columns, which are given member by member, [n * widths[p]] each."""
    with without_autocast(parts[0].device):
        return torch.cat([piece.view(n, width) for piece, width in zip(parts, widths, strict=True)], dim=1)


def shares(width: int, members: int) -> list[int]:
    """[G] numbers of columns, as equal as can be; the first have one more, and the last may have none."""
    return [width // members + (place < width % members) for place in range(members)]
