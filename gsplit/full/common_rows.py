"""Rows of all trainers that those of a host read where they lie: two buffers in turn, and a barrier for each use.

Every trainer writes its own rows into the next buffer and waits for the others. Whoever comes through the barrier of
the next use knows that all have entered it, and so have read what they wanted of the buffer before: it may be written
again. Where there are several hosts, each trainer also brings the rows of its equals, who have its number on the
others, into the memory of its host: each row crosses once a host.

Sums read each row as often as it has edges, in no order. Where all rows do not fit a core's own cache but some of
their columns do, rows are written as panels of so many columns, one panel after the other, and summed panel by panel:
each is read from memory once. Each column's sum is the same, bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.profiler import record_function

from gsplit.host import SharedBuffer
from gsplit.nn import ExchangeCounters
from gsplit.nn.exchange import times
from gsplit.parallel import Member, max_over_trainers
from gsplit.parallel.collectives import all_to_all, start_broadcast_pieces
from gsplit.parallel.mailboxes import Mailboxes

FEWEST_COLUMNS = 32
"""Columns of a panel at least: of narrower ones every edge is looked up too often (docs/development/log.md,
"Panels")."""


def cache_bytes() -> int:
    """Size of a core's second cache; 0 where the system does not say."""
    try:
        return max(0, os.sysconf("SC_LEVEL2_CACHE_SIZE"))
    except (ValueError, OSError):  # no such name, as with musl
        return 0


def columns_of_panel(rows: int, columns: int, itemsize: int, cache: int) -> int:
    """Number of columns of each panel but the last, which may have fewer; ``columns`` where rows stay whole.

    Args:
        rows: number of rows of all trainers.
        columns: of a row.
        itemsize: bytes of a value.
        cache: bytes of a core's own cache.
    """
    if rows * columns * itemsize <= cache or rows * FEWEST_COLUMNS * itemsize > cache:
        return columns
    return cache // (rows * itemsize) // FEWEST_COLUMNS * FEWEST_COLUMNS


