"""Memory that all trainers map, where they are on several hosts: each has its own, and what others wrote is sent.

The trainers of a host write rows of a table and read those that their peers wrote. What the trainers of other hosts
wrote comes from those who have their numbers there, so each row crosses once a host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsplit.errors import InputError
from gsplit.parallel.collectives import all_gather, broadcast_object, broadcast_pieces
from gsplit.parallel.member import Member

T = TypeVar("T")
PIECE_BYTES = 1 << 26
"""Bytes of rows that a trainer sends at a time."""


def complete(member: Member, table: Tensor, written: Callable[[], NDArray[np.int64]]) -> None:
    """Have the rows that trainers of other hosts wrote in this host's memory, too; all make the call.

    On one host nothing is done.

    Args:
        member: this trainer.
        table: [n, ...] contiguous, in memory that the trainers of this host map; as large on the others.
        written: gives the rows that this trainer has written, each one once by one trainer.
    """
    if member.hosts == 1:
        return
    own_rows = np.ascontiguousarray(written(), np.int64)
    across, own = member.across, member.rank // len(member.here)
    counts = [int(count) for count in all_gather(torch.tensor([len(own_rows)]), across)]
    rows = [torch.empty(count, dtype=torch.int64) for count in counts]
    rows[own] = torch.from_numpy(own_rows)
    broadcast_pieces(rows, across)
    bytes_of_rows = table.reshape(len(table), -1).view(torch.uint8)
    width = bytes_of_rows.shape[1]
    step = max(1, PIECE_BYTES // max(1, width))
    for first in range(0, max(counts), step):
        at = [each[first : first + step] for each in rows]
        pieces = [torch.empty((len(each), width), dtype=torch.uint8) for each in at]
        pieces[own] = bytes_of_rows[at[own]]
        broadcast_pieces(pieces, across)
        for host, (places, piece) in enumerate(zip(at, pieces, strict=True)):
            if host != own:
                bytes_of_rows[places] = piece
    member.barrier()


def by_first(member: Member, function: Callable[[], T]) -> T:
    """What a function returns that reads files which the host of trainer 0 alone may have; all make the call.

    On one host each trainer calls it, else trainer 0 does for all.

    Raises:
        InputError: where the function does.
    """
    if member.hosts == 1:
        return function()
    result: T | InputError | None = None
    if member.rank == 0:
        try:
            result = function()
        except InputError as error:
            result = error
    result = broadcast_object(result, member.group)
    if isinstance(result, InputError):
        raise result
    return cast("T", result)