class CommonRows:
    """Memory for rows of all trainers; every trainer makes every call.

    Args:
        member: of this trainer.
        buffers: memory, the same for all trainers of a host.
        mail: mailboxes of these, in which they wait for each other; None: they do so by the group, which takes many
            times as long.
    """

    def __init__(
        self, member: Member, buffers: tuple[SharedBuffer, SharedBuffer], mail: Mailboxes | None = None
    ) -> None:
        self._member, self._buffers, self._turn = member, buffers, 0
        self._mail = mail
        # The least of all: cores may differ, and panels lie elsewhere than whole rows.
        self._cache = -max_over_trainers(-cache_bytes(), member) if member.world > 1 else 0
        self._mapped: list[Tensor] = [torch.empty(0, dtype=torch.uint8) for _ in buffers]
        self.counters = ExchangeCounters()
        """What is sent to other hosts is added to these."""

    def share(self, own: Tensor, sizes: Sequence[int], by: Tensor | None = None, way: str = "forward") -> Tensor:
        """The rows of all trainers [sum(sizes), ...], by rank; to be read until the call after the next.

        Args:
            own: [sizes[rank], ...] rows of this trainer.
            sizes: numbers of rows of all trainers.
            by: [sizes[rank]] by which the own rows are multiplied; None: 1.
            way: ``forward`` or ``backward``, under which what is sent is counted.

        Raises:
            MemoryError: where the host has no room.
        """
        if self._member.world == 1:
            return times(own, by)
        rows = self._values(own, sizes).view(sum(sizes), *own.shape[1:])
        with record_function("share rows"):
            self._write(own.detach(), rows, sizes, by)
            self._bring([rows], sizes, way)
            self._meet()
        return rows

    def share_returned(self, own: Tensor, received: Sequence[Sequence[int]]) -> Tensor:
        """Values for rows that trainers have received, of all by rank, and of each by the trainers that sent them.

        Only those that are for trainers of this host are sure to be there.

        Args:
            own: [sum(received[rank]), ...] of this trainer.
            received: numbers of rows that each trainer has received of each.

        Raises:
            MemoryError: where the host has no room.
        """
        member, totals = self._member, [sum(counts) for counts in received]
        if member.hosts == 1:
            return self.share(own, totals, way="backward")
        own, rows = own.detach(), self._values(own, totals).view(sum(totals), *own.shape[1:])
        self._write(own, rows, totals, None)
        width, number = own.shape[1:].numel(), len(member.here)
        counts = [sum(received[member.rank][first : first + number]) for first in range(0, member.world, number)]
        here = slice(member.here.start, member.here.stop)
        equals = range(member.local, member.world, number)
        wanted = [sum(received[equal][here]) for equal in equals]
        arrived = own.new_empty((sum(wanted), *own.shape[1:]))
        all_to_all(arrived, own, wanted, counts, member.across)
        for equal, piece in zip(equals, arrived.split(wanted), strict=True):
            first = sum(totals[:equal]) + sum(received[equal][: here.start])
            rows[first : first + len(piece)] = piece
        host = member.rank // number
        self._count([count * width for place, count in enumerate(counts) if place != host], own.itemsize, "backward")
        self._meet()
        return rows

    def share_panels(
        self, own: Tensor, sizes: Sequence[int], by: Tensor | None = None, way: str = "forward"
    ) -> list[Tensor]:
        """Panels [sum(sizes), d] of columns of the rows of all trainers, which :meth:`share` would give whole.

        Args:
            own, sizes, by, way: as :meth:`share`'s, for rows [sizes[rank], D]; the widths of the panels add up to D.

        Raises:
            MemoryError: where the host has no room.
        """
        total, width = sum(sizes), own.shape[1]
        columns = columns_of_panel(total, width, own.itemsize, self._cache)
        if self._member.world == 1 or columns == width:
            return [self.share(own, sizes, by, way)]
        values = self._values(own, sizes)
        panels = []
        with record_function("share rows"):
            for first in range(0, width, columns):
                part = own.detach()[:, first : first + columns]
                panels.append(values[first * total : (first + part.shape[1]) * total].view(total, -1))
                self._write(part, panels[-1], sizes, by)
            self._bring(panels, sizes, way)
            self._meet()
        return panels

    def _write(self, own: Tensor, rows: Tensor, sizes: Sequence[int], by: Tensor | None) -> None:
        first = sum(sizes[: self._member.rank])
        mine = rows[first : first + len(own)]
        if by is None:
            mine.copy_(own)
        else:
            torch.mul(own, by.unsqueeze(1), out=mine)

    def _bring(self, panels: Sequence[Tensor], sizes: Sequence[int], way: str) -> None:
        """Have the rows of this trainer's equals, who have its."""
        member = self._member
        if (across := member.across) is None:
            return
        equals = slice(member.local, None, len(member.here))
        waits = [start_broadcast_pieces(panel.split(list(sizes))[equals], across) for panel in panels]
        for wait in waits:
            wait()
        words = sum(sizes[member.rank] * panel.shape[1:].numel() for panel in panels)
        self._count([words] * (member.hosts - 1), panels[0].itemsize, way)

    def _count(self, words: Sequence[int], itemsize: int, way: str) -> None:
        """Add messages, one to each other host, to what was sent."""
        self.counters.count(way, sum(words) * itemsize, sum(number > 0 for number in words))

    def _meet(self) -> None:
        """Wait for the trainers of this host."""
        if len(self._member.here) == 1:
            return
        if self._mail is None:
            self._member.barrier()
        else:
            self._mail.meet()

    def _values(self, own: Tensor, sizes: Sequence[int]) -> Tensor:
        """Room for the values of all trainers' rows."""
        return self._memory(sum(sizes) * own.shape[1:].numel() * own.itemsize).view(own.dtype)

    def _memory(self, num_bytes: int) -> Tensor:
        """Bytes of the buffer whose turn it is."""
        turn, self._turn = self._turn, 1 - self._turn
        if len(self._mapped[turn]) < num_bytes:
            # Everybody sees the same sizes, so everybody comes here, or nobody.
            if self._member.local == 0:
                self._buffers[turn].grow(num_bytes)
            self._member.barrier()
            self._mapped[turn] = torch.from_numpy(self._buffers[turn].view((num_bytes,), "uint8"))
        return self._mapped[turn][:num_bytes]
